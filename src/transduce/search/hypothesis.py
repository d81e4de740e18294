"""What search asks of a model, and what it answers with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable  # the shape checks of the tests ask whether a toy is one
class Steps(Protocol):
    """All that search knows of a model: some sentences in mid-translation, a few rows for each.

    Rows are sentence-major: row = sentence x beam + b. The first `step` reads PAD in every row.
    """

    def step(self, ids: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Read one more id a row and return the logits of the next; search may write into them."""
        ...

    def reorder(self, beam_indices: Int[Tensor, " rows"]) -> None:
        """Let new row r go on from old row `rows[r]`, a row of the same sentence."""
        ...

    def select(self, batch_indices: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences (indices into the present ones, ascending) and their rows."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypothesis:
    """One translation of one sentence, in ids."""

    ids: tuple[int, ...]
    """What was said, EOS at the end if it was reached."""

    log_probs: tuple[float, ...]
    """ln p of each of the ids, given the source and the ids before it."""

    log_prob: float
    """Their sum: ln p of the whole."""

    score: float
    """`log_prob` over the length penalty; the best hypothesis has the highest."""

    finished: bool
    """Whether it ends in EOS; False where the limit cut it."""

    @classmethod
    def scored(
        cls, ids: Sequence[int], log_probs: Sequence[float], *, alpha: float, finished: bool
    ) -> "Hypothesis":
        """Sum and score what was said; finished hypotheses and cut ones stand on one scale."""
        log_prob = math.fsum(log_probs)
        return cls(
            ids=tuple(ids),
            log_probs=tuple(log_probs),
            log_prob=log_prob,
            score=log_prob / length_penalty(len(ids), alpha),
            finished=finished,
        )


def length_penalty(length: int, alpha: float) -> float:
    """Return what a sum of log-probabilities is divided by, so that long translations can win.

    Args:
        length: pieces generated, EOS among them.
        alpha: 0 makes the penalty 1 whatever the length.

    Source:
        Wu et al. 2016 (GNMT), equation 14: ((5 + |Y|) / 6)^α; the paper takes α = 0.6 from there.

    >>> length_penalty(1, 0.6), length_penalty(7, 1.0)
    (1.0, 2.0)
    """
    return ((5 + length) / 6) ** alpha
