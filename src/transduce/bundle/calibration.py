"""Confidence calibration, stored in bundles; `inference.confidence` fits it to a validation set."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from json import dumps

import numpy as np
import pydantic

MIN_FAMILIARITY = 0.5
"""A sentence whose confidence is multiplied by less, as it is out of range, is unfamiliar."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """Map a log-probability to a confidence: linear between knots, constant beyond them.

    Below `lowest`, where nothing was observed, it is multiplied by lowest / log_prob, which falls
    towards 0.

    Raises:
        ValueError: if knots or confidences are not in order, or a confidence is not in [0, 1].
    """

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    log_probs: tuple[float, ...]
    """The knots, strictly increasing."""
    worth: tuple[float, ...]
    """The confidence at each knot, in [0, 1], non-decreasing."""
    observations: int
    """Number of words or sentences that it was fitted to."""
    lowest: float | None = None
    """Log-probability up to which there were observations; None in older files: no lower limit."""

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.log_probs, self.log_probs[1:], strict=False))
        never_falling = all(a <= b for a, b in zip(self.worth, self.worth[1:], strict=False))
        sizes = len(self.log_probs) == len(self.worth) > 0
        bounded = all(map(math.isfinite, self.log_probs)) and all(0 <= w <= 1 for w in self.worth)
        if not (sizes and rising and never_falling and bounded):
            raise ValueError("a calibration needs rising knots with rising values from 0 to 1")
        if self.lowest is not None and not -math.inf < self.lowest <= min(self.log_probs[0], 0.0):
            raise ValueError("lowest is above the first knot, positive, or infinite")

    def confidence(self, log_prob: float) -> float:
        """Return the confidence of a log-probability, in [0, 1]."""
        return float(np.interp(log_prob, self.log_probs, self.worth)) * self.familiarity(log_prob)

    def familiarity(self, log_prob: float) -> float:
        """Return 1 within the observed range, and less the further below it."""
        lowest = self.lowest
        return 1.0 if lowest is None or log_prob >= lowest else lowest / log_prob


@dataclass(frozen=True, kw_only=True, slots=True)
class Confidence:
    """The calibration of a model with its default search settings."""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    words: Calibration | None = None
    """None if the validation set has too few words."""
    sentences: Calibration | None = None
    """None if the validation set has too few sentences."""
    max_fragmentation: float | None = None
    """Fragmentation (`inference.confidence`) that 99 % of the validation sources stay below; None
    in older files: sources are not examined."""

    def sentence_confidence(
        self, log_probs: Sequence[float], *, fragmentation: float = 0.0
    ) -> float | None:
        """Return a translation's confidence, by the log-probabilities of its pieces and EOS."""
        if self.sentences is None or not log_probs:
            return None
        worth = self.sentences.confidence(math.fsum(log_probs) / len(log_probs))
        return worth * self._source_familiarity(fragmentation)

    def is_unfamiliar(self, log_probs: Sequence[float], *, fragmentation: float = 0.0) -> bool:
        """Return whether a sentence is unlike the validation set, by its source or translation."""
        if self.sentences is None or not log_probs:
            return False
        target = self.sentences.familiarity(math.fsum(log_probs) / len(log_probs))
        return target * self._source_familiarity(fragmentation) < MIN_FAMILIARITY

    def _source_familiarity(self, fragmentation: float) -> float:
        limit = self.max_fragmentation
        return 1.0 if limit is None or fragmentation <= limit else limit / fragmentation

    def to_json(self) -> str:
        """Return the contents of a bundle's confidence.json."""
        return f"{dumps(asdict(self), indent=2)}\n"
