"""Time until the help text and until the first translation.

    .venv/bin/python benchmarks/startup.py [MODEL]

Each command in a process of its own, all in turn, after one round that fills the caches (files in
memory, compiled Python, the converted model). A translation is timed from the start of the process
to the first line that comes out. Beside them stand what nobody can go below: Python that does
nothing, and the libraries alone. Without MODEL, a bundle or a run's folder, an untrained model of
the tiny shape is asked; what it says stops at 16 pieces. Prints one table and writes
benchmarks/results/startup/record.json. Nothing else should run meanwhile.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch
from record import ROOT, header, write

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.model.config import PRESETS, ModelConfig
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig

SENTENCE = "a dog runs across the green grass ."
HELP_TARGET = 0.5
"""Seconds that `transduce --help` may take."""


def main() -> None:
    """Time every command, print one table, write one record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", type=Path, help="a bundle or a run's folder")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dry", action="store_true", help="write no record")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TRANSDUCE_CACHE"] = f"{scratch}/cache"
        model = arguments.model or untrained(Path(scratch) / "model")
        commands = all_commands(str(model))
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(arguments.rounds + 1):
            for name, words in commands.items():
                seconds = until_it_speaks(words)
                if number:
                    times[name].append(seconds)
    rows = [
        {
            "what": name,
            "seconds": round(statistics.median(found), 3),
            "least": round(min(found), 3),
            "most": round(max(found), 3),
        }
        for name, found in times.items()
    ]
    print(f"{'':42}{'median':>8}{'least':>8}{'most':>8}  seconds")
    for row in rows:
        print(f"{row['what']:42}{row['seconds']:8.3f}{row['least']:8.3f}{row['most']:8.3f}")
    slow = statistics.median(times["transduce --help"]) >= HELP_TARGET
    print(f"transduce --help: {'NOT ' if slow else ''}below {HELP_TARGET} s")
    if arguments.dry:
        return
    others = [name for name in ("ctranslate2", "transformers") if find_spec(name)]
    record = {
        **header("python benchmarks/startup.py", *others),
        "typer": version("typer"),
        "model": "given" if arguments.model else "untrained, tiny",
        "rounds": arguments.rounds,
        "unit": "seconds from the start of a process to its first line, or its end",
        "rows": rows,
    }
    write("startup", record)


def all_commands(model: str) -> dict[str, list[str]]:
    """What is timed, by what it is called in the table."""
    python, ours = sys.executable, [sys.executable, "-m", "transduce"]
    installed = Path(sys.executable).with_name("transduce")
    ours = [str(installed)] if installed.exists() else ours
    asked = [*ours, "translate", model, "--max-length", "16"]
    commands = {
        "python -c pass": [python, "-c", "pass"],
        "import transduce": [python, "-c", "import transduce"],
        "transduce --help": [*ours, "--help"],
        "transduce --version": [*ours, "--version"],
        "transduce translate --help": [*ours, "translate", "--help"],
        "import torch": [python, "-c", "import torch"],
        "transduce translate --engine torch": [*asked, "--engine", "torch"],
    }
    if find_spec("ctranslate2"):
        commands["import ctranslate2"] = [python, "-c", "import ctranslate2"]
        commands["transduce translate --engine ctranslate2"] = [*asked, "--engine", "ctranslate2"]
    if find_spec("transformers"):
        marian = "from transformers import MarianMTModel"
        commands[marian] = [python, "-c", marian]
    return commands


def until_it_speaks(words: list[str]) -> float:
    """Seconds from a process' start to its first line, or to its end if it says nothing."""
    started = time.perf_counter()
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        if "translate" in words and "--help" not in words:
            process.stdin.write(f"{SENTENCE}\n")
        process.stdin.close()
        said = process.stdout.readline()
        seconds = time.perf_counter() - started
        process.stdout.read()
        complaint = process.stderr.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}: {complaint}")
    return seconds if said else time.perf_counter() - started


def untrained(folder: Path) -> Path:
    """A bundle of the tiny shape that learned nothing, with a vocabulary of one sentence."""
    torch.manual_seed(0)
    lines = (SENTENCE, "ein Hund rennt über das grüne Gras .")
    tokenizer = Tokenizer.train(lines, TokenizerConfig(vocab_size=48))
    bundle = Bundle(
        model=Transformer(ModelConfig(vocab_size=tokenizer.vocab_size, **PRESETS["tiny"])),
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(),
        provenance=Provenance.current(),
    )
    bundle.save(folder)
    return folder


if __name__ == "__main__":
    main()
