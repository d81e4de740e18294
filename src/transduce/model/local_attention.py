"""Restricted self-attention, the last row of Table 1: a query sees only nearby positions.

Position i attends to positions i - radius to i + radius, in the decoder to i - radius to i. Short
sentences are computed under a mask over all positions. In long ones nothing is computed that is
masked: queries are cut into blocks, each with the one window of keys that its queries can reach, so
that the cost grows with n and not with n².
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

BLOCK = 16
"""Minimum queries per block: products of fewer rows are slow."""

MIN_WINDOWS = 4
"""Number of windows in a sentence from which blocks are faster than a mask."""


def local_attention(
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
        queries: Q.
        keys: K.
        values: V.
        radius: how far a query sees.
        mask: True where a position is a piece and not padding.
        causal: each position attends to itself and earlier ones only.
    """
    length = keys.size(2)
    if queries.size(2) == length > MIN_WINDOWS * (max(radius, BLOCK) + 2 * radius):
        return blockwise_local_attention(
            queries, keys, values, radius=radius, mask=mask, causal=causal
        )
    seen = neighbourhood(queries.size(2), length, radius=radius, causal=causal, device=keys.device)
    if mask is not None:
        # Every position sees itself, or the softmax of a padded row would be 0 / 0.
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
    """Return the mask of a neighbourhood: True where a query may attend.

    Args:
        query: number of queries, which are the last positions of the memory.
        memory: number of positions.
        radius: how far a query sees.
        causal: each position attends to itself and earlier ones only.
        device: where to create the mask.

    >>> neighbourhood(2, 4, radius=1).int().tolist()
    [[0, 1, 1, 1], [0, 0, 1, 1]]
    """
    seen = torch.ones(query, memory, dtype=torch.bool, device=device)
    first = memory - query  # position of the first query
    return seen.triu(first - radius).tril(first if causal else first + radius)


def blockwise_local_attention(
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
    Args: those of `local_attention`, with as many queries as keys.
    """
    length, block = queries.size(2), max(radius, BLOCK)
    after = 0 if causal else radius
    padding = -length % block  # fills up the last block
    window = radius + block + after

    # Blocks of queries and windows of keys overlap differently, so keys are padded at both ends.
    def windows(x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, radius, padding + after)).unfold(2, window, block)

    blocks = F.pad(queries, (0, 0, 0, padding)).unflatten(2, (-1, block))
    scores = (blocks * keys.size(-1) ** -0.5) @ windows(keys)
    # Every position sees itself, or the softmax of a padded row would be 0 / 0. In its window,
    # query i of a block stands at radius + i.
    diagonal = torch.eye(block, window, dtype=torch.bool, device=keys.device).roll(radius, 1)
    band = torch.ones(block, window, dtype=torch.bool, device=keys.device)
    real = torch.ones_like(keys[:1, :1, :, :1], dtype=torch.bool) if mask is None else mask.mT
    seen = band.triu().tril(radius + after) & windows(real) | diagonal
    weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return (weights @ windows(values).mT).flatten(2, 3)[:, :, :length]
