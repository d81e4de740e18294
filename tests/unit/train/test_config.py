"""The regime of training: what is allowed, and what a person reads when it is not."""

import re
from dataclasses import replace

import pytest

from transduce.train.config import TrainConfig


@pytest.mark.parametrize(
    "field", ["updates", "warmup", "validate_every", "average_checkpoints", "log_every"]
)
def test_a_count_below_one_is_refused_by_name(field: str):
    with pytest.raises(ValueError, match=rf"^train\.{field} must be at least 1, not 0$"):
        replace(TrainConfig(), **{field: 0})


@pytest.mark.parametrize("field", ["patience", "intra_op_threads", "seed", "keep_checkpoints"])
def test_a_negative_number_is_refused_by_name(field: str):
    with pytest.raises(ValueError, match=rf"^train\.{field} must not be negative, not -1$"):
        replace(TrainConfig(), **{field: -1})


def test_a_seed_of_more_than_64_bits_is_refused():
    assert TrainConfig(seed=2**64 - 1).seed
    with pytest.raises(ValueError, match=r"^train\.seed must be below 2\*\*64, not \d+$"):
        TrainConfig(seed=2**64)


def test_a_negative_weight_decay_is_refused():
    with pytest.raises(ValueError, match=r"^train\.weight_decay must not be negative, not -0\.5$"):
        TrainConfig(weight_decay=-0.5)


@pytest.mark.parametrize("value", [-0.1, 1.0])
@pytest.mark.parametrize("field", ["label_smoothing", "beta1", "beta2"])
def test_a_share_outside_its_range_is_refused(field: str, value: float):
    with pytest.raises(ValueError, match=rf"^train\.{field} must be in \[0, 1\), not {value}$"):
        replace(TrainConfig(), **{field: value})


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"optimizer": "muon"}, 'train.optimizer "muon"'), ({"ema": 0.9}, "train.ema 0.9")],
)
def test_what_needs_whole_weights_is_refused_where_they_are_shared_out(
    settings: dict[str, str | float], named: str
):
    with pytest.raises(ValueError, match=rf"^{re.escape(named)} needs unsharded weights: .* false"):
        replace(TrainConfig(fsdp=True), **settings)


@pytest.mark.parametrize("field", ["epsilon", "learning_rate", "muon_learning_rate"])
def test_a_rate_of_nothing_is_refused(field: str):
    with pytest.raises(ValueError, match=rf"^train\.{field} must be above 0, not 0\.0$"):
        replace(TrainConfig(), **{field: 0.0})


PEAKED = ("linear", "cosine", "constant", "wsd")


@pytest.mark.parametrize("schedule", PEAKED)
def test_the_papers_factor_is_refused_as_a_peak_rate(schedule: str):
    with pytest.raises(
        ValueError,
        match=rf'^train\.learning_rate under train\.schedule "{schedule}" is the peak, .* 1\.0$',
    ):
        TrainConfig(schedule=schedule, warmup=7, updates=53)


def test_a_peak_rate_is_refused_as_the_papers_factor():
    with pytest.raises(
        ValueError,
        match=r'^train\.learning_rate under train\.schedule "paper" is a factor .*not 0\.002$',
    ):
        TrainConfig(learning_rate=0.002)


@pytest.mark.parametrize("warmup", [7, 8])
@pytest.mark.parametrize("schedule", PEAKED)
def test_a_warmup_must_end_before_training_does(schedule: str, warmup: int):
    with pytest.raises(
        ValueError, match=rf"^train\.warmup must be below train\.updates .*: {warmup} .* 7$"
    ):
        TrainConfig(schedule=schedule, learning_rate=0.001, warmup=warmup, updates=7, decay=0.1)


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.2, float("nan")])
def test_a_final_descent_that_is_no_share_is_refused(decay: float):
    with pytest.raises(ValueError, match=rf"^train\.decay must be above 0 .*, not {decay}$"):
        TrainConfig(decay=decay)


def test_warmup_and_final_descent_must_fit_into_training():
    assert (
        TrainConfig(
            schedule="wsd", learning_rate=0.001, updates=50, warmup=30, decay=0.4
        ).decay_updates
        == 20
    )

    with pytest.raises(
        ValueError, match=r"^train\.warmup 31 and the 20 updates of train\.decay 0\.4 .* 50: "
    ):
        TrainConfig(schedule="wsd", learning_rate=0.001, updates=50, warmup=31, decay=0.4)


def test_a_final_descent_has_an_update_at_least():
    assert TrainConfig(updates=7, decay=0.01).decay_updates == 1


def test_the_papers_warmup_may_outlast_a_short_run():
    assert TrainConfig(updates=10).warmup == 4000


def test_bfloat16_is_refused_where_weights_are_shared_out():
    with pytest.raises(
        ValueError, match=r'^train\.precision "bfloat16" needs unsharded weights: .* to "float32"$'
    ):
        TrainConfig(fsdp=True, precision="bfloat16")
