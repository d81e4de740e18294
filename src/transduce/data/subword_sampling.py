"""Pieces drawn at random, for subword regularisation: the same for a seed in every process.

SentencePiece can draw too, but since 0.2.2 its random numbers differ from process to process
whatever the seed, so a run that was gone on with would learn from other pieces than one that never
stopped. Words are cut one by one, as pieces never cross a space.
"""

import math
from collections.abc import Iterator, Sequence
from random import Random

from transduce.data.sentencepiece_model import NORMAL, read_kind, read_pieces


class Cutter:
    """Cuts words anew with the pieces and scores of one SentencePiece model."""

    def __init__(self, model: bytes) -> None:
        """Take a model file.

        Raises:
            ValueError: if it is none, or neither unigram nor BPE.
        """
        self._cut = self._bpe if read_kind(model) == "bpe" else self._unigram
        self._scores = {one.text: one.score for one in read_pieces(model) if one.type == NORMAL}
        self._longest = max(map(len, self._scores), default=0)

    def draw(self, pieces: Sequence[str], *, alpha: float, chance: Random) -> list[str]:
        """Cut a sentence anew.

        Args:
            pieces: the sentence in its usual pieces; a word with a piece that is no text (unknown,
                a byte, a control piece) keeps them.
            alpha: for BPE the probability that a merge is left out, at each step (Provilkov et al.
                2020, algorithm 1); 0 gives the usual pieces. For unigram the exponent on the
                probability of a cut (Kudo 2018); the larger, the nearer to the usual pieces.
            chance: decides.

        Returns:
            Pieces that spell the same text.
        """
        known = self._scores
        drawn: list[str] = []
        for word in _words(pieces):
            cut = list(word)
            if all(piece in known for piece in word):
                fresh = self._cut("".join(word), alpha, chance)
                if all(piece in known for piece in fresh):  # else a character has no piece
                    cut = fresh
            drawn += cut
        return drawn

    def _bpe(self, word: str, alpha: float, chance: Random) -> list[str]:
        """Merge from characters up, always the first learned of those that are not left out."""
        scores, parts = self._scores, list(word)
        while True:
            ways = [
                (-score, at)
                for at in range(len(parts) - 1)
                if (score := scores.get(parts[at] + parts[at + 1])) is not None
            ]
            ways.sort()
            merged = next((at for _, at in ways if chance.random() >= alpha), None)
            if merged is None:
                return parts
            parts[merged : merged + 2] = [parts[merged] + parts[merged + 1]]

    def _unigram(self, word: str, alpha: float, chance: Random) -> list[str]:
        """Filter forward, sample backward: a cut has its probability to the power alpha."""
        ways = [[(0, 0.0)]]  # to each place from which place, with which ln weight
        totals = [0.0]
        for end in range(1, len(word) + 1):
            into = [
                (start, totals[start] + alpha * score)
                for start in range(max(0, end - self._longest), end)
                if (score := self._scores.get(word[start:end])) is not None
            ]
            ways.append(into)
            totals.append(_log_sum([weight for _, weight in into]))
        if totals[-1] == -math.inf:
            return [word]
        cut: list[str] = []
        end = len(word)
        while end:
            starts, weights = zip(*ways[end], strict=True)
            most = max(weights)
            (start,) = chance.choices(starts, [math.exp(weight - most) for weight in weights])
            cut.append(word[start:end])
            end = start
        return cut[::-1]


def _words(pieces: Sequence[str]) -> Iterator[Sequence[str]]:
    """The pieces of each word; one begins with a space, which "▁" stands for."""
    start = 0
    for at in range(1, len(pieces)):
        if pieces[at].startswith("▁"):
            yield pieces[start:at]
            start = at
    if pieces:
        yield pieces[start:]


def _log_sum(weights: Sequence[float]) -> float:
    most = max(weights, default=-math.inf)
    if most == -math.inf:
        return most
    return most + math.log(math.fsum(math.exp(weight - most) for weight in weights))
