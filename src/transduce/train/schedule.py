"""Learning-rate schedules: the paper's (section 5.3), and four that are given a peak."""

import math

from transduce.train.config import TrainConfig


def paper_rate(update: int, *, d_model: int, warmup: int = 4000, scale: float = 1.0) -> float:
    """Return Adam's learning rate: linear for `warmup` updates, then falling as update^-0.5.

    Args:
        update: the update about to be made, counted from 1. Micro-batches are not updates.
        d_model: model width; a wider model gets a lower rate.
        warmup: updates until the peak.
        scale: multiplies the whole curve; 1.0 is the paper.

    Returns:
        The rate of every parameter. Its peak, at `warmup`, is scale / sqrt(d_model * warmup).

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
    """Linear warmup, as a share of the peak: min(1, update / warmup). Alone, it is "constant".

    >>> [warmup_share(n, warmup=2) for n in range(1, 4)]
    [0.5, 1.0, 1.0]
    """
    return min(1.0, update / warmup)


def linear_share(update: int, *, updates: int, warmup: int) -> float:
    """Linear warmup and linear decay, as a share of the peak.

    After warmup (updates + 1 - update) / (updates + 1 - warmup): zero is reached one update past
    the last, so that the last one still learns.

    Args:
        update: counted from 1.
        updates: of the run.
        warmup: updates until the peak.

    >>> [round(linear_share(n, updates=5, warmup=2), 2) for n in range(1, 6)]
    [0.5, 1.0, 0.75, 0.5, 0.25]
    """
    return min(warmup_share(update, warmup=warmup), _left(update, updates=updates, since=warmup))


def cosine_share(update: int, *, updates: int, warmup: int) -> float:
    """Linear warmup and cosine decay, as a share of the peak.

    After warmup (1 - cos(π · left)) / 2, where `left` is the share of the linear schedule.

    Args:
        update: counted from 1.
        updates: of the run.
        warmup: updates until the peak.

    Source:
        Loshchilov and Hutter 2017, equation (5), without restarts.

    >>> [round(cosine_share(n, updates=5, warmup=2), 2) for n in range(1, 6)]
    [0.5, 1.0, 0.85, 0.5, 0.15]
    """
    left = _left(update, updates=updates, since=warmup)
    return min(warmup_share(update, warmup=warmup), (1.0 - math.cos(math.pi * left)) / 2.0)


def wsd_share(update: int, *, updates: int, warmup: int, decay: int) -> float:
    """Warmup, stable, decay (WSD), as a share of the peak.

    In the last `decay` updates (updates + 1 - update) / (decay + 1).

    Args:
        update: counted from 1.
        updates: of the run.
        warmup: updates until the peak.
        decay: updates of the final decay.

    Source:
        Hu et al. 2024, section 4.2 (warmup, stable, decay); the linear decay is ours.

    >>> [round(wsd_share(n, updates=7, warmup=2, decay=3), 2) for n in range(1, 8)]
    [0.5, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    left = _left(update, updates=updates, since=updates - decay)
    return min(warmup_share(update, warmup=warmup), left)


def learning_rates(update: int, *, config: TrainConfig, d_model: int) -> tuple[float, float]:
    """Return Adam's learning rate for an update, and Muon's for the matrices.

    Args:
        update: counted from 1.
        config: names the schedule and its peaks.
        d_model: of the model; only the paper's schedule depends on it.
    """
    if config.schedule == "paper":
        adam = paper_rate(update, d_model=d_model, warmup=config.warmup, scale=config.learning_rate)
        # Muon's rate has the shape of Adam's, brought to a peak of its own.
        muon = config.muon_learning_rate * adam * (d_model * config.warmup) ** 0.5
        return adam, muon / config.learning_rate
    updates, warmup = config.updates, config.warmup
    match config.schedule:
        case "linear":
            share = linear_share(update, updates=updates, warmup=warmup)
        case "cosine":
            share = cosine_share(update, updates=updates, warmup=warmup)
        case "constant":
            share = warmup_share(update, warmup=warmup)
        case "wsd":
            share = wsd_share(update, updates=updates, warmup=warmup, decay=config.decay_updates)
    return config.learning_rate * share, config.muon_learning_rate * share


def _left(update: int, *, updates: int, since: int) -> float:
    """Linear decay from 1, after update `since`, to 0, one update past the last."""
    return max(0.0, min(1.0, (updates + 1 - update) / (updates + 1 - since)))
