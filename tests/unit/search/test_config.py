"""What is asked of search: values that cannot be searched with are refused by name."""

import math

import pytest

from transduce.search.config import UNCONSTRAINED, DecodingConstraints, SamplingConfig, SearchConfig
from transduce.search.hypothesis import length_penalty


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"temperature": float("nan")}, "temperature must be above 0"),
        ({"top_k": -1}, "top-k must not be negative"),
        ({"top_p": 0.0}, "top-p must be above 0"),
        ({"top_p": 1.5}, "top-p must be above 0"),
        ({"seed": -1}, "seed must not be negative"),
    ],
)
def test_a_drawing_that_cannot_be_is_refused(setting: dict[str, float], message: str):
    with pytest.raises(ValueError, match=message):
        SamplingConfig(**setting)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"no_repeat": -1}, "no-repeat must not be negative"),
        ({"no_repeat": 2**63}, "no-repeat must be at most 10,000, not 9223372036854775808"),
        ({"min_length": -1}, "min-length must not be negative"),
        ({"min_length": 3, "max_length": 3}, "max-length must be above min-length"),
        ({"max_length": 0}, "max-length must be above min-length"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused(setting: dict[str, int], message: str):
    with pytest.raises(ValueError, match=message):
        DecodingConstraints(**setting)


def test_an_exponent_whose_penalty_is_no_number_is_refused():
    assert length_penalty(1_000_000, SearchConfig(alpha=50.0).alpha) < math.inf
    with pytest.raises(ValueError, match=r"search\.alpha must be at most 50, not 400"):
        SearchConfig(alpha=400.0)


def test_the_limit_is_the_models_until_one_is_wished():
    assert UNCONSTRAINED.limit(7) == 7
    assert DecodingConstraints(max_length=5).limit(7) == 5
