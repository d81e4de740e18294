"""The application, and what its commands share: options, output and hints.

stdout carries data, stderr everything else.
"""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Annotated

import typer

from transduce.io.streams import split_compression

app = typer.Typer(
    name="transduce",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="a.b=c", help="Override one setting of the recipe; repeatable."),
]
ModelFolder = Annotated[Path, typer.Argument(help="Folder of a model or of a run.")]
SourceCorpus = Annotated[
    Path | None, typer.Option(help="Source side of the corpus, one sentence per line.")
]
TargetCorpus = Annotated[Path | None, typer.Option(help="Target side of the corpus, line by line.")]
SourceText = Annotated[Path, typer.Option(help="Source text, one sentence per line.")]
ReferenceText = Annotated[Path, typer.Option(help="Reference translations, line by line.")]
TrainingRecipe = Annotated[
    str | None,
    typer.Argument(help="Name of a shipped recipe, or a TOML file [default: by corpus size]."),
]
RunFolder = Annotated[Path | None, typer.Option(help="Run folder [default: runs/NAME].")]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option("--with", help="Ensemble with this model of the same vocabulary; repeatable."),
]
JsonObject = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Device = Annotated[str, typer.Option(help='Device: "cpu", "cuda" or "auto".')]
Workers = Annotated[int | None, typer.Option(help="Parallel batches [default: measured].")]
Threads = Annotated[int | None, typer.Option(help="Threads per worker [default: measured].")]
BleuTokenizer = Annotated[
    str, typer.Option(help='BLEU tokeniser [default: by language]; "none" for tokenised text.')
]


def corpus_settings(source: Path | None, target: Path | None) -> list[str]:
    """Return the settings implied by --source and --target; two-letter suffixes name languages."""
    if (source is None) != (target is None):
        raise ValueError("--source and --target belong together: name both files")
    if source is None or target is None:
        return []
    settings = [f"data.train={json.dumps([str(source), str(target)], ensure_ascii=False)}"]
    for side, file in (("source", source), ("target", target)):
        if code := file_language(file):
            settings.append(f"languages.{side}={json.dumps(code)}")
    return settings


def file_language(*files: Path | None) -> str:
    """Return the language code in which the first of the files' names ends; "" if none does."""
    for file in files:
        suffix = Path(split_compression(file.name)[0]).suffix[1:] if file else ""
        if len(suffix) == 2 and suffix.isalpha():
            return suffix.lower()
    return ""


@contextmanager
def hint_to_resume(out: Path) -> Generator[None]:
    """Print the command that resumes an interrupted run."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if (out / "checkpoints").is_dir():
            print_stderr(f"interrupted; resume with: {command_name()} train --resume --out {out}")
        raise


@contextmanager
def hint_to_repeat() -> Generator[None]:
    """Say how an interrupted command resumes that continues what it finds."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        print_stderr("interrupted; repeat the command to resume")
        raise


def command_name() -> str:
    """Return how to call this program: by path if the shell does not find it by name."""
    program = Path(sys.argv[0])
    return str(program) if program.name == "transduce" and not which("transduce") else "transduce"


def print_stdout(text: str) -> None:
    """Write a line to stdout as UTF-8, whatever the locale."""
    sys.stdout.buffer.write(f"{text}\n".encode())


def print_stderr(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(f"{text}\n")
