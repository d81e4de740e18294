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
from transduce.cli.cluster import ClusterEngine, ClusterWorkers, ShardLines


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
    cluster: ClusterEngine = None,
    workers: ClusterWorkers = None,
    shard_lines: ShardLines = 65536,
) -> None:
    """Preprocess a corpus for `train`: clean it, train a tokenizer, encode it.

    Examples:

    \b
      transduce prepare multi30k --set data.folder=corpora/multi30k
      transduce prepare --source corpus.en.gz --target corpus.de.gz --cluster local
    """
    from transduce.pipeline.defaults import choose_recipe, with_first_message

    codes = (source_lang, target_lang)
    corpus = corpus_settings(source, target, languages=codes, validation=validation, test=test)
    settings = [*corpus, *(settings or [])]
    selected, reason, plan = choose_recipe(recipe, settings)
    folder = out or Path("runs") / selected.name
    selected, guess = complete_languages(selected)

    from transduce.cli.progress import event_printer
    from transduce.cluster.engines import ClusterConfig
    from transduce.io.lock import exclusive_lock
    from transduce.pipeline.run_folder import check_output_folder, prepare_run

    with exclusive_lock(folder), event_printer(sys.stderr) as on_event:
        check_output_folder(selected, folder, resume=False)
        on_event = with_first_message(reason, with_first_message(guess, on_event))
        config = cluster and ClusterConfig(engine=cluster, workers=workers, shard_rows=shard_lines)
        prepare_run(selected, folder, plan=plan, cluster=config or None, on_event=on_event)
