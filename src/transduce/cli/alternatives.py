"""transduce alternatives."""

from typing import Annotated

from typer import Argument, Option

from transduce.cli.app import ModelFolder, app, print_stdout
from transduce.io.machine import has_torch


@app.command()
def alternatives(
    model: ModelFolder,
    sentence: Annotated[str, Argument(help="Sentence to translate.")],
    after: Annotated[str, Option(help="Beginning of the translation.")] = "",
    count: Annotated[int, Option(help="Number of alternatives.")] = 5,
) -> None:
    """List the most probable next pieces at a point of a translation, each with its completion.

    Each line has the piece's probability, the piece and the full translation.

    Example:

    \b
      transduce alternatives runs/mine "A dog runs." --after "Ein"
    """
    from transduce.inference.translator import Translator

    translator = Translator.load(model, engine="torch" if has_torch() else "numpy")
    for option in translator.alternatives(sentence, after, count=count):
        print_stdout(f"{option.probability:.4f}\t{option.piece}\t{option.text}")
