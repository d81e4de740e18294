"""Every pair looked at once, and what is remembered of it: a few numbers, never its text.

So millions of pairs fit into memory: 63 bytes each, and of a corpus of tens of millions a sample
does. Two texts that count as equal have one hash; that two others share one is less likely than a
fault of the memory.
"""

import re
import unicodedata
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

from transduce.corpus_check.language import Script, Sides
from transduce.data.corpus import NumberedPair, Pair, tidy

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_UNDECODED = re.compile("[\udc80-\udcff]")
_MOJIBAKE = re.compile(
    "\ufffd|Ã[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹Œ‘’“”•–—˜™š›œžŸ]|Â[\x80-\xbf]|â€|[ÐÑ][\x80-\xbf].?[ÐÑ]"
)  # what UTF-8 looks like when it is read as Latin-1 or Windows-1252
_SAMPLE = 20_000
_BLOCK = 1000  # pairs in a row that are looked at where not all are: neighbours tell something too


class Look(NamedTuple):
    """What is remembered of some pairs, a row each; of a swapped one with its sides exchanged."""

    line: Int64[np.ndarray, " pairs"]
    pair: Int64[np.ndarray, " pairs"]
    """Hash of the tidied pair."""
    source: Int64[np.ndarray, " pairs"]
    """Hash of the tidied source."""
    folded_source: Int64[np.ndarray, " pairs"]
    """Hash of the source without case, spaces and punctuation."""
    folded_pair: Int64[np.ndarray, " pairs"]
    source_length: Int64[np.ndarray, " pairs"]
    """In characters that are not blank."""
    target_length: Int64[np.ndarray, " pairs"]
    copy: Bool[np.ndarray, " pairs"]
    swapped: Bool[np.ndarray, " pairs"]
    empty: Bool[np.ndarray, " pairs"]
    undecoded: Bool[np.ndarray, " pairs"]
    control: Bool[np.ndarray, " pairs"]
    mojibake: Bool[np.ndarray, " pairs"]
    foreign: Bool[np.ndarray, " pairs"]
    """In another script than its side."""


_NUMBERS = _MARKS = 7  # fields of either kind


class Usual(NamedTuple):
    """What the bulk of a corpus is like."""

    sides: Sides
    source_script: Script
    target_script: Script


class Spread:
    """Some twenty thousand pairs, or up to twice as many, spread evenly over all that pass."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self._stride = 1

    def among(self, pairs: Iterable[NumberedPair]) -> Iterator[NumberedPair]:
        """Hand all pairs on, and keep some."""
        wanted = 0
        for number, one in enumerate(pairs):
            if number == wanted:
                self.pairs.append(one.pair)
                if len(self.pairs) == 2 * _SAMPLE:
                    self.pairs, self._stride = self.pairs[::2], 2 * self._stride
                wanted = number + self._stride - number % self._stride
            yield one


def get_to_know(pairs: Iterable[NumberedPair]) -> Usual:
    """Learn what is usual from some twenty thousand pairs, spread evenly over all."""
    spread = Spread()
    for _ in spread.among(pairs):
        pass
    return usual_of(spread.pairs)


def usual_of(sample: Collection[Pair]) -> Usual:
    """Learn what is usual from some pairs."""
    return Usual(
        Sides(sample),
        Script([pair.source for pair in sample]),
        Script([pair.target for pair in sample]),
    )


class Blocks:
    """Every so many blocks of a corpus that is too large to look at closely as a whole.

    Whether a pair of it stands in validation or test is looked at for all, as it spoils the scores.
    """

    def __init__(self, *, every: int, held: Collection[int]) -> None:
        """Get ready to choose.

        Args:
            every: one block in so many is chosen; 1 takes all.
            held: hashes of the folded sources of validation and test.
        """
        self.pairs = 0
        """That passed."""
        self.sources = array("q")
        """Hashes of the folded sources that validation or test holds too; of all if all are chosen,
        then they are in the look."""
        self.both = array("q")
        """Hashes of these pairs, folded."""
        self._every = every
        self._held = frozenset(held)

    def among(self, pairs: Iterable[NumberedPair]) -> Iterator[NumberedPair]:
        """Hand on the pairs, tidy ones, of the chosen blocks."""
        every, held = self._every, self._held
        for number, one in enumerate(pairs):
            if number // _BLOCK % every == 0:
                yield one
            elif (source := hash(folded := _folded(one.pair.source))) in held:
                self.sources.append(source)
                self.both.append(hash((folded, _folded(one.pair.target))))
            self.pairs = number + 1


def look_at(
    pairs: Iterable[NumberedPair], usual: Usual, *, progress: Callable[[int], None]
) -> Look:
    """Look at every pair.

    Args:
        pairs: as read; a line that is not UTF-8 with lone surrogates.
        usual: what the bulk of the training pairs is like.
        progress: called with the number of the line, now and then.
    """
    columns = [array("q") for _ in range(_NUMBERS)]
    truths = [array("b") for _ in range(_MARKS)]
    for line, raw in pairs:
        if not line % 1000:
            progress(line)
        numbers, marks = _seen(line, raw, usual)
        for column, number in zip(columns, numbers, strict=True):
            column.append(number)
        for column, mark in zip(truths, marks, strict=True):
            column.append(mark)
    return Look(
        *(np.frombuffer(column, dtype=np.int64) for column in columns),
        *(np.frombuffer(column, dtype=np.bool_) for column in truths),
    )


def _seen(line: int, raw: Pair, usual: Usual) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """The fields of a row of `Look`: its numbers, and its marks."""
    source, target = tidy(raw.source), tidy(raw.target)
    swapped = usual.sides.swapped(Pair(source, target))
    foreign = usual.source_script.foreign(source) or usual.target_script.foreign(target)
    if swapped:
        source, target = target, source
    folded = _folded(source)
    whole = bool(source and target)
    numbers = (
        line,
        hash((source, target)),
        hash(source),
        hash(folded),
        hash((folded, _folded(target))),
        len(source) - source.count(" "),
        len(target) - target.count(" "),
    )
    damage = _damage(f"{raw.source}\n{raw.target}")
    copy, foreign = whole and source == target, foreign and not swapped
    return numbers, (copy, swapped, not whole, *damage, foreign)


def _folded(text: str) -> str:
    """A text without case, spaces and punctuation; one that has nothing else as it is."""
    if text.isascii():
        return text.lower().encode().translate(None, _NO_WORD).decode() or text
    return text.casefold().translate(_FOLD) or text


def _damage(text: str) -> tuple[bool, bool, bool]:
    """Whether a pair is not UTF-8, holds control characters, holds text decoded wrongly."""
    control = _CONTROL.search(text) is not None
    if text.isascii():
        return False, control, False
    return _UNDECODED.search(text) is not None, control, _MOJIBAKE.search(text) is not None


class _Fold(dict[int, int | None]):
    """For `str.translate`: leaves out what is no letter, mark or digit. Filled as it is asked."""

    def __missing__(self, character: int) -> int | None:
        kept = unicodedata.category(chr(character))[0] in "LMN"
        self[character] = character if kept else None
        return self[character]


_FOLD = _Fold()
_NO_WORD = bytes(byte for byte in range(128) if not chr(byte).isalnum())
