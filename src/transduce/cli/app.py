"""The application, and what its commands share: options, output and hints.

stdout carries data, stderr everything else.
"""

import json
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.data.languages import file_language
from transduce.io.machine import has_torch, require_torch

if TYPE_CHECKING:
    import torch

    from transduce.config import Recipe

_ALIASES = {
    "beam-size": "beam",
    "num-beams": "beam",
    "length-penalty": "alpha",
    "reference": "target",
    "output": "out",
    "input": "source",  # both names work everywhere, whichever a command declares
    "language": "target-lang",
}
"""Other programs' names of options, which help does not list."""

app = typer.Typer(
    name="transduce",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "token_normalize_func": lambda name: _ALIASES.get(name, name),
    },
)


def command_group(name: str, help: str) -> typer.Typer:
    """Create a command that has commands of its own.

    Args:
        name: as it is typed.
        help: one sentence.
    """
    return typer.Typer(
        name=name,
        help=help,
        no_args_is_help=True,
        rich_markup_mode=None,
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
ValidationCorpus = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        "--validation",
        metavar="SOURCE TARGET",
        help="Validation pairs, two files [default: held out of the corpus].",
    ),
]
TestCorpus = Annotated[
    tuple[Path, Path] | None,
    typer.Option("--test", metavar="SOURCE TARGET", help="Test pairs, two files, for a score."),
]
Directions = Annotated[
    list[str] | None,
    typer.Option(
        "--direction",
        metavar="EN-DE=SOURCE,TARGET",
        help="A direction of several in one model, and its files; repeatable.",
    ),
]
Additions = Annotated[
    list[str] | None,
    typer.Option(
        "--also",
        metavar="FILE[,FILE][:WEIGHT]",
        help="Train on this corpus too, such as synthetic pairs; an epoch goes through it WEIGHT "
        "times [default: once]; EN-DE=FILE belongs to that --direction; repeatable.",
    ),
]
SourceLanguage = Annotated[
    str | None, typer.Option("--source-lang", metavar="CODE", help='Source language, such as "en".')
]
TargetLanguage = Annotated[
    str | None, typer.Option("--target-lang", metavar="CODE", help='Target language, such as "de".')
]
SourceText = Annotated[
    Path, typer.Option("--source", "-i", help="Source text, one sentence per line.")
]
ReferenceText = Annotated[Path, typer.Option(help="Reference translations, line by line.")]
TrainingRecipe = Annotated[
    str | None,
    typer.Argument(help="Name of a shipped recipe, or a TOML file [default: by corpus size]."),
]
RunFolder = Annotated[
    Path | None, typer.Option("--out", "-o", help="Run folder [default: runs/NAME].")
]
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

_SIDES = ("source", "target")


def inference_device(name: str) -> "torch.device | str":
    """Return the device of this name; torch, which takes seconds, is not imported for the CPU.

    Raises:
        ValueError: if the device is unknown or unavailable, or needs torch.
    """
    if name == "cpu" or (name == "auto" and not has_torch()):
        return "cpu"
    require_torch(f"the device {name!r}")
    from transduce.train.distributed import find_device

    return find_device(name)


def corpus_settings(
    source: Path | None,
    target: Path | None,
    *,
    languages: tuple[str | None, str | None] = (None, None),
    validation: tuple[Path, Path] | None = None,
    test: tuple[Path, Path] | None = None,
    directions: Sequence[str] = (),
    also: Sequence[str] = (),
) -> list[str]:
    """Return the settings implied by the options about the corpus.

    Args:
        source: --source.
        target: --target.
        languages: --source-lang and --target-lang; without them file names tell.
        validation: --validation.
        test: --test.
        directions: --direction, each "en-de=FILE,FILE".
        also: --also, each "FILE,FILE:2" or "en-de=FILE,FILE:2".
    """
    settings = [f"data.also=[{', '.join(map(_addition_table, also))}]"] if also else []
    if directions:
        if source or target or validation or test:
            raise ValueError(
                "--direction names the training files: leave out --source, --target, --validation "
                "and --test (a recipe's data.directions has all of them)"
            )
        return [f"data.directions=[{', '.join(map(_direction_table, directions))}]", *settings]
    if (source is None) != (target is None):
        raise ValueError(
            "--source and --target belong together: name both files, or one TSV file by "
            "--set data.train=FILE"
        )
    train = None if source is None or target is None else (source, target)
    for key, files in (("train", train), ("validation", validation), ("test", test)):
        if files:
            names = json.dumps([str(file) for file in files], ensure_ascii=False)
            settings.append(f"data.{key}={names}")
    for side, file, named in zip(_SIDES, (source, target), languages, strict=True):
        code = file_language(file) if named is None else named
        if code or named is not None:
            settings.append(f"languages.{side}={json.dumps(code, ensure_ascii=False)}")
    return settings


def _direction_table(text: str) -> str:
    """A direction as an inline table of TOML."""
    match = re.fullmatch(r"(\w+)[-:]([\w-]+)=([^,]+)(?:,([^,]+))?", text)
    if not match:
        raise ValueError(f"--direction takes en-de=SOURCE,TARGET, not {text!r}")
    source, target, *files = match.groups()
    names = json.dumps([file for file in files if file], ensure_ascii=False)
    codes = [json.dumps(code, ensure_ascii=False) for code in (source, target)]
    return f"{{source = {codes[0]}, target = {codes[1]}, train = {names}}}"


def _addition_table(text: str) -> str:
    """A further corpus as an inline table of TOML."""
    # A path may have a colon.
    match = re.fullmatch(r"(?:(\w+)[-:]([\w-]+)=)?(.+?)(?::(\d*\.?\d+))?", text)
    source, target, files, weight = match.groups("") if match else ("", "", text, "")
    names = json.dumps(files.split(","), ensure_ascii=False)
    codes = f"source = {json.dumps(source)}, target = {json.dumps(target)}"
    return f"{{{codes}, train = {names}, weight = {float(weight or 1)}}}"


def complete_languages(recipe: "Recipe", *, run: Path | None = None) -> "tuple[Recipe, str]":
    """Return the recipe with the languages that it lacks, and a line that names guessed ones.

    Args:
        recipe: names the corpus, whose files' names or whose text tells.
        run: folder of the run; if it was begun, its languages are kept.
    """
    files, missing = recipe.data.paths(recipe.data.train), recipe.languages.missing
    if not files or not missing:
        return recipe, ""
    codes: dict[str, str] = {}
    if run is not None and (run / "recipe.toml").is_file():
        from transduce.config import load_recipe

        begun = load_recipe(run / "recipe.toml").languages
        codes = {side: getattr(begun, side) for side in missing}
        return replace(recipe, languages=replace(recipe.languages, **codes)), ""
    from transduce.corpus_check.language import guess_languages

    named = [file_language(file) for file in files] if len(files) == 2 else ["", ""]
    text = ("", "") if all(named) else guess_languages(files)
    guessed: list[str] = []
    for side, name, guess in zip(_SIDES, named, text, strict=True):
        if side in missing and (name or guess):
            codes[side] = name or guess
            guessed += [] if name else [f"{side} {guess}"]
    recipe = replace(recipe, languages=replace(recipe.languages, **codes))
    line = f"languages guessed from the text: {', '.join(guessed)}"
    options = "--source-lang and --target-lang name others"
    return recipe, f"{line}; {options}" if guessed else ""


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
