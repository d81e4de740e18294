"""transduce import."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, say


@app.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(help="A Hugging Face Marian or OPUS-MT folder.")],
    out: Annotated[Path, typer.Option(help="The bundle to write, whole or not at all.")],
    source: Annotated[str | None, typer.Option(help="Code of its source language.")] = None,
    target: Annotated[str | None, typer.Option(help="Code of its target language.")] = None,
) -> None:
    """Make a bundle of a Marian model, to translate with, look into, and train further.

    Nothing in the folder is run: weights are read from safetensors, or from a pytorch_model.bin
    as plain numbers.

    Examples:

    \b
      transduce import opus-mt-en-de --out models/en-de
      transduce train --from models/en-de --source mine.en --target mine.de
    """
    if out.exists():
        raise ValueError(f"{out} is there already: name another folder for the bundle")

    from transduce.export.importer import import_marian

    import_marian(folder, source=source, target=target).save(out)
    say(f"model: {out}")
