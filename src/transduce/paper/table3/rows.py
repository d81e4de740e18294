"""The rows of Table 3 scaled to a small corpus: every width and depth divided by the same numbers.

Heads stay as they are: with d_model 64 in place of 512 row A4 has 32 heads of d_k 2. So a row still
differs from the base row by what the paper says, and in the same proportion.
"""

from dataclasses import replace
from typing import NamedTuple

from transduce.model.config import ModelConfig
from transduce.recipes.table3 import Row


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
