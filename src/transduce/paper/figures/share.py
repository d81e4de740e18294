"""A share of a number of cases, and how sure it is: Wilson's interval."""

from statistics import NormalDist
from typing import NamedTuple

LEVEL = 0.05
"""What an interval, or all of them together, may miss."""


class Share(NamedTuple):
    """How often, with Wilson's interval."""

    right: int
    of: int
    low: float
    high: float

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.right / self.of:.1f} % ({low:.1f} to {high:.1f} %)"


def wilson(right: int, of: int, *, level: float = LEVEL) -> Share:
    """Wilson's score interval of a share.

    >>> [round(end, 3) for end in wilson(5, 10)[2:]]
    [0.237, 0.763]
    """
    z = NormalDist().inv_cdf(1 - level / 2)
    share = right / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    reach = z / (1 + z * z / of) * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5
    return Share(right, of, middle - reach, middle + reach)
