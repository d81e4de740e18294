"""transduce check."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import Set, app, corpus_settings, say


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
    from transduce.pipeline.defaults import choose_recipe

    chosen, _ = choose_recipe(recipe, [*corpus_settings(source, target), *(settings or [])])
    with counting(sys.stderr) as count:
        found = look(chosen, write=write, progress=count)
    shown = json.dumps(asdict(found), ensure_ascii=False) if as_json else str(found)
    say(shown.encode(errors="replace").decode())  # a line that is not UTF-8 holds surrogates
    if found.cleaned is None:
        raise typer.Exit(1 if found.report.loud else 0)
