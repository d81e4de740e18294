"""Events of a run, for an `EventHandler` to show; how they look is up to the handler."""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A sentence for the person."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """State of training after an update."""

    update: int
    updates: int
    epoch: int
    loss: float
    """Label-smoothed nats per target token, over the updates since the last such event."""
    tokens_per_second: float
    """Target tokens without padding, over the same updates, validation not counted."""
    learning_rate: float
    grad_norm: float
    """Of the last update that was not skipped."""
    seconds_left: float
    processes: int = 1
    compute_share: float = 1.0
    """Share of the time, averaged over processes, not spent in collectives: an upper bound on the
    scaling efficiency."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Validated:
    """Scores of a validation."""

    update: int
    loss: float
    """Nats per target token without label smoothing; its exponential is the perplexity."""
    perplexity: float
    bleu: float
    signature: str
    best: bool
    """Whether no earlier validation had a lower loss."""
    chrf: float = math.nan
    """chrF2; NaN if it was not measured."""
    accuracy: float = math.nan
    """Share of target tokens that have the highest probability given those before them."""
    translations: tuple[str, ...] = ()
    """Of a few validation sentences, the same at each validation."""
    attention: tuple[tuple[float, ...], ...] = ()
    """Cross-attention weights of one validation pair: a row per target piece."""


Event = LogMessage | Progress | Validated
EventHandler = Callable[[Event], None]


def describe_duration(seconds: float) -> str:
    """Format a duration in its two largest units.

    >>> [describe_duration(seconds) for seconds in (7.2, 130.0, 3900.0, 180000.0)]
    ['7 s', '2 min 10 s', '1 h 05 min', '2 d 02 h']
    """
    total = round(seconds)
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if not minutes:
        return f"{total} s"
    if not hours:
        return f"{minutes} min {total % 60:02} s"
    if not days:
        return f"{hours} h {minutes % 60:02} min"
    return f"{days} d {hours % 24:02} h"
