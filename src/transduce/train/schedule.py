"""How fast to learn at each update: section 5.3 and one departure."""

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


def linear_share(update: int, *, updates: int, warmup: int) -> float:
    """The share of its peak that a rate has: up linearly for `warmup` updates, then down to zero.

    Zero lies one update past the last, so that the last one still learns.

    >>> [round(linear_share(n, updates=5, warmup=2), 2) for n in range(1, 6)]
    [0.5, 1.0, 0.75, 0.5, 0.25]
    """
    if update <= warmup:
        return update / warmup
    return max(0.0, (updates + 1 - update) / (updates + 1 - warmup))


def rates(update: int, *, config: TrainConfig, d_model: int) -> tuple[float, float]:
    """The rates of one update: Adam's, and Muon's for the matrices (unused without Muon)."""
    if config.schedule == "linear":
        share = linear_share(update, updates=config.updates, warmup=config.warmup)
        return config.rate * share, config.matrix_rate * share
    adam = paper_rate(update, d_model=d_model, warmup=config.warmup, scale=config.rate)
    return adam, config.matrix_rate * adam * (d_model * config.warmup) ** 0.5 / config.rate
