"""transduce prepare."""

import sys
from pathlib import Path

from transduce.cli.app import (
    Overrides,
    RunFolder,
    SourceCorpus,
    SourceLanguage,
    TargetCorpus,
    TargetLanguage,
    TestCorpus,
    TrainingRecipe,
    ValidationCorpus,
    app,
    complete_languages,
    corpus_settings,
)


@app.command()
def prepare(
    recipe: TrainingRecipe = None,
    source: SourceCorpus = None,
    target: TargetCorpus = None,
    source_lang: SourceLanguage = None,
    target_lang: TargetLanguage = None,
    validation: ValidationCorpus = None,
    test: TestCorpus = None,
    settings: Overrides = None,
    out: RunFolder = None,
) -> None:
    """Preprocess a corpus for `train`: clean it, train a tokenizer, encode it.

    Example:

    \b
      transduce prepare multi30k --set data.folder=corpora/multi30k
    """
    from transduce.pipeline.defaults import choose_recipe, with_first_message

    codes = (source_lang, target_lang)
    corpus = corpus_settings(source, target, languages=codes, validation=validation, test=test)
    settings = [*corpus, *(settings or [])]
    selected, reason, plan = choose_recipe(recipe, settings)
    folder = out or Path("runs") / selected.name
    selected, guess = complete_languages(selected)

    from transduce.cli.progress import event_printer
    from transduce.io.lock import exclusive_lock
    from transduce.pipeline.run_folder import check_output_folder, prepare_run

    with exclusive_lock(folder), event_printer(sys.stderr) as on_event:
        check_output_folder(selected, folder, resume=False)
        on_event = with_first_message(reason, with_first_message(guess, on_event))
        prepare_run(selected, folder, plan=plan, on_event=on_event)
