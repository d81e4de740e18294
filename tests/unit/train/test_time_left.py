"""The time that is left, in a training whose every update and validation takes a known time."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import torch

from transduce.train import metrics_log
from transduce.train.checkpoint import TrainState
from transduce.train.config import TrainConfig
from transduce.train.events import Event, LogMessage, Progress
from transduce.train.metrics_log import MetricsLog
from transduce.train.step import StepResult

UPDATES, VALIDATE_EVERY, LOG_EVERY = 1000, 90, 20
UPDATE, VALIDATION = 0.5, 12.0


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


def simulate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Event], list[float]]:
    """Return the events of a training, and the time of each."""
    clock, events, times, random = Clock(), list[Event](), list[float](), Random(1)

    def on_event(event: Event) -> None:
        events.append(event)
        times.append(clock.now)

    monkeypatch.setattr(metrics_log, "time", clock)
    config = TrainConfig(
        updates=UPDATES, validate_every=VALIDATE_EVERY, log_every=LOG_EVERY, warmup=1
    )
    log = MetricsLog(folder / "m.jsonl", config=config, state=TrainState(), on_event=on_event)
    done = StepResult(
        loss_sum=torch.tensor(5.0), tokens=5, grad_norm=torch.tensor(0.1), is_finite=True
    )
    clock.now += 9.0  # the first update compiles
    for update in range(1, UPDATES + 1):
        clock.now += UPDATE * random.uniform(0.7, 1.3)
        log.log_update(TrainState(update=update), done, rate=0.1)
        if update % VALIDATE_EVERY == 0 or update == UPDATES:
            log.pause_clock()
            clock.now += VALIDATION * random.uniform(0.8, 1.2)
            log.resume_clock()
    times.append(clock.now)
    return events, times


def test_after_a_tenth_the_estimate_is_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    events, times = simulate(tmp_path, monkeypatch)

    for event, time in zip(events, times, strict=False):
        if isinstance(event, Progress) and UPDATES / 10 < event.update < UPDATES * 0.95:
            assert event.seconds_left == pytest.approx(times[-1] - time, rel=0.15)


def test_consecutive_estimates_do_not_jump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    events, _ = simulate(tmp_path, monkeypatch)
    left = [
        event.seconds_left
        for event in events
        if isinstance(event, Progress) and event.update > VALIDATE_EVERY
    ]

    assert all(after < before * 1.05 for before, after in pairwise(left))
    assert left[-1] < 1.3 * VALIDATION


def test_there_is_an_estimate_within_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    events, times = simulate(tmp_path, monkeypatch)

    assert isinstance(events[0], LogMessage)
    assert "s an update: about " in events[0].text
    assert times[0] < 9.0 + 15 * UPDATE, "before the first line, which is of update 20"
    assert [event for event in events if isinstance(event, LogMessage)] == [events[0]]
