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


Event = LogMessage | Progress | Validated
EventHandler = Callable[[Event], None]
