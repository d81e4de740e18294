"""Rates: the departures and the edges. Equation (3) itself is held to the paper in tests/paper."""

import math
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from transduce.train.config import TrainConfig
from transduce.train.optimizer import learning_rates, paper_rate, schedule_share
from transduce.train.time_plan import TimePlan


def test_the_first_update_of_a_plan_has_the_papers_first_rate():
    position = TimePlan(updates=49).schedule_position(1, end=49)
    config = TrainConfig(warmup=97)

    assert position < 1, "by rounding"
    first, planned = (learning_rates(n, config=config, d_model=64) for n in (1, position))
    assert planned == first


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


def shares(
    schedule: Literal["linear", "cosine", "constant", "wsd"], *, updates: int = 53
) -> list[float]:
    config = TrainConfig(
        schedule=schedule, updates=updates, warmup=7, decay=13 / 53, learning_rate=0.003
    )
    return [schedule_share(update, config) for update in range(1, updates + 1)]


def test_the_linear_share_peaks_at_the_end_of_warmup():
    rates = shares("linear")

    assert rates.index(max(rates)) == 6
    assert max(rates) == 1.0


def test_the_linear_share_falls_by_equal_amounts_and_still_learns_at_the_last():
    rates = shares("linear")[6:]

    assert [a - b for a, b in pairwise(rates)] == pytest.approx([1 / 47] * 46)
    assert rates[-1] == pytest.approx(1 / 47)


def test_the_cosine_share_is_half_a_wave():
    rates = shares("cosine", updates=52)[6:]

    waves = [(1 + math.cos(math.pi * step / 46)) / 2 for step in range(46)]
    assert rates == pytest.approx(waves)


def test_the_level_share_falls_at_the_end_alone():
    rates = shares("wsd")

    assert rates[6:40] == [1.0] * 34
    assert [a - b for a, b in pairwise(rates[39:])] == pytest.approx([1 / 14] * 13)


def test_the_constant_share_stays():
    assert set(shares("constant")[6:]) == {1.0}


PEAKED = ("linear", "cosine", "constant", "wsd")


@st.composite
def regimes(draw: st.DrawFn) -> dict[str, Any]:
    """Settings of any regime with a peak of its own.

    They are checked outside of the strategy: beartype draws random numbers.
    """
    schedule = draw(st.sampled_from(PEAKED))
    updates = draw(st.integers(4, 90))
    warmup = draw(st.integers(1, updates - 1))
    decay = draw(st.floats(0.01, 0.99))
    assume(schedule != "wsd" or warmup + max(1, round(decay * updates)) <= updates)
    return {
        "schedule": schedule,
        "updates": updates,
        "warmup": warmup,
        "decay": decay,
        "learning_rate": 0.003,
        "muon_learning_rate": 0.02,
    }


def curve(config: TrainConfig) -> list[float]:
    return [learning_rates(n, config=config, d_model=64)[0] for n in range(1, config.updates + 1)]


@given(regime=regimes())
def test_every_schedule_rises_in_a_straight_line_to_its_peak(regime: dict[str, Any]):
    config = TrainConfig(**regime)
    rates = curve(config)

    assert rates[config.warmup - 1] == max(rates) == 0.003
    line = [0.003 * update / config.warmup for update in range(1, config.warmup + 1)]
    assert rates[: config.warmup] == pytest.approx(line)


@given(regime=regimes())
def test_no_schedule_rises_again(regime: dict[str, Any]):
    config = TrainConfig(**regime)
    after = curve(config)[config.warmup - 1 :]

    assert all(a >= b > 0 for a, b in pairwise(after))


@given(regime=regimes())
def test_every_schedule_but_the_constant_one_ends_near_zero_and_still_learns(
    regime: dict[str, Any],
):
    config = TrainConfig(**regime)
    last = curve(config)[-1] / 0.003
    falls = config.decay_updates if config.schedule == "wsd" else config.updates - config.warmup

    if config.schedule == "constant":
        assert last == 1.0
    else:
        assert 0 < last <= 1 / (falls + 1) + 1e-12


@given(regime=regimes())
def test_both_rates_move_alike(regime: dict[str, Any]):
    config = TrainConfig(**regime)
    for update in (1, config.warmup, config.updates):
        adam, matrix = learning_rates(update, config=config, d_model=64)

        assert matrix / 0.02 == pytest.approx(adam / 0.003)


@pytest.mark.parametrize("update", [3, 97, 5_003])
def test_under_the_papers_schedule_the_matrices_rate_has_the_papers_shape(update: int):
    config = TrainConfig(learning_rate=2.0, muon_learning_rate=0.02, warmup=97)
    adam, matrix = learning_rates(update, config=config, d_model=64)
    peak, matrix_peak = learning_rates(97, config=config, d_model=64)

    assert matrix_peak == pytest.approx(0.02)
    assert matrix / matrix_peak == pytest.approx(adam / peak)
