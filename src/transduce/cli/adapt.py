"""transduce adapt."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transduce.cli.app import Overrides, app, print_stderr, print_stdout


@app.command()
def adapt(
    model: Annotated[Path, Argument(help="Folder of a finished run.")],
    corrections: Annotated[
        Path | None, Option(metavar="STORE", help="Translation memory with the corrections.")
    ] = None,
    max_loss: Annotated[float, Option(help="BLEU that the run's own test pairs may lose.")] = 0.5,
    rehearsal: Annotated[
        float, Option(help="Earlier training pairs per correction, against forgetting.")
    ] = 8.0,
    settings: Overrides = None,
    rollback: Annotated[
        bool,
        Option("--rollback", help="Exchange the model and the one before the last adaptation."),
    ] = False,
) -> None:
    """Fine-tune a model on corrections; it is replaced only if the new one is better.

    Better is: BLEU rises on a held-out fifth of the corrections (p < 0.05, paired bootstrap), and
    falls by at most --max-loss on the run's test pairs. Otherwise the model stays, stderr says why,
    and the exit code is 1. A server loads the new model by itself.

    Examples:

    \b
      transduce serve runs/mine --memory corrections.db
      transduce adapt runs/mine --corrections corrections.db
      transduce adapt runs/mine --rollback
    """
    if rollback == (corrections is not None):
        raise ValueError("name either --corrections STORE or --rollback")
    from transduce.cli.progress import event_printer
    from transduce.memory.store import TranslationMemory
    from transduce.pipeline.adapt import adapt as adapt_model
    from transduce.pipeline.adapt import roll_back

    if corrections is None:
        roll_back(model)
        print_stderr(f"{model} has the model before its last adaptation")
        return
    with TranslationMemory(corrections, create=False) as memory, event_printer() as on_event:
        report = adapt_model(
            model,
            memory.entries(),
            rehearsal=rehearsal,
            max_loss=max_loss,
            settings=settings or (),
            on_event=on_event,
        )
    print_stdout(str(report))
    if report.refused:
        print_stderr(f"{model} is unchanged: {report.refused}")
        raise SystemExit(1)
