"""What a run tells whoever watches it: small facts; how they look is the watcher's business."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class LogMessage:
    """A sentence for the person: what was chosen, dropped, written."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where training stands after an update."""

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
    """Share of the time that the processes, on average, did not wait for each other or add up their
    gradients: of N processes' speed over N times one's, as much as a run can know of itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Validated:
    """What a validation found."""

    update: int
    loss: float
    """Nats per target token without label smoothing; its exponential is the perplexity."""
    perplexity: float
    bleu: float
    signature: str
    best: bool
    """Whether no earlier validation had a lower loss."""


Event = LogMessage | Progress | Validated
EventHandler = Callable[[Event], None]
