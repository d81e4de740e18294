"""transduce train."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import Set, app, corpus_settings, hint_to_resume, say


@app.command()
def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A shipped recipe's name, or a TOML file [default: by corpus size]."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Source side of your corpus; short for --set data.train=…")
    ] = None,
    target: Annotated[Path | None, typer.Option(help="Its translation, line by line.")] = None,
    settings: Set = None,
    origin: Annotated[
        Path | None,
        typer.Option("--from", help="Start from this model's weights, or a run's: fine-tuning."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder [default: runs/NAME].")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run that the folder holds.")
    ] = False,
) -> None:
    """Train a translator: prepare, train, average, evaluate, bundle.

    Examples:

    \b
      transduce train --source corpus.en --target corpus.de --out runs/mine
      transduce train multi30k --set train.updates=500 --set model.dropout=0.3
      transduce train --resume --out runs/mine
      transduce train --from runs/mine --source more.en --target more.de --out runs/more

    With --from the shape and the vocabulary are the model's, and RECIPE is finetune by default;
    tokenizer.extend=500 adds up to 500 pieces for what the new corpus has and the old had not.

    Without RECIPE layers, pieces, dropout and updates follow from the number of pairs, which stderr
    says; the recipe that a setting is then laid over is tiny, or base for a large corpus.

    Shipped recipes: tiny, base and big for your own two files; multi30k, multi30k-tok,
    multi30k-fast, tatoeba-en-de and wmt14-{base,big}-{de,fr} for those corpora; finetune; demo. All
    settings of a run are in OUT/recipe.toml; the model is OUT/model.
    """
    from transduce.config import explicit_settings
    from transduce.pipeline.defaults import choose_recipe, with_first_message

    if recipe is None and resume and out is not None and (out / "recipe.toml").is_file():
        recipe = str(out / "recipe.toml")
    if recipe is None and origin is not None:
        recipe = "finetune"
    settings = [*corpus_settings(source, target), *(settings or [])]
    chosen, why = choose_recipe(recipe, settings)
    folder = out or Path("runs") / chosen.name

    from transduce.cli.progress import watching
    from transduce.pipeline.finetune import StartModel, adopt_model
    from transduce.pipeline.run import run_recipe
    from transduce.train.distributed import is_rank_zero

    start = StartModel.load(origin) if origin else None
    if start:
        chosen = adopt_model(
            chosen,
            start,
            explicit=explicit_settings(recipe, settings),
            by_hand=explicit_settings(None, settings),
        )
    if not is_rank_zero():  # of the processes that torchrun started one speaks
        run_recipe(chosen, folder, resume=resume, start=start, on_event=lambda event: None)
        return
    with watching(sys.stderr) as on_event, hint_to_resume(folder):
        finished = run_recipe(
            chosen, folder, resume=resume, start=start, on_event=with_first_message(why, on_event)
        )
    say(str(finished))
    say(f"model: {folder / 'model'}")
