"""transduce view."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, say
from transduce.io.streams import whole_output

_VIEWS = {".html": "page", ".htm": "page", ".svg": "picture", ".json": "weights"}
"""What each file name's end makes of it."""


@app.command()
def view(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    sentence: Annotated[str, typer.Argument(help="A sentence to translate.")],
    out: Annotated[
        Path, typer.Option(help="The file to write, whole or not at all: .html, .svg or .json.")
    ],
    target: Annotated[
        str | None, typer.Option(help="Its translation [default: the model's own].")
    ] = None,
) -> None:
    """Show what a model looks at as it translates a sentence: a page for any browser.

    Every attention of every layer and head, in one file that needs no network; as .json the same
    weights for programs; as .svg one picture, the last layer's look at the source.

    Examples:

    \b
      transduce view runs/mine "A dog runs." --out map.html
      transduce view runs/mine "A dog runs." --target "Ein Hund rennt." --out map.html
      transduce view runs/mine "A dog runs." --out map.svg
    """
    if out.is_dir():
        raise ValueError(f"{out} is a folder: name a file for the page, as {out / 'map.html'}")
    if out.suffix.lower() not in _VIEWS:
        raise ValueError(f"--out ends in {', '.join(_VIEWS)}, which say what is written; not {out}")
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent} does not exist: make that folder, or name another file")

    from transduce.bundle.bundle import Bundle
    from transduce.visualization.attention import traced_json, traced_svg
    from transduce.visualization.traced import sentence_page, traced_text

    bundle = Bundle.load(model)
    match out.suffix.lower():
        case ".svg":
            shown = traced_svg(traced_text(bundle, sentence, target))
        case ".json":
            shown = traced_json(traced_text(bundle, sentence, target)) + "\n"
        case _:
            shown = sentence_page(bundle, sentence, target)
    with whole_output(out) as file:
        file.write(shown.encode())
    say(f"{_VIEWS[out.suffix.lower()]}: {out}")
