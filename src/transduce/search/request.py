"""What is asked of search: for one sentence, and for one call. Free of torch."""

import math
from dataclasses import dataclass
from typing import NamedTuple


class Request(NamedTuple):
    """One sentence whose translations are searched."""

    source: tuple[int, ...]
    """Ids without EOS."""

    prefix: tuple[int, ...] = ()
    """Ids that every translation begins with; they are part of it and of its score."""

    phrases: tuple[tuple[int, ...], ...] = ()
    """Runs of ids each of which must occur in the translation, in whatever order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingConfig:
    """Pieces are drawn at random in place of the likeliest; a temperature near 0 is greedy search.

    Raises:
        ValueError: if a value cannot be drawn with; the message names it.
    """

    temperature: float = 1.0
    """Logits are divided by it: below 1 the likely becomes likelier."""

    top_k: int = 0
    """Only so many of the likeliest pieces may be drawn; 0 leaves all."""

    top_p: float = 1.0
    """Only the likeliest pieces that together reach this share of the probability that temperature
    and top-k leave; 1 leaves all."""

    seed: int = 1
    """The same seed, sentence and settings draw the same pieces, whatever else is in the batch."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0.0):
            raise ValueError(f"the temperature must be above 0, not {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top-k must not be negative, not {self.top_k}: 0 leaves all pieces")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top-p must be above 0 and at most 1, not {self.top_p}")
        if self.seed < 0:
            raise ValueError(f"the seed must not be negative, not {self.seed}")


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingConstraints:
    """What one call asks beyond the model's own `SearchConfig`. The defaults ask for nothing.

    Raises:
        ValueError: if a value cannot be searched with; the message names it.
    """

    no_repeat: int = 0
    """No run of so many pieces occurs twice in a translation, but in its prefix; 0 allows all."""

    min_length: int = 0
    """A translation has at least this many pieces, its EOS not counted."""

    max_length: int | None = None
    """A translation has at most this many pieces, its EOS among them. None: the model's limit."""

    sampling: SamplingConfig | None = None
    """Draw `beam` translations a sentence at random; None searches."""

    def __post_init__(self) -> None:
        for name in ("no_repeat", "min_length"):
            if getattr(self, name) < 0:
                shown = name.replace("_", "-")
                raise ValueError(f"{shown} must not be negative, not {getattr(self, name)}")
        if self.max_length is not None and self.max_length <= self.min_length:
            raise ValueError(
                f"max-length must be above min-length: {self.max_length} is not above "
                f"{self.min_length}"
            )

    def limit(self, usual: int) -> int:
        """Return the most pieces of a translation, EOS among them, where `usual` is the model's."""
        return usual if self.max_length is None else self.max_length


UNCONSTRAINED = DecodingConstraints()
"""Asks for nothing."""
