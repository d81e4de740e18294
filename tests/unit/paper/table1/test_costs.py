"""Fits and crossings on numbers whose answer is known."""

import time

import pytest

from transduce.paper.table1.complexity import crossing, exponent, measure_seconds


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
