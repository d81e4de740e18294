"""Marian's tensors beside ours: the names, and the axis along which each counts d_model.

Positions are added to embeddings, so d_model's order is theirs: ours has sine and cosine in turn
(section 3.5), Marian has all sines before all cosines. A model says the same when all its d_model
axes are put into another order alike; queries, keys, values and the inner layer keep theirs.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from transduce.model.config import ModelConfig

EMBEDDING: Final = "model.shared.weight"
OUTPUT_BIAS: Final = "final_logits_bias"
"""Marian's names of the one matrix and of the bias of the logits."""

_ATTENTIONS = (("self_attention", "self_attn"), ("cross_attention", "encoder_attn"))
_PROJECTIONS = (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"))


class Twin(NamedTuple):
    """One tensor in both programs."""

    ours: str
    theirs: str
    axis: int | None
    """Which axis is d_model; None: none of them, or one whose order does not matter."""


def twins(config: ModelConfig) -> Iterator[Twin]:
    """Name every tensor but the bias of the logits, biases that ours may lack included."""
    yield Twin("embedding.weight", EMBEDDING, 1)
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(layers):
            for ours, theirs, axis in _of_a_layer(side):
                at = f"{side}.{number}"
                yield Twin(f"{at}.{ours}", f"model.{side}.layers.{number}.{theirs}", axis)


def _of_a_layer(side: str) -> Iterator[Twin]:
    for ours, theirs in _ATTENTIONS if side == "decoder" else _ATTENTIONS[:1]:
        for our_part, their_part in _PROJECTIONS:
            yield from _linear(f"{ours}.{our_part}", f"{theirs}.{their_part}", reads=True)
        yield from _linear(f"{ours}.out", f"{theirs}.out_proj", reads=False)
        yield from _norm(f"{ours}_norm", f"{theirs}_layer_norm")
    yield from _linear("feed_forward.inner", "fc1", reads=True)
    yield from _linear("feed_forward.outer", "fc2", reads=False)
    yield from _norm("feed_forward_norm", "final_layer_norm")


def _linear(ours: str, theirs: str, *, reads: bool) -> Iterator[Twin]:
    """A linear map that reads d_model, or writes it."""
    yield Twin(f"{ours}.weight", f"{theirs}.weight", 1 if reads else 0)
    yield Twin(f"{ours}.bias", f"{theirs}.bias", None if reads else 0)


def _norm(ours: str, theirs: str) -> Iterator[Twin]:
    yield Twin(f"{ours}.norm.weight", f"{theirs}.weight", 0)
    yield Twin(f"{ours}.norm.bias", f"{theirs}.bias", 0)


def halves(d_model: int) -> Int[Tensor, " d_model"]:
    """Where Marian's order finds each of its values in ours.

    >>> halves(6).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def interleaved(d_model: int) -> Int[Tensor, " d_model"]:
    """Where our order finds each of its values in Marian's.

    >>> interleaved(6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return halves(d_model).argsort()
