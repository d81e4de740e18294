"""Attention: section 3.2 of the paper, equations (1) and (2).

A caller first projects a memory to keys and values, then attends to them with queries. The two
halves are separate methods because decoding does the first once and the second at every step.
Axes: batch, heads, query and memory positions, d_k and d_v.
"""

import math
from typing import NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transduce.model.kernels import fastest_attention


def attention_weights(
    queries: Float[Tensor, "batch heads query d_k"],
    keys: Float[Tensor, "batch heads memory d_k"],
    mask: Bool[Tensor, "#batch 1 #query memory"] | None = None,
) -> Float[Tensor, "batch heads query memory"]:
    """The softmax of equation (1): softmax(QKᵀ / √d_k), taken over the keys of each query.

    Args:
        queries: Q.
        keys: K.
        mask: True where a query may attend; None allows all.
    """
    scores = queries @ keys.mT / math.sqrt(keys.size(-1))
    if mask is not None:
        # Before the softmax: the weights that remain still sum to 1.
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1)


def scaled_dot_product_attention(
    queries: Float[Tensor, "batch heads query d_k"],
    keys: Float[Tensor, "batch heads memory d_k"],
    values: Float[Tensor, "batch heads memory d_v"],
    mask: Bool[Tensor, "#batch 1 #query memory"] | None = None,
) -> Float[Tensor, "batch heads query d_v"]:
    """Equation (1): softmax(QKᵀ / √d_k) V. `kernels.fastest_attention` does the same, faster."""
    return attention_weights(queries, keys, mask) @ values


class KeyValue(NamedTuple):
    """The keys and values of one memory in one attention."""

    keys: Float[Tensor, "batch heads memory d_k"]
    values: Float[Tensor, "batch heads memory d_v"]


class Attention(nn.Module):
    """Multi-head attention (section 3.2.2). Self- and cross-attention differ only in the memory.

    With a radius, which only self-attention can have, a query sees no position further away.
    """

    def __init__(
        self,
        d_model: int,
        *,
        heads: int,
        d_k: int,
        d_v: int,
        bias: bool = False,
        radius: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.radius = radius
        self.dropout = dropout
        self.query = nn.Linear(d_model, heads * d_k, bias=bias)
        self.key = nn.Linear(d_model, heads * d_k, bias=bias)
        self.value = nn.Linear(d_model, heads * d_v, bias=bias)
        self.out = nn.Linear(heads * d_v, d_model, bias=bias)

    def project_kv(self, memory: Float[Tensor, "batch memory d_model"]) -> KeyValue:
        """Project a memory to its keys and values, once for all queries."""
        return KeyValue(self._split_heads(self.key(memory)), self._split_heads(self.value(memory)))

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        kv: KeyValue | None = None,
        *,
        mask: Bool[Tensor, "#batch 1 #query memory"] | None = None,
        causal: bool = False,
    ) -> Float[Tensor, "batch query d_model"]:
        """Attend from `x` to a memory, or in self-attention to `x` itself.

        Args:
            x: the queries before their projection.
            kv: the memory, from `project_kv`; None is `x`.
            mask: True where a query may attend; None allows all.
            causal: each position attends to itself and earlier ones only; excludes `mask`.
        """
        assert mask is None or not causal, "causal is a mask itself"
        kv = self.project_kv(x) if kv is None else kv
        queries = self._split_heads(self.query(x))
        dropout = self.dropout if self.training else 0.0
        heads = fastest_attention(
            queries, *kv, mask=mask, causal=causal, radius=self.radius, dropout=dropout
        )
        return self.out(heads.transpose(1, 2).flatten(2))  # concatenate the heads of a position

    def _split_heads(
        self, x: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch heads length head_width"]:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
