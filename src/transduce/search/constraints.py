"""What may come next: a forced prefix, no run of pieces twice, no EOS too early, phrases to be met.

A rule bars pieces *after* ln p has been taken over all of them. So every ln p that search sums and
reports is the model's own, never one made larger because others were barred, and a hypothesis is
worth what the model says of it however it came about.

The prefix goes before all else: it may repeat itself, and what it says counts as said. While it
lasts one beam lives, as there is one way to go on; beams branch behind it. EOS is never a repeat.
"""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.candidates import Candidates, masked_log_softmax, topk_candidates
from transduce.search.phrases import Phrases
from transduce.search.request import DecodingConstraints, Request

FREE = -1
"""In place of a forced id: the sentence's prefix has ended."""


class ConstraintMask:
    """Masks the next tokens that the constraints of a batch forbid. See `ConstraintMask.of`."""

    def __init__(
        self,
        forced: Int[Tensor, "batch prefix"],
        constraints: DecodingConstraints,
        phrases: Phrases | None,
        *,
        eos: int,
        pad: int,
    ) -> None:
        """Take the prefixes, each filled up with `FREE`, of which the last column is full."""
        self._forced = forced
        self._constraints = constraints
        self._eos, self._pad = eos, pad
        self.phrases = phrases
        """None where no sentence has any."""

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
        """Make the rules of a batch; None where nothing is asked, so that it costs nothing.

        Args:
            requests: the sentences.
            constraints: `no_repeat` and `min_length` are read; `max_length` is in the limits.
            limits: the most pieces of each sentence's translation, EOS among them.
            eos: the id that ends a translation.
            pad: the last id, which is no piece.
            device: where the logits are.

        Raises:
            ValueError: if an id is no piece, or what is asked does not fit a limit.
        """
        for request, limit in zip(requests, limits, strict=True):
            _check(request, constraints, limit=limit, eos=eos, pad=pad)
        prefixes = [request.prefix for request in requests]
        phrased = any(any(request.phrases) for request in requests)
        if not (constraints.no_repeat or constraints.min_length or any(prefixes) or phrased):
            return None
        columns = max(map(len, prefixes)) + 1
        rows = [[*prefix, *[FREE] * (columns - len(prefix))] for prefix in prefixes]
        forced = torch.tensor(rows, device=device)
        phrases = None
        if phrased:
            phrases = Phrases(requests, limits=limits, eos=eos, pad=pad, device=device)
        return cls(forced, constraints, phrases, eos=eos, pad=pad)

    def log_probs(
        self, logits: Float[Tensor, "rows vocab"], said: Int[Tensor, "batch beam said"]
    ) -> Float[Tensor, "rows vocab"]:
        """Return the model's ln p of each next piece, and -inf for those that may not come now."""
        log_probs = masked_log_softmax(logits, pad=self._pad)
        beam, length = said.shape[1:]
        if length < self._constraints.min_length:
            log_probs[:, self._eos] = -math.inf
        longest = self._forced.size(1) - 1
        forced = self._forced[:, min(length, longest)].repeat_interleave(beam)[:, None]
        if 0 < self._constraints.no_repeat <= length:
            repeats = _repeats(said, self._constraints.no_repeat, nothing=self._pad)
            log_probs.scatter_(1, repeats.where(forced == FREE, self._pad), -math.inf)
        if length < longest:
            ids = torch.arange(log_probs.size(1), device=said.device)
            log_probs.masked_fill_((forced != FREE) & (ids != forced), -math.inf)
        return log_probs

    def draw(
        self,
        logits: Float[Tensor, "rows vocab"],
        said: Int[Tensor, "batch beam said"],
        totals: Float[Tensor, "batch beam"],
    ) -> Candidates:
        """Return the 2 x beam best continuations a sentence among those that may be."""
        log_probs = self.log_probs(logits, said)
        if self.phrases is None:
            return topk_candidates(log_probs, totals)
        return self.phrases.draw(log_probs, totals)

    def keep(self, going: Candidates) -> None:
        """Let each beam go on from the candidate that takes its place."""
        if self.phrases is not None:
            self.phrases.keep(going)

    def select(self, batch_indices: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences; forget the rest."""
        self._forced = self._forced[batch_indices]
        if self.phrases is not None:
            self.phrases.drop(batch_indices)


def _repeats(
    said: Int[Tensor, "batch beam said"], count: int, *, nothing: int
) -> Int[Tensor, "rows places"]:
    """Return what has followed the last `count` - 1 pieces of each row before, or `nothing`."""
    runs = said.unfold(2, count, 1)
    tail = said[:, :, None, said.size(2) - count + 1 :]
    again = (runs[..., :-1] == tail).all(-1)
    return runs[..., -1].where(again, nothing).flatten(0, 1)


def _check(
    request: Request, constraints: DecodingConstraints, *, limit: int, eos: int, pad: int
) -> None:
    for what, ids in [("prefix", request.prefix), *(("phrase", one) for one in request.phrases)]:
        for one in ids:
            if one == eos or not 0 <= one < pad:
                raise ValueError(
                    f"a {what} is made of ids below {pad} that are not {eos}, which ends a "
                    f"translation; {one} is none"
                )
    if len(request.prefix) >= limit:
        raise ValueError(
            f"a prefix of {len(request.prefix)} pieces leaves no room in a translation of at most "
            f"{limit}: raise max-length or search.extra, or shorten the prefix"
        )
    if constraints.min_length >= limit:
        raise ValueError(
            f"min-length {constraints.min_length} and an EOS do not fit a translation of at most "
            f"{limit} pieces: lower min-length, or raise max-length or search.extra"
        )
