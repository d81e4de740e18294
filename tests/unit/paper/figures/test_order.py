"""Input exchanged, output exchanged: what knows the order."""

from tests.conftest import SHAPE

from transduce.paper.figures.positions import measure_order


def test_an_encoder_without_positions_is_equivariant():
    plain, sinusoid, learned, decoder = measure_order(SHAPE, length=11, permutations=3).stacks

    assert plain.error < 1e-5
    assert min(sinusoid.error, learned.error, decoder.error) > 0.05
