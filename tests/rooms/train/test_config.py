"""The regime of training: what is allowed, and what a person reads when it is not."""

from dataclasses import replace

import pytest

from transduce.train.config import TrainConfig


@pytest.mark.parametrize("field", ["updates", "warmup", "validate_every", "average", "log_every"])
def test_a_count_below_one_is_refused_by_name(field: str):
    with pytest.raises(ValueError, match=rf"^train\.{field} must be at least 1, not 0$"):
        replace(TrainConfig(), **{field: 0})


@pytest.mark.parametrize("field", ["patience", "threads", "seed"])
def test_a_negative_number_is_refused_by_name(field: str):
    with pytest.raises(ValueError, match=rf"^train\.{field} must not be negative, not -1$"):
        replace(TrainConfig(), **{field: -1})


def test_a_negative_weight_decay_is_refused():
    with pytest.raises(ValueError, match=r"^train\.weight_decay must not be negative, not -0\.5$"):
        TrainConfig(weight_decay=-0.5)


@pytest.mark.parametrize("value", [-0.1, 1.0])
@pytest.mark.parametrize("field", ["label_smoothing", "beta1", "beta2"])
def test_a_share_outside_its_range_is_refused(field: str, value: float):
    with pytest.raises(ValueError, match=rf"^train\.{field} must be in \[0, 1\), not {value}$"):
        replace(TrainConfig(), **{field: value})


@pytest.mark.parametrize("field", ["epsilon", "rate", "matrix_rate"])
def test_a_rate_of_nothing_is_refused(field: str):
    with pytest.raises(ValueError, match=rf"^train\.{field} must be above 0, not 0\.0$"):
        replace(TrainConfig(), **{field: 0.0})


def test_the_papers_factor_is_refused_as_a_peak_rate():
    with pytest.raises(ValueError, match=r"^train\.rate is the peak .*\"linear\""):
        TrainConfig(schedule="linear")


def test_a_linear_warmup_must_end_before_training_does():
    with pytest.raises(
        ValueError, match=r"^train\.warmup must not exceed train\.updates .*: 8 > 7"
    ):
        TrainConfig(schedule="linear", rate=0.001, warmup=8, updates=7)


def test_the_papers_warmup_may_outlast_a_short_run():
    assert TrainConfig(updates=10).warmup == 4000
