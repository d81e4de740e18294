"""transduce check."""

import json
import sys
from dataclasses import asdict
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
    from transduce.corpus_check.check import check_corpus
    from transduce.pipeline.defaults import choose_recipe

    codes = (source_lang, target_lang)
    corpus = corpus_settings(source, target, languages=codes, validation=validation, test=test)
    settings = [*corpus, *(settings or [])]
    selected, guess = complete_languages(choose_recipe(recipe, settings).recipe)
    if guess:
        print_stderr(guess)
    with line_counter(sys.stderr) as count:
        report = check_corpus(selected, progress=count)
    text = json.dumps({"report": asdict(report)}, ensure_ascii=False) if as_json else str(report)
    # Lines that are not UTF-8 contain surrogates, which stdout cannot encode.
    print_stdout(text.encode(errors="replace").decode())
    raise typer.Exit(1 if report.severe else 0)
