"""The application, and what its commands share: options, output and hints."""

import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from transduce.io.machine import has_torch, require_torch

if TYPE_CHECKING:
    import torch

    from transduce.bundle.bundle import Bundle

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

app = Typer(
    name="transduce",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "token_normalize_func": lambda name: _ALIASES.get(name, name),
    },
)


def command_group(name: str, help: str) -> Typer:
    """Create a command that has commands of its own."""
    return Typer(
        name=name,
        help=help,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


Overrides = Annotated[
    list[str] | None,
    Option("--set", metavar="a.b=c", help="Override one setting of the recipe; repeatable."),
]
ModelFolder = Annotated[Path, Argument(help="Folder of a model or of a run.")]
SourceLanguage = Annotated[
    str | None, Option("--source-lang", metavar="CODE", help='Source language, such as "en".')
]
TargetLanguage = Annotated[
    str | None, Option("--target-lang", metavar="CODE", help='Target language, such as "de".')
]
SourceText = Annotated[Path, Option("--source", "-i", help="Source text, one sentence per line.")]
ReferenceText = Annotated[Path, Option(help="Reference translations, line by line.")]
TrainingRecipe = Annotated[
    str | None, Argument(help="Name of a shipped recipe, or a TOML file [default: by corpus size].")
]
RunFolder = Annotated[Path | None, Option("--out", "-o", help="Run folder [default: runs/NAME].")]
Ensemble = Annotated[
    list[Path] | None,
    Option("--with", help="Ensemble with this model of the same vocabulary; repeatable."),
]
JsonObject = Annotated[bool, Option("--json", help="Print one JSON object.")]
Device = Annotated[str, Option(help='Device: "cpu", "cuda" or "auto".')]
Workers = Annotated[int | None, Option(help="Parallel batches of CTranslate2 [default: measured].")]
Threads = Annotated[int | None, Option(help="Threads per worker [default: measured].")]
BleuTokenizer = Annotated[
    str, Option(help='BLEU tokeniser [default: by language]; "none" for tokenised text.')
]


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


@contextmanager
def hint_to_resume(run: Path | None = None) -> Generator[None]:
    """Say how an interrupted command resumes: a run in training by --resume, others if repeated."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if run is None:
            print_stderr("interrupted; repeat the command to resume")
            raise
        from transduce.pipeline.run_folder import has_begun

        if has_begun(run):
            command = shlex.join([command_name(), "train", "--resume", "--out", str(run)])
            print_stderr(f"interrupted; resume with: {command}")
        else:
            print_stderr("interrupted before training began; repeat the command")
        raise


def edited_card(folder: Path, bundle: "Bundle") -> str | None:
    """Return the model card in a bundle's folder if a person edited it, else None.

    Raises:
        ValueError: if it is not UTF-8.
    """
    from transduce.bundle.card import model_card
    from transduce.io.atomic_folder import CARD
    from transduce.io.streams import decode_utf8

    file = folder / CARD
    card = decode_utf8(str(file), file.read_bytes()) if file.is_file() else ""
    return None if card in ("", model_card(bundle)) else card


def command_name() -> str:
    """Return how to call this program: by path if the shell does not find it by name."""
    program = Path(sys.argv[0])
    return str(program) if program.name == "transduce" and not which("transduce") else "transduce"


def print_stdout(text: str) -> None:
    """Write a line to stdout as UTF-8, whatever the locale; paths may hold other bytes."""
    sys.stdout.buffer.write(f"{text}\n".encode(errors="surrogateescape"))


def print_stderr(text: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(f"{text}\n")
