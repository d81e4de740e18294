"""Hypotheses: what search returns, and how they are ranked."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Hypothesis:
    """One translation of one sentence, in ids."""

    ids: tuple[int, ...]
    """Generated ids, with EOS at the end if it was reached."""
    log_probs: tuple[float, ...]
    """Log-probability of each id, given the source and the ids before it."""
    log_prob: float
    """Their sum: the log-probability of the translation."""
    score: float
    """`log_prob` over the length penalty; the best hypothesis has the highest."""
    finished: bool
    """True if it ends in EOS, False if the length limit cut it."""

    @classmethod
    def scored(
        cls, ids: Sequence[int], log_probs: Sequence[float], *, alpha: float, eos: int
    ) -> "Hypothesis":
        """Build a hypothesis from its ids and their log-probabilities.

        Args:
            ids: generated ids.
            log_probs: log-probability of each id.
            alpha: exponent of the length penalty.
            eos: id that ends a translation; the score does not depend on whether it does.
        """
        log_prob = math.fsum(log_probs)  # correctly rounded
        return cls(
            ids=tuple(ids),
            log_probs=tuple(log_probs),
            log_prob=log_prob,
            score=log_prob / length_penalty(len(ids), alpha),
            finished=ids[-1] == eos,
        )


def length_penalty(length: int, alpha: float) -> float:
    """Return the divisor of a hypothesis's log-probability, so that long translations can win.

    Args:
        length: generated pieces, EOS included.
        alpha: exponent; 0 makes the penalty 1 for any length.

    Source:
        Wu et al. 2016 (GNMT), equation 14: ((5 + |Y|) / 6)^α; the paper takes α = 0.6 from there.

    >>> length_penalty(1, 0.6), length_penalty(7, 1.0)
    (1.0, 2.0)
    """
    return ((5 + length) / 6) ** alpha


def rank(hypotheses: list[Hypothesis], *, beam: int, constrained: bool) -> list[Hypothesis]:
    """Return a sentence's best hypotheses, highest score first.

    Args:
        hypotheses: all that search collected for the sentence.
        beam: number of hypotheses to return at most.
        constrained: whether constraints applied, which decides the error's advice.

    Raises:
        ValueError: if there are none.
    """
    if not hypotheses and not constrained:
        raise ValueError("the model's logits are NaN or infinite: check its weights and precision")
    if not hypotheses:
        raise ValueError(
            "a sentence has no translation that satisfies all constraints: lower no-repeat or "
            "min-length, or use another prefix"
        )
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:beam]
