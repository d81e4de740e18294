"""Confidence calibration, stored in bundles; `inference.confidence` fits it to a validation set."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from json import dumps

import numpy as np
import pydantic


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """Map a log-probability to a confidence: linear between knots, constant beyond them.

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

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.log_probs, self.log_probs[1:], strict=False))
        never_falling = all(a <= b for a, b in zip(self.worth, self.worth[1:], strict=False))
        sizes = len(self.log_probs) == len(self.worth) > 0
        bounded = all(map(math.isfinite, self.log_probs)) and all(0 <= w <= 1 for w in self.worth)
        if not (sizes and rising and never_falling and bounded):
            raise ValueError("a calibration needs rising knots with rising values from 0 to 1")

    def confidence(self, log_prob: float) -> float:
        """Return the confidence of a log-probability, in [0, 1]."""
        return float(np.interp(log_prob, self.log_probs, self.worth))


@dataclass(frozen=True, kw_only=True, slots=True)
class Confidence:
    """The calibration of a model with its default search settings."""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    words: Calibration | None = None
    """None if the validation set has too few words."""

    sentences: Calibration | None = None
    """None if the validation set has too few sentences."""

    def sentence_confidence(self, log_probs: Sequence[float]) -> float | None:
        """Return a translation's confidence from the log-probabilities of its pieces and EOS."""
        if self.sentences is None or not log_probs:
            return None
        return self.sentences.confidence(math.fsum(log_probs) / len(log_probs))

    def to_json(self) -> str:
        """Return the contents of a bundle's confidence.json."""
        return f"{dumps(asdict(self), indent=2)}\n"

    @classmethod
    def from_json(cls, text: str) -> "Confidence":
        """Read what `to_json` wrote.

        Raises:
            ValueError: if it is malformed.
        """
        try:
            return pydantic.TypeAdapter(cls).validate_json(text)
        except pydantic.ValidationError as error:
            fault = error.errors(include_url=False)[0]
            place = ".".join(map(str, fault["loc"])) or "the text"
            raise ValueError(f"no calibration, {place}: {fault['msg']}") from None
