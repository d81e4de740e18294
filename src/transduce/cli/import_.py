"""transduce import."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, print_stdout


@app.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(help="Folder of a Hugging Face Marian model.")],
    out: Annotated[Path, typer.Option(help="Model folder to write, atomically.")],
    source: Annotated[str | None, typer.Option(help="Code of the source language.")] = None,
    target: Annotated[str | None, typer.Option(help="Code of the target language.")] = None,
) -> None:
    """Convert a Marian model, to translate with, inspect and fine-tune.

    No code of the folder is executed: weights are read from safetensors, or from
    pytorch_model.bin with weights_only.

    Examples:

    \b
      transduce import opus-mt-en-de --out models/en-de
      transduce train --from models/en-de --source mine.en --target mine.de
    """
    if out.exists():
        raise ValueError(f"{out} already exists: name another folder for the model")

    from transduce.export.importer import import_marian

    import_marian(folder, source=source, target=target).save(out)
    print_stdout(f"model: {out}")
