"""Vocabulary extension: pieces for a new corpus, added to an existing vocabulary.

Characters missing from the vocabulary come first. Then byte-pair encoding continues: the corpus is
encoded with the existing vocabulary, and repeatedly the most frequent pair of neighbouring pieces
becomes a new piece. Existing ids do not change. For BPE a new piece ranks below all existing ones,
so a text is first segmented as before, and new pieces only merge the result. For unigram its
probability is its relative frequency. Text without new pieces is segmented as before.
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
    VocabularyPiece,
    append_pieces,
    read_model_type,
    read_pieces,
    without_prefix,
)
from transduce.data.tokenizer import Tokenizer

_LONGEST = 16  # characters of a piece, as in SentencePiece training
_SPACE = "▁"


class _Merge(NamedTuple):
    left: str
    right: str

    @property
    def text(self) -> str:
        return self.left + self.right


def extend_tokenizer(tokenizer: Tokenizer, texts: Iterable[str], *, count: int) -> Tokenizer:
    """Add up to `count` pieces; fewer if no further pair occurs twice in the corpus.

    A vocabulary of characters gets only characters, one of words only words.

    Args:
        tokenizer: to extend; its pieces keep their ids, only PAD, the last id, moves.
        texts: normalised text of both sides.
    """
    kind = read_model_type(tokenizer.to_bytes())
    words = Counter(word for text in texts for word in text.split(" ") if word)
    if kind == "word":
        pieces = Counter({f"{_SPACE}{word}": times for word, times in words.items()})
        return _with_pieces(tokenizer, _new_pieces(tokenizer, pieces)[:count])
    letters: Counter[str] = Counter()
    for word, times in words.items():
        for character in word:
            letters[character] += times
    characters = _new_pieces(tokenizer, letters)[:count]
    spelled = _with_pieces(tokenizer, characters)
    if kind == "char":  # never merges
        return spelled
    return _with_pieces(spelled, _Merging(spelled, words).merge(count - len(characters)))


def encode_without_prefix(tokenizer: Tokenizer, pieces: Sequence[str]) -> list[list[int]]:
    """Encode pieces without the space that is put before a text; "▁" is a space."""
    data = without_prefix(tokenizer.to_bytes())
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    return processor.encode([piece.replace(_SPACE, " ") for piece in pieces])


def _with_pieces(tokenizer: Tokenizer, pieces: Sequence[VocabularyPiece]) -> Tokenizer:
    return Tokenizer.from_bytes(append_pieces(tokenizer.to_bytes(), pieces))


def _new_pieces(tokenizer: Tokenizer, counts: Counter[str]) -> list[VocabularyPiece]:
    """Pieces for the characters or words without one, most frequent first.

    They get the lowest existing score, as no other piece competes with them.
    """
    known = read_pieces(tokenizer.to_bytes())
    lowest = min(piece.score for piece in known)
    new = counts.keys() - {piece.text for piece in known}
    ranked = sorted(new, key=lambda text: (-counts[text], text))
    return [VocabularyPiece(text, lowest) for text in ranked]


class _Merging:
    """Byte-pair encoding continued from a vocabulary: words, pair counts, words of each pair."""

    def __init__(self, tokenizer: Tokenizer, words: Counter[str]) -> None:
        pieces = read_pieces(tokenizer.to_bytes())
        self._bpe = read_model_type(tokenizer.to_bytes()) == "bpe"
        self._scores = {piece.text: piece.score for piece in pieces}
        self._lowest = min(self._scores.values())
        encoded = tokenizer.encode_all(list(words))
        self._words = [[pieces[number].text for number in ids] for ids in encoded]
        self._times = list(words.values())
        self._total = sum(map(operator.mul, map(len, self._words), self._times))
        self._counts: Counter[_Merge] = Counter()
        self._words_of: defaultdict[_Merge, set[int]] = defaultdict(set)
        for number in range(len(self._words)):
            self._count(number, +1)
        self._queue = [(-times, pair) for pair, times in self._counts.items()]
        heapq.heapify(self._queue)

    def merge(self, count: int) -> list[VocabularyPiece]:
        """Merge the most frequent pair until `count` pieces are new or no pair occurs twice."""
        added: list[VocabularyPiece] = []
        while self._queue and len(added) < count:
            times, pair = heapq.heappop(self._queue)
            if -times != self._counts[pair] or times > -2:
                continue  # outdated entry of the queue, or a single occurrence
            if pair.text not in self._scores:
                added.append(VocabularyPiece(pair.text, self._score(pair)))
                self._scores[pair.text] = added[-1].score
            elif not self._bpe:
                continue  # an existing piece, to which the model prefers the pair
            self._merge_everywhere(pair)
        return added

    def _score(self, pair: _Merge) -> float:
        """BPE: below all others. Unigram: log-probability, just above that of the pair."""
        if self._bpe:
            self._lowest -= 1.0
            return self._lowest
        both = self._scores[pair.left] + self._scores[pair.right]
        return max(math.log(self._counts[pair] / self._total), both + 0.1)

    def _merge_everywhere(self, pair: _Merge) -> None:
        """Merge every occurrence of the pair and update the counts of its neighbours."""
        changed: set[_Merge] = set()
        for number in sorted(self._words_of[pair]):
            changed |= self._count(number, -1)
            self._words[number] = _merged(self._words[number], pair)
            changed |= self._count(number, +1)
        for other in changed:
            if self._counts[other] > 0:
                heapq.heappush(self._queue, (-self._counts[other], other))

    def _count(self, number: int, sign: int) -> set[_Merge]:
        """Add (`sign` +1) or subtract (-1) the pairs of a word, and return them."""
        pairs: set[_Merge] = set()
        for left, right in itertools.pairwise(self._words[number]):
            if _may_merge(left, right):
                pair = _Merge(left, right)
                self._counts[pair] += sign * self._times[number]
                pairs.add(pair)
        for pair in pairs:
            (self._words_of[pair].add if sign > 0 else self._words_of[pair].discard)(number)
        return pairs


def _merged(word: Sequence[str], pair: _Merge) -> list[str]:
    pieces: list[str] = []
    for piece in word:
        if pieces and pieces[-1] == pair.left and piece == pair.right:
            pieces[-1] = pair.text
        else:
            pieces.append(piece)
    return pieces


def _may_merge(left: str, right: str) -> bool:
    """Whether two pieces are both letters or both without letters.

    This keeps words apart from punctuation, and excludes "<unk>" and "<0xC3>", which hold both.
    """
    characters = (left + right).lstrip(_SPACE)
    is_letter = {unicodedata.category(character)[0] in "LM" for character in characters}
    return len(is_letter) == 1 and len(left + right) <= _LONGEST
