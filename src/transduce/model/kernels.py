"""Faster equivalents of readable operations, mostly for CPUs: attention, softmax, dropout.

tests/parity holds each to its readable twin; benchmarks/kernels.py measures what each gains.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.local_attention import local_attention

WRITTEN_OUT_MAX_SCORES = 48 * 48
"""Scores per head (queries x memory) up to which a CPU takes the written-out equation (1).

The record (benchmarks/results/kernels) has it 1.10 times as fast as torch's fused kernel at 48
pieces and 0.90 times at 64."""

BFLOAT16_MAX_SCORES = 257 * 257
"""The same in training in bfloat16, for the longest sentences of the default limit, with EOS: it is
6.1 times as fast at 64 pieces and 2.3 times at 256, since the backward pass of torch's kernel is
slow. Longer ones keep that kernel, whose memory is linear in their length."""

LANES = 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8
"""Single-precision numbers per vector register of this processor."""

MIN_SCORES = 512
"""Scores up to which torch's softmax is faster than any preparation."""


def fastest_attention(
    queries: Float[Tensor, "batch heads query d_k"],
    keys: Float[Tensor, "batch heads memory d_k"],
    values: Float[Tensor, "batch heads memory d_v"],
    *,
    mask: Bool[Tensor, "#batch 1 #query memory"] | None,
    causal: bool,
    radius: int = 0,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads query d_v"]:
    """Equation (1) by the fastest kernel for this device and these lengths.

    Args:
        queries: Q.
        keys: K.
        values: V.
        mask: True where a query may attend; None allows all.
        causal: each position attends to itself and earlier ones only.
        radius: how far a query sees in restricted self-attention; 0 is unrestricted.
        dropout: probability with which a weight becomes zero; unrestricted attention only.
    """
    if radius:
        return local_attention(queries, keys, values, radius=radius, mask=mask, causal=causal)
    trained = queries.dtype == torch.bfloat16 and torch.is_grad_enabled()
    limit = BFLOAT16_MAX_SCORES if trained else WRITTEN_OUT_MAX_SCORES
    short = queries.size(2) * keys.size(2) <= limit
    # With dropout torch has no fused kernel on a CPU, and a slower draw.
    if queries.device.type == "cpu" and (short or dropout):
        return scaled_dot_product_attention_cpu(
            queries, keys, values, mask=mask, causal=causal, dropout=dropout
        )
    return F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=mask, is_causal=causal, dropout_p=dropout
    )


def scaled_dot_product_attention_cpu(
    queries: Float[Tensor, "batch heads query d_k"],
    keys: Float[Tensor, "batch heads memory d_k"],
    values: Float[Tensor, "batch heads memory d_v"],
    *,
    mask: Bool[Tensor, "#batch 1 #query memory"] | None = None,
    causal: bool = False,
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads query d_v"]:
    """Equation (1) as two batched products; `causal` excludes `mask`.

    Args: those of `fastest_attention`.
    """
    # Q is scaled, not QKᵀ: in half precision unscaled products could overflow. Heads are strided
    # views; batched products are fast on contiguous factors.
    scores = (queries.contiguous() * keys.size(-1) ** -0.5) @ keys.contiguous().mT
    # Masks are added: unlike `masked_fill`, whose backward pass writes the scores' gradient anew.
    if causal:
        ahead = torch.full(scores.shape[-2:], -math.inf, dtype=scores.dtype, device=scores.device)
        scores += ahead.triu_(1)
    elif mask is not None:
        if scores.dtype == torch.bfloat16:  # there torch is slow to add one short row to many
            mask = mask.expand(-1, -1, scores.size(-2), -1)
        allowed = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device)
        scores += allowed.masked_fill_(~mask, -math.inf)
    return drop(softmax(scores), dropout) @ values


def softmax(scores: Float[Tensor, "*rows memory"]) -> Float[Tensor, "*rows memory"]:
    """Softmax over the last dimension; short rows of bfloat16 are computed in float32."""
    # torch's takes a vector register at a time; a row shorter than one takes longer than a full
    # one, and a register holds twice as many bfloat16.
    length = scores.size(-1)
    short = scores.device.type == "cpu" and length * scores.element_size() < LANES * 4
    if not short or scores.numel() <= MIN_SCORES:
        return scores.softmax(-1)
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if length < LANES:
        wide = F.pad(wide, (0, LANES - length), value=-math.inf)  # padding gets no weight
    return wide.softmax(-1)[..., :length].to(scores.dtype)


class Dropout(nn.Module):
    """Zero each value with probability `p` in training and scale the rest by 1 / (1 - p).

    On a CPU `p` is exact to within 2**-17.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return `x` with values dropped in training, `x` itself otherwise."""
        return drop(x, self.p) if self.training else x


def drop(x: Float[Tensor, "*shape"], p: float) -> Float[Tensor, "*shape"]:
    """Return `x` with each value dropped with probability `p`; `x` itself if that is 0."""
    dropped = min(round(p * 2**16), 2**16 - 1)  # of 2**16 equally likely levels
    if not dropped:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    # torch draws a double-precision Bernoulli variable per value on a CPU, which costs more
    # than the layer around it. Here one 64-bit draw decides four values.
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    levels = draws.view(torch.int16)[: x.numel()].view(x.shape)  # uniform in [-2**15, 2**15)
    first = dropped - 2**15  # the first level that is kept
    # Clamping to two neighbours makes 0 or 1 without a comparison, which would allocate.
    kept = levels.clamp_(first - 1, first).sub_(first - 1).to(x.dtype)
    scale = 2**16 / (2**16 - dropped)
    if x.dtype == torch.bfloat16:  # which would round the scale, by up to 0.4 %
        return (x * kept).mul_(scale)
    return x * kept.mul_(scale)  # in place: `kept` is ours
