"""transduce prepare."""

from pathlib import Path

from transduce.cli.app import RunFolder, TrainingRecipe, app
from transduce.cli.cluster import ClusterEngine, ClusterWorkers, ShardLines, cluster_config
from transduce.cli.corpus_options import PAIR_OPTIONS, complete_languages, with_corpus_options

_SHARD_LINES = 65536


@app.command()
@with_corpus_options(*PAIR_OPTIONS, "validation", "test")
def prepare(
    recipe: TrainingRecipe = None,
    *,
    settings: list[str],
    out: RunFolder = None,
    cluster: ClusterEngine = None,
    workers: ClusterWorkers = None,
    shard_lines: ShardLines = _SHARD_LINES,
) -> None:
    """Preprocess a corpus for `train`: clean it, train a tokenizer, encode it.

    Examples:

    \b
      transduce prepare multi30k --set data.folder=corpora/multi30k
      transduce prepare --source corpus.en.gz --target corpus.de.gz --cluster local
    """
    config = cluster_config(cluster, workers, shard_lines, default_lines=_SHARD_LINES)

    from transduce.pipeline.defaults import choose_recipe, with_first_message

    selected, reason, plan = choose_recipe(recipe, settings)
    folder = out or Path("runs") / selected.name
    selected, guess = complete_languages(selected)

    from transduce.cli.progress import event_printer
    from transduce.io.lock import exclusive_lock
    from transduce.pipeline.run_folder import check_output_folder, prepare_run

    with exclusive_lock(folder), event_printer() as on_event:
        check_output_folder(selected, folder, resume=False)
        on_event = with_first_message(reason, with_first_message(guess, on_event))
        prepare_run(selected, folder, plan=plan, cluster=config, on_event=on_event)
