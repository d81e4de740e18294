"""What became of a sentence."""

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """Another translation of the same sentence."""

    text: str
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """What became of one sentence."""

    source: str
    """The sentence as it was given."""

    text: str

    score: float
    """ln p of the pieces over the length penalty; of a long line, the sum over its parts."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    """What the model said, piece by piece; each part ends in "</s>" unless the limit cut it."""

    log_probs: tuple[float, ...]
    """ln p of each piece; empty where it was not asked for and would have cost something."""

    others: tuple[Alternative, ...] = ()
    """The next best, best first, if more than one translation was asked for."""

    parts: int = 1
    """In how many parts the sentence was translated; above 1 it was too long for one."""

    flag: str = ""
    """What was odd about the first translation, a loop or far too many pieces; "" if nothing."""

    mended: bool = False
    """Whether this is a second translation, made with repetition forbidden."""

    confidence: float | None = None
    """How good the translation may be, from 0 to 1; None where the model was not calibrated, or ln
    p of the pieces was not asked for."""

    words: tuple[tuple[str, float], ...] = ()
    """Each word with its confidence, on the same terms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """How likely a given translation is."""

    source: str
    target: str

    pieces: tuple[str, ...]
    """Of the target, and "</s>"."""

    log_probs: tuple[float, ...]
    """ln p of each, given the source and the pieces before it."""

    @property
    def log_prob(self) -> float:
        """ln p of the whole."""
        return math.fsum(self.log_probs)

    @property
    def mean(self) -> float:
        """ln p per piece: so sentences of different length can be held against each other."""
        return self.log_prob / len(self.log_probs)


class GoingOn(NamedTuple):
    """A way to go on with a translation."""

    piece: str
    """The next piece."""
    probability: float
    """The model's, given what is before it."""
    text: str
    """The best translation that goes on so."""
