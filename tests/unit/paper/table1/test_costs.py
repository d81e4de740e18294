"""Fits and crossings on numbers whose answer is known."""

import time
from collections.abc import Callable, Sequence

import pytest
import torch

from transduce.paper.table1 import complexity
from transduce.paper.table1.complexity import QUICK, crossing, exponent, measure_seconds


def test_an_exponent_is_that_of_a_power():
    assert exponent([3, 7, 19, 31], [5 * n**1.5 for n in (3, 7, 19, 31)]) == pytest.approx(1.5)


def test_an_exponent_is_fitted_by_least_squares():
    """Logarithms 0, 1, 2 and values 0, 1, 4: the slope is 2."""
    assert exponent([1, 10, 100], [1, 10, 10_000]) == pytest.approx(2.0)


def test_the_crossing_lies_where_the_lines_meet():
    lengths = [2, 8, 32, 128]

    assert crossing(lengths, [n * n for n in lengths], [20 * n for n in lengths]) == pytest.approx(
        20
    )


def test_what_is_never_dearer_does_not_cross():
    assert crossing([2, 8], [1.0, 2.0], [3.0, 4.0]) is None


def test_what_is_always_dearer_crosses_before_the_first():
    assert crossing([2, 8], [3.0, 4.0], [1.0, 2.0]) == 2.0


def test_of_two_jobs_the_slower_takes_longer():
    quick, slow = measure_seconds([lambda: sum(range(100)), lambda: sum(range(100_000))], rounds=2)

    assert 0 < quick < slow


def test_waiting_is_not_work():
    (taken,) = measure_seconds([lambda: time.sleep(0.01)], rounds=1)

    assert taken < 0.005


def test_the_wall_clock_counts_waiting():
    (taken,) = measure_seconds([lambda: time.sleep(0.01)], rounds=1, timer=time.perf_counter)

    assert taken > 0.009


def test_layers_are_timed_with_one_thread_and_with_two(monkeypatch: pytest.MonkeyPatch):
    """A layer "takes" as long as there are threads by the wall clock, and 5 seconds of CPU time."""

    def measure(jobs: Sequence[Callable[[], object]], *, rounds: int, timer=time.thread_time):
        on_the_wall = timer is time.perf_counter
        return [float(torch.get_num_threads()) if on_the_wall else 5.0 for _ in jobs]

    monkeypatch.setattr(complexity, "measure_seconds", measure)

    table = complexity.measure(QUICK, None, tell=lambda _: None)

    assert {(cost.with_1, cost.with_2) for cost in table.threaded} == {(1.0, 2.0)}
    assert {cost.seconds for cost in table.by_length} == {5.0}
