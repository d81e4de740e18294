"""The softmax of short rows, which a CPU can afford.

torch's takes a vector of the processor at a time. For a row that is shorter than one vector it
takes up to ten times as long as for one that fills it, and rows in bfloat16 are half as long again.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

LANES = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8
"""Numbers in float32 that fill a vector of this processor."""


def softmax(
    scores: Float[Tensor, "*rows memory"],
) -> Float[Tensor, "*rows memory"]:
    """Along the last dimension; worked out in float32 where scores are of lower precision."""
    length, exact = scores.size(-1), torch.promote_types(scores.dtype, torch.float32)
    wide = scores.to(exact)
    if length < LANES:
        wide = F.pad(wide, (0, LANES - length), value=-math.inf)
    return wide.softmax(-1)[..., :length].to(scores.dtype)
