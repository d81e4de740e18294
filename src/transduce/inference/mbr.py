"""Minimum Bayes risk decoding: select the candidate with the highest expected chrF.

The most probable translation is a single point; samples show where most of the probability mass
lies. A candidate's expected utility is its mean chrF against all candidates as references.

Source:
    Eikema and Aziz 2020, "Is MAP decoding all you need?"; chrF: Popović 2015.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

_MAX_N = 6  # characters of the longest n-gram; whitespace is not counted
_BETA_SQUARED = 4  # weight of recall over precision: chrF2 has β = 2


def select_mbr(candidates: Sequence[str], weights: Sequence[float] | None = None) -> int:
    """Return the index of the candidate with the highest expected chrF; the first of equals.

    A duplicate sample counts twice. Weights of the candidates as references are on any scale; None
    is uniform, as for samples. For an n-best list, see `normalised_probabilities`.

    >>> select_mbr(["ein Tier rennt", "ein Hund rennt", "ein Hund läuft"])
    1
    """
    return int(expected_chrf(candidates, weights).argmax())


def expected_chrf(
    candidates: Sequence[str], weights: Sequence[float] | None = None
) -> Float64[np.ndarray, " candidates"]:
    """Return each candidate's weighted mean chrF against all candidates, itself included.

    Arguments as for `select_mbr`; the scale is sacreBLEU's, 0 to 100.
    """
    relative = np.ones(len(candidates)) if weights is None else np.array(weights)
    probabilities = relative / relative.sum()
    unique: dict[str, int] = {}  # duplicates are compared once
    index = np.array([unique.setdefault(text, len(unique)) for text in candidates])
    totals = np.bincount(index, weights=probabilities)
    return (chrf_matrix(list(unique)) @ totals)[index]


def chrf_matrix(texts: Sequence[str]) -> Float64[np.ndarray, "hypotheses references"]:
    """Return sacreBLEU's sentence chrF2 of every text against every text.

    N-grams are counted once per text, so that a pair costs only a few sums.
    """
    count = len(texts)
    stripped = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((count, count)) for _ in range(3))
    for order in range(1, _MAX_N + 1):
        table = _n_gram_counts(stripped, order)
        totals = table.sum(1)
        matches = np.stack([np.minimum(row, table).sum(1) for row in table])
        both = (totals[:, None] > 0) & (totals[None, :] > 0)
        precision += np.divide(matches, totals[:, None], where=both, out=np.zeros_like(matches))
        recall += np.divide(matches, totals[None, :], where=both, out=np.zeros_like(matches))
        orders += both
    np.divide(precision, orders, where=orders > 0, out=precision)
    np.divide(recall, orders, where=orders > 0, out=recall)
    denominator = _BETA_SQUARED * precision + recall
    numerator = 100 * (1 + _BETA_SQUARED) * precision * recall
    return np.divide(numerator, denominator, where=denominator > 0, out=np.zeros_like(numerator))


def chrf(hypothesis: str, reference: str) -> float:
    """Return sacreBLEU's sentence chrF2 of one text against another."""
    return float(chrf_matrix([hypothesis, reference])[0, 1])


def normalised_probabilities(log_probs: Sequence[float]) -> tuple[float, ...]:
    """Return the translations' probabilities, normalised to sum to 1.

    >>> normalised_probabilities([-2000.0, -2000.0])
    (0.5, 0.5)
    """
    highest = max(log_probs)  # subtracted, so that exp does not underflow to 0 for all of them
    scaled = [math.exp(log_prob - highest) for log_prob in log_probs]
    return tuple(value / math.fsum(scaled) for value in scaled)


def _n_gram_counts(texts: Sequence[str], order: int) -> Float64[np.ndarray, "texts n_grams"]:
    counts = [Counter(text[i : i + order] for i in range(len(text) - order + 1)) for text in texts]
    columns = {n_gram: column for column, n_gram in enumerate(set().union(*counts))}
    table = np.zeros((len(texts), len(columns)))
    for row, counter in enumerate(counts):
        table[row, [columns[n_gram] for n_gram in counter]] = list(counter.values())
    return table
