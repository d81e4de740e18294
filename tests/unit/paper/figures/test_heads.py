"""One head against many: what is counted, and what is learned."""

import pytest

from transduce.paper.figures.lookups import measure_heads
from transduce.paper.figures.run import FIGURES, finding


@pytest.mark.slow
def test_one_head_cannot_look_at_two_places_at_once():
    """In 400 updates eight heads learn both, and one head does not."""
    single, eight = measure_heads((1, 8), d_model=64, length=11, seeds=1, repeats=1).answers

    assert eight.both_right[0] > 0.9
    assert single.both_right[0] < 0.5


def test_the_same_seeds_answer_the_same():
    first, second = (
        measure_heads((2,), d_model=16, length=7, seeds=1, updates=3, repeats=1).answers
        for _ in range(2)
    )

    assert first == second


def test_the_figure_says_that_the_operations_are_the_same():
    numbers = measure_heads(**FIGURES["heads"].quick)

    assert "need the same number of operations" in finding("heads", numbers)
