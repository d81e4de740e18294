"""transduce average."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app


@app.command()
def average(
    checkpoints: Annotated[list[Path], typer.Argument(help="Checkpoints of a run, or bundles.")],
    out: Annotated[Path, typer.Option(help="The bundle to write.")],
) -> None:
    """Average the weights of some checkpoints into one model.

    Example:

    \b
      transduce average runs/mine/checkpoints/update-* --out averaged
    """
    from transduce.pipeline.run import average_to_bundle

    average_to_bundle(checkpoints, out)
