"""The figures of metrics.jsonl to experiment trackers, where they are installed (`train.log_to`).

    pip install tensorboard, then --set train.log_to=tensorboard, then tensorboard --logdir RUN

A tracker is opened with the first figures, because only then is the first update of a resumed run
known. Each gets the same names; MLflow, wandb and trackio log to the project "transduce".
"""

import importlib
import importlib.util
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from transduce.io.atomic_folder import atomic_file
from transduce.train.events import Event, EventHandler, LogMessage, Progress, Validated

PROJECT: Final = "transduce"


class Tracker(NamedTuple):
    """An open tracker."""

    log: Callable[[Mapping[str, float], int], object]
    """Takes values by name, and the update that they are of."""
    close: Callable[[], object]


OpenTracker = Callable[[Path, int], Tracker]
"""Takes the run's folder, and the first update whose figures are logged."""


def check_trackers(names: Sequence[str]) -> None:
    """Make sure that all of some trackers are installed.

    Raises:
        ValueError: one line that names the missing package.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ValueError(
                f"train.log_to {name} needs a package that is missing: python -m pip install {name}"
            )


@contextmanager
def trackers(
    run: Path,
    names: Sequence[str],
    *,
    on_event: EventHandler,
    openers: "Mapping[str, OpenTracker] | None" = None,
) -> Generator[EventHandler]:
    """Yield an event handler that also logs to trackers; they are closed however training ends.

    A tracker that fails is reported once, and left out from then on.

    Args:
        run: the run's folder.
        names: of trackers.
        on_event: called with each event too.
        openers: open a tracker each, by name; None: those of this module.
    """
    openers, opened = openers or OPENERS, dict[str, Tracker]()
    failed: set[str] = set()

    def attempt(name: str, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # of any type: no tracker may end training
            failed.add(name)
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            on_event(LogMessage(f"training continues without train.log_to {name}: {reason}"))

    def log(name: str, event: Progress | Validated) -> None:
        if name not in opened:
            opened[name] = openers[name](run, event.update)
        opened[name].log(figures(event), event.update)

    def handle(event: Event) -> None:
        if isinstance(event, Progress | Validated):
            for name in names:
                if name not in failed:
                    attempt(name, partial(log, name, event))
        on_event(event)

    try:
        yield handle
    finally:
        for name, tracker in opened.items():
            if name not in failed:
                attempt(name, tracker.close)


def figures(event: Progress | Validated) -> dict[str, float]:
    """Return the figures of an event by name; what was not measured is left out."""
    if isinstance(event, Progress):
        values = {
            "train/loss": event.loss,
            "train/rate": event.learning_rate,
            "train/tokens_per_second": event.tokens_per_second,
            "train/grad_norm": event.grad_norm,
        }
    else:
        values = {
            "validation/loss": event.loss,
            "validation/perplexity": event.perplexity,
            "validation/BLEU": event.bleu,
            "validation/chrF2": event.chrf,
            "validation/accuracy": event.accuracy,
        }
    return {name: value for name, value in values.items() if not math.isnan(value)}


def _open_tensorboard(run: Path, update: int) -> Tracker:
    from torch.utils.tensorboard import SummaryWriter

    # An earlier session may have drawn these updates, too: its points are hidden.
    writer = SummaryWriter(str(run / "tensorboard"), purge_step=update)

    def log(values: Mapping[str, float], update: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, update)
        writer.flush()

    return Tracker(log, writer.close)


def _open_mlflow(run: Path, update: int) -> Tracker:
    mlflow: Any = importlib.import_module("mlflow")  # no stubs, and not always installed
    mlflow.set_experiment(PROJECT)
    kept = _kept_id(run, "mlflow")
    query = f"tags.`transduce.run` = '{kept}'"
    if earlier := mlflow.search_runs(filter_string=query, max_results=1, output_format="list"):
        mlflow.start_run(run_id=earlier[0].info.run_id)
    else:
        mlflow.start_run(run_name=run.name, tags={"transduce.run": kept})
    return Tracker(lambda values, step: mlflow.log_metrics(values, step=step), mlflow.end_run)


def _open_like_wandb(package: str, run: Path, update: int) -> Tracker:
    module: Any = importlib.import_module(package)  # no stubs, and not always installed
    # trackio resumes a run by its name, wandb by its id.
    ids = {"id": _kept_id(run, package)} if package == "wandb" else {}
    module.init(project=PROJECT, name=run.name, resume="allow", **ids)
    return Tracker(lambda values, step: module.log(dict(values), step=step), module.finish)


def _kept_id(run: Path, tracker: str) -> str:
    """An id that stays in the run's folder; another run may have been at the same path."""
    file = run / f"{tracker}-id.txt"
    if not file.is_file():
        with atomic_file(file) as stream:
            stream.write(uuid4().hex.encode())
    return file.read_text("utf-8")


OPENERS: Final[Mapping[str, OpenTracker]] = {
    "tensorboard": _open_tensorboard,
    "wandb": partial(_open_like_wandb, "wandb"),
    "trackio": partial(_open_like_wandb, "trackio"),
    "mlflow": _open_mlflow,
}
