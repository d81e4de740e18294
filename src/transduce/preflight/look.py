"""Every pair looked at once, and what is remembered of it: a few numbers, never its text.

So millions of pairs fit into memory: some fifty bytes each. Two texts that count as equal have one
hash; that two others share one is less likely than a fault of the memory.
"""

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int64

from transduce.preflight.language import Script, Sides
from transduce.text.corpus import NumberedPair, Pair, tidy

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_UNDECODED = re.compile("[\udc80-\udcff]")
_MOJIBAKE = re.compile(
    "\ufffd|Ã[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹Œ‘’“”•–—˜™š›œžŸ]|Â[\x80-\xbf]|â€|[ÐÑ][\x80-\xbf].?[ÐÑ]"
)  # what UTF-8 looks like when it is read as Latin-1 or Windows-1252
_SAMPLE = 20_000


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


class Usual(NamedTuple):
    """What the bulk of a corpus is like."""

    sides: Sides
    source_script: Script
    target_script: Script


def get_to_know(pairs: Iterable[NumberedPair]) -> Usual:
    """Learn what is usual from some twenty thousand pairs, spread evenly over all."""
    sample: list[Pair] = []
    stride = 1
    for number, (_, pair) in enumerate(pairs):
        if number % stride:
            continue
        sample.append(pair)
        if len(sample) == 2 * _SAMPLE:
            sample, stride = sample[::2], 2 * stride
    return Usual(
        Sides(sample),
        Script([pair.source for pair in sample]),
        Script([pair.target for pair in sample]),
    )


def look_at(
    pairs: Iterable[NumberedPair], usual: Usual, *, progress: Callable[[int], None]
) -> Look:
    """Look at every pair.

    Args:
        pairs: as read; a line that is not UTF-8 with lone surrogates.
        usual: what the bulk of the training pairs is like.
        progress: called with the number of the line, now and then.
    """
    numbers, marks, fold = array("q"), array("b"), _Fold()
    for line, raw in pairs:
        if not line % 1000:
            progress(line)
        source, target = tidy(raw.source), tidy(raw.target)
        swapped = usual.sides.swapped(Pair(source, target))
        foreign = usual.source_script.foreign(source) or usual.target_script.foreign(target)
        if swapped:
            source, target = target, source
        folded = source.casefold().translate(fold) or source
        numbers.extend(
            (
                line,
                hash((source, target)),
                hash(source),
                hash(folded),
                hash((folded, target.casefold().translate(fold) or target)),
                len(source) - source.count(" "),
                len(target) - target.count(" "),
            )
        )
        whole = bool(source and target)
        marks.extend(
            (
                whole and source == target,
                swapped,
                not whole,
                *_damage(f"{raw.source}\n{raw.target}"),
                foreign and not swapped,
            )
        )
    columns = np.array(numbers, dtype=np.int64).reshape(-1, 7).T.copy()
    truths = np.array(marks, dtype=np.bool_).reshape(-1, 7).T.copy()
    return Look(*columns, *truths)


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
