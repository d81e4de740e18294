"""transduce distill: a quick student learns what a good teacher says."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import Set, app, corpus_settings, say, talk


@app.command()
def distill(
    teacher: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    recipe: Annotated[
        str | None,
        typer.Argument(help="A recipe that names the corpus, as for train [default: by its size]."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The student's run.")] = Path("runs/student"),
    source: Annotated[Path | None, typer.Option(help="Source side of your corpus.")] = None,
    target: Annotated[
        Path | None, typer.Option(help="Its translation: to validate on, and to compare with.")
    ] = None,
    settings: Set = None,
    beam: Annotated[int, typer.Option(help="The teacher's, where it translates the corpus.")] = 4,
    encoder_layers: Annotated[int, typer.Option(help="Of the student.")] = 6,
    decoder_layers: Annotated[int, typer.Option(help="Of the student: what its speed is.")] = 1,
) -> None:
    """Train a quick student on what a teacher says: a deep encoder, a shallow decoder.

    The training sources are translated by the teacher; the student learns that, as RECIPE says,
    with the teacher's vocabulary. Then both translate the test set (or validation set): BLEU,
    parameters and sentences a second, in one table and in OUT/distilled.json. Stopped anywhere, the
    same command goes on.

    Examples:

    \b
      transduce distill runs/mine --source corpus.en --target corpus.de --out runs/student
      transduce distill runs/mine multi30k --set data.folder=corpora/multi30k --out runs/student
    """
    from transduce.config import explicit_settings
    from transduce.pipeline.defaults import choose_recipe, with_first_message

    by_hand = [*corpus_settings(source, target), *(settings or [])]
    for key in sorted(explicit_settings(None, by_hand)):
        if key.startswith("tokenizer."):
            raise ValueError(f"a student has its teacher's vocabulary: leave out {key}")
        if key in ("model.encoder_layers", "model.decoder_layers"):
            option = key.removeprefix("model.").replace("_", "-")
            raise ValueError(f"a student's layers are said by --{option}: leave out {key}")

    from transduce.bundle.bundle import Bundle
    from transduce.cli.progress import watching
    from transduce.pipeline.distill import distill as run_distillation

    chosen, why = choose_recipe(
        recipe,
        [
            *by_hand,
            f"model.encoder_layers={encoder_layers}",
            f"model.decoder_layers={decoder_layers}",
            f"tokenizer.vocab_size={Bundle.load(teacher).tokenizer.vocab_size}",
        ],
    )
    with watching(sys.stderr) as on_event:
        try:
            found = run_distillation(
                teacher, chosen, out, beam=beam, on_event=with_first_message(why, on_event)
            )
        except (KeyboardInterrupt, SystemExit):
            talk("stopped; the same command goes on")
            raise
    say(str(found))
    say(f"model: {out / 'model'}")
