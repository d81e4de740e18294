"""transduce check."""

import json
from dataclasses import asdict
from typing import Annotated

from typer import Argument, Exit

from transduce.cli.app import JsonObject, app, print_stderr, print_stdout
from transduce.cli.corpus_options import PAIR_OPTIONS, complete_languages, with_corpus_options


@app.command()
@with_corpus_options(*PAIR_OPTIONS, "validation", "test")
def check(
    recipe: Annotated[
        str | None, Argument(help="Recipe that names the corpus, as for train.")
    ] = None,
    *,
    settings: list[str],
    as_json: JsonObject = False,
) -> None:
    """Check a corpus for swapped, copied, duplicate, misaligned or leaked pairs.

    Each finding has a count and examples; train reports them too. The corpus is not changed:
    `transduce corpus build` writes a clean one. Exit code 1: training or evaluation would be
    seriously affected.

    Examples:

    \b
      transduce check --source corpus.en --target corpus.de
      transduce check multi30k --set data.folder=corpora/multi30k --json
    """
    from transduce.cli.progress import line_counter
    from transduce.corpus_check.check import check_corpus, single_directions
    from transduce.pipeline.defaults import choose_recipe

    selected, guess = complete_languages(choose_recipe(recipe, settings).recipe)
    if guess:
        print_stderr(guess)
    with line_counter() as count:
        reports = {
            "-".join(part.languages.codes): check_corpus(part, progress=count)
            for part in single_directions(selected)
        }
    several = bool(selected.data.directions)
    texts = [f"{name}: {report}" if several else str(report) for name, report in reports.items()]
    objects = {name: asdict(report) for name, report in reports.items()}
    fields = {"reports": objects} if several else {"report": next(iter(objects.values()))}
    text = json.dumps(fields, ensure_ascii=False) if as_json else "\n\n".join(texts)
    # Lines that are not UTF-8 contain surrogates, which stdout cannot encode.
    print_stdout(text.encode(errors="replace").decode())
    raise Exit(1 if any(report.severe for report in reports.values()) else 0)
