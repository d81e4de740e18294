"""What a run leaves behind for later eyes: metrics.jsonl, and a word to whoever watches now."""

import json
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from transduce.io.atomic_folder import whole_file
from transduce.train.checkpoint import TrainState
from transduce.train.config import TrainConfig
from transduce.train.distributed import ALONE, Process
from transduce.train.events import EventHandler, LogMessage, Progress, Validated
from transduce.train.step import Update

_SPIKE = 1.5  # times the lowest of the last so many lines, and
_RISE = 0.3  # nats a token above it: near zero a loss may double and mean nothing
_RECENT = 10
_FEW = 8  # line numbers that a message names
_ADVICE = "lower train.learning_rate or raise train.warmup"


class Log:
    """Appends to metrics.jsonl and tells the watcher; sums stay on the device between two lines.

    Going on with a run first drops the lines after the checkpoint, so that no update stands twice.
    Of several processes the first alone writes; what is counted is of all of them.
    """

    def __init__(
        self,
        path: Path,
        *,
        config: TrainConfig,
        state: TrainState,
        on_event: EventHandler,
        process: Process = ALONE,
    ) -> None:
        self._path = path
        self._config = config
        self._on_event = on_event
        self._process = process
        self._before = state.seconds
        self._started = time.perf_counter()
        self._losses: deque[float] = deque(maxlen=_RECENT)
        if process.first:
            _forget_after(path, state.update)
        self._begin()

    def seconds(self) -> float:
        """Seconds of training so far, earlier sittings included."""
        return self._before + time.perf_counter() - self._started

    def updated(self, state: TrainState, done: Update, *, rate: float) -> None:
        """Count one update; every `log_every` of them make a line."""
        self._updates += 1
        if not done.skipped:
            self._nats.append(done.nats)
            self._tokens += done.tokens
        last = state.update == self._config.updates
        if state.update % self._config.log_every == 0 or last:
            self._progress(state, done, rate)

    def skipped(self, state: TrainState, done: Update, *, lines: Sequence[int]) -> None:
        """Write and tell that an update was skipped, and what it would have learned from.

        Raises:
            FloatingPointError: if that makes too many in a row.
        """
        loss, norm = float(done.nats) / done.tokens, float(done.grad_norm)
        self._write(
            {
                "update": state.update,
                "skipped": state.skipped,
                "skipped_loss": str(loss),
                "skipped_grad_norm": str(norm),
                "lines": list(lines),
            }
        )
        few = ", ".join(map(str, lines[:_FEW])) + (", …" if len(lines) > _FEW else "")
        what = f"loss {loss:.4g}, gradient {norm:.4g}, training lines {few}"
        if state.skipped_in_a_row > self._config.max_skipped_updates:
            raise FloatingPointError(
                f"{state.skipped_in_a_row} updates in a row had no finite gradient, the last of "
                f"them update {state.update} ({what}): {_ADVICE}"
            )
        self._on_event(LogMessage(text=f"update {state.update:,} is skipped: {what}"))

    def validated(self, state: TrainState, found: Validated) -> None:
        """Write and tell what a validation found."""
        self._write(
            {
                "update": state.update,
                "epoch": state.epoch + 1,
                "tokens": state.tokens,
                "seconds": round(self.seconds(), 2),
                "validation_loss": round(found.loss, 5),
                "perplexity": round(found.perplexity, 4),
                "bleu": round(found.bleu, 3),
                "signature": found.signature,
                "best": found.best,
            }
        )
        self._on_event(found)

    def pause(self) -> None:
        """Stop the clock: what follows does not count as training speed."""
        self._paused = time.perf_counter()

    def go_on(self) -> None:
        """Let the clock run again."""
        self._since += time.perf_counter() - self._paused

    def _progress(self, state: TrainState, done: Update, rate: float) -> None:
        if not self._nats:  # all were skipped
            return self._begin()
        loss = float(torch.stack(self._nats).sum()) / self._tokens
        self._mind_spike(state, loss)
        spent = time.perf_counter() - self._since
        event = Progress(
            update=state.update,
            updates=self._config.updates,
            epoch=state.epoch + 1,
            loss=loss,
            tokens_per_second=self._tokens / spent,
            rate=rate,
            grad_norm=float(done.grad_norm),
            seconds_left=(self._config.updates - state.update) * spent / self._updates,
            processes=self._process.world,
            working=max(0.0, 1.0 - (self._process.waited - self._waited) / spent),
        )
        self._write(
            {
                "update": state.update,
                "epoch": event.epoch,
                "tokens": state.tokens,
                "seconds": round(self.seconds(), 2),
                "loss": round(loss, 5),
                "tokens_per_second": round(event.tokens_per_second, 1),
                "rate": rate,
                "grad_norm": round(event.grad_norm, 4),
                **_of_several(event),
            }
        )
        self._on_event(event)
        self._begin()

    def _mind_spike(self, state: TrainState, loss: float) -> None:
        """Tell of a loss far above what it had come down to."""
        lowest = min(self._losses, default=math.inf)
        if loss > max(_SPIKE * lowest, lowest + _RISE):
            text = f"the loss rose to {loss:.3f} by update {state.update:,}"
            self._on_event(
                LogMessage(text=f"{text}, from {lowest:.3f}: is train.learning_rate too high?")
            )
        self._losses.append(loss)

    def _begin(self) -> None:
        self._nats: list[Tensor] = []
        self._tokens = self._updates = 0
        self._waited = self._process.waited
        self._since = time.perf_counter()

    def _write(self, line: Mapping[str, object]) -> None:
        if not self._process.first:
            return
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def _of_several(event: Progress) -> dict[str, object]:
    """What a line says beside the rest where there are several processes."""
    if event.processes == 1:
        return {}
    each = event.tokens_per_second / event.processes
    return {
        "processes": event.processes,
        "tokens_per_second_each": round(each, 1),
        "working": round(event.working, 4),
    }


def diverged(loss: float, update: int) -> FloatingPointError:
    """What is raised when the validation loss is no number any more."""
    return FloatingPointError(f"the validation loss is {loss} at update {update}: {_ADVICE}")


def _forget_after(path: Path, update: int) -> None:
    """Cut lines of updates that were made but not saved; the last line may be torn."""
    if not path.exists():
        return
    kept: list[str] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            fact = json.loads(line)
        except ValueError:
            break
        if fact["update"] > update:
            break
        kept.append(line + "\n")
    with whole_file(path) as stream:
        stream.write("".join(kept).encode())
