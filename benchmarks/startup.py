"""Time until the help text and until the first translation.

    .venv/bin/python benchmarks/startup.py [MODEL]

Runs each command in a subprocess, all in turn, after a warm-up round that fills the caches (files,
compiled Python, the compiled engine, the converted model). A translation is timed from the start of
the process to its first line of output. Lower bounds are an empty Python program and imports of the
libraries alone. Without MODEL, a bundle or a run's folder, uses an untrained model of the tiny
shape, whose translations end after 16 tokens. Prints a table and writes
benchmarks/results/startup/record.json. Run nothing else at the same time.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
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
"""Maximum seconds of `transduce --help`."""


def main() -> None:
    """Time every command, print a table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", type=Path, help="a bundle or a run's folder")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--dry", action="store_true", help="write no record")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TRANSDUCE_CACHE"] = f"{scratch}/cache"
        text = (SENTENCE, "ein Hund rennt über das grüne Gras .")
        untrained = Path(scratch) / "model"
        model = arguments.model or create_untrained(untrained, text, vocab_size=48)
        commands = list_commands(str(model))
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(arguments.rounds + 1):
            for name, command in commands.items():
                seconds = time_first_line(command)
                if number:
                    times[name].append(seconds)
    rows = [
        {
            "what": name,
            "seconds": round(statistics.median(durations), 3),
            "least": round(min(durations), 3),
            "most": round(max(durations), 3),
        }
        for name, durations in times.items()
    ]
    print(f"{'':42}{'median':>8}{'least':>8}{'most':>8}  seconds")
    for row in rows:
        print(f"{row['what']:42}{row['seconds']:8.3f}{row['least']:8.3f}{row['most']:8.3f}")
    is_slow = statistics.median(times["transduce --help"]) >= HELP_TARGET
    print(f"transduce --help: {'NOT ' if is_slow else ''}below {HELP_TARGET} s")
    if arguments.dry:
        return
    peers = [name for name in ("ctranslate2", "transformers") if find_spec(name)]
    record = {
        **header("python benchmarks/startup.py", *peers),
        "typer": version("typer"),
        "model": "given" if arguments.model else "untrained, tiny",
        "rounds": arguments.rounds,
        "unit": "seconds from the start of a process to its first line, or its end",
        "rows": rows,
    }
    write("startup", record)


def list_commands(model: str) -> dict[str, list[str]]:
    """Return the commands to time, by their names in the table."""
    python, transduce = sys.executable, [sys.executable, "-m", "transduce"]
    installed = Path(sys.executable).with_name("transduce")
    transduce = [str(installed)] if installed.exists() else transduce
    translate = [*transduce, "translate", model, "--max-length", "16"]
    commands = {
        "python -c pass": [python, "-c", "pass"],
        "import transduce": [python, "-c", "import transduce"],
        "transduce --help": [*transduce, "--help"],
        "transduce --version": [*transduce, "--version"],
        "transduce translate --help": [*transduce, "translate", "--help"],
        "transduce translate": translate,
        "import torch": [python, "-c", "import torch"],
        "transduce translate --engine torch": [*translate, "--engine", "torch"],
    }
    if find_spec("ctranslate2"):
        commands["import ctranslate2"] = [python, "-c", "import ctranslate2"]
        commands["transduce translate --engine ctranslate2"] = [
            *translate,
            "--engine",
            "ctranslate2",
        ]
    if find_spec("transformers"):
        marian = "from transformers import MarianMTModel"
        commands[marian] = [python, "-c", marian]
    return commands


def time_first_line(command: list[str]) -> float:
    """Measure the seconds from a process's start to its first line, or to its end if silent."""
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        if "translate" in command and "--help" not in command:
            process.stdin.write(f"{SENTENCE}\n")
        process.stdin.close()
        first_line = process.stdout.readline()
        seconds = time.perf_counter() - started
        process.stdout.read()
        errors = process.stderr.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {errors}")
    return seconds if first_line else time.perf_counter() - started


def create_untrained(folder: Path, lines: Sequence[str], *, vocab_size: int) -> Path:
    """Create an untrained bundle of the tiny shape with the vocabulary of a text."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train(lines, TokenizerConfig(vocab_size=vocab_size))
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
