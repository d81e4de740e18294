"""Do two rows of numbers stand in the same order? Two rank correlations, ties and all."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple


class Order(NamedTuple):
    """How the order of one row of numbers is that of another."""

    agree: int
    """Pairs that stand in the same order in both."""
    disagree: int
    tied: int
    """Pairs that are equal in one of the two, which says nothing."""
    spearman: float | None
    """None where all of one row are equal."""
    kendall: float | None
    """τ-b, which allows for ties."""


def compare(one: Sequence[float], other: Sequence[float]) -> Order:
    """Compare the orders of two rows of numbers, item by item.

    >>> compare([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 40.0, 30.0])
    Order(agree=5, disagree=1, tied=0, spearman=0.8, kendall=0.6666666666666666)
    """
    signs = [
        (_sign(a[0] - b[0]), _sign(a[1] - b[1]))
        for a, b in itertools.combinations(zip(one, other, strict=True), 2)
    ]
    agree = sum(ours * theirs > 0 for ours, theirs in signs)
    disagree = sum(ours * theirs < 0 for ours, theirs in signs)
    untied = math.sqrt(
        sum(ours != 0 for ours, _ in signs) * sum(theirs != 0 for _, theirs in signs)
    )
    return Order(
        agree=agree,
        disagree=disagree,
        tied=len(signs) - agree - disagree,
        spearman=_pearson(ranks(one), ranks(other)),
        kendall=(agree - disagree) / untied if untied else None,
    )


def ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1 for the least; equal ones share the mean of their ranks.

    >>> ranks([7.0, 5.0, 7.0, 9.0])
    [2.5, 1.0, 2.5, 4.0]
    """
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


def _pearson(one: Sequence[float], other: Sequence[float]) -> float | None:
    mean, its = sum(one) / len(one), sum(other) / len(other)
    together = sum((a - mean) * (b - its) for a, b in zip(one, other, strict=True))
    apart = math.sqrt(sum((a - mean) ** 2 for a in one) * sum((b - its) ** 2 for b in other))
    return together / apart if apart else None


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)
