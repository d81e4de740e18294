"""The two models that all systems train, and the arithmetic of one target token. Free of torch."""

from typing import NamedTuple

DROPOUT = SMOOTHING = 0.1
BETAS, EPSILON = (0.9, 0.98), 1e-9
RATE = 1e-4
TOKENS = 4096
"""Target tokens of an update, about."""


class Shape(NamedTuple):
    """A Transformer, and how many of its updates are timed unless someone says so."""

    layers: int
    """Of the encoder, and again of the decoder."""
    d_model: int
    d_ff: int
    heads: int
    warm: int
    """Updates that are made first, and not timed."""
    updates: int
    """That are timed; a multiple of `warm`, as some toolkits report in such steps."""


SHAPES = {
    "T": Shape(layers=4, d_model=128, d_ff=256, heads=4, warm=10, updates=30),
    "S": Shape(layers=6, d_model=512, d_ff=2048, heads=8, warm=1, updates=2),
}


def flops(shape: Shape, *, vocabulary: int) -> int:
    """Floating-point operations that training needs for one target token and one source token.

    Counted are the products with weights: four projections an attention, the two maps of a
    feed-forward, and the output matrix, a multiplication and an addition for each weight. The
    backward pass makes two products for each one of the forward pass. Not counted are the scores of
    attention (a few per cent at 14 pieces a sentence), softmax, normalisation, dropout, Adam.

    >>> flops(SHAPES["T"], vocabulary=10_000)
    15544320
    """
    attention, feed_forward = 4 * shape.d_model**2, 2 * shape.d_model * shape.d_ff
    encoder, decoder = attention + feed_forward, 2 * attention + feed_forward
    weights = shape.layers * (encoder + decoder) + vocabulary * shape.d_model
    return 3 * 2 * weights
