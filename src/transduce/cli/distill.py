"""transduce distill."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transduce.cli.app import Ensemble, app, hint_to_resume, print_stdout
from transduce.cli.cluster import (
    SHARD_LINES,
    ClusterEngine,
    ClusterWorkers,
    ShardLines,
    cluster_config,
)
from transduce.cli.corpus_options import PAIR_OPTIONS, complete_languages, with_corpus_options


@app.command()
@with_corpus_options(*PAIR_OPTIONS, "validation", "test")
def distill(
    teacher: Annotated[Path, Argument(help="Folder of the teacher model or its run.")],
    recipe: Annotated[
        str | None, Argument(help="Recipe that names the corpus, as for train [default: by size].")
    ] = None,
    out: Annotated[Path, Option("--out", "-o", help="Run folder of the student.")] = Path(
        "runs/student"
    ),
    *,
    settings: list[str],
    also: Ensemble = None,
    beam: Annotated[int, Option(help="Beam size of the teacher's translations.")] = 4,
    references: Annotated[
        bool, Option("--references", help="Train on the corpus's own translations too.")
    ] = False,
    encoder_layers: Annotated[int, Option(help="Encoder layers of the student.")] = 6,
    decoder_layers: Annotated[
        int, Option(help="Decoder layers of the student; they determine its speed.")
    ] = 1,
    cluster: ClusterEngine = None,
    workers: ClusterWorkers = None,
    shard_lines: ShardLines = SHARD_LINES,
) -> None:
    """Train a small, fast student on a teacher's translations (knowledge distillation).

    Sequence-level distillation: the teacher translates the training sources, and the student, with
    a deep encoder and a shallow decoder, is trained on the result, as RECIPE says and with the
    teacher's vocabulary. Both models then translate the test set (or validation set): BLEU with
    its difference, parameters and sentences per second are printed and stored in
    OUT/distilled.json, and plotted in OUT/distilled.html. To resume an interrupted run, repeat the
    command. Workers of --cluster share the translation.

    Examples:

    \b
      transduce distill runs/mine --source corpus.en --target corpus.de --out runs/student
      transduce distill runs/mine multi30k --set data.folder=corpora/multi30k --out runs/student
      transduce distill runs/a --with runs/b --source corpus.en --target corpus.de --references
    """
    config = cluster_config(cluster, workers, shard_lines)

    from transduce.config import explicit_settings
    from transduce.pipeline.defaults import choose_recipe, with_first_message

    for key in sorted(explicit_settings(None, settings)):
        if key.startswith("tokenizer."):
            raise ValueError(f"a student uses its teacher's vocabulary: leave out {key}")
        if key in ("model.encoder_layers", "model.decoder_layers"):
            option = key.removeprefix("model.").replace("_", "-")
            raise ValueError(f"a student's layers are set with --{option}: leave out {key}")

    from transduce.bundle.bundle import Bundle
    from transduce.cli.progress import event_printer
    from transduce.pipeline.distill import distill as run_distillation
    from transduce.pipeline.distill import with_languages

    bundle = Bundle.load(teacher)
    student = [
        f"model.encoder_layers={encoder_layers}",
        f"model.decoder_layers={decoder_layers}",
        f"tokenizer.vocab_size={bundle.tokenizer.vocab_size}",
    ]
    selected, reason, plan = choose_recipe(recipe, [*settings, *student])
    selected, guess = complete_languages(with_languages(selected, bundle), run=out)
    with event_printer() as on_event, hint_to_resume():
        result = run_distillation(
            teacher,
            selected,
            out,
            ensemble=also or (),
            beam=beam,
            references=references,
            plan=plan,
            cluster=config,
            on_event=with_first_message(reason, with_first_message(guess, on_event)),
        )
    print_stdout(f"{result}\nmodel: {out / 'model'}")
