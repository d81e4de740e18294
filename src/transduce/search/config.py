"""How translations are searched for. Free of torch, so that `--help` stays quick."""

import math
from dataclasses import dataclass
from typing import Literal

_MOST = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchConfig:
    """Beam search as the paper ran it (section 6.1); a beam of 1 is greedy search.

    Raises:
        ValueError: if a value cannot be searched with; the message names the field and the value.
    """

    beam: int = 4
    """Hypotheses followed side by side for each sentence."""

    alpha: float = 0.6
    """The length penalty's exponent: 0 compares sums of log-probabilities, 1 nearly means."""

    extra: int = 50
    """A translation has at most this many pieces more than its source, its EOS among them."""

    max_source: int = 1024
    """The longest source, in pieces, that is translated in one go."""

    long: Literal["split", "refuse"] = "split"
    """What becomes of a longer line: "split" translates it in parts, "refuse" is an error."""

    def __post_init__(self) -> None:
        for field in ("beam", "extra", "max_source"):
            if getattr(self, field) < 1:
                raise ValueError(f"search.{field} must be at least 1, not {getattr(self, field)}")
        for field in ("beam", "extra"):
            if getattr(self, field) > _MOST:  # hours and all memory, for nothing better
                raise ValueError(
                    f"search.{field} must be at most {_MOST:,}, not {getattr(self, field)}"
                )
        if not (math.isfinite(self.alpha) and self.alpha >= 0.0):
            raise ValueError(f"search.alpha must be a number from 0 up, not {self.alpha}")
        if self.long not in ("split", "refuse"):
            raise ValueError(f'search.long must be "split" or "refuse", not {self.long!r}')

    def limit(self, source_pieces: int) -> int:
        """Return the most pieces, EOS among them, that a source of so many pieces may become."""
        return source_pieces + self.extra
