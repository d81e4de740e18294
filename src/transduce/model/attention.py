"""Attention: section 3.2 of the paper, equations (1) and (2).

A caller first turns a memory into keys and values, then reads them with queries.
The two halves are separate methods because decoding does the first once and the
second at every step; nothing in this file knows what a cache is.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.cpu.softmax import softmax
from transduce.model.local_attention import near, neighbourhood

WRITTEN_OUT_MAX_SCORES = 64 * 64
"""Scores per head (queries x memory) up to which a CPU is quicker with equation (1) written out."""


class KeyValue(NamedTuple):
    """What a memory looks like to one attention: the only state decoding keeps."""

    keys: Float[Tensor, "batch heads memory d_k"]
    values: Float[Tensor, "batch heads memory d_v"]


class Attention(nn.Module):
    """Multi-head attention. Self- and cross-attention differ only in who supplies the memory.

    With a radius, which only self-attention can have, a query sees no position further away.
    """

    def __init__(
        self, d_model: int, *, heads: int, d_k: int, d_v: int, bias: bool = False, radius: int = 0
    ) -> None:
        super().__init__()
        self.heads = heads
        self.radius = radius
        self.query = nn.Linear(d_model, heads * d_k, bias=bias)
        self.key = nn.Linear(d_model, heads * d_k, bias=bias)
        self.value = nn.Linear(d_model, heads * d_v, bias=bias)
        self.out = nn.Linear(heads * d_v, d_model, bias=bias)

    def project_kv(self, memory: Float[Tensor, "batch memory d_model"]) -> KeyValue:
        """Project a memory to keys and values, once, for all the queries to come."""
        return KeyValue(self._split(self.key(memory)), self._split(self.value(memory)))

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        kv: KeyValue,
        *,
        mask: Bool[Tensor, "#batch 1 #query memory"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch query d_model"]:
        """Read `past` with `x`. Where `mask` is True, a query may look; give it or `causal`."""
        assert mask is None or not causal, "a mask can say what causal says"
        queries = self._split(self.query(x))
        if self.radius:
            mixed = near(queries, *kv, radius=self.radius, mask=mask, causal=causal)
        elif x.device.type == "cpu" and queries.size(2) * kv.keys.size(2) <= WRITTEN_OUT_MAX_SCORES:
            mixed = written_out(queries, kv, mask=mask, causal=causal)
        else:
            mixed = F.scaled_dot_product_attention(
                queries, kv.keys, kv.values, attn_mask=mask, is_causal=causal
            )
        return self.out(mixed.transpose(1, 2).flatten(2))  # heads side by side again

    def weights(
        self,
        x: Float[Tensor, "batch query d_model"],
        kv: KeyValue,
        mask: Bool[Tensor, "#batch 1 #query memory"],
    ) -> Float[Tensor, "batch heads query memory"]:
        """The softmax of equation (1), for eyes and tests; training and decoding never call it."""
        scores = self._split(self.query(x)) @ kv.keys.mT / math.sqrt(kv.keys.size(-1))
        if self.radius:
            query, memory = scores.shape[-2:]
            mask = mask & neighbourhood(query, memory, radius=self.radius, device=x.device)
        return scores.masked_fill(~mask, -math.inf).softmax(-1)

    def _split(
        self, x: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch heads length head_width"]:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def written_out(
    queries: Float[Tensor, "batch heads query d_k"],
    kv: KeyValue,
    *,
    mask: Bool[Tensor, "#batch 1 #query memory"] | None,
    causal: bool,
) -> Float[Tensor, "batch heads query d_v"]:
    """Equation (1) as two batched products, each of what lies in one piece: quick on a CPU."""
    scores = (queries.contiguous() * kv.keys.size(-1) ** -0.5) @ kv.keys.contiguous().mT
    if causal:
        ahead = torch.full(scores.shape[-2:], -math.inf, dtype=scores.dtype, device=scores.device)
        scores = scores + ahead.triu(1)
    elif mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return softmax(scores) @ kv.values
