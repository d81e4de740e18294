"""More pieces for a vocabulary that has been learned: what a new corpus has and the old had not.

The characters that the old vocabulary cannot spell come first. Then byte-pair encoding goes on
where it stopped: the new corpus is cut by the old vocabulary, and again and again the pair of
neighbours met most often becomes a piece. Old ids stay what they are. For BPE a new piece ranks
below every old one: a text is first cut as before, and new pieces only join what they find. For
unigram it is as probable as it is frequent. Where no new piece applies nothing changes.
"""

import heapq
import itertools
import math
import operator
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import sentencepiece

from transduce.data.sentencepiece_model import (
    Piece,
    append_pieces,
    read_kind,
    read_pieces,
    without_prefix,
)
from transduce.data.tokenizer import Tokenizer

_LONGEST = 16  # characters of a piece, as where SentencePiece learns
_SPACE = "▁"


class _Pair(NamedTuple):
    """Two pieces that stand side by side."""

    left: str
    right: str

    @property
    def joined(self) -> str:
        return self.left + self.right


def extend(tokenizer: Tokenizer, texts: Iterable[str], *, count: int) -> Tokenizer:
    """Add at most `count` pieces; fewer where the corpus holds no further pair twice.

    Args:
        tokenizer: whose pieces all stay, under their ids; only PAD, the last id, moves.
        texts: tidy text of both sides.
        count: how many pieces to add.
    """
    words = Counter(word for text in texts for word in text.split(" ") if word)
    characters = _new_characters(tokenizer, words)[:count]
    spelled = _with_pieces(tokenizer, characters)
    return _with_pieces(spelled, _Merging(spelled, words).merge(count - len(characters)))


def cut_inside(tokenizer: Tokenizer, pieces: Sequence[str]) -> list[list[int]]:
    """Cut pieces into ids, without the space that goes before a text; "▁" is a space."""
    data = without_prefix(tokenizer.to_bytes())
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    return processor.encode([piece.replace(_SPACE, " ") for piece in pieces])


def _with_pieces(tokenizer: Tokenizer, pieces: Sequence[Piece]) -> Tokenizer:
    return Tokenizer.from_bytes(append_pieces(tokenizer.to_bytes(), pieces))


def _new_characters(tokenizer: Tokenizer, words: Counter[str]) -> list[Piece]:
    """The characters that have no piece, most frequent first.

    They rank with the least of what is there: where they stand nothing else can.
    """
    known = read_pieces(tokenizer.to_bytes())
    texts = {piece.text for piece in known}
    met: Counter[str] = Counter()
    for word, times in words.items():
        for character in word:
            if character not in texts:
                met[character] += times
    least = min(piece.score for piece in known)
    return [Piece(one, least) for one, _ in sorted(met.items(), key=lambda it: (-it[1], it[0]))]


class _Merging:
    """Byte-pair encoding that goes on from a vocabulary: words, and where each pair stands."""

    def __init__(self, tokenizer: Tokenizer, words: Counter[str]) -> None:
        pieces = read_pieces(tokenizer.to_bytes())
        self._bpe = read_kind(tokenizer.to_bytes()) == "bpe"
        self._scores = {piece.text: piece.score for piece in pieces}
        self._least = min(self._scores.values())
        cut = tokenizer.encode_all(list(words))
        self._words = [[pieces[number].text for number in ids] for ids in cut]
        self._times = list(words.values())
        self._total = sum(map(operator.mul, map(len, self._words), self._times))
        self._met: Counter[_Pair] = Counter()
        self._where: defaultdict[_Pair, set[int]] = defaultdict(set)
        for number in range(len(self._words)):
            self._count(number, +1)
        self._queue = [(-times, pair) for pair, times in self._met.items()]
        heapq.heapify(self._queue)

    def merge(self, count: int) -> list[Piece]:
        """Join the most frequent pair until there are `count` new pieces, or none stands twice."""
        found: list[Piece] = []
        while self._queue and len(found) < count:
            times, pair = heapq.heappop(self._queue)
            if -times != self._met[pair] or times > -2:
                continue  # it has been counted anew since, or is a chance meeting
            if pair.joined not in self._scores:
                found.append(Piece(pair.joined, self._score(pair)))
                self._scores[pair.joined] = found[-1].score
            elif not self._bpe:
                continue  # the old vocabulary has this piece, and finds the pair more probable
            self._join(pair)
        return found

    def _score(self, pair: _Pair) -> float:
        """BPE: below all others. Unigram: ln p, and a little above the pair it shall replace."""
        if self._bpe:
            self._least -= 1.0
            return self._least
        both = self._scores[pair.left] + self._scores[pair.right]
        return max(math.log(self._met[pair] / self._total), both + 0.1)

    def _join(self, pair: _Pair) -> None:
        """Make one piece of the pair wherever it stands, and count its new neighbours."""
        changed: set[_Pair] = set()
        for number in sorted(self._where[pair]):
            changed |= self._count(number, -1)
            self._words[number] = _joined(self._words[number], pair)
            changed |= self._count(number, +1)
        for one in changed:
            if self._met[one] > 0:
                heapq.heappush(self._queue, (-self._met[one], one))

    def _count(self, number: int, sign: int) -> set[_Pair]:
        """Count the pairs of a word, or (`sign` -1) take them back; return which."""
        pairs: set[_Pair] = set()
        for left, right in itertools.pairwise(self._words[number]):
            if _may_join(left, right):
                pair = _Pair(left, right)
                self._met[pair] += sign * self._times[number]
                pairs.add(pair)
        for pair in pairs:
            (self._where[pair].add if sign > 0 else self._where[pair].discard)(number)
        return pairs


def _joined(word: Sequence[str], pair: _Pair) -> list[str]:
    joined: list[str] = []
    for piece in word:
        if joined and joined[-1] == pair.left and piece == pair.right:
            joined[-1] = pair.joined
        else:
            joined.append(piece)
    return joined


def _may_join(left: str, right: str) -> bool:
    """Letters join letters, and signs and digits each other.

    So words stay words, and what stands for no text joins nothing: "<unk>" and "<0xC3>" hold both.
    """
    kinds = {unicodedata.category(one)[0] in "LM" for one in (left + right).lstrip(_SPACE)}
    return len(kinds) == 1 and len(left + right) <= _LONGEST
