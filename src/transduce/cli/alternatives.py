"""transduce alternatives."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, say
from transduce.cli.translate import load_translator


@app.command()
def alternatives(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    sentence: Annotated[str, typer.Argument(help="A sentence to translate.")],
    after: Annotated[str, typer.Option(help="How the translation begins.")] = "",
    count: Annotated[int, typer.Option(help="So many ways to go on.")] = 5,
) -> None:
    """Say how a translation could go on at one place: the likeliest next pieces, each carried on.

    A line is: probability of the piece, the piece, the whole translation.

    Example:

    \b
      transduce alternatives runs/mine "A dog runs." --after "Ein"
    """
    translator = load_translator(model, (), device="cpu", engine="torch")
    for one in translator.alternatives(sentence, after, count=count):
        say(f"{one.probability:.4f}\t{one.piece}\t{one.text}")
