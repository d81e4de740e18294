"""A budget of time: a simulated machine of any speed ends in time, with the schedule finished."""

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from tests.conftest import Corpus

from transduce.model.transformer import Transformer
from transduce.train import metrics_log
from transduce.train.checkpoint import TrainState, list_checkpoints
from transduce.train.config import TrainConfig, parse_duration
from transduce.train.events import Event, Progress, Validated
from transduce.train.loop import Training, TrainResult, Validation, train
from transduce.train.step import StepResult
from transduce.train.time_plan import TimePlan

VALIDATION, FINAL_SHARE, BUDGET = 4.0, 2.5, 200
CONFIG = TrainConfig(
    updates=60,
    warmup=6,
    validate_every=5,
    time=f"{BUDGET}s",
    schedule="linear",
    learning_rate=0.01,
    log_every=7,
)


class Machine:
    """A clock that training moves: each update and validation takes its time."""

    def __init__(self, *, update: float, then: float | None = None, since: float = 70.0) -> None:
        self.now, self._speeds, self._since = 0.0, (update, then or update), since

    def perf_counter(self) -> float:
        return self.now

    def update(self) -> None:
        self.now += self._speeds[self.now > self._since]


def run(
    machine: Machine,
    *,
    model: Transformer,
    corpus: Corpus,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: TrainConfig = CONFIG,
    stop_after: int = 10**6,
    fixed_interval: bool = False,
) -> tuple[TrainResult | None, list[Event], list[float]]:
    """Train under the clock; return the result, all events, and the rate of every update."""
    events, rates = list[Event](), list[float]()

    def timed(run: Training, batches: object, given: tuple[float, float]) -> StepResult:
        if run.state.update == stop_after:
            raise KeyboardInterrupt
        machine.update()
        rates.append(given[0])
        return StepResult(loss_sum=torch.tensor(9.0), tokens=3, grad_norm=torch.tensor(1.0))

    def validate(model: Transformer) -> Validation:
        machine.now += VALIDATION
        return Validation(loss=1.0, bleu=3.5, signature="none")

    monkeypatch.setattr(metrics_log, "time", machine)
    monkeypatch.setattr(Training, "step", timed)
    plan = TimePlan(
        updates=config.updates,
        validation_seconds=VALIDATION,
        final_share=FINAL_SHARE,
        setup_seconds=machine.now and 3.0,
        fixed_interval=fixed_interval,
    )
    result = None
    with suppress(KeyboardInterrupt):
        result = train(
            model,
            loader=corpus.loader(),
            config=config,
            validate=validate,
            folder=folder,
            on_best=lambda model, evaluation: None,
            on_event=events.append,
            time_plan=plan,
        )
    monkeypatch.undo()
    return result, events, rates


@pytest.mark.parametrize(
    ("update", "then"),
    [(2.3, None), (1.0, None), (4.0, None), (1.5, 4.5), (3.0, 0.8)],
    ids=["as planned", "faster", "slower", "slows down", "speeds up"],
)
def test_training_ends_in_time_with_a_finished_cooldown(
    update: float,
    then: float | None,
    *,
    tiny: Transformer,
    corpus: Corpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    machine = Machine(update=update, then=then)

    result, events, rates = run(
        machine, model=tiny, corpus=corpus, folder=tmp_path, monkeypatch=monkeypatch
    )

    assert machine.now + FINAL_SHARE * VALIDATION == pytest.approx(BUDGET, rel=0.05)
    assert result is not None
    assert len(result.checkpoints) == CONFIG.average_checkpoints
    peak = max(rates)
    assert peak <= CONFIG.learning_rate
    assert rates[-1] == pytest.approx(CONFIG.learning_rate / 55, rel=1e-6), "the last of linear"
    after = rates[rates.index(peak) :]
    assert all(a > b for a, b in pairwise(after))
    steepest = max(a - b for a, b in pairwise(after))
    assert steepest < 0.2 * CONFIG.learning_rate, "no jump where the plan changes"
    validated = [event.update for event in events if isinstance(event, Validated)]
    assert validated[-1] == result.state.update
    assert len(set(validated)) == len(validated) in (11, 12, 13)


@pytest.mark.parametrize(
    ("update", "then"), [(2.3, None), (0.3, None), (0.5, 3.0)], ids=["slow", "fast", "slows down"]
)
def test_an_interval_set_by_hand_is_kept_and_the_time_too(
    update: float,
    then: float | None,
    *,
    tiny: Transformer,
    corpus: Corpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    machine = Machine(update=update, then=then)

    _, events, rates = run(
        machine,
        model=tiny,
        corpus=corpus,
        folder=tmp_path,
        monkeypatch=monkeypatch,
        config=replace(CONFIG, validate_every=2, time="1000s"),
        fixed_interval=True,
        stop_after=2000,
    )

    validated = [event.update for event in events if isinstance(event, Validated)]
    assert validated[:-1] == list(range(2, validated[-1], 2))
    assert machine.now + FINAL_SHARE * VALIDATION == pytest.approx(1000, rel=0.05)
    assert rates[-1] == pytest.approx(CONFIG.learning_rate / 55, rel=1e-6)


def test_slow_validations_at_an_interval_set_by_hand_leave_time_for_updates():
    plan = TimePlan(updates=500, validation_seconds=4.0, final_share=2.0, fixed_interval=True)
    config = replace(CONFIG, updates=500, validate_every=10)

    after = plan.replan(10, config=config, left=208.0, update_seconds=0.1, validation_seconds=30.0)

    assert after.updates == 10 + 400, "40 times 10 updates and a validation of 4 seconds"


def test_the_time_left_counts_down_to_the_end_of_the_budget(
    tiny: Transformer, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    machine = Machine(update=2.0)
    _, events, _ = run(machine, model=tiny, corpus=corpus, folder=tmp_path, monkeypatch=monkeypatch)

    left = [event.seconds_left for event in events if isinstance(event, Progress)]
    assert left[0] == pytest.approx(BUDGET - 7 * 2.0 - VALIDATION)
    assert 0 < left[-1] < 0.12 * BUDGET


def test_a_resumed_run_repeats_the_updates_and_counts_the_time_of_all_sessions(
    tiny: Transformer, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    machine = Machine(update=2.0)
    _, _, killed = run(
        machine, model=tiny, corpus=corpus, folder=tmp_path, monkeypatch=monkeypatch, stop_after=23
    )
    checkpoint = list_checkpoints(tmp_path / "checkpoints")[-1]
    machine.now += 500.0  # nothing runs meanwhile
    began = machine.now
    result, _, rates = run(
        machine, model=tiny, corpus=corpus, folder=tmp_path, monkeypatch=monkeypatch
    )

    resumed_after = int(checkpoint.name.removeprefix("update-"))
    assert rates[: 23 - resumed_after] == killed[resumed_after:]
    assert result is not None
    plan = result.state.time_plan
    assert plan is not None
    assert plan.setup_seconds == 3.0, "of the second session"
    spent = result.state.seconds + plan.setup_seconds + FINAL_SHARE * VALIDATION
    assert spent == pytest.approx(BUDGET, rel=0.05)
    assert machine.now - began < 0.75 * BUDGET


def test_a_score_that_is_reached_ends_training_before_its_time(
    tiny: Transformer, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """BLEU is 3.5 at the first validation; the machine slows down in the cooldown."""
    machine = Machine(update=2.3, then=3.0, since=20.0)

    result, events, rates = run(
        machine,
        model=tiny,
        corpus=corpus,
        folder=tmp_path,
        monkeypatch=monkeypatch,
        config=replace(CONFIG, until=3.0, decay=0.4),
    )

    assert result is not None
    first = next(event.update for event in events if isinstance(event, Validated))
    assert result.state.until_update == first
    assert result.state.update == len(rates) == first + round(first * 0.4 / 0.6)
    assert machine.now < BUDGET / 2
    falling = rates[first - 1 :]
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] < 0.3 * max(rates)


def test_time_that_is_up_ends_training_after_a_last_update_at_a_low_rate(
    tiny: Transformer, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    result, _, rates = run(
        Machine(update=40.0), model=tiny, corpus=corpus, folder=tmp_path, monkeypatch=monkeypatch
    )

    assert result is not None
    assert result.state.update == CONFIG.validate_every + 1
    assert rates[-1] == pytest.approx(CONFIG.learning_rate / 55)


def test_a_validation_that_is_slow_by_chance_ends_nothing():
    plan = TimePlan(updates=100, validation_seconds=1.0, final_share=5.0, recent=(1.0, 1.2))
    config = replace(CONFIG, updates=100, validate_every=20)

    after = plan.replan(60, config=config, left=47.2, update_seconds=1.0, validation_seconds=30.0)

    assert after.updates == 60 + 39, "seven validations of 1.2 seconds are expected"
    again = after.replan(99, config=config, left=1.0, update_seconds=1.0, validation_seconds=30.0)
    assert (again.updates, again.recent) == (99, (1.2, 30.0, 30.0))
    late = plan.replan(60, config=config, left=1.0, update_seconds=1.0, validation_seconds=1.0)
    assert late.updates == 61


def test_a_plan_maps_its_updates_to_the_whole_schedule():
    plan = TimePlan(updates=30, since=10, position=40.0)

    assert plan.schedule_position(10, end=100) == 40.0
    assert plan.schedule_position(20, end=100) == 70.0
    assert plan.schedule_position(30, end=100) == 100.0
    state = TrainState(update=3)
    assert (state.last_update(9), state.schedule_position(4, updates=9)) == (9, 4.0)


def test_long_first_validations_do_not_shorten_the_plan():
    plan = TimePlan(updates=100, validation_seconds=1.0, final_share=2.0)
    config = replace(CONFIG, updates=100, validate_every=20)
    early = plan.replan(20, config=config, left=86.0, update_seconds=1.0, validation_seconds=50.0)
    late = plan.replan(60, config=config, left=86.0, update_seconds=1.0, validation_seconds=8.0)

    assert early.updates == 20 + 80, "four validations and the final evaluation take 6 seconds"
    assert late.updates == 60 + (86 - 8 * 4)


@pytest.mark.parametrize("text", ["40", "m", "0s", "1m30h", "-5m", "1.5h", "40 m"])
def test_a_wrong_duration_is_refused(text: str):
    with pytest.raises(ValueError, match=r'train.time must be a duration such as "90s"'):
        parse_duration(text)
