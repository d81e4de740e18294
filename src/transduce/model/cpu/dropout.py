"""Dropout (section 5.4) that a CPU can afford."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Zero each value with probability `p` in training and scale the rest by 1 / (1 - p).

    torch draws a double-precision Bernoulli variable per value on a CPU, which costs more than the
    layer around it. Here one 64-bit draw decides four values, so that `p` is met to within 2**-17.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return `x` with values dropped in training, `x` itself otherwise."""
        dropped = min(round(self.p * 2**16), 2**16 - 1)
        if not self.training or not dropped:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        levels = draws.view(torch.int16)[: x.numel()].view(x.shape)  # uniform in [-2**15, 2**15)
        first = dropped - 2**15  # the first level that is kept
        kept = levels.clamp_(first - 1, first).sub_(first - 1).to(x.dtype)
        scale = 2**16 / (2**16 - dropped)
        if x.dtype == torch.bfloat16:  # which the scale would be rounded to, by up to 0.4 %
            return x * kept * scale
        return x * kept.mul_(scale)
