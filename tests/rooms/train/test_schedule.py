"""Rates: the departures and the edges. Equation (3) itself is held to the paper in tests/paper."""

from itertools import pairwise

import pytest

from transduce.train.config import TrainConfig
from transduce.train.schedule import linear_share, paper_rate, rates


def test_the_rate_rises_in_a_straight_line():
    first, tenth = paper_rate(1, d_model=64, warmup=97), paper_rate(10, d_model=64, warmup=97)

    assert tenth == pytest.approx(10 * first)


def test_the_scale_multiplies_the_whole_curve():
    for update in (3, 97, 5_003):
        assert paper_rate(update, d_model=64, warmup=97, scale=2.5) == pytest.approx(
            2.5 * paper_rate(update, d_model=64, warmup=97)
        )


@pytest.mark.parametrize(("update", "warmup"), [(0, 1), (1, 0)])
def test_updates_count_from_one(update: int, warmup: int):
    with pytest.raises(ValueError, match="update and warmup count from 1"):
        paper_rate(update, d_model=64, warmup=warmup)


def test_the_linear_share_peaks_at_the_end_of_warmup():
    shares = [linear_share(update, updates=53, warmup=7) for update in range(1, 54)]

    assert shares.index(max(shares)) == 6
    assert max(shares) == 1.0


def test_the_linear_share_falls_by_equal_amounts_and_still_learns_at_the_last():
    shares = [linear_share(update, updates=53, warmup=7) for update in range(7, 54)]

    assert [a - b for a, b in pairwise(shares)] == pytest.approx([1 / 47] * 46)
    assert shares[-1] == pytest.approx(1 / 47)


def test_a_warmup_as_long_as_training_never_falls():
    assert linear_share(7, updates=7, warmup=7) == 1.0


def test_a_linear_schedule_moves_both_rates_alike():
    config = TrainConfig(schedule="linear", rate=0.004, matrix_rate=0.02, warmup=7, updates=53)

    adam, matrix = rates(3, config=config, d_model=64)

    assert (adam, matrix) == (pytest.approx(0.004 * 3 / 7), pytest.approx(0.02 * 3 / 7))


@pytest.mark.parametrize("update", [3, 97, 5_003])
def test_under_the_papers_schedule_the_matrices_rate_has_the_papers_shape(update: int):
    config = TrainConfig(rate=2.0, matrix_rate=0.02, warmup=97)
    adam, matrix = rates(update, config=config, d_model=64)
    peak, matrix_peak = rates(97, config=config, d_model=64)

    assert matrix_peak == pytest.approx(0.02)
    assert matrix / matrix_peak == pytest.approx(adam / peak)
