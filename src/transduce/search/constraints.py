"""Hard constraints on the next piece: a forced prefix, no repeated n-grams, a minimum length.

A constraint masks pieces *after* the softmax over all of them. So every log-probability that search
sums and reports is the model's own, never one made larger because other pieces were forbidden, and
a hypothesis gets the score that the model gives it however it was found.

The prefix takes precedence: it may repeat itself, and its pieces count for the n-grams that follow.
While it lasts a sentence has one live beam; beams branch after it. EOS is never a repeat.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.candidates import masked_log_softmax
from transduce.search.config import DecodingConstraints, Request, check_request

_UNFORCED = -1
"""Stands for a forced id where the sentence's prefix has ended."""


@dataclass(slots=True)
class ConstraintMask:
    """Forbids next pieces in the active sentences of a batch; `of` makes one."""

    _forced: Int[Tensor, "batch prefix"]
    _constraints: DecodingConstraints
    _eos: int
    _pad: int

    @classmethod
    def of(
        cls,
        requests: Sequence[Request],
        constraints: DecodingConstraints,
        *,
        limits: Sequence[int],
        eos: int,
        pad: int,
        device: torch.device | str,
    ) -> "ConstraintMask | None":
        """Build the mask of a batch; None without constraints, so that they cost nothing.

        Args:
            requests: the sentences.
            constraints: no_repeat and min_length are read; max_length is in the limits.
            limits: maximum length of each translation in pieces, EOS included.
            eos: id that ends a translation.
            pad: the last id, which is never generated.
            device: device of the logits.

        Raises:
            ValueError: if an id is not a piece, or the constraints do not fit a limit.
        """
        for request, limit in zip(requests, limits, strict=True):
            check_request(request, constraints, limit=limit, eos=eos, pad=pad)
        prefixes = [request.prefix for request in requests]
        if not (constraints.no_repeat or constraints.min_length or any(prefixes)):
            return None
        columns = max(map(len, prefixes)) + 1  # one more, so that the last one is unforced
        rows = [[*prefix, *[_UNFORCED] * (columns - len(prefix))] for prefix in prefixes]
        return cls(torch.tensor(rows, device=device), constraints, eos, pad)

    def apply(
        self, log_probs: Float[Tensor, "rows vocab"], ids: Int[Tensor, "batch beam length"]
    ) -> Float[Tensor, "rows vocab"]:
        """Set the log-probabilities of forbidden next pieces to -inf, in place.

        Args:
            log_probs: the model's, of each beam's next piece.
            ids: what the beams have generated so far.
        """
        beam, length = ids.shape[1:]
        if length < self._constraints.min_length:
            log_probs[:, self._eos] = -math.inf
        longest = self._forced.size(1) - 1  # past the longest prefix all rows are unforced
        forced = self._forced[:, min(length, longest)].repeat_interleave(beam)[:, None]
        if 0 < self._constraints.no_repeat <= length:
            repeats = _repeating_ids(ids, self._constraints.no_repeat, none=self._pad)
            # PAD is impossible anyway, so masking it stands for masking nothing.
            log_probs.scatter_(1, repeats.where(forced == _UNFORCED, self._pad), -math.inf)
        if length < longest:
            vocab = torch.arange(log_probs.size(1), device=ids.device)
            log_probs.masked_fill_((forced != _UNFORCED) & (vocab != forced), -math.inf)
        return log_probs

    def select(self, batch_indices: Int[Tensor, " remaining"]) -> None:
        """Keep only these sentences of the batch."""
        self._forced = self._forced[batch_indices]


def next_log_probs(
    logits: Float[Tensor, "rows vocab"],
    ids: Int[Tensor, "batch beam length"],
    constraint_mask: ConstraintMask | None,
    *,
    pad: int,
) -> Float[Tensor, "rows vocab"]:
    """Return log-probabilities of the next piece, -inf for PAD and forbidden pieces.

    Args:
        logits: the model's; overwritten.
        ids: what the beams have generated so far.
        constraint_mask: forbids next pieces; None allows all.
        pad: id that is never generated.
    """
    log_probs = masked_log_softmax(logits, pad=pad)
    return log_probs if constraint_mask is None else constraint_mask.apply(log_probs, ids)


def _repeating_ids(
    ids: Int[Tensor, "batch beam length"], size: int, *, none: int
) -> Int[Tensor, "rows ngrams"]:
    """Return the ids that would complete an n-gram of this size again; `none` where none would."""
    ngrams = ids.unfold(2, size, 1)  # batch, beam, ngrams, size
    # An n-gram repeats if its first n - 1 ids are the last n - 1 generated ones.
    tail = ids[:, :, None, ids.size(2) - size + 1 :]
    repeats = (ngrams[..., :-1] == tail).all(-1)
    return ngrams[..., -1].where(repeats, none).flatten(0, 1)
