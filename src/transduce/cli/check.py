"""transduce check."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import (
    JsonObject,
    Overrides,
    SourceCorpus,
    SourceLanguage,
    TargetCorpus,
    TargetLanguage,
    TestCorpus,
    ValidationCorpus,
    app,
    complete_languages,
    corpus_settings,
    print_stderr,
    print_stdout,
)


@app.command()
def check(
    recipe: Annotated[
        str | None, typer.Argument(help="Recipe that names the corpus, as for train.")
    ] = None,
    source: SourceCorpus = None,
    target: TargetCorpus = None,
    source_lang: SourceLanguage = None,
    target_lang: TargetLanguage = None,
    validation: ValidationCorpus = None,
    test: TestCorpus = None,
    settings: Overrides = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a cleaned copy of the training pairs to DIR."),
    ] = None,
    as_json: JsonObject = False,
) -> None:
    """Check a corpus for swapped, copied, duplicate, misaligned or leaked pairs.

    Each finding has a count and examples; train reports them too. The corpus is not changed:
    --write writes a copy in which swapped sides are exchanged and copies, duplicates, outliers in
    length, empty sides and sources of the validation or test set are removed. Exit code 1: training
    or evaluation would be seriously affected.

    Examples:

    \b
      transduce check --source corpus.en --target corpus.de
      transduce check multi30k --set data.folder=corpora/multi30k --json
      transduce check --source corpus.en --target corpus.de --write clean
    """
    from transduce.cli.progress import line_counter
    from transduce.corpus_check.check import check_corpus
    from transduce.pipeline.defaults import choose_recipe

    codes = (source_lang, target_lang)
    corpus = corpus_settings(source, target, languages=codes, validation=validation, test=test)
    settings = [*corpus, *(settings or [])]
    selected, guess = complete_languages(choose_recipe(recipe, settings).recipe)
    if guess:
        print_stderr(guess)
    with line_counter(sys.stderr) as count:
        result = check_corpus(selected, write=write, progress=count)
    text = json.dumps(asdict(result), ensure_ascii=False) if as_json else str(result)
    # Lines that are not UTF-8 contain surrogates, which stdout cannot encode.
    print_stdout(text.encode(errors="replace").decode())
    if result.cleaned is None:
        raise typer.Exit(1 if result.report.severe else 0)
