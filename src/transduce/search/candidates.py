"""Ways to go on: the pieces that may follow each row, and the best of them over a sentence's beams.

Equals stand in the order of their beams, then of their ids.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

_BLOCK = 32
"""Pieces whose best is looked at first; only the best blocks are looked into."""


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


def likeliest(logits: Float[Tensor, "rows vocab"], count: int, *, pad: int) -> Pieces:
    """Return the likeliest pieces of each row where no piece but PAD is barred.

    It writes into `logits`: they are large.
    """
    logits[:, pad] = -math.inf
    return likeliest_of(logits.log_softmax(1, dtype=torch.float32), count)


def likeliest_one(
    logits: Float[Tensor, "rows vocab"], *, pad: int
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Return the likeliest piece of each row, of equals the first, and its ln p.

    It writes into `logits`: they are large.
    """
    logits[:, pad] = -math.inf
    best, ids = logits.log_softmax(1, dtype=torch.float32).max(1)
    return ids, best


class Candidate(NamedTuple):
    """One way in which one sentence goes on."""

    beam: int
    id: int
    log_prob: float
    total: float


def likeliest_of_sentence(
    logits: Float[Tensor, "beam vocab"], totals: Float[Tensor, "beam 1"], *, pad: int
) -> list[Candidate]:
    """Return the 2 x beam best continuations of one sentence where no piece but PAD is barred.

    It writes into `logits`.
    """
    logits[:, pad] = -math.inf
    log_probs = logits.log_softmax(1, dtype=torch.float32)
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


def best_of(pieces: Pieces, totals: Float[Tensor, "batch beam"]) -> Candidates:
    """Return the 2 x beam best continuations a sentence, of which no row can supply more."""
    worth = sums(pieces, totals)
    order = worth.argsort(dim=1, descending=True, stable=True)[:, : 2 * totals.size(1)]
    return chosen(pieces, worth, order)


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
