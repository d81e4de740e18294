"""Fingerprints of pairs: a few numbers and flags each instead of the text.

They take 71 bytes per pair, so millions fit into memory; a corpus of tens of millions is sampled.
Texts are compared by 64-bit hashes, whose collisions are negligible.
"""

import re
import unicodedata
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

from transduce.corpus_check.language import Script, SideClassifier
from transduce.data.corpus import STRAY_BYTE, NumberedPair, Pair, tidy

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_MOJIBAKE = re.compile(
    "\ufffd|Ã[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹Œ‘’“”•–—˜™š›œžŸ]|Â[\x80-\xbf]|â€|[ÐÑ][\x80-\xbf].?[ÐÑ]"
)  # UTF-8 decoded as Latin-1 or Windows-1252
_SAMPLE = 20_000  # pairs
_BLOCK = 1000  # consecutive pairs in a sample, as misalignment shows in neighbours


class Fingerprints(NamedTuple):
    """Fingerprints of some pairs, one row each; swapped pairs with their sides exchanged."""

    line: Int64[np.ndarray, " pairs"]
    pair: Int64[np.ndarray, " pairs"]
    """Hash of the normalised pair."""
    source: Int64[np.ndarray, " pairs"]
    """Hash of the normalised source."""
    folded_source: Int64[np.ndarray, " pairs"]
    """Hash of the source without case, spaces and punctuation."""
    folded_target: Int64[np.ndarray, " pairs"]
    folded_pair: Int64[np.ndarray, " pairs"]
    source_length: Int64[np.ndarray, " pairs"]
    """In non-blank characters."""
    target_length: Int64[np.ndarray, " pairs"]
    copy: Bool[np.ndarray, " pairs"]
    swapped: Bool[np.ndarray, " pairs"]
    empty: Bool[np.ndarray, " pairs"]
    undecoded: Bool[np.ndarray, " pairs"]
    control: Bool[np.ndarray, " pairs"]
    mojibake: Bool[np.ndarray, " pairs"]
    foreign: Bool[np.ndarray, " pairs"]
    """Not in the script of its side."""


_NUMBERS = 8  # fields; the others are flags
_ROW = np.dtype(
    [(name, "?" if index >= _NUMBERS else "q") for index, name in enumerate(Fingerprints._fields)]
)


class CorpusProfile(NamedTuple):
    """Typical properties of a corpus's sides."""

    sides: SideClassifier
    source_script: Script
    target_script: Script


class EvenSample:
    """A sample of 20,000 to 40,000 pairs, evenly spread over a stream of unknown length."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self._stride = 1

    def sample(self, pairs: Iterable[NumberedPair]) -> Iterator[NumberedPair]:
        """Pass all pairs on, and keep some."""
        next_line = 0
        for number, numbered in enumerate(pairs):
            if number == next_line:
                self.pairs.append(numbered.pair)
                if len(self.pairs) == 2 * _SAMPLE:
                    self.pairs, self._stride = self.pairs[::2], 2 * self._stride
                next_line = number + self._stride - number % self._stride
            yield numbered


def even_stride(count: int) -> int:
    """Return n if `EvenSample` keeps every n-th of so many pairs.

    >>> even_stride(39_999), even_stride(100_000)
    (1, 4)
    """
    stride = 1
    while -(-count // stride) >= 2 * _SAMPLE:
        stride *= 2
    return stride


def profile_corpus(pairs: Iterable[NumberedPair]) -> CorpusProfile:
    """Profile a corpus by an even sample of its pairs."""
    even = EvenSample()
    for _ in even.sample(pairs):
        pass
    return profile_pairs(even.pairs)


def profile_pairs(sample: Collection[Pair]) -> CorpusProfile:
    """Profile a corpus by sample pairs."""
    return CorpusProfile(
        SideClassifier(sample),
        Script([pair.source for pair in sample]),
        Script([pair.target for pair in sample]),
    )


class BlockSample:
    """A sample of a large corpus in blocks of consecutive pairs.

    Leaks into validation or test are detected for all pairs, as they invalidate the scores.
    """

    def __init__(self, *, every: int, held: Collection[int]) -> None:
        """Sample every n-th block; `held`: hashes of the folded sources of validation and test."""
        self.pairs = 0
        """Pairs passed so far."""
        self.sources = array("q")
        """Hashes of the folded sources, outside of the sample, that validation or test has too."""
        self.folded_pairs = array("q")
        """Hashes of their folded pairs."""
        self._every = every
        self._held = frozenset(held)

    def sample(self, pairs: Iterable[NumberedPair]) -> Iterator[NumberedPair]:
        """Pass on the pairs of the sampled blocks."""
        every, held = self._every, self._held
        for number, numbered in enumerate(pairs):
            if number // _BLOCK % every == 0:
                yield numbered
            elif (source := hash(folded := fold(numbered.pair.source))) in held:
                self.sources.append(source)
                self.folded_pairs.append(hash((folded, fold(numbered.pair.target))))
            self.pairs = number + 1


def fingerprint_pairs(
    pairs: Iterable[NumberedPair], profile: CorpusProfile, *, progress: Callable[[int], None]
) -> Fingerprints:
    """Compute the fingerprints of pairs.

    Args:
        pairs: as read; lines that are not UTF-8 have lone surrogates.
        progress: called with the line number, now and then.
    """

    def rows() -> Iterator[tuple[int, ...]]:
        for line, raw in pairs:
            if not line % 1000:
                progress(line)
            yield _fingerprint(line, raw, profile)

    table = np.fromiter(rows(), dtype=_ROW)
    return Fingerprints(*(table[name] for name in Fingerprints._fields))


def _fingerprint(line: int, raw: Pair, profile: CorpusProfile) -> tuple[int, ...]:
    source, target = tidy(raw.source), tidy(raw.target)
    swapped = profile.sides.swapped(Pair(source, target))
    foreign = profile.source_script.foreign(source) or profile.target_script.foreign(target)
    if swapped:
        source, target = target, source
    folded, folded_target = fold(source), fold(target)
    complete = bool(source and target)
    return (
        line,
        hash((source, target)),
        hash(source),
        hash(folded),
        hash(folded_target),
        hash((folded, folded_target)),
        len(source) - source.count(" "),
        len(target) - target.count(" "),
        complete and source == target,
        swapped,
        not complete,
        *_damage(f"{raw.source}\n{raw.target}"),
        foreign and not swapped,
    )


def fold(text: str) -> str:
    """Remove case, spaces and punctuation, unless nothing else is left."""
    if text.isascii():
        return text.lower().encode().translate(None, _NO_WORD).decode() or text
    return text.casefold().translate(_FOLD) or text


def _damage(text: str) -> tuple[bool, bool, bool]:
    """Whether a pair is not UTF-8, has control characters, or has wrongly decoded text."""
    control = _CONTROL.search(text) is not None
    if text.isascii():
        return False, control, False
    return STRAY_BYTE.search(text) is not None, control, _MOJIBAKE.search(text) is not None


class _Fold(dict[int, int | None]):
    """A lazy table for `str.translate` that keeps letters, marks and digits."""

    def __missing__(self, character: int) -> int | None:
        kept = unicodedata.category(chr(character))[0] in "LMN"
        self[character] = character if kept else None
        return self[character]


_FOLD = _Fold()
_NO_WORD = bytes(byte for byte in range(128) if not chr(byte).isalnum())
