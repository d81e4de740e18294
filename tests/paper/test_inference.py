"""Section 6.1: how the paper translated."""

import pytest

from transduce.search.config import SearchConfig
from transduce.search.hypothesis import length_penalty
from transduce.train.config import TrainConfig


def test_the_beam_is_four_wide_and_alpha_is_six_tenths():
    assert (SearchConfig().beam, SearchConfig().alpha) == (4, 0.6)


def test_a_translation_may_be_50_pieces_longer_than_its_source():
    assert SearchConfig().limit(17) == 67


@pytest.mark.parametrize(("length", "penalty"), [(1, 1.0), (7, 2**0.6), (19, 4**0.6)])
def test_the_length_penalty_is_that_of_gnmt(length: int, penalty: float):
    assert length_penalty(length, 0.6) == pytest.approx(penalty)


def test_the_last_five_checkpoints_are_averaged():
    assert TrainConfig().average_checkpoints == 5
