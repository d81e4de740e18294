"""What a model's ln p is worth, as learned from a validation set: numbers that a bundle carries.

`translate.confidence` learns them and says what they mean.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from json import dumps

import numpy as np
import pydantic


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration:
    """What a ln p is worth: straight lines between knots, flat beyond them.

    Raises:
        ValueError: if the knots make no rising line within 0 and 1.
    """

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    log_probs: tuple[float, ...]
    """The knots, rising."""

    worth: tuple[float, ...]
    """The confidence at each knot, in [0, 1], never falling."""

    observations: int
    """Words or sentences that it was learned from."""

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.log_probs, self.log_probs[1:], strict=False))
        never_falling = all(a <= b for a, b in zip(self.worth, self.worth[1:], strict=False))
        sizes = len(self.log_probs) == len(self.worth) > 0
        bounded = all(map(math.isfinite, self.log_probs)) and all(0 <= w <= 1 for w in self.worth)
        if not (sizes and rising and never_falling and bounded):
            raise ValueError("a calibration needs rising knots with rising values from 0 to 1")

    def confidence(self, log_prob: float) -> float:
        """Return what this ln p is worth, in [0, 1]."""
        return float(np.interp(log_prob, self.log_probs, self.worth))


@dataclass(frozen=True, kw_only=True, slots=True)
class Confidence:
    """What was learned of one model, decoding as it does by default."""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    words: Calibration | None = None
    """None where the validation set has too few words."""

    sentences: Calibration | None = None
    """None where the validation set has too few sentences."""

    def sentence_confidence(self, log_probs: Sequence[float]) -> float | None:
        """Return the confidence of a translation from ln p of its pieces, EOS among them."""
        if self.sentences is None or not log_probs:
            return None
        return self.sentences.confidence(math.fsum(log_probs) / len(log_probs))

    def to_json(self) -> str:
        """Write it down for a bundle."""
        return f"{dumps(asdict(self), indent=2)}\n"

    @classmethod
    def from_json(cls, text: str) -> "Confidence":
        """Read what `to_json` wrote.

        Raises:
            ValueError: one line on what is wrong with it.
        """
        try:
            return pydantic.TypeAdapter(cls).validate_json(text)
        except pydantic.ValidationError as error:
            fault = error.errors(include_url=False)[0]
            place = ".".join(map(str, fault["loc"])) or "the text"
            raise ValueError(f"no calibration, {place}: {fault['msg']}") from None
