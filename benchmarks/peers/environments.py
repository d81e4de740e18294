"""Peers from PyPI, each in an environment of its own. What is installed is not installed again."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


class Package(NamedTuple):
    """What a peer needs."""

    requirements: tuple[str, ...]
    """As pip has them, beside the torch of our constraints."""
    alone: tuple[str, ...] = ()
    """What is installed without its own requirements, because they ask for another torch."""


PACKAGES = {
    "transformers": Package(("transformers==5.23.0", "accelerate", "sentencepiece")),
    "eole": Package(
        ("eole==0.6.4", "aiohttp", "sentencepiece")
    ),  # which it needs and does not ask for
    "opennmt": Package(
        requirements=(
            *("configargparse", "ctranslate2>=4,<5", "fasttext-wheel", "flask", "pyahocorasick"),
            *("pyonmttok>=1.37,<2", "pyyaml", "rapidfuzz", "sacrebleu", "six", "spacy"),
            *("tensorboard>=2.3", "waitress"),
        ),
        alone=("OpenNMT-py==3.5.1",),
    ),
}


class NotInstalled(Exception):
    """Why, in one line."""


def python_of(name: str, folder: Path) -> Path:
    """The Python of a peer's environment, which is made if it is not there.

    Raises:
        NotInstalled: if pip fails.
    """
    package, place = PACKAGES[name], folder / name
    python, mark = place / "bin" / "python", place / "installed.txt"
    (torch,) = [line for line in CONSTRAINTS.read_text().split() if line.startswith("torch==")]
    wanted = "\n".join((torch, *package.requirements, *package.alone)) + "\n"
    if mark.is_file() and mark.read_text() == wanted:
        return python
    print(f"installing {name}", file=sys.stderr)
    if not python.exists():
        run([sys.executable, "-m", "venv", str(place)])
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    run([*pip, torch, *package.requirements])
    if package.alone:
        run([*pip, "--no-deps", *package.alone])
    mark.write_text(wanted)
    return python


def run(command: list[str]) -> None:
    """Run what makes an environment."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NotInstalled(f"does not install: {why(done.stderr)}")


def why(text: str) -> str:
    """The line of a program's complaint that says most: its last error, or its last line."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    errors = [line for line in lines if "rror" in line and not line.startswith("warn")]
    return ([*lines, *errors] or ["it says nothing"])[-1][:200]
