"""What each attention looks at, read off equation (1)."""

from transduce.paper.figures.formulas import measure_masks


def test_padding_is_looked_at_by_nobody():
    result = measure_masks()

    for line in (*result.encoder, *result.cross):
        assert line == tuple(place < result.source_pieces for place in range(8))


def test_the_decoder_looks_at_itself_and_back():
    for row, line in enumerate(measure_masks().decoder):
        assert line == tuple(place <= row for place in range(6))
