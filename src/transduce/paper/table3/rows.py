"""Rank correlation of rows, and the scaled models of Table 3."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from transduce.model.config import ModelConfig
from transduce.recipes.table3 import Row


class RankCorrelation(NamedTuple):
    """Rank agreement of two sequences."""

    agree: int
    """Pairs in the same order in both."""
    disagree: int
    tied: int
    """Pairs equal in at least one sequence."""
    spearman: float | None
    """None if a sequence is constant."""
    kendall: float | None
    """τ-b, which allows for ties."""


def compare(first: Sequence[float], second: Sequence[float]) -> RankCorrelation:
    """Correlate the ranks of two sequences of equal length.

    >>> compare([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 40.0, 30.0])
    RankCorrelation(agree=5, disagree=1, tied=0, spearman=0.8, kendall=0.6666666666666666)
    """
    signs = [
        (_sign(a[0] - b[0]), _sign(a[1] - b[1]))
        for a, b in itertools.combinations(zip(first, second, strict=True), 2)
    ]
    agree = sum(a * b > 0 for a, b in signs)
    disagree = sum(a * b < 0 for a, b in signs)
    untied = math.sqrt(sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs))
    return RankCorrelation(
        agree=agree,
        disagree=disagree,
        tied=len(signs) - agree - disagree,
        spearman=_pearson(ranks(first), ranks(second)),
        kendall=(agree - disagree) / untied if untied else None,
    )


def ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1 for the least; ties share their mean rank.

    >>> ranks([7.0, 5.0, 7.0, 9.0])
    [2.5, 1.0, 2.5, 4.0]
    """
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


def _pearson(first: Sequence[float], second: Sequence[float]) -> float | None:
    first_mean, second_mean = sum(first) / len(first), sum(second) / len(second)
    covariance = sum(
        (a - first_mean) * (b - second_mean) for a, b in zip(first, second, strict=True)
    )
    spread = math.sqrt(
        sum((a - first_mean) ** 2 for a in first) * sum((b - second_mean) ** 2 for b in second)
    )
    return covariance / spread if spread else None


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


class Scale(NamedTuple):
    """Divisors of the paper's sizes."""

    width: int = 8
    """d_model, d_ff, d_k and d_v."""
    depth: int = 2
    """N."""


def scaled(model: ModelConfig, scale: Scale, *, row: Row) -> ModelConfig:
    """Divide the widths and depths of a row's model.

    Args:
        model: the row as the paper has it.
        scale: the divisors.
        row: named in error messages.

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

    Attention has four matrices, a feed-forward layer two with biases, a norm gain and bias; all
    embeddings are shared, and learned positions add a table.

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
