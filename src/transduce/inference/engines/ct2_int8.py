"""Weights in 8 bits, such that no processor cuts their products off.

CTranslate2 scales each row of a matrix until its largest weight is 127 (a column is one number of
what is multiplied; those numbers are brought to -127...127 as it computes). x86 processors
without VNNI then move those numbers up to 1...255, multiply two neighbours at a time, and add the
two products in 16 bits. Their sum may be 2 x 255 x 127 = 64,770, 16 bits end at 32,767, and what
is above is cut off without a word: the translation is another one, and worse.

So a row is scaled until **two neighbours of one sign** come to 128, which is all that fits:
255 x 128 = 32,640. Weights are seldom large side by side, so most rows keep 100 of 127 levels,
where 64 would be left to weights that were each held to one half. The same folder is right on any
processor, and as quick as before.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int8
from torch import Tensor
from torch.nn import functional as F

ROOM = 128
"""Two neighbours of one sign have it together: 255 times as much still fits into 16 bits."""

_NOTHING = 1e-20  # a row below it is zero: a scale is a number that single precision holds


class Quantized(NamedTuple):
    """A matrix as CTranslate2 stores it: row r is `weight[r] / scale[r]`."""

    weight: Int8[Tensor, "rows columns"]
    scale: Float[Tensor, " rows"]


def quantized(weight: Float[Tensor, "rows columns"]) -> Quantized:
    """Round a matrix to 8 bits, each row with a scale of its own.

    >>> quantized(torch.tensor([[3.0, -3.0, 1.0], [2.0, 1.0, 0.0]])).weight.tolist()
    [[127, -127, 42], [85, 42, 0]]
    """
    pairs = F.pad(weight, (0, weight.size(1) % 2)).unflatten(1, (-1, 2))
    largest = torch.maximum(pairs.clamp_min(0).sum(2), -pairs.clamp_max(0).sum(2)).amax(1)
    # Each of two numbers may be rounded up by a half, so together they are scaled to one less.
    scale = torch.where(largest < _NOTHING, 1.0, (ROOM - 1) / largest)
    return Quantized((weight * scale[:, None]).round().to(torch.int8), scale)
