"""The proof that goes with an export: a sample decoded by both sides, and where they first part.

Both sides cut the text themselves and search greedily, one sentence at a time, with our limit on
length. Of Argos, whose search has settings of its own, what it says is held against CTranslate2
with these settings and our tokenizer.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import zip_longest
from typing import Literal, NamedTuple

Format = Literal["marian", "ctranslate2", "argos"]


class Difference(NamedTuple):
    """Where two sides first say something else."""

    sentence: int
    """Counted from 1 in the sample."""

    place: int
    """Counted from 1 in the sentence: its source and EOS first, then what was said."""

    ours: str
    theirs: str
    """The pieces there (of Argos, words); empty where a side has ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """What decoding a sample with both sides has shown."""

    format: Format
    sentences: int = 0
    equal: int = 0
    """Sentences that both sides cut alike and translate into the same pieces."""

    first_difference: Difference | None = None
    gap: float | None = None
    """The largest difference of two logits, where the other side shows its logits."""

    not_made: str = ""
    """Why no proof was made, and what to do about it; empty if there is one."""

    @property
    def holds(self) -> bool:
        """Whether there is a proof and both sides agree in everything."""
        return not self.not_made and self.equal == self.sentences

    def __str__(self) -> str:
        """The proof as a line for people."""
        if self.not_made:
            return f"{self.format}: no proof was made: {self.not_made}"
        said = f"{self.format}: {self.equal} of {self.sentences} sentences are equal on both sides"
        if self.gap is not None:
            said += f", logits differ by {self.gap:.1e} at most"
        if (first := self.first_difference) is not None:
            said += (
                f"; the first difference is in sentence {first.sentence}, place {first.place}: "
                f"{first.ours!r} here, {first.theirs!r} there"
            )
        return said


class Both(NamedTuple):
    """A sentence's pieces, source and translation, as both sides have them."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]


def missing(format: Format, *modules: str) -> Proof | None:
    """Say what must be installed before a proof can be made, or None if it can."""
    lacking = [module for module in modules if find_spec(module) is None]
    if not lacking:
        return None
    names = " ".join(lacking)
    return Proof(format=format, not_made=f"{names} is not installed here: pip install {names}")


def compared(format: Format, pairs: Iterable[Both], *, gap: float | None = None) -> Proof:
    """Count the sentences that are equal, and find the first difference."""
    count, equal = 0, 0
    first: Difference | None = None
    for count, both in enumerate(pairs, 1):
        apart = next(_differences(both), None)
        equal += apart is None
        if apart is not None and first is None:
            first = Difference(count, *apart)
    return Proof(format=format, sentences=count, equal=equal, first_difference=first, gap=gap)


def _differences(both: Both) -> Iterator[tuple[int, str, str]]:
    for number, (ours, theirs) in enumerate(zip_longest(*both, fillvalue=""), 1):
        if ours != theirs:
            yield number, ours, theirs
