"""Settings and requests of search. Free of torch, so that `--help` stays quick."""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from transduce.io.settings import check_choices

_MAX_BEAM = 10_000
"""Beyond it search takes hours and all memory, and finds nothing better."""

_MAX_ALPHA = 50
"""Beyond it the length penalty of a long translation is too large for a number."""

_MAX_NGRAM = 10_000
"""Beyond it an n-gram is longer than most translations may be."""


class Request(NamedTuple):
    """One sentence to translate."""

    source: tuple[int, ...]
    """Ids without EOS."""
    prefix: tuple[int, ...] = ()
    """Ids that every translation starts with; they count for its length and score."""
    terms: tuple[tuple[int, ...], ...] = ()
    """Ids of the glossary terms that its translation must contain, which tell requests of equal ids
    apart; engines ignore them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchConfig:
    """Beam search as in the paper (section 6.1); a beam of 1 is greedy search.

    Raises:
        ValueError: if a value is out of range; the message names the field and the value.
    """

    beam: int = 4
    """Beam size: hypotheses kept per sentence at each step."""

    alpha: float = 0.6
    """Exponent of the length penalty: 0 ranks by log-probability, 1 nearly by its mean."""

    extra: int = 50
    """Maximum length of a translation beyond its source's, in pieces, EOS included."""

    max_source: int = 1024
    """Longest source, in pieces, that is translated in one go."""

    long: Literal["split", "refuse"] = "split"
    """What to do with a longer line: "split" translates it in parts, "refuse" is an error."""

    def __post_init__(self) -> None:
        for field in ("beam", "extra", "max_source"):
            if getattr(self, field) < 1:
                raise ValueError(f"search.{field} must be at least 1, not {getattr(self, field)}")
        for field, most in (("beam", _MAX_BEAM), ("extra", _MAX_BEAM), ("alpha", _MAX_ALPHA)):
            if getattr(self, field) > most:
                raise ValueError(
                    f"search.{field} must be at most {most:,}, not {getattr(self, field)}"
                )
        if not (math.isfinite(self.alpha) and self.alpha >= 0.0):
            raise ValueError(f"search.alpha must be finite and at least 0, not {self.alpha}")
        check_choices("search", self)

    def limit(self, source_pieces: int) -> int:
        """Return the maximum length of a translation of `source_pieces`, EOS included."""
        return source_pieces + self.extra


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingConfig:
    """Random sampling in place of search; a temperature near 0 is greedy search.

    Raises:
        ValueError: if a value is out of range; the message names it.
    """

    temperature: float = 1.0
    """Divides the logits: below 1 sharpens the distribution."""

    top_k: int = 0
    """Sample from this many most probable pieces; 0 = all."""

    top_p: float = 1.0
    """Nucleus sampling: keep the smallest set of pieces with this total probability, after
    temperature and top-k; 1 = all."""

    seed: int = 1
    """Seed, sentence and settings determine the samples, whatever else is in the batch."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature > 0.0):
            raise ValueError(f"the temperature must be above 0, not {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top-k must not be negative, not {self.top_k}: 0 keeps all pieces")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top-p must be above 0 and at most 1, not {self.top_p}")
        if self.seed < 0:
            raise ValueError(f"the seed must not be negative, not {self.seed}")


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingConstraints:
    """What one call asks for beyond the model's `SearchConfig`. The defaults constrain nothing.

    Raises:
        ValueError: if a value is out of range; the message names it.
    """

    no_repeat: int = 0
    """Block repeated n-grams of this size outside the prefix; 0 = off."""

    min_length: int = 0
    """Minimum length of a translation in pieces, EOS not included."""

    max_length: int | None = None
    """Maximum length of a translation in pieces, EOS included. None: the model's limit."""

    sampling: SamplingConfig | None = None
    """Draw `beam` samples a sentence; None searches."""

    def __post_init__(self) -> None:
        for name in ("no_repeat", "min_length"):
            if getattr(self, name) < 0:
                option = name.replace("_", "-")
                raise ValueError(f"{option} must not be negative, not {getattr(self, name)}")
        if self.no_repeat > _MAX_NGRAM:
            raise ValueError(f"no-repeat must be at most {_MAX_NGRAM:,}, not {self.no_repeat}")
        if self.max_length is not None and self.max_length <= self.min_length:
            raise ValueError(
                f"max-length must be above min-length: {self.max_length} is not above "
                f"{self.min_length}"
            )

    def limit(self, default: int) -> int:
        """Return the maximum length in pieces, EOS included, where `default` is the model's."""
        return default if self.max_length is None else self.max_length


UNCONSTRAINED = DecodingConstraints()
"""No constraints."""


def check_request(
    request: Request, constraints: DecodingConstraints, *, limit: int, eos: int, pad: int
) -> None:
    """Check that the prefix and the constraints of a request fit its limit.

    Args:
        request: the sentence.
        constraints: the call's.
        limit: maximum length of the translation in pieces, EOS included.
        eos: id that ends a translation.
        pad: the last id, which is never generated.

    Raises:
        ValueError: if an id is not a piece, or the constraints do not fit the limit.
    """
    for piece in request.prefix:
        if piece == eos or not 0 <= piece < pad:
            raise ValueError(
                f"prefix id {piece} is invalid: ids must be from 0 to {pad - 1} and not {eos} (EOS)"
            )
    if len(request.prefix) >= limit:
        raise ValueError(
            f"a prefix of {len(request.prefix)} pieces does not fit a translation of at most "
            f"{limit}: raise max-length or search.extra, or shorten the prefix"
        )
    if constraints.min_length >= limit:
        raise ValueError(
            f"min-length {constraints.min_length} and an EOS do not fit a translation of at most "
            f"{limit} pieces: lower min-length, or raise max-length or search.extra"
        )
