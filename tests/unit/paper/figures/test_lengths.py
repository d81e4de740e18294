"""Places beyond training, with either encoding."""

import pytest

from transduce.paper.figures.positions import measure_lengths


def test_every_place_of_twice_the_length_is_tested():
    result = measure_lengths(trained=7, seeds=1, updates=2)

    assert [test.positions for test in result.tests] == ["sinusoid", "learned"]
    assert {len(test.by_place) for test in result.tests} == {14}


def test_the_same_seeds_learn_the_same():
    first, second = (measure_lengths(trained=5, seeds=1, updates=2) for _ in range(2))

    assert first == second


@pytest.mark.slow
def test_learned_positions_know_nothing_of_places_they_never_had():
    (learned,) = measure_lengths(seeds=1).of("learned")

    assert learned.within > 0.9
    assert learned.beyond < 0.15
