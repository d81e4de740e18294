"""Restricted self-attention, the last row of Table 1: a query sees what stands near it.

Position i looks at positions i - radius to i + radius, in the decoder at i - radius to i. Short
sentences are read with a mask over all positions. In long ones nothing is computed that nobody may
see: queries are cut into blocks, each read with the one window of keys that its queries can reach,
so that the cost grows with n and not with n².
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

BLOCK = 16
"""Queries in a block when the radius is smaller: products of fewer rows are slow."""

MUCH = 4
"""How many windows a sentence must hold before blocks are quicker than a mask."""


def near(
    queries: Float[Tensor, "batch heads query d_k"],
    keys: Float[Tensor, "batch heads memory d_k"],
    values: Float[Tensor, "batch heads memory d_v"],
    *,
    radius: int,
    mask: Bool[Tensor, "#batch 1 1 memory"] | None,
    causal: bool,
) -> Float[Tensor, "batch heads query d_v"]:
    """Equation (1) within a neighbourhood. The queries are the last positions of the memory.

    Args:
        queries: what reads.
        keys: of the positions that are read.
        values: of the same positions.
        radius: how far a query sees.
        mask: True where a position is a piece and not padding.
        causal: whether a query sees only itself and what is before it.
    """
    length = keys.size(2)
    if queries.size(2) == length > MUCH * (max(radius, BLOCK) + 2 * radius):
        return in_blocks(queries, keys, values, radius=radius, mask=mask, causal=causal)
    seen = neighbourhood(queries.size(2), length, radius=radius, causal=causal, device=keys.device)
    if mask is not None:
        seen = seen & mask | neighbourhood(queries.size(2), length, radius=0, device=keys.device)
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)


def neighbourhood(
    query: int,
    memory: int,
    *,
    radius: int,
    causal: bool = False,
    device: torch.device | None = None,
) -> Bool[Tensor, "query memory"]:
    """Which positions the last `query` ones of a memory may look at.

    >>> neighbourhood(2, 4, radius=1).int().tolist()
    [[0, 1, 1, 1], [0, 0, 1, 1]]
    """
    seen = torch.ones(query, memory, dtype=torch.bool, device=device)
    first = memory - query
    return seen.triu(first - radius).tril(first if causal else first + radius)


def in_blocks(
    queries: Float[Tensor, "batch heads length d_k"],
    keys: Float[Tensor, "batch heads length d_k"],
    values: Float[Tensor, "batch heads length d_v"],
    *,
    radius: int,
    mask: Bool[Tensor, "#batch 1 1 length"] | None,
    causal: bool,
) -> Float[Tensor, "batch heads length d_v"]:
    """The same in blocks of queries and windows of keys: O(radius n d) where a mask takes O(n² d).

    A window holds its block's positions, `radius` before them and, unless causal, `radius` after.
    """
    length, block = queries.size(2), max(radius, BLOCK)
    after = 0 if causal else radius
    filled = -length % block  # the last block is made as long as the others
    window = radius + block + after

    def windows(x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, radius, filled + after)).unfold(2, window, block)

    blocks = F.pad(queries, (0, 0, 0, filled)).unflatten(2, (-1, block))
    scores = (blocks * keys.size(-1) ** -0.5) @ windows(keys)
    # Every position sees itself, or the softmax of padding among padding would be 0 / 0.
    itself = torch.eye(block, window, dtype=torch.bool, device=keys.device).roll(radius, 1)
    band = torch.ones(block, window, dtype=torch.bool, device=keys.device)
    real = torch.ones_like(keys[:1, :1, :, :1], dtype=torch.bool) if mask is None else mask.mT
    seen = band.triu().tril(radius + after) & windows(real) | itself
    shares = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return (shares @ windows(values).mT).flatten(2, 3)[:, :, :length]
