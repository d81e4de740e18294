"""What every command shares: the application, and how it speaks.

stdout is data and stderr is talk.
"""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Annotated

import typer

app = typer.Typer(
    name="transduce",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="a.b=c", help="Change one setting of the recipe; repeatable."),
]


def corpus_settings(source: Path | None, target: Path | None) -> list[str]:
    """The settings that --source and --target stand for; two-letter endings name the languages."""
    if (source is None) != (target is None):
        raise ValueError("--source and --target belong together: name both files")
    if source is None or target is None:
        return []
    settings = [f"data.train={json.dumps([str(source), str(target)], ensure_ascii=False)}"]
    for side, file in (("source", source), ("target", target)):
        ending = Path(file.name.removesuffix(".gz")).suffix[1:]
        if len(ending) == 2 and ending.isalpha():
            settings.append(f"languages.{side}={json.dumps(ending.lower())}")
    return settings


@contextmanager
def hint_to_resume(out: Path) -> Generator[None]:
    """Say how to go on where a run was stopped."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if (out / "checkpoints").is_dir():
            talk(f"stopped; go on with: {command_name()} train --resume --out {out}")
        raise


def command_name() -> str:
    """What to type for this command: its path where the shell would not find it by name."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "transduce" and not which("transduce") else "transduce"


def say(text: str) -> None:
    sys.stdout.buffer.write(f"{text}\n".encode())


def talk(text: str) -> None:
    sys.stderr.write(f"{text}\n")
