"""Ways to go on: the pieces that may follow each row, and the best of them over a sentence's beams.

Equals stand in the order of their beams, then of their ids.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

_BLOCK, _LONG = 32, 64
"""Pieces whose best is looked at first; only the best blocks are looked into: several, or one."""

_MANY = 16
"""Rows from which that pays where one is looked for."""


class Pieces(NamedTuple):
    """Some pieces that may follow each row, by id."""

    ids: Int[Tensor, "rows pieces"]
    log_probs: Float[Tensor, "rows pieces"]


class Candidates(NamedTuple):
    """The best ways to go on, best first: which beam, which piece, and what the sum becomes."""

    beams: Int[Tensor, "batch drawn"]
    ids: Int[Tensor, "batch drawn"]
    log_probs: Float[Tensor, "batch drawn"]
    totals: Float[Tensor, "batch drawn"]


def masked_log_softmax(
    logits: Float[Tensor, "*rows vocab"], *, pad: int
) -> Float[Tensor, "*rows vocab"]:
    """Return the model's ln p of each piece. PAD is none: its logit is written over."""
    logits[..., pad] = -math.inf
    return logits.log_softmax(-1, dtype=torch.float32)


def argmax(
    logits: Float[Tensor, "rows vocab"], *, pad: int
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Return the likeliest piece of each row, of equals the first, and its ln p.

    It writes into `logits`: they are large.
    """
    return _first(masked_log_softmax(logits, pad=pad))


class Candidate(NamedTuple):
    """One way in which one sentence goes on."""

    beam: int
    id: int
    log_prob: float
    total: float


def topk_single(
    logits: Float[Tensor, "beam vocab"], totals: Float[Tensor, "beam 1"], *, pad: int
) -> list[Candidate]:
    """Return the 2 x beam best continuations of one sentence where no piece but PAD is barred.

    It writes into `logits`.
    """
    log_probs = masked_log_softmax(logits, pad=pad)
    drawn = 2 * len(totals)
    best, ids = _top(log_probs, min(drawn, log_probs.size(1)))
    numbers = zip(ids.tolist(), best.tolist(), (best + totals).tolist(), strict=True)
    candidates = (
        Candidate(beam, *candidate)
        for beam, row in enumerate(numbers)
        for candidate in zip(*row, strict=True)
    )
    return sorted(candidates, key=lambda one: (-one.total, one.beam, one.id))[:drawn]


def likeliest_of(log_probs: Float[Tensor, "rows vocab"], count: int) -> Pieces:
    """Return the likeliest pieces of each row by their ln p, -inf where one may not come."""
    best, ids = _top(log_probs, min(count, log_probs.size(1)))
    return _by_id(ids, best)


def joined(one: Pieces, other: Pieces) -> Pieces:
    """Return the pieces of both, by id."""
    return _by_id(
        torch.cat([one.ids, other.ids], dim=1), torch.cat([one.log_probs, other.log_probs], dim=1)
    )


def sums(pieces: Pieces, totals: Float[Tensor, "batch beam"]) -> Float[Tensor, "batch candidates"]:
    """Return what each beam's total becomes with each of its pieces, by beam and id."""
    each = pieces.log_probs.view(*totals.shape, -1)
    return (each + totals[:, :, None]).flatten(1)


def chosen(
    pieces: Pieces,
    sums: Float[Tensor, "batch candidates"],
    order: Int[Tensor, "batch drawn"],
) -> Candidates:
    """Return the candidates that `order` names, in its order."""
    return Candidates(
        beams=order // pieces.ids.size(1),
        ids=pieces.ids.view_as(sums).gather(1, order),
        log_probs=pieces.log_probs.view_as(sums).gather(1, order),
        totals=sums.gather(1, order),
    )


def topk_candidates(
    log_probs: Float[Tensor, "rows vocab"], totals: Float[Tensor, "batch beam"]
) -> Candidates:
    """Return the 2 x beam best continuations a sentence, by ln p of all pieces of its beams."""
    vocab = log_probs.size(1)
    places = _best_places(log_probs, totals).sort(1).values
    beams, ids = places // vocab, places % vocab
    found = log_probs.view(len(totals), -1).gather(1, places)
    worth = found + totals.gather(1, beams)
    order = worth.argsort(dim=1, descending=True, stable=True)[:, : 2 * totals.size(1)]
    return Candidates(*(part.gather(1, order) for part in (beams, ids, found, worth)))


def _best_places(
    log_probs: Float[Tensor, "rows vocab"], totals: Float[Tensor, "batch beam"]
) -> Int[Tensor, "batch drawn"]:
    """Where the best stand in a sentence's beams x vocab, with one look at most of the values.

    Of a small vocabulary those of every beam: none can supply more than are drawn of a sentence.
    """
    (batch, beam), vocab, device = totals.shape, log_probs.size(1), totals.device
    count, whole, rows = 2 * beam, vocab // _BLOCK * _BLOCK, totals.view(-1, 1)
    first = torch.arange(beam, device=device)[:, None] * vocab
    if whole < 4 * count * _BLOCK:
        ids = _top(log_probs, min(count, vocab))[1]
        return (ids.view(batch, beam, -1) + first).flatten(1)
    blocks = log_probs[:, :whole].unflatten(1, (-1, _BLOCK))
    most = (blocks.amax(2) + rows).view(batch, -1)
    best = most.topk(count, sorted=False).indices
    beams, block = best // blocks.size(1), best % blocks.size(1)
    some = blocks[torch.arange(batch, device=device)[:, None] * beam + beams, block]
    some = (some + totals.gather(1, beams)[:, :, None]).flatten(1)
    rest = (log_probs[:, whole:] + rows).view(batch, -1)
    starts = beams * vocab + block * _BLOCK
    inside = starts[:, :, None] + torch.arange(_BLOCK, device=device)
    behind = first + torch.arange(whole, vocab, device=device)
    places = torch.cat([inside.flatten(1), behind.flatten().expand(batch, -1)], 1)
    return places.gather(1, torch.cat([some, rest], 1).topk(count).indices)


def _first(
    values: Float[Tensor, "rows vocab"],
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """The first of each row's largest values and its place, with one look at most of them.

    A maximum without its place is found several times as quickly: that of each block at first.
    """
    whole = values.size(1) // _LONG * _LONG
    if len(values) < _MANY or whole < 4 * _LONG:
        best, ids = values.max(1)
        return ids, best
    rows = torch.arange(len(values), device=values.device)
    blocks = values[:, :whole].unflatten(1, (-1, _LONG))
    block = blocks.amax(2).argmax(1)
    best, place = blocks[rows, block].max(1)
    ids = block * _LONG + place
    if whole < values.size(1):
        last, place = values[:, whole:].max(1)
        ids, best = torch.where(last > best, place + whole, ids), torch.maximum(last, best)
    return ids, best


def _top(
    values: Float[Tensor, "rows vocab"], count: int
) -> tuple[Float[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """What `topk` gives, with one look at most of the values: those in the best blocks are it."""
    whole = values.size(1) // _BLOCK * _BLOCK
    if whole < 4 * count * _BLOCK:
        return values.topk(count)
    blocks = values[:, :whole].unflatten(1, (-1, _BLOCK))
    best = blocks.amax(2).topk(count, sorted=False).indices
    some = blocks.gather(1, best[:, :, None].expand(-1, -1, _BLOCK)).flatten(1)
    ids = (best[:, :, None] * _BLOCK + torch.arange(_BLOCK, device=best.device)).flatten(1)
    rest = torch.arange(whole, values.size(1), device=best.device).expand(len(ids), -1)
    top, places = torch.cat([some, values[:, whole:]], 1).topk(count)
    return top, torch.cat([ids, rest], 1).gather(1, places)


def _by_id(ids: Int[Tensor, "rows pieces"], log_probs: Float[Tensor, "rows pieces"]) -> Pieces:
    ids, order = ids.sort()
    return Pieces(ids, log_probs.gather(1, order))
