"""Minimum Bayes risk: of some translations the one that the others agree with most.

The likeliest translation is one point; samples say where most of the probability lies. The risk of
a candidate is what it loses, in chrF, against all candidates, as if each of them were the truth.

Source:
    Eikema and Aziz 2020, "Is MAP decoding all you need?"; chrF: Popović 2015.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

_ORDER = 6  # characters of the longest n-gram; blanks do not count
_RECALL = 4  # how much more recall weighs than precision: the square of chrF2's 2


def most_agreed(candidates: Sequence[str], weights: Sequence[float] | None = None) -> int:
    """Return the place of the candidate whose expected chrF is highest; of equals, the first.

    Args:
        candidates: translations of one sentence. One that was drawn twice counts twice.
        weights: of each candidate as a truth, in any scale; None weighs them alike, as is right for
            samples. For an n-best list, see `shares`.

    Raises:
        ValueError: if there is no candidate, or the weights do not fit.

    >>> most_agreed(["ein Tier rennt", "ein Hund rennt", "ein Hund läuft"])
    1
    """
    return int(expected_chrf(candidates, weights).argmax())


def expected_chrf(
    candidates: Sequence[str], weights: Sequence[float] | None = None
) -> Float64[np.ndarray, " candidates"]:
    """Return for each candidate the mean of its chrF against all, itself among them, by weight.

    The arguments and errors are those of `most_agreed`; the scale is sacreBLEU's, 0 to 100.
    """
    shares_of = _checked(candidates, weights)
    places: dict[str, int] = {}
    of = np.array([places.setdefault(text, len(places)) for text in candidates])
    each = np.bincount(of, weights=shares_of)
    return (chrf_table(list(places)) @ each)[of]


def chrf_table(texts: Sequence[str]) -> Float64[np.ndarray, "hypotheses references"]:
    """Return sacreBLEU's sentence chrF2 of every text against every text.

    The n-grams of each are counted once; after that a pair costs some sums.
    """
    count = len(texts)
    bare = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((count, count)) for _ in range(3))
    for order in range(1, _ORDER + 1):
        table = _counted(bare, order)
        totals = table.sum(1)
        matches = np.stack([np.minimum(row, table).sum(1) for row in table])
        there = (totals[:, None] > 0) & (totals[None, :] > 0)
        precision += np.divide(matches, totals[:, None], where=there, out=np.zeros_like(matches))
        recall += np.divide(matches, totals[None, :], where=there, out=np.zeros_like(matches))
        orders += there
    np.divide(precision, orders, where=orders > 0, out=precision)
    np.divide(recall, orders, where=orders > 0, out=recall)
    below = _RECALL * precision + recall
    above = 100 * (1 + _RECALL) * precision * recall
    return np.divide(above, below, where=below > 0, out=np.zeros_like(above))


def chrf(hypothesis: str, reference: str) -> float:
    """Return sacreBLEU's sentence chrF2 of one text against another."""
    return float(chrf_table([hypothesis, reference])[0, 1])


def shares(log_probs: Sequence[float]) -> tuple[float, ...]:
    """Return what share of their common probability each of some translations has.

    >>> shares([-2000.0, -2000.0])
    (0.5, 0.5)
    """
    most = max(log_probs)
    parts = [math.exp(one - most) for one in log_probs]
    return tuple(part / math.fsum(parts) for part in parts)


def _checked(
    candidates: Sequence[str], weights: Sequence[float] | None
) -> Float64[np.ndarray, " candidates"]:
    if not candidates:
        raise ValueError("there is no candidate to choose from")
    given = np.ones(len(candidates)) if weights is None else np.array(weights, dtype=np.float64)
    if len(given) != len(candidates):
        raise ValueError(f"{len(candidates)} candidates need as many weights, not {len(given)}")
    if not np.isfinite(given).all() or (given < 0).any() or given.sum() == 0:
        raise ValueError("weights must be finite, not negative, and not all 0")
    return given / given.sum()


def _counted(texts: Sequence[str], order: int) -> Float64[np.ndarray, "texts n_grams"]:
    """How often each n-gram that occurs stands in each text."""
    columns: dict[str, int] = {}
    counts = [
        Counter(text[start : start + order] for start in range(len(text) - order + 1))
        for text in texts
    ]
    for counter in counts:
        for n_gram in counter:
            columns.setdefault(n_gram, len(columns))
    table = np.zeros((len(texts), len(columns)))
    for row, counter in enumerate(counts):
        table[row, [columns[n_gram] for n_gram in counter]] = list(counter.values())
    return table
