"""The softmax of short rows, which a CPU can afford.

torch's takes a vector of the processor at a time. For a row that is shorter than one vector it
takes longer than for one that fills it, and a vector holds twice as many bfloat16.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

LANES = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8
"""Numbers in float32 that fill a vector of this processor."""

FEW = 512
"""Scores up to which torch's own is done before ours has begun."""


def softmax(
    scores: Float[Tensor, "*rows memory"],
) -> Float[Tensor, "*rows memory"]:
    """Along the last dimension. Short rows of bfloat16 are worked out in float32."""
    length = scores.size(-1)
    short = scores.device.type == "cpu" and length * scores.element_size() < LANES * 4
    if not short or scores.numel() <= FEW:
        return scores.softmax(-1)
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if length < LANES:
        wide = F.pad(wide, (0, LANES - length), value=-math.inf)
    return wide.softmax(-1)[..., :length].to(scores.dtype)
