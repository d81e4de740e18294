"""metrics.jsonl: one line a fact, none twice; what was skipped, and what rose."""

import json
import math
import random
from pathlib import Path

import pytest
import torch

from transduce.train.checkpoint import TrainState
from transduce.train.config import TrainConfig
from transduce.train.distributed import SINGLE_PROCESS, Process
from transduce.train.events import Event, LogMessage, Progress, Validated
from transduce.train.metrics_log import MetricsLog
from transduce.train.step import StepResult
from transduce.train.time_plan import TimePlan

FOUND = Validated(
    update=4, loss=1.5, perplexity=math.exp(1.5), bleu=12.5, signature="a signature", best=True
)


def step_result(nats: float, tokens: int) -> StepResult:
    return StepResult(loss_sum=torch.tensor(nats), tokens=tokens, grad_norm=torch.tensor(0.25))


def lines(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def begin(
    path: Path,
    *,
    update: int = 0,
    events: list[Event] | None = None,
    process: Process = SINGLE_PROCESS,
) -> MetricsLog:
    return MetricsLog(
        path,
        config=TrainConfig(updates=7, log_every=3),
        state=TrainState(update=update, seconds=100.0),
        on_event=([] if events is None else events).append,
        process=process,
    )


def test_a_line_comes_every_so_many_updates_and_at_the_last(tmp_path: Path):
    log = begin(tmp_path / "metrics.jsonl")

    for update in range(1, 8):
        log.log_update(TrainState(update=update), step_result(10.0, 5), rate=0.5)

    assert [line["update"] for line in lines(tmp_path / "metrics.jsonl")] == [3, 6, 7]


def test_the_loss_of_a_line_is_the_mean_over_all_its_tokens(tmp_path: Path):
    log = begin(tmp_path / "metrics.jsonl")

    for update, (nats, tokens) in enumerate([(10.0, 2), (20.0, 3), (3.0, 6)], start=1):
        log.log_update(TrainState(update=update), step_result(nats, tokens), rate=0.5)

    assert lines(tmp_path / "metrics.jsonl")[0]["loss"] == 3.0


def test_the_watcher_is_told_what_the_file_says(tmp_path: Path):
    events: list[Event] = []
    log = begin(tmp_path / "metrics.jsonl", events=events)

    for update in range(1, 4):
        log.log_update(TrainState(update=update, epoch=4), step_result(10.0, 5), rate=0.5)

    (event,) = events
    assert isinstance(event, Progress)
    assert (event.update, event.updates, event.epoch) == (3, 7, 5)
    assert (event.loss, event.learning_rate, event.grad_norm) == (2.0, 0.5, 0.25)


def test_the_time_left_is_for_the_updates_left(tmp_path: Path):
    events: list[Event] = []
    log = begin(tmp_path / "metrics.jsonl", events=events)

    for update in range(1, 8):
        log.log_update(TrainState(update=update), step_result(10.0, 5), rate=0.5)

    left = [event.seconds_left for event in events if isinstance(event, Progress)]
    assert left[0] > 0
    assert left[-1] == 0


def test_the_first_estimate_is_until_the_last_update_of_the_plan(tmp_path: Path):
    events: list[Event] = []
    log = begin(tmp_path / "metrics.jsonl", events=events)

    for update in (8, 10):  # beyond the seven of the recipe
        log._since -= 50.0  # as if the update had taken so long
        state = TrainState(update=update, time_plan=TimePlan(updates=12))
        log.log_update(state, step_result(10.0, 5), rate=0.5)

    text = "50 s an update: about 1 min 40 s left, validations not counted"
    assert events == [LogMessage(text=text)]


def test_a_line_of_several_processes_says_their_number_and_the_speed_of_each(tmp_path: Path):
    log = begin(tmp_path / "metrics.jsonl", process=Process(world_size=4))

    for update in range(1, 4):
        log.log_update(TrainState(update=update), step_result(10.0, 5), rate=0.5)

    (line,) = lines(tmp_path / "metrics.jsonl")
    assert line["processes"] == 4
    assert line["tokens_per_second_each"] == pytest.approx(line["tokens_per_second"] / 4, abs=0.1)


def test_time_that_processes_wait_for_each_other_is_not_time_at_work(tmp_path: Path):
    events: list[Event] = []
    process = Process(world_size=2, communication_seconds=50.0)
    log = begin(tmp_path / "metrics.jsonl", events=events, process=process)

    log._since -= 1_000.0  # as if the updates had taken so long
    process.communication_seconds += 250.0
    for update in range(1, 7):
        log.log_update(TrainState(update=update), step_result(10.0, 5), rate=0.5)

    shares = [event.compute_share for event in events if isinstance(event, Progress)]
    assert shares == [pytest.approx(0.75, abs=0.01), 1.0]


def test_a_line_of_one_process_says_nothing_of_others(tmp_path: Path):
    log = begin(tmp_path / "metrics.jsonl")

    for update in range(1, 4):
        log.log_update(TrainState(update=update), step_result(10.0, 5), rate=0.5)

    (line,) = lines(tmp_path / "metrics.jsonl")
    assert {"processes", "tokens_per_second_each", "working"}.isdisjoint(line)


def test_only_the_first_process_touches_the_file(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"update": 3}\n{"update": 4}\n')

    log = begin(path, update=3, process=Process(rank=1, world_size=2))
    log.log_validation(TrainState(update=4), FOUND)

    assert path.read_text() == '{"update": 3}\n{"update": 4}\n'


def skipped(log: MetricsLog, update: int, *, in_a_row: int = 1) -> None:
    done = StepResult(
        loss_sum=torch.tensor(math.nan), tokens=5, grad_norm=torch.tensor(math.inf), is_finite=False
    )
    state = TrainState(update=update, skipped=3, skipped_in_a_row=in_a_row)
    log.log_skipped(state, done, lines=[11, 13])
    log.log_update(state, done, rate=0.5)


def test_a_skipped_update_is_written_and_told_with_its_lines(tmp_path: Path):
    events: list[Event] = []
    log = begin(tmp_path / "metrics.jsonl", events=events)

    skipped(log, 1)

    (line,) = lines(tmp_path / "metrics.jsonl")
    assert (line["update"], line["skipped"], line["lines"]) == (1, 3, [11, 13])
    assert events == [
        LogMessage(text="update 1 is skipped: loss nan, gradient inf, training lines 11, 13")
    ]


def test_the_loss_of_a_line_leaves_skipped_updates_out(tmp_path: Path):
    log = begin(tmp_path / "metrics.jsonl")

    skipped(log, 1)
    for update in (2, 3):
        log.log_update(TrainState(update=update), step_result(10.0, 5), rate=0.5)

    assert lines(tmp_path / "metrics.jsonl")[-1]["loss"] == 2.0


def test_a_line_all_of_whose_updates_were_skipped_is_left_out(tmp_path: Path):
    log = begin(tmp_path / "metrics.jsonl")

    for update in (1, 2, 3):
        skipped(log, update)

    assert all("loss" not in line for line in lines(tmp_path / "metrics.jsonl"))


def test_a_line_after_a_skipped_update_has_the_gradient_of_the_one_before(tmp_path: Path):
    events: list[Event] = []
    log = begin(tmp_path / "metrics.jsonl", events=events)

    for update in (1, 2):
        log.log_update(TrainState(update=update), step_result(10.0, 5), rate=0.5)
    skipped(log, 3)

    assert lines(tmp_path / "metrics.jsonl")[-1]["grad_norm"] == 0.25
    assert isinstance(event := events[-1], Progress)
    assert event.grad_norm == 0.25, "for trackers"


def test_too_many_skipped_in_a_row_stop_the_run_with_advice(tmp_path: Path):
    log = begin(tmp_path / "metrics.jsonl")

    skipped(log, 1, in_a_row=10)

    with pytest.raises(
        FloatingPointError, match=r"update 2 \(.*lines 11, 13\): lower train\.learning_rate"
    ):
        skipped(log, 2, in_a_row=11)


def test_a_loss_that_jumps_up_is_told_of(tmp_path: Path):
    events: list[Event] = []
    log = begin(tmp_path / "metrics.jsonl", events=events)

    for update in range(1, 8):
        log.log_update(
            TrainState(update=update), step_result(20.0 if update > 3 else 10.0, 5), rate=0.5
        )

    spikes = [event.text for event in events if isinstance(event, LogMessage)]
    assert (
        spikes[0]
        == "the loss rose to 4.000 by update 6, from 2.000: is train.learning_rate too high?"
    )


def spikes(tmp_path: Path, *losses: float) -> list[str]:
    """What is told of lines with these losses."""
    events: list[Event] = []
    log = begin(tmp_path / "metrics.jsonl", events=events)
    for line, loss in enumerate(losses):
        for update in range(3 * line + 1, 3 * line + 4):
            log.log_update(TrainState(update=update), step_result(5 * loss, 5), rate=0.5)
    return [event.text for event in events if isinstance(event, LogMessage)]


def test_a_loss_that_has_nearly_nothing_to_fall_may_double(tmp_path: Path):
    assert spikes(tmp_path, 0.071, 0.129, 0.36) == []


def test_a_loss_that_rises_by_less_than_half_is_not_told_of(tmp_path: Path):
    assert spikes(tmp_path, 4.0, 5.9) == []


def test_a_small_loss_that_rises_far_is_told_of(tmp_path: Path):
    assert len(spikes(tmp_path, 0.071, 0.38)) == 1


def test_a_validation_is_written_with_its_signature(tmp_path: Path):
    log = begin(tmp_path / "metrics.jsonl")

    log.log_validation(TrainState(update=4, tokens=83), FOUND)

    (line,) = lines(tmp_path / "metrics.jsonl")
    assert (line["validation_loss"], line["perplexity"]) == (1.5, 4.4817)
    assert (line["bleu"], line["signature"], line["tokens"]) == (12.5, "a signature", 83)


def test_validation_does_not_count_as_training_speed(tmp_path: Path):
    events: list[Event] = []
    log = begin(tmp_path / "metrics.jsonl", events=events)

    log.pause_clock()
    log._since -= 1_000.0  # as if what follows had taken so long
    log._paused -= 1_000.0
    log.log_validation(TrainState(update=2), FOUND)
    log.resume_clock()
    for update in range(1, 4):
        log.log_update(TrainState(update=update), step_result(10.0, 5), rate=0.5)

    speeds = [event.tokens_per_second for event in events if isinstance(event, Progress)]
    assert speeds[0] > 15


def test_seconds_go_on_from_the_last_sitting(tmp_path: Path):
    assert begin(tmp_path / "metrics.jsonl").seconds() >= 100.0


def test_going_on_forgets_lines_after_the_checkpoint(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"update": 3}\n{"update": 4}\n{"update": 6}\n')

    begin(path, update=4)

    assert [line["update"] for line in lines(path)] == [3, 4]


def test_going_on_forgets_a_torn_last_line(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"update": 3}\n{"upd')

    begin(path, update=4)

    assert path.read_text() == '{"update": 3}\n'


@pytest.mark.parametrize(
    "damage", [b'{"updat\xe5": 30}', b'{"update": "30"}', b"7", b'{"update": 90}']
)
def test_a_damaged_line_is_left_out_and_the_rest_kept(tmp_path: Path, damage: bytes):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"update": 20}\n' + damage + b'\n{"update": 40}\n{"update": 50}\n')
    events: list[Event] = []

    begin(path, update=40, events=events)

    assert [line["update"] for line in lines(path)] == [20, 40]
    message = f"{path}: 1 damaged line of the log left out; training is unaffected"
    assert events == [LogMessage(message)]


def test_no_flipped_bit_costs_another_line_or_stops_a_resume(tmp_path: Path):
    path, draw = tmp_path / "metrics.jsonl", random.Random(3)
    lines = [b'{"update": %d, "loss": 2.5, "best": true}\n' % update for update in (10, 20, 30)]
    for _ in range(150):
        place, bit = draw.randrange(len(lines[1])), draw.randrange(8)
        flipped = bytearray(lines[1])
        flipped[place] ^= 1 << bit
        path.write_bytes(lines[0] + flipped + lines[2])
        events: list[Event] = []

        begin(path, update=30, events=events)

        kept = path.read_bytes()
        assert kept.startswith(lines[0])
        assert kept.endswith(lines[2]) or place == len(lines[1]) - 1  # two lines in one
        assert events or kept == lines[0] + flipped + lines[2]


def test_starting_over_starts_an_empty_file(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"update": 3}\n')

    begin(path)

    assert path.read_text() == ""
