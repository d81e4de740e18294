"""The two models of all systems, and the arithmetic per target token. Does not import torch."""

from typing import NamedTuple

DROPOUT = SMOOTHING = 0.1
BETAS, EPSILON = (0.9, 0.98), 1e-9
RATE = 1e-4
TOKENS = 4096
"""Approximate target tokens per update."""


class Shape(NamedTuple):
    """A Transformer, and the default number of updates to time."""

    layers: int
    """Layers of the encoder, and of the decoder."""
    d_model: int
    d_ff: int
    heads: int
    warm: int
    """Warm-up updates of the toolkits, not timed; the loops pass the timed batches before."""
    updates: int
    """Timed updates; a multiple of `warm`, the reporting interval of the toolkits."""


SHAPES = {
    "T": Shape(layers=4, d_model=128, d_ff=256, heads=4, warm=10, updates=30),
    "S": Shape(layers=6, d_model=512, d_ff=2048, heads=8, warm=1, updates=2),
}


def flops(shape: Shape, *, vocabulary: int) -> int:
    """Count the floating-point operations of training per target token (and source token).

    Counts a multiplication and an addition for each weight: four projections per attention, two of
    a feed-forward network, and the output matrix. The backward pass has two products for each of
    the forward pass. Leaves out attention scores (a few percent at 14 tokens per sentence),
    softmax, normalization, dropout and Adam.

    >>> flops(SHAPES["T"], vocabulary=10_000)
    15544320
    """
    attention, feed_forward = 4 * shape.d_model**2, 2 * shape.d_model * shape.d_ff
    encoder, decoder = attention + feed_forward, 2 * attention + feed_forward
    weights = shape.layers * (encoder + decoder) + vocabulary * shape.d_model
    return 3 * 2 * weights
