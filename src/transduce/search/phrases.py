"""Hard lexical constraints: each phrase, a run of ids, must occur in the translation.

Candidates are told apart by how many of the phrases' pieces they have met: a *bank* for each count.
The places of the beam go round the banks, one to the best of each, the fullest first, then one to
the second of each, and so on; what a bank cannot fill falls to the others. Candidates that have
met little thus cannot push out the less likely ones that have met more, nor the other way round.

Met are the pieces of phrases that are whole, and those of the longest one begun; a phrase that is
broken off loses what it had. Each phrase is followed by an automaton of its own (Knuth, Morris,
Pratt), so phrases may overlap in what is said. What is still to be met is counted as if they did
not, which holds back where a limit leaves hardly any room.

Source:
    Post & Vilar 2018, Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural
    Machine Translation. There banks have fixed sizes that are evened out; going round does both.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.candidates import Candidates, Pieces, chosen, joined, likeliest_of, sums
from transduce.search.request import Request

NEVER = 1 << 40
"""The turn of a candidate that cannot be."""

_Ids = tuple[int, ...]


def width(request: Request, beam: int) -> int:
    """Return the beam that a sentence is searched with: room for two in each bank, or `beam`.

    With fewer places than banks nothing could wait for its phrase: all would be said at once.
    """
    pieces = sum(map(len, _needed(request.phrases)))
    return max(beam, 2 * (pieces + 1)) if pieces else beam


class Phrases:
    """How far each beam of a batch has come with the phrases of its sentence."""

    def __init__(
        self,
        requests: Sequence[Request],
        *,
        limits: Sequence[int],
        eos: int,
        pad: int,
        device: torch.device | str,
    ) -> None:
        """Begin with nothing said. Sentences without phrases may be among the others.

        Raises:
            ValueError: if the phrases of a sentence do not fit its limit.
        """
        needed = [_needed(request.phrases) for request in requests]
        for request, phrases, limit in zip(requests, needed, limits, strict=True):
            _check(request.prefix, phrases, limit=limit)
        prefixes = [len(request.prefix) for request in requests]
        self._eos = eos
        self._banks = 1 + max(sum(map(len, phrases)) for phrases in needed)
        self._limits = torch.tensor(limits, device=device)
        self._prefixes = torch.tensor(prefixes, device=device)
        self._table = _Table(*(part.to(device) for part in _table(needed, pad=pad)))
        self._progress: Int[Tensor, "batch beam phrases"] | None = None
        self._length = 0

    def draw(
        self, log_probs: Float[Tensor, "rows vocab"], totals: Float[Tensor, "batch beam"]
    ) -> Candidates:
        """Return 2 x beam continuations a sentence, in the order of their turns; writes into both.

        Beside the likeliest pieces each beam offers those that its phrases wait for. EOS comes when
        they are all met, and what can no longer meet them within the limit is left out.
        """
        batch, beam = totals.shape
        progress = self._started(totals)
        whole = self._whole(progress)
        log_probs[:, self._eos] = log_probs[:, self._eos].where(whole.flatten(), -math.inf)
        wanted = self._wanted(progress).flatten(0, 1)
        asked = Pieces(wanted, log_probs.gather(1, wanted))
        pieces = joined(likeliest_of(log_probs.scatter(1, wanted, -math.inf), 2 * beam), asked)

        worth = sums(pieces, totals)
        after = self._after(
            progress.repeat_interleave(pieces.ids.size(1), dim=1), pieces.ids.view(batch, -1)
        )
        left = self._total() - self._met(after)
        room = self._limits - self._length - 1
        forced = self._length + 1 < self._prefixes
        alive = worth.isfinite() & ((left <= room[:, None]) | forced[:, None])
        worth = worth.masked_fill(~alive, -math.inf)
        turns = _turns(worth, left, alive=alive, banks=self._banks)
        return chosen(pieces, worth, turns.argsort(dim=1, stable=True)[:, : 2 * beam])

    def keep(self, going: Candidates) -> None:
        """Let each beam go on from the candidate that takes its place."""
        progress = self._started(going.totals)
        parents = going.beams[:, :, None].expand(-1, -1, progress.size(2))
        self._progress = self._after(progress.gather(1, parents), going.ids)
        self._length += 1

    def drop(self, sentences: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences; forget the rest."""
        self._limits, self._prefixes = self._limits[sentences], self._prefixes[sentences]
        self._table = _Table(*(part[sentences] for part in self._table))
        if self._progress is not None:
            self._progress = self._progress[sentences]

    def _started(self, totals: Float[Tensor, "batch beam"]) -> Int[Tensor, "batch beam phrases"]:
        if self._progress is None:
            phrases = self._table.lengths.size(1)
            self._progress = torch.zeros(
                (*totals.shape, phrases), dtype=torch.long, device=totals.device
            )
        return self._progress

    def _whole(self, progress: Int[Tensor, "batch some phrases"]) -> Bool[Tensor, "batch some"]:
        return (progress == self._table.lengths[:, None]).all(2)

    def _total(self) -> Int[Tensor, "batch 1"]:
        return self._table.lengths.sum(1, keepdim=True)

    def _met(self, progress: Int[Tensor, "batch some phrases"]) -> Int[Tensor, "batch some"]:
        whole = progress == self._table.lengths[:, None]
        return (progress * whole).sum(2) + (progress * ~whole).amax(2)

    def _wanted(
        self, progress: Int[Tensor, "batch beam phrases"]
    ) -> Int[Tensor, "batch beam phrases"]:
        """Return the piece that each phrase waits for, no piece twice; PAD where there is none."""
        waiting = self._table.waiting
        ids = waiting[:, None].expand(-1, progress.size(1), -1, -1)
        ids = ids.gather(3, progress[..., None]).squeeze(3).sort().values
        again = torch.zeros_like(ids, dtype=torch.bool)
        again[..., 1:] = ids[..., 1:] == ids[..., :-1]
        return ids.where(~again, self._table.pad[:, None])

    def _after(
        self, progress: Int[Tensor, "batch some phrases"], ids: Int[Tensor, "batch some"]
    ) -> Int[Tensor, "batch some phrases"]:
        """Return the progress once each of these has said one more id."""
        letters = self._table.letters
        same = ids[:, :, None] == letters[:, None]
        letter = (same * torch.arange(letters.size(1), device=ids.device)).sum(2)
        batch = torch.arange(len(ids), device=ids.device)[:, None, None]
        phrase = torch.arange(progress.size(2), device=ids.device)
        return self._table.after[batch, phrase, progress, letter[:, :, None]]


class _Table(NamedTuple):
    """The automata of all phrases, side by side and filled up with phrases that are whole."""

    lengths: Int[Tensor, "batch phrases"]
    waiting: Int[Tensor, "batch phrases progress"]
    """The id that takes a phrase on from there; PAD where it is whole."""

    letters: Int[Tensor, "batch letters"]
    """The ids that occur in a sentence's phrases, from place 1 on; all other ids are letter 0."""

    after: Int[Tensor, "batch phrases progress letters"]
    pad: Int[Tensor, "batch 1"]


def _table(needed: Sequence[Sequence[_Ids]], *, pad: int) -> _Table:
    letters = [sorted({one for phrase in phrases for one in phrase}) for phrases in needed]
    batch, most = len(needed), max(map(len, needed))
    longest = max(len(phrase) for phrases in needed for phrase in phrases)
    lengths = torch.zeros((batch, most), dtype=torch.long)
    waiting = torch.full((batch, most, longest + 1), pad)
    alphabet = torch.full((batch, max(map(len, letters)) + 1), -1)
    after = torch.zeros((batch, most, longest + 1, alphabet.size(1)), dtype=torch.long)
    for sentence, phrases in enumerate(needed):
        for place, letter in enumerate(letters[sentence], 1):
            alphabet[sentence, place] = letter
        for number, phrase in enumerate(phrases):
            lengths[sentence, number] = len(phrase)
            waiting[sentence, number, : len(phrase)] = torch.tensor(phrase)
            after[sentence, number, len(phrase)] = len(phrase)  # once whole, always whole
            for met in range(len(phrase)):
                for place, letter in enumerate(letters[sentence], 1):
                    after[sentence, number, met, place] = _begun(phrase, (*phrase[:met], letter))
    return _Table(lengths, waiting, alphabet, after, torch.full((batch, 1), pad))


def _begun(phrase: _Ids, said: _Ids) -> int:
    """Return how much of the phrase stands at the end of what was said."""
    sizes = range(min(len(phrase), len(said)), 0, -1)
    return next((size for size in sizes if phrase[:size] == said[-size:]), 0)


def _turns(
    worth: Float[Tensor, "batch candidates"],
    left: Int[Tensor, "batch candidates"],
    *,
    alive: Bool[Tensor, "batch candidates"],
    banks: int,
) -> Int[Tensor, "batch candidates"]:
    """Say when each candidate has its turn: by its rank in its bank, the fullest bank first."""
    order = worth.argsort(dim=1, descending=True, stable=True)
    bank = left.gather(1, order)
    of_bank = bank[:, :, None] == torch.arange(banks, device=worth.device)
    ranks = of_bank.cumsum(1).gather(2, bank[:, :, None]).squeeze(2)
    turns = torch.empty_like(left).scatter_(1, order, ranks * banks + bank)
    return turns.where(alive, NEVER)


def _needed(phrases: Sequence[_Ids]) -> list[_Ids]:
    """Return the phrases that do not lie within another: with that one they are met."""
    distinct = sorted(set(phrases), key=lambda phrase: (-len(phrase), phrase))
    needed: list[_Ids] = []
    for phrase in distinct:
        if phrase and not any(_within(phrase, other) for other in needed):
            needed.append(phrase)
    return needed


def _within(phrase: _Ids, ids: _Ids) -> bool:
    starts = range(len(ids) - len(phrase) + 1)
    return any(ids[start : start + len(phrase)] == phrase for start in starts)


def _check(prefix: _Ids, phrases: Sequence[_Ids], *, limit: int) -> None:
    missing = [phrase for phrase in phrases if not _within(phrase, prefix)]
    begun = max((_begun(phrase, prefix) for phrase in missing), default=0)
    left = sum(map(len, missing)) - begun
    if left > limit - len(prefix):
        sizes = " + ".join(str(len(phrase)) for phrase in missing)
        behind = f" behind a prefix of {len(prefix)}" if prefix else ""
        raise ValueError(
            f"phrases of {sizes} pieces do not fit a translation of at most {limit}{behind}: "
            f"raise max-length or search.extra, or ask for fewer"
        )
