"""Candidates: the best continuations of each row, and of all beams of a sentence together.

Candidates of equal score are ordered by beam, then by id.

A vocabulary has thousands of entries and a search wants a handful, so `topk`, `argmax` and
`topk_candidates` first take the maximum of each block of entries, which is a quick reduction, and
then look into the best blocks only. The k best entries lie in the k blocks with the best maxima.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

_BLOCK, _ARGMAX_BLOCK = 32, 64
"""Vocabulary entries per block, where several entries are wanted, and where one is."""

_MIN_ARGMAX_ROWS = 16
"""Fewest rows for which `argmax` by blocks is quicker than torch's."""


class Candidates(NamedTuple):
    """The best continuations of each sentence, best first: beam, next id, its log-prob, new sum."""

    beams: Int[Tensor, "batch candidates"]
    ids: Int[Tensor, "batch candidates"]
    log_probs: Float[Tensor, "batch candidates"]
    totals: Float[Tensor, "batch candidates"]


class Candidate(NamedTuple):
    """One continuation of one sentence."""

    beam: int
    id: int
    log_prob: float
    total: float


def masked_log_softmax(
    logits: Float[Tensor, "*rows vocab"], *, pad: int
) -> Float[Tensor, "*rows vocab"]:
    """Return single-precision log-probabilities; PAD gets none. Overwrites PAD's logits."""
    logits[..., pad] = -math.inf  # in place: logits are large
    return logits.log_softmax(-1, dtype=torch.float32)


def mean_log_probs(members: Sequence[Float[Tensor, "*rows vocab"]]) -> Float[Tensor, "*rows vocab"]:
    """Return the logarithm of the members' mean probability, from their log-probabilities."""
    return torch.stack(list(members)).logsumexp(0) - math.log(len(members))


def argmax(
    logits: Float[Tensor, "rows vocab"], *, pad: int
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Return each row's most probable id, the first of equals, and its log-probability.

    Overwrites PAD's logits.
    """
    log_probs = masked_log_softmax(logits, pad=pad)
    vocab = log_probs.size(1)
    blocked = vocab // _ARGMAX_BLOCK * _ARGMAX_BLOCK  # the rest is shorter than a block
    if len(log_probs) < _MIN_ARGMAX_ROWS or blocked < 4 * _ARGMAX_BLOCK:
        best, ids = log_probs.max(1)
        return ids, best
    rows = torch.arange(len(log_probs), device=log_probs.device)
    blocks = log_probs[:, :blocked].unflatten(1, (-1, _ARGMAX_BLOCK))
    # A maximum without its index is several times as quick as one with it.
    block = blocks.amax(2).argmax(1)
    best, offset = blocks[rows, block].max(1)
    ids = block * _ARGMAX_BLOCK + offset
    if blocked < vocab:
        rest, offset = log_probs[:, blocked:].max(1)
        # Strictly greater: of equals the first id wins.
        ids, best = torch.where(rest > best, offset + blocked, ids), torch.maximum(rest, best)
    return ids, best


def topk(
    values: Float[Tensor, "rows vocab"], count: int
) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """Return what `torch.topk` returns, looking into the best blocks only."""
    blocked = values.size(1) // _BLOCK * _BLOCK
    if blocked < 4 * count * _BLOCK:
        return values.topk(count)
    blocks = values[:, :blocked].unflatten(1, (-1, _BLOCK))
    best = blocks.amax(2).topk(count, sorted=False).indices
    inside = blocks.gather(1, best[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    ids = (best[:, :, None] * _BLOCK + torch.arange(_BLOCK, device=best.device)).flatten(1)
    rest = torch.arange(blocked, values.size(1), device=best.device).expand(len(ids), -1)
    top, positions = torch.cat([inside, values[:, blocked:]], 1).topk(count)
    return top, torch.cat([ids, rest], 1).gather(1, positions)


def topk_single(
    logits: Float[Tensor, "beam vocab"], totals: Float[Tensor, "beam 1"], *, pad: int
) -> list[Candidate]:
    """Return the 2 x beam best continuations of one sentence. Overwrites PAD's logits.

    Args:
        logits: next-token logits of each beam.
        totals: each beam's sum of log-probabilities.
        pad: id that is never generated.
    """
    log_probs = masked_log_softmax(logits, pad=pad)
    count = 2 * len(totals)
    # A beam can supply all candidates of the sentence, but no more: its own best suffice.
    best, ids = topk(log_probs, min(count, log_probs.size(1)))
    rows = zip(ids.tolist(), best.tolist(), (best + totals).tolist(), strict=True)
    candidates = (
        Candidate(beam, *candidate)
        for beam, row in enumerate(rows)
        for candidate in zip(*row, strict=True)
    )
    return sorted(candidates, key=lambda c: (-c.total, c.beam, c.id))[:count]


def topk_candidates(
    log_probs: Float[Tensor, "rows vocab"], totals: Float[Tensor, "batch beam"]
) -> Candidates:
    """Return the 2 x beam best continuations of each sentence over all its beams.

    Args:
        log_probs: next-token log-probabilities of each beam, -inf for a forbidden id.
        totals: each beam's sum of log-probabilities, -inf for a dead beam.
    """
    vocab = log_probs.size(1)
    # Ascending positions, so that the stable sort below leaves equals in order of beam and id.
    positions = _topk_positions(log_probs, totals).sort(1).values
    beams, ids = positions // vocab, positions % vocab  # undo the flattening of beams x vocab
    added = log_probs.view(len(totals), -1).gather(1, positions)
    new_totals = added + totals.gather(1, beams)
    order = new_totals.argsort(dim=1, descending=True, stable=True)[:, : 2 * totals.size(1)]
    return Candidates(*(part.gather(1, order) for part in (beams, ids, added, new_totals)))


def _topk_positions(
    log_probs: Float[Tensor, "rows vocab"], totals: Float[Tensor, "batch beam"]
) -> Int[Tensor, "batch candidates"]:
    """Return where a sentence's best continuations lie in its beams x vocab, in any order.

    For a small vocabulary: the best of every beam, which is more than 2 x beam candidates.
    """
    (batch, beam), vocab, device = totals.shape, log_probs.size(1), totals.device
    count, blocked, rows = 2 * beam, vocab // _BLOCK * _BLOCK, totals.view(-1, 1)
    first = torch.arange(beam, device=device)[:, None] * vocab  # where each beam's entries start
    if blocked < 4 * count * _BLOCK:
        ids = topk(log_probs, min(count, vocab))[1]
        return (ids.view(batch, beam, -1) + first).flatten(1)
    blocks = log_probs[:, :blocked].unflatten(1, (-1, _BLOCK))  # rows, blocks, block
    # Blocks of all beams compete, so each one's maximum counts with its beam's total.
    maxima = (blocks.amax(2) + rows).view(batch, -1)
    best = maxima.topk(count, sorted=False).indices
    beams, block = best // blocks.size(1), best % blocks.size(1)  # `best` counts over all beams
    inside = blocks[torch.arange(batch, device=device)[:, None] * beam + beams, block]
    inside = (inside + totals.gather(1, beams)[:, :, None]).flatten(1)
    rest = (log_probs[:, blocked:] + rows).view(batch, -1)  # entries behind the last full block
    starts = beams * vocab + block * _BLOCK
    positions = torch.cat(
        [
            (starts[:, :, None] + torch.arange(_BLOCK, device=device)).flatten(1),
            (first + torch.arange(blocked, vocab, device=device)).flatten().expand(batch, -1),
        ],
        dim=1,
    )
    return positions.gather(1, torch.cat([inside, rest], 1).topk(count).indices)
