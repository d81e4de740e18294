"""Which rows differ from the base row beyond what another seed would change.

Three seeds say little of a row's own spread: by a t-test with two degrees of freedom, corrected for
a dozen rows, a difference would have to be sixteen times its standard error. So the spread is taken
to be the same in all rows and is estimated from all of them, seeds being blocks: with 14 rows and
3 seeds Student's t has 26 degrees of freedom.
"""

import math
import statistics
from collections.abc import Mapping, Sequence


def differing_rows(values: Mapping[str, Sequence[float]], *, than: str) -> dict[str, float]:
    """Return the rows whose mean differs from that of another at 5 %, with the difference.

    By Student's t with the spread of all rows, corrected for their number (Holm), and only where
    every seed agrees about the sign.

    Args:
        values: a measurement of every row, in the order of the seeds; rows with fewer seeds than
            `than` are left out.
        than: the row that the others are compared with.

    >>> differing_rows({"base": [1.0, 2.0], "A": [1.0, 2.5], "B": [5.0, 6.0]}, than="base")
    {'B': 4.0}
    """
    base = values[than]
    rows = {name: row for name, row in values.items() if len(row) == len(base)}
    means = {name: statistics.fmean(row) for name, row in rows.items()}
    grand = statistics.fmean(means.values())
    seeds = [statistics.fmean(column) - grand for column in zip(*rows.values(), strict=True)]
    residuals = [
        value - means[name] - seed
        for name, row in rows.items()
        for value, seed in zip(row, seeds, strict=True)
    ]
    freedom = max(1, (len(rows) - 1) * (len(base) - 1))
    error = math.sqrt(2 / len(base) * sum(r * r for r in residuals) / freedom)
    gains = {name: means[name] - means[than] for name in rows if name != than}
    p_values = {
        name: student_p(gain / error, freedom=freedom) if error else float(not gain)
        for name, gain in gains.items()
    }
    return {name: gains[name] for name in holm(p_values) if _agree(rows[name], base)}


def _agree(row: Sequence[float], base: Sequence[float]) -> bool:
    """Whether every seed is on the same side of the base row."""
    differences = [value - other for value, other in zip(row, base, strict=True)]
    return min(differences) > 0 or max(differences) < 0


def holm(p_values: Mapping[str, float]) -> list[str]:
    """Return the hypotheses rejected at 5 % by Holm's step-down procedure.

    >>> holm({"A1": 0.02, "A2": 0.04, "A3": 0.01})
    ['A3', 'A1', 'A2']
    >>> holm({"A1": 0.03, "A2": 0.04, "A3": 0.01})
    ['A3']
    """
    rejected: list[str] = []
    for name in sorted(p_values, key=lambda name: p_values[name]):
        if p_values[name] > 0.05 / (len(p_values) - len(rejected)):
            break
        rejected.append(name)
    return rejected


def student_p(t: float, *, freedom: int) -> float:
    """Return the two-sided p-value of Student's t.

    Args:
        t: the statistic.
        freedom: degrees of freedom.

    >>> [round(student_p(t, freedom=n), 3) for t, n in ((12.706, 1), (4.303, 2), (2.776, 4))]
    [0.05, 0.05, 0.05]
    """
    angle = math.atan(abs(t) / math.sqrt(freedom))
    odd = freedom % 2
    # The finite series for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    term = math.cos(angle) if odd else 1.0
    series = term if freedom > 1 else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= (k - 1) / k * math.cos(angle) ** 2
        series += term
    inside = math.sin(angle) * series
    return 1 - (2 / math.pi * (angle + inside) if odd else inside)


def student_t(*, freedom: int) -> float:
    """Return the t of a 95 % interval, by bisection: its two-sided p-value is 5 %.

    Args:
        freedom: degrees of freedom.

    >>> [round(student_t(freedom=n), 4) for n in (1, 2, 10)]
    [12.7062, 4.3027, 2.2281]
    """
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        if student_p(middle, freedom=freedom) > 0.05:
            low = middle
        else:
            high = middle
    return high
