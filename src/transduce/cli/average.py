"""transduce average."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transduce.cli.app import app


@app.command()
def average(
    checkpoints: Annotated[
        list[Path], Argument(help="Checkpoints of one run, or models of one architecture.")
    ],
    out: Annotated[Path, Option("--out", "-o", help="Model folder to write.")],
) -> None:
    """Average the weights of several checkpoints into one model.

    Example:

    \b
      transduce average runs/mine/checkpoints/update-* --out averaged
    """
    from transduce.pipeline.run_bundle import average_to_bundle

    average_to_bundle(checkpoints, out)
