"""The log of a run: metrics.jsonl, and events for the person."""

import json
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from transduce.io.atomic_folder import atomic_file
from transduce.train.checkpoint import TrainState
from transduce.train.config import TrainConfig, parse_duration
from transduce.train.distributed import SINGLE_PROCESS, Process
from transduce.train.events import EventHandler, LogMessage, Progress, Validated, describe_duration
from transduce.train.step import StepResult
from transduce.train.time_left import HALF_LIFE, TimeLeft

# A spike is a loss _SPIKE times the lowest of the last _RECENT lines, and _RISE nats a token above
# it: near zero a loss may double and mean nothing.
_SPIKE, _RISE, _RECENT = 1.5, 0.3, 10
_MAX_LINES = 8  # line numbers in a message
_HALF_LIVES = 40  # in `train.time`, so that its last plans follow the machine's present speed
_FIRST = 5.0  # seconds of measured updates that a first estimate needs
_ADVICE = "lower train.learning_rate or raise train.warmup"


class MetricsLog:
    """Appends to metrics.jsonl and emits events; sums stay on the device between two lines.

    A resumed run first drops the lines after its checkpoint, so that no update is there twice.
    Rank 0 alone writes; the figures are those of all ranks.
    """

    def __init__(
        self,
        path: Path,
        *,
        config: TrainConfig,
        state: TrainState,
        on_event: EventHandler,
        process: Process = SINGLE_PROCESS,
    ) -> None:
        self._path = path
        self._config = config
        self._on_event = on_event
        self._process = process
        self._earlier_seconds = state.seconds
        self._started = time.perf_counter()
        self._losses: deque[float] = deque(maxlen=_RECENT)
        self._time_left = TimeLeft(
            validate_every=config.validate_every,
            half_life=parse_duration(config.time) / _HALF_LIVES or HALF_LIFE,
        )
        self._first_seconds, self._warm, self._estimated = 0.0, False, False
        if process.is_rank_zero:  # one file, and so one writer
            lost = _drop_lines_after(path, state.update)
            if lost:
                lines = "1 damaged line" if lost == 1 else f"{lost:,} damaged lines"
                on_event(LogMessage(f"{path}: {lines} of the log left out; training is unaffected"))
        self._begin()

    def seconds(self) -> float:
        """Return the seconds of training so far, earlier sessions included."""
        return self._earlier_seconds + time.perf_counter() - self._started

    def log_update(self, state: TrainState, result: StepResult, *, rate: float) -> None:
        """Count one update; every `log_every` of them make a line.

        Args:
            state: after the update.
            result: its figures.
            rate: Adam's learning rate.
        """
        self._updates += 1
        if not result.skipped:
            self._losses_of_updates.append(result.loss_sum)
            self._tokens += result.tokens
            self._grad_norm = result.grad_norm
        last = state.update == state.last_update(self._config.updates)
        if not self._warm:
            self._estimate_early(state)
        if state.update % self._config.log_every == 0 or last:
            self._progress(state, rate)

    def log_skipped(self, state: TrainState, result: StepResult, *, lines: Sequence[int]) -> None:
        """Write and report a skipped update.

        Args:
            state: after the update.
            result: its figures.
            lines: of the corpus, that the update was made of.

        Raises:
            FloatingPointError: if there were too many in a row.
        """
        loss, norm = float(result.loss_sum) / result.tokens, float(result.grad_norm)
        self._write(
            {
                "update": state.update,
                "skipped": state.skipped,
                "skipped_loss": str(loss),  # NaN and infinity are no numbers in JSON
                "skipped_grad_norm": str(norm),
                "lines": list(lines),
            }
        )
        shown = ", ".join(map(str, lines[:_MAX_LINES])) + (", …" if lines[_MAX_LINES:] else "")
        message = f"loss {loss:.4g}, gradient {norm:.4g}, training lines {shown}"
        if state.skipped_in_a_row > self._config.max_skipped_updates:
            raise FloatingPointError(
                f"{state.skipped_in_a_row} updates in a row had no finite gradient, the last of "
                f"them update {state.update} ({message}): {_ADVICE}"
            )
        self._on_event(LogMessage(f"update {state.update:,} is skipped: {message}"))

    def log_validation(self, state: TrainState, scores: Validated) -> None:
        """Write and report the scores of a validation."""
        values: dict[str, float | str | tuple[object, ...]] = {
            "validation_loss": round(scores.loss, 5),
            "perplexity": round(scores.perplexity, 4),
            "bleu": round(scores.bleu, 3),
            "chrf": round(scores.chrf, 3),
            "validation_accuracy": round(100 * scores.accuracy, 2),
            "signature": scores.signature,
            "best": scores.best,
            "translations": scores.translations,
            "attention": scores.attention,
        }
        # Without what was not measured: NaN, which equals nothing, or an empty tuple.
        measured = {key: v for key, v in values.items() if v == v and v != ()}
        self._write({**self._where(state), **measured})
        self._on_event(scores)

    def seconds_left(self, state: TrainState) -> float:
        """Return the seconds that remain of `train.time`, final evaluation included."""
        setup = state.time_plan.setup_seconds if state.time_plan else 0.0
        return parse_duration(self._config.time) - setup - self.seconds()

    def update_seconds(self) -> float:
        """Return the mean duration of the latest updates, while the clock is paused."""
        return self._time_left.update_seconds(*self._measured(self._paused - self._since))

    def paused_seconds(self) -> float:
        """Return how long the clock has been paused."""
        return time.perf_counter() - self._paused

    def pause_clock(self) -> None:
        """Stop the clock: what follows does not count as training speed."""
        self._paused = time.perf_counter()

    def resume_clock(self) -> None:
        """Restart the clock."""
        # Later by the pause, so that differences from it leave the pause out.
        pause = time.perf_counter() - self._paused
        self._since += pause
        self._time_left.add_validation(pause)

    def _progress(self, state: TrainState, rate: float) -> None:
        if not self._losses_of_updates:  # all updates were skipped: there is no mean of nothing
            return self._begin()
        loss = float(torch.stack(self._losses_of_updates).sum()) / self._tokens
        self._warn_of_spike(state, loss)
        spent = time.perf_counter() - self._since
        # By updates, not tokens: a skipped update takes as long as another.
        self._time_left.add_updates(*self._measured(spent))
        self._warm = True
        event = Progress(
            update=state.update,
            updates=state.last_update(self._config.updates),
            epoch=state.epoch + 1,
            loss=loss,
            tokens_per_second=self._tokens / spent,
            learning_rate=rate,
            grad_norm=float(self._grad_norm),
            seconds_left=(
                max(0.0, self.seconds_left(state))
                if self._config.time
                else self._time_left.after(
                    state.update, last=state.last_update(self._config.updates)
                )
            ),
            processes=self._process.world_size,
            # Not below 0: the time of the last update before this line is counted in it.
            compute_share=max(
                0.0, 1.0 - (self._process.communication_seconds - self._waited) / spent
            ),
        )
        per_process: dict[str, object] = {}
        if event.processes > 1:
            per_process = {
                "processes": event.processes,
                "tokens_per_second_each": round(event.tokens_per_second / event.processes, 1),
                "working": round(event.compute_share, 4),
            }
        self._write(
            {
                **self._where(state),
                "loss": round(loss, 5),
                "tokens_per_second": round(event.tokens_per_second, 1),
                "rate": rate,
                "grad_norm": round(event.grad_norm, 4),
                **per_process,
            }
        )
        self._on_event(event)
        self._begin()

    def _measured(self, spent: float) -> tuple[int, float]:
        """The updates since the last line that tell how long one takes, and their seconds.

        The first of a session does not: it compiles, or allocates memory.
        """
        if self._warm or self._updates == 1:
            return self._updates, spent
        return self._updates - 1, spent - self._first_seconds

    def _estimate_early(self, state: TrainState) -> None:
        """Estimate the time left before the first line, once a few updates were measured."""
        spent = time.perf_counter() - self._since
        if self._updates == 1:
            self._first_seconds = spent
            return
        count, seconds = self._measured(spent)
        if seconds >= _FIRST and not self._estimated:
            self._estimated = True
            per_update, last = seconds / count, state.last_update(self._config.updates)
            left = describe_duration((last - state.update) * per_update)
            text = f"{per_update:.2g} s an update: about {left} left, validations not counted"
            self._on_event(LogMessage(text))

    def _warn_of_spike(self, state: TrainState, loss: float) -> None:
        """Report a loss far above its recent minimum."""
        lowest = min(self._losses, default=math.inf)
        if loss > max(_SPIKE * lowest, lowest + _RISE):
            text = f"the loss rose to {loss:.3f} by update {state.update:,}"
            self._on_event(
                LogMessage(f"{text}, from {lowest:.3f}: is train.learning_rate too high?")
            )
        self._losses.append(loss)

    def _begin(self) -> None:
        # Tensors, not numbers: reading each one would make the host wait for the device.
        self._losses_of_updates: list[Tensor] = []
        self._tokens = self._updates = 0
        self._waited = self._process.communication_seconds
        self._since = time.perf_counter()

    def _where(self, state: TrainState) -> dict[str, object]:
        """The first fields of a line: how far the run is."""
        return {
            "update": state.update,
            "epoch": state.epoch + 1,
            "tokens": state.tokens,
            "seconds": round(self.seconds(), 2),
        }

    def _write(self, line: Mapping[str, object]) -> None:
        if not self._process.is_rank_zero:
            return
        # Opened and closed for each line, so that a killed run has lost none.
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def divergence_error(loss: float, update: int) -> FloatingPointError:
    """Make the error for a validation loss that is NaN or infinite."""
    return FloatingPointError(f"the validation loss is {loss} at update {update}: {_ADVICE}")


def _drop_lines_after(path: Path, update: int) -> int:
    """Drop the lines of updates after the checkpoint, and damaged ones; return how many of these.

    A last line without its end is of a run that was killed, and no damage.
    """
    if not path.exists():
        return 0
    lines = path.read_bytes().split(b"\n")[:-1]
    updates = [_update_of(line) for line in lines]
    kept = [
        index for index, number in enumerate(updates) if number is not None and number <= update
    ]
    with atomic_file(path) as stream:
        stream.writelines(lines[index] + b"\n" for index in kept)
    last = kept[-1] if kept else -1
    dropped = set(range(len(lines))).difference(kept)
    # A number that is too high among lower ones is damaged, too.
    return sum(updates[index] is None or index < last for index in dropped)


def _update_of(line: bytes) -> int | None:
    """The update of a line of the log; None if it is damaged."""
    try:
        update = json.loads(line)["update"]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return update if isinstance(update, int) else None
