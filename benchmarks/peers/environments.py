"""Virtual environments for peers from PyPI, created once."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


class Package(NamedTuple):
    """The packages of a peer."""

    requirements: tuple[str, ...]
    """Requirements for pip, in addition to the torch of constraints.txt."""
    alone: tuple[str, ...] = ()
    """Packages to install without dependencies, because those pin another torch."""


PACKAGES = {
    "transformers": Package(("transformers==5.23.0", "accelerate", "sentencepiece")),
    "eole": Package(("eole==0.6.4", "aiohttp", "sentencepiece")),  # undeclared dependencies
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
    """An installation failed; the message is one line."""


def python_of(name: str, folder: Path) -> Path:
    """Return the Python of a peer's environment; create the environment if it does not exist.

    Raises:
        NotInstalled: pip failed.
    """
    package, environment = PACKAGES[name], folder / name
    python, marker = environment / "bin" / "python", environment / "installed.txt"
    (torch,) = [line for line in CONSTRAINTS.read_text().split() if line.startswith("torch==")]
    requirements = "\n".join((torch, *package.requirements, *package.alone)) + "\n"
    if marker.is_file() and marker.read_text() == requirements:
        return python
    print(f"installing {name}", file=sys.stderr)
    if not python.exists():
        run([sys.executable, "-m", "venv", str(environment)])
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    run([*pip, torch, *package.requirements])
    if package.alone:
        run([*pip, "--no-deps", *package.alone])
    marker.write_text(requirements)
    return python


def run(command: list[str]) -> None:
    """Run a command of the installation."""
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise NotInstalled(f"does not install: {why(result.stderr)}")


def why(text: str) -> str:
    """Return the most informative line of a program's output: its last error, or its last line."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    errors = [line for line in lines if "rror" in line and not line.startswith("warn")]
    return ([*lines, *errors] or ["no output"])[-1][:200]
