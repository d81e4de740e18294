"""From a corpus to a model: demo, check, prepare, train, average."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import Set, app, command_name, corpus_settings, hint_to_resume, say


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="The run's folder; an earlier demo in it is replaced.")
    ] = Path("runs/demo"),
) -> None:
    """Take the whole journey, on a small corpus that it writes itself.

    Example:

    \b
      transduce demo
    """
    from transduce.cli.progress import watching
    from transduce.demo.journey import journey

    with watching(sys.stderr) as tell, hint_to_resume(out):
        told = journey(out, tell=tell)
    say(f"{told.finished}\n{told}")
    say("\nSentences it has never seen:\n")
    for shown in told.shown:
        say(f"  {shown.source}\n    → {shown.translation}")
        if shown.translation != shown.reference:
            say(f"    expected: {shown.reference}")
    say(f"\nthe report: {out / 'report.html'} (open it in a browser)")
    command = command_name()
    say("\nTry your own sentence, made of words like these, then train on your own two files:\n")
    say(f'  echo "{told.shown[0].source}" | {command} translate {out}')
    say(f"  {command} train --source FILE --target FILE --out runs/mine")
    say("\nOr look inside this one, in a browser:\n")
    say(f"  {command} serve {out}")


@app.command()
def check(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe that names the corpus, as for train.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Source side of your corpus.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its translation, line by line.")] = None,
    settings: Set = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the training pairs without their faults there."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Look a corpus over before training: what is swapped, copied, twice there, odd, leaked.

    Every finding has a count and examples; train says them too. Nothing is changed: --write writes
    a clean copy, with the swapped sides exchanged, and without copies, duplicates, odd lengths,
    empty sides and pairs whose source validation or test holds. Exit code 1 means that training or
    the scores would surely suffer.

    Examples:

    \b
      transduce check --source corpus.en --target corpus.de
      transduce check multi30k --set data.folder=corpora/multi30k --json
      transduce check --source corpus.en --target corpus.de --write clean
    """
    from transduce.cli.progress import counting
    from transduce.corpus_check.check import check as look
    from transduce.pipeline.defaults import take

    chosen, _ = take(recipe, [*corpus_settings(source, target), *(settings or [])])
    with counting(sys.stderr) as count:
        found = look(chosen, write=write, progress=count)
    shown = json.dumps(asdict(found), ensure_ascii=False) if as_json else str(found)
    say(shown.encode(errors="replace").decode())  # a line that is not UTF-8 holds surrogates
    if found.cleaned is None:
        raise typer.Exit(1 if found.report.loud else 0)


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
    from transduce.pipeline.defaults import opening, take

    chosen, why = take(recipe, [*corpus_settings(source, target), *(settings or [])])
    folder = out or Path("runs") / chosen.name

    from transduce.cli.progress import watching
    from transduce.io.lock import alone
    from transduce.pipeline.run import check_out, prepare_run

    with alone(folder), watching(sys.stderr) as tell:
        check_out(chosen, folder, resume=False)
        prepare_run(chosen, folder, tell=opening(why, tell))


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
    from transduce.config import said
    from transduce.pipeline.defaults import opening, take

    if recipe is None and resume and out is not None and (out / "recipe.toml").is_file():
        recipe = str(out / "recipe.toml")
    if recipe is None and origin is not None:
        recipe = "finetune"
    settings = [*corpus_settings(source, target), *(settings or [])]
    chosen, why = take(recipe, settings)
    folder = out or Path("runs") / chosen.name

    from transduce.cli.progress import watching
    from transduce.pipeline.finetune import Start, follow
    from transduce.pipeline.run import carry_out
    from transduce.train.distributed import is_first

    start = Start.load(origin) if origin else None
    if start:
        chosen = follow(chosen, start, said=said(recipe, settings), named=said(None, settings))
    if not is_first():  # of the processes that torchrun started one speaks
        carry_out(chosen, folder, resume=resume, start=start, tell=lambda event: None)
        return
    with watching(sys.stderr) as tell, hint_to_resume(folder):
        finished = carry_out(chosen, folder, resume=resume, start=start, tell=opening(why, tell))
    say(str(finished))
    say(f"model: {folder / 'model'}")


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
    from transduce.pipeline.run import average_checkpoints

    average_checkpoints(checkpoints, out)
