"""Do two rows of numbers stand in the same order? Two rank correlations, ties and all."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from transduce.model.config import ModelConfig
from transduce.recipes.table3 import Row


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


class Scale(NamedTuple):
    """What the paper's sizes are divided by."""

    width: int = 8
    """d_model, d_ff, d_k and d_v."""
    depth: int = 2
    """N."""


def scaled(model: ModelConfig, scale: Scale, *, row: Row) -> ModelConfig:
    """Divide the widths and depths of a row's model.

    Args:
        model: the row as the paper has it.
        scale: the divisors.
        row: what the messages name.

    Raises:
        ValueError: if a size does not divide, or the smaller model cannot be made.

    >>> from transduce.recipes.table3 import find
    >>> small = scaled(ModelConfig(heads=32, d_k=16, d_v=16), Scale(), row=find("A4"))
    >>> small.d_model, small.heads, small.d_k, small.encoder_layers
    (64, 32, 2, 3)
    """

    def divided(size: int, divisor: int, name: str) -> int:
        if divisor < 1 or size % divisor:
            option = "depth" if name == "N" else "width"
            raise ValueError(
                f"row {row.name} has {name} {size}, which --{option}-divisor {divisor} does not "
                f"divide: choose one that does, or leave the row out by --rows"
            )
        return size // divisor

    return replace(
        model,
        encoder_layers=divided(model.encoder_layers, scale.depth, "N"),
        decoder_layers=divided(model.decoder_layers, scale.depth, "N"),
        d_model=divided(model.d_model, scale.width, "d_model"),
        d_ff=divided(model.d_ff, scale.width, "d_ff"),
        d_k=divided(model.d_k, scale.width, "d_k"),
        d_v=divided(model.d_v, scale.width, "d_v"),
    )


def parameters(config: ModelConfig) -> int:
    """Count the parameters of a model of the paper's kind, without building it.

    Four matrices an attention, two matrices and their biases a feed-forward, gain and bias a norm,
    one embedding for all, and a table of positions where they are learned.

    >>> parameters(ModelConfig())
    63045632
    """
    d = config.d_model
    attention = 2 * d * config.heads * (config.d_k + config.d_v)
    feed_forward = 2 * d * config.d_ff + config.d_ff + d
    norm = 2 * d
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    rows = config.vocab_size + (config.max_positions if config.positions == "learned" else 0)
    return rows * d + config.encoder_layers * encoder + config.decoder_layers * decoder
