"""TensorBoard: the curves of metrics.jsonl, for those who have the package and like its pages.

    pip install tensorboard, then --set train.tensorboard=true, then tensorboard --logdir RUN

It listens to the same events as the watcher, so it knows nothing that metrics.jsonl does not say.
"""

import importlib.util
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

from transduce.train.events import Event, EventHandler, Progress, Validated

FOLDER = "tensorboard"


@runtime_checkable
class Writer(Protocol):
    """What is used of torch's SummaryWriter."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Add a point to the curve called `tag`."""

    def flush(self) -> None:
        """Write out what was added."""

    def close(self) -> None:
        """Write out what was added, and end."""


Open = Callable[[Path, int], Writer]
"""Opens a writer on a folder; what an earlier one wrote there from that update on is hidden."""


def check_board() -> None:
    """Make sure that the package is here.

    Raises:
        ValueError: one line that says what to install.
    """
    if importlib.util.find_spec("tensorboard") is None:
        raise ValueError(
            "train.tensorboard needs a package that is not here: python -m pip install tensorboard"
        )


def summary_writer(folder: Path, update: int) -> Writer:
    """Open torch's own writer."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=update)


@contextmanager
def on_board(
    run: Path, *, wanted: bool, on_event: EventHandler, open: Open = summary_writer
) -> Generator[EventHandler]:
    """Yield a `tell` that also draws the curves below `run`, if they are wanted.

    Going on with a run makes the same updates again that no checkpoint kept, and tells of them; the
    first to be told hides what was drawn of them before, so that no update stands twice.
    """
    if not wanted:
        yield on_event
        return
    board = _Board(run / FOLDER, on_event=on_event, open=open)
    try:
        yield board
    finally:
        board.close()


class _Board:
    def __init__(self, folder: Path, *, on_event: EventHandler, open: Open) -> None:
        self._folder = folder
        self._on_event = on_event
        self._open = open
        self._writer: Writer | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Progress | Validated):
            if self._writer is None:  # only now is it known where the run goes on
                self._writer = self._open(self._folder, event.update)
            for tag, value in _curves(event):
                self._writer.add_scalar(tag, value, event.update)
            if isinstance(event, Validated):
                self._writer.flush()  # there follows a checkpoint
        self._on_event(event)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _curves(event: Progress | Validated) -> tuple[tuple[str, float], ...]:
    if isinstance(event, Progress):
        return (
            ("train/loss", event.loss),
            ("train/rate", event.rate),
            ("train/tokens_per_second", event.tokens_per_second),
            ("train/grad_norm", event.grad_norm),
        )
    return (
        ("validation/loss", event.loss),
        ("validation/perplexity", event.perplexity),
        ("validation/BLEU", event.bleu),
    )
