"""What a translator returns: translations, scores of given ones, continuations."""

import html
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
    """The translation of one sentence."""

    source: str
    """The sentence as given."""
    text: str
    score: float
    """Log-probability over the length penalty; for a split sentence, the sum over its parts. NaN
    if token scores were not requested and it is costly to compute."""
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    """The generated pieces; each part ends in "</s>" unless the length limit cut it."""
    log_probs: tuple[float, ...]
    """Log-probability of each piece; empty if not requested and costly to compute."""
    others: tuple[Alternative, ...] = ()
    """Further translations, best first, if requested."""
    parts: int = 1
    """Number of parts; above 1 if the sentence was too long and was split."""
    flag: str = ""
    """What was wrong with the first translation: repetition or excessive length; "" if nothing."""
    mended: bool = False
    """Whether this is a second translation, with repetition blocked."""
    recased: str = ""
    """The source as it was translated, if its case was changed for that; "" if not."""
    confidence: float | None = None
    """Estimated quality, 0 to 1; None without a calibration or token scores."""
    unfamiliar: bool = False
    """Whether source or translation is unlike the validation set: the confidence is a guess."""
    words: tuple[tuple[str, float], ...] = ()
    """Each word with its confidence, likewise."""

    def _repr_html_(self) -> str:
        """Show the translation in a notebook, with source, score, confidence and flag below."""
        facts = [self.source, f"score {self.score:.2f}"]
        if self.confidence is not None:
            facts.append(f"confidence {self.confidence:.2f}")
        small = html.escape(" · ".join([*facts, *filter(None, [self.flag])]))
        return f'<p dir="auto">{html.escape(self.text)}<br><small>{small}</small></p>'


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetScore:
    """The model's score of a given translation."""

    source: str
    target: str
    pieces: tuple[str, ...]
    """The target's pieces and "</s>"; text that the model protects is one."""
    log_probs: tuple[float, ...]
    """Log-probability of each piece, given the source and the pieces before it."""

    @property
    def log_prob(self) -> float:
        """Log-probability of the target."""
        return math.fsum(self.log_probs)

    @property
    def mean(self) -> float:
        """Log-probability per piece: comparable between sentences of different length."""
        return self.log_prob / len(self.log_probs)

    def __str__(self) -> str:
        return f"{self.log_prob:.4f}\t{self.mean:.4f}"


class Continuation(NamedTuple):
    """A possible continuation of a partial translation."""

    piece: str
    """The next piece."""
    probability: float
    """The next piece's probability."""
    text: str
    """The best translation with this continuation."""
