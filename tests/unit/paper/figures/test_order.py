"""Input exchanged, output exchanged: what knows the order."""

from transduce.paper.figures.positions import measure_order


def test_an_encoder_without_positions_is_equivariant():
    plain, sinusoid, learned, decoder = measure_order(permutations=3).stacks

    assert plain.error < 1e-5
    assert min(sinusoid.error, learned.error, decoder.error) > 0.05
