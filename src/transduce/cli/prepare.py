"""transduce prepare."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import Set, app, corpus_settings


@app.command()
def prepare(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A shipped recipe's name, or a TOML file [default: by corpus size]."),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Source side of your corpus.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its translation, line by line.")] = None,
    settings: Set = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder [default: runs/NAME].")] = None,
) -> None:
    """Clean a corpus, train its tokenizer and encode it, for `train`.

    Example:

    \b
      transduce prepare multi30k --set data.folder=corpora/multi30k
    """
    from transduce.pipeline.defaults import choose_recipe, with_first_message

    chosen, why = choose_recipe(recipe, [*corpus_settings(source, target), *(settings or [])])
    folder = out or Path("runs") / chosen.name

    from transduce.cli.progress import watching
    from transduce.io.lock import alone
    from transduce.pipeline.run import check_output_folder, prepare_run

    with alone(folder), watching(sys.stderr) as on_event:
        check_output_folder(chosen, folder, resume=False)
        prepare_run(chosen, folder, on_event=with_first_message(why, on_event))
