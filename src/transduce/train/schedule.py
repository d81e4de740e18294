"""How fast to learn at each update: section 5.3, and four schedules with a peak of their own."""

import math

from transduce.train.config import TrainConfig


def paper_rate(update: int, *, d_model: int, warmup: int = 4000, scale: float = 1.0) -> float:
    """Adam's rate for one update: rising linearly for `warmup`, then falling as update^-0.5.

    Args:
        update: the update about to be made, counted from 1. Micro-batches are not updates.
        d_model: model width; a wider model gets a lower rate.
        warmup: updates until the peak.
        scale: multiplies the whole curve; 1.0 is the paper.

    Returns:
        The rate, the same for every parameter. Its peak, at `warmup`, is
        scale / sqrt(d_model * warmup).

    Raises:
        ValueError: if `update` or `warmup` is below 1.

    Source:
        Vaswani et al. 2017, section 5.3, equation (3).

    >>> f"{paper_rate(4000, d_model=512):.2e}"
    '6.99e-04'
    """
    if update < 1 or warmup < 1:
        raise ValueError(f"update and warmup count from 1, not {update} and {warmup}")
    return scale * d_model**-0.5 * min(update**-0.5, update * warmup**-1.5)


def warmup_share(update: int, *, warmup: int) -> float:
    """The share of its peak that a rate has while it warms up: min(1, update / warmup).

    This alone is the schedule "constant".

    >>> [rising_share(n, warmup=2) for n in range(1, 4)]
    [0.5, 1.0, 1.0]
    """
    return min(1.0, update / warmup)


def linear_share(update: int, *, updates: int, warmup: int) -> float:
    """The share of its peak that a rate has: up linearly for `warmup` updates, then down to zero.

    After warmup (updates + 1 - update) / (updates + 1 - warmup): zero lies one update past the
    last, so that the last one still learns.

    >>> [round(linear_share(n, updates=5, warmup=2), 2) for n in range(1, 6)]
    [0.5, 1.0, 0.75, 0.5, 0.25]
    """
    return min(warmup_share(update, warmup=warmup), _left(update, updates=updates, since=warmup))


def cosine_share(update: int, *, updates: int, warmup: int) -> float:
    """The share of its peak that a rate has: up linearly, then down as half a cosine wave.

    After warmup (1 - cos(π · left)) / 2, where `left` is what the linear schedule would have.

    Source:
        Loshchilov and Hutter 2017, equation (5), without restarts.

    >>> [round(cosine_share(n, updates=5, warmup=2), 2) for n in range(1, 6)]
    [0.5, 1.0, 0.85, 0.5, 0.15]
    """
    left = _left(update, updates=updates, since=warmup)
    return min(warmup_share(update, warmup=warmup), (1.0 - math.cos(math.pi * left)) / 2.0)


def wsd_share(update: int, *, updates: int, warmup: int, descent: int) -> float:
    """The share of its peak that a rate has: up linearly, level, and at last down to zero.

    In the last `descent` updates (updates + 1 - update) / (descent + 1).

    Source:
        Hu et al. 2024, section 4.2 (warmup, stable, decay); the straight descent is ours.

    >>> [round(wsd_share(n, updates=7, warmup=2, descent=3), 2) for n in range(1, 8)]
    [0.5, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    left = _left(update, updates=updates, since=updates - descent)
    return min(warmup_share(update, warmup=warmup), left)


def learning_rates(update: int, *, config: TrainConfig, d_model: int) -> tuple[float, float]:
    """The rates of one update: Adam's, and Muon's for the matrices (unused without Muon)."""
    if config.schedule == "paper":
        adam = paper_rate(update, d_model=d_model, warmup=config.warmup, scale=config.learning_rate)
        return adam, config.muon_learning_rate * adam * (
            d_model * config.warmup
        ) ** 0.5 / config.learning_rate
    updates, warmup = config.updates, config.warmup
    match config.schedule:
        case "linear":
            share = linear_share(update, updates=updates, warmup=warmup)
        case "cosine":
            share = cosine_share(update, updates=updates, warmup=warmup)
        case "constant":
            share = warmup_share(update, warmup=warmup)
        case "wsd":
            share = wsd_share(update, updates=updates, warmup=warmup, descent=config.decay_updates)
    return config.learning_rate * share, config.muon_learning_rate * share


def _left(update: int, *, updates: int, since: int) -> float:
    """What is left of a straight descent that begins after update `since`: 1 until then.

    It reaches zero one update past the last.
    """
    return max(0.0, min(1.0, (updates + 1 - update) / (updates + 1 - since)))
