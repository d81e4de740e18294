"""A model looked into: view; and the machine itself: doctor."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, say
from transduce.streams import whole_output


@app.command()
def view(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    sentence: Annotated[str, typer.Argument(help="A sentence to translate.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write, whole or not at all.")],
    target: Annotated[
        str | None, typer.Option(help="Its translation [default: the model's own].")
    ] = None,
) -> None:
    """Show what a model looks at as it translates a sentence: a page for any browser.

    Every attention of every layer and head, in one file that needs no network.

    Examples:

    \b
      transduce view runs/mine "A dog runs." --out map.html
      transduce view runs/mine "A dog runs." --target "Ein Hund rennt." --out map.html
    """
    if out.is_dir():
        raise ValueError(f"{out} is a folder: name a file for the page, as {out / 'map.html'}")
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent} does not exist: make that folder, or name another file")

    from transduce.bundle import Bundle
    from transduce.view.traced import sentence_page

    shown = sentence_page(Bundle.load(model), sentence, target)
    with whole_output(out) as file:
        file.write(shown.encode())
    say(f"page: {out}")


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what is here, what is missing, and what to do about it.

    A tiny model learns and translates as a test. Exit code 1 means that something is at fault.

    Example:

    \b
      transduce doctor
    """
    from transduce.doctor import examine

    report = examine()
    whole = {"faults": report.faults, **asdict(report)}
    say(json.dumps(whole, ensure_ascii=False) if as_json else str(report))
    raise typer.Exit(1 if report.faults else 0)
