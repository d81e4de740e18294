"""Training passes in few kernels, over sentences without padding.

Beside its matrix products a layer is bound by memory bandwidth. Here bias, dropout, residual
connection and normalisation are one kernel, attention another, and projections of the same input
one product. Sentences lie one after the other ("packed"), so that the shape of a batch is given by
its numbers of pieces; rounded up, these make few shapes, since for each a CPU compiles its bfloat16
products, and a GPU records a pass (`train.fused_passes`).

Kernels are those of `cpp_kernels` on a CPU, of `triton_kernels` on a GPU. Weights are those of the
model's own modules; tests/parity and tests/gpu hold the pass to `Transformer.hidden_states` and to
`loss.cross_entropy`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.attention import Attention
from transduce.model.cpp_library import load_kernels
from transduce.model.layers import FeedForward, Positions
from transduce.model.loss import CHUNK
from transduce.model.transformer import Transformer

MAX_LENGTH = 256
"""Pieces of a side, EOS counted, that the attention kernels of a GPU take at most."""

_MIN_HEAD = 16
"""Width of a head that the matrix units of a GPU need, and the vectors of a CPU."""

CPU_LANES = 16
"""Numbers that the kernels for CPUs take at a time."""

_MIN_CAPABILITY = (8, 0)
"""Compute capability of the first GPUs with bfloat16."""

DROPOUT_LEVELS = 1 << 24
"""Dropout probabilities in the kernels are multiples of one in so many."""

_MAX_LOGITS = 1 << 27
"""Logits that exist at one time."""


class PackedShape(NamedTuple):
    """What a recorded pass is recorded for."""

    source: int
    """Pieces of all sources, rounded up."""
    target: int
    sentences: int
    longest: tuple[int, int]
    """A power of two that no source, or target, exceeds."""


class PackedSide(NamedTuple):
    """One side of all sentences, one after the other."""

    ids: Int[Tensor, " pieces"]
    positions: Int[Tensor, " pieces"]
    """Of each piece in its sentence."""
    starts: Int[Tensor, " sentences_and_1"]
    """The first piece of each sentence, and the end of the last."""


class PackedBatch(NamedTuple):
    """A batch without padding within sentences.

    All pieces that the rounding adds are PAD, in sentences of their own at the end.
    """

    shape: PackedShape
    numbers: Int[Tensor, " _"]
    """Everything in one tensor, which one copy takes to a device."""

    @property
    def seed(self) -> Int[Tensor, " 1"]:
        """Seed of the dropout of this pass."""
        return self._parts()[0]

    @property
    def source(self) -> PackedSide:
        """The sources."""
        return PackedSide(*self._parts()[1:4])

    @property
    def target(self) -> PackedSide:
        """The targets as inputs: shifted right."""
        return PackedSide(*self._parts()[4:7])

    @property
    def target_out(self) -> Int[Tensor, " pieces"]:
        """The pieces to predict."""
        return self._parts()[7]

    def _parts(self) -> tuple[Tensor, ...]:
        source, target, sentences, _ = self.shape
        sizes = (1, source, source, sentences + 1, target, target, sentences + 1, target)
        return self.numbers.split(sizes)


def supports_fused_layers(model: Transformer) -> bool:
    """Return whether there are fused kernels for this model, in its precision on its device.

    On a CPU they are compiled first, where that was not done before.
    """
    config, weight = model.config, next(iter(model.encoder)).feed_forward.inner.weight
    supported = (
        config.d_k == config.d_v >= _MIN_HEAD
        and config.heads * config.d_k == config.d_model
        and config.positions == "sinusoid"
        and not (config.radius or config.attention_dropout or config.output_bias)
        and model.embedding.weight.dtype == torch.float32
    )
    if weight.device.type == "cpu":
        return (
            supported
            and weight.dtype in (torch.float32, torch.bfloat16)
            and config.d_k % CPU_LANES == config.d_ff % CPU_LANES == 0
            and load_kernels().library is not None
        )
    return (
        supported
        and config.d_k & (config.d_k - 1) == 0  # a power of two
        and weight.is_cuda
        and weight.dtype == torch.bfloat16
        and find_spec("triton") is not None
        and torch.cuda.get_device_capability(weight.device) >= _MIN_CAPABILITY
        and longest_on_gpu(config.d_k, weight.device) > 0
    )


def longest_on_gpu(d_k: int, device: torch.device) -> int:
    """Return the pieces of a side up to which a sentence fits a GPU's attention kernels.

    Its backward pass takes the most shared memory: by Triton's compiler 7.5 d_k + 129 bytes a key
    or less, keys and values included, for compute capabilities from 8.0 to 12.0.

    Returns:
        `MAX_LENGTH` or half of it; 0 if neither fits.
    """
    properties = torch.cuda.get_device_properties(device)
    # AMD's have less, and no such property in torch.
    available = getattr(properties, "shared_memory_per_block_optin", 0)
    lengths = MAX_LENGTH, MAX_LENGTH // 2
    return next((keys for keys in lengths if keys * (8 * d_k + 128) <= available), 0)


def fused_loss(
    model: Transformer, batch: PackedBatch, *, smoothing: float, r_drop: float = 0.0
) -> Float[Tensor, ""]:
    """Return the label-smoothed loss, summed over target pieces, as `chunked_cross_entropy` does.

    Args:
        model: one that `supports_fused_layers`.
        batch: on the model's device; for R-Drop all sentences twice, the second time at the end.
        smoothing: ε.
        r_drop: α of R-Drop, on a CPU; 0 is the loss without it.
    """
    hidden = model.scale_hidden(fused_hidden_states(model, batch))
    matrix, targets = model.output_matrix, batch.target_out
    kernels = _kernels(hidden)
    chunk = CHUNK if matrix.device.type == "cpu" else max(CHUNK, _MAX_LOGITS // len(matrix))
    if r_drop:
        tokens = int((targets != len(matrix) - 1).sum()) // 2  # PAD follows
        first, second = hidden[:tokens], hidden[tokens : 2 * tokens]
        return kernels.r_drop(first, second, matrix, targets[:tokens], smoothing, r_drop, chunk)
    return kernels.cross_entropy(hidden, matrix, targets, smoothing, chunk)


def fused_hidden_states(model: Transformer, batch: PackedBatch) -> Float[Tensor, "pieces d_model"]:
    """`Transformer.hidden_states` of all target pieces; only dropout draws other numbers.

    Args:
        model: one that `supports_fused_layers`.
        batch: on the model's device.
    """
    source, target, stack = batch.source, batch.target, _Stack(model, batch)
    widths = batch.shape.longest
    within = partial(_self_attention, side=source, longest=widths[0], causal=False)
    encoder: list[Sublayer] = []
    for layer in model.encoder:
        encoder += [
            (layer.self_attention_norm.norm, partial(within, layer.self_attention)),
            (layer.feed_forward_norm.norm, partial(_feed_forward, layer.feed_forward)),
        ]
    x = stack.embed(source, model.source_embedding or model.embedding)
    memory = stack.run(x, encoder, top=model.encoder_norm)
    within = partial(_self_attention, side=target, longest=widths[1], causal=True)
    across = partial(
        _cross_attention,
        memory=memory,
        starts=(target.starts, source.starts),
        longest=(widths[1], widths[0]),
    )
    decoder: list[Sublayer] = []
    for layer in model.decoder:
        decoder += [
            (layer.self_attention_norm.norm, partial(within, layer.self_attention)),
            (layer.cross_attention_norm.norm, partial(across, layer.cross_attention)),
            (layer.feed_forward_norm.norm, partial(_feed_forward, layer.feed_forward)),
        ]
    return stack.run(stack.embed(target, model.embedding), decoder, top=model.decoder_norm)


class SublayerOutput(NamedTuple):
    """What a sub-layer returns; adding the bias is left to the next kernel."""

    values: Float[Tensor, "pieces d_model"]
    bias: Float[Tensor, " d_model"] | None


Sublayer = tuple[nn.LayerNorm, Callable[[Tensor], SublayerOutput]]
"""The normalisation of a sub-layer, and the sub-layer."""


class _Stack:
    """Runs sub-layers inside their residual connections, with the dropout of one pass."""

    def __init__(self, model: Transformer, batch: PackedBatch) -> None:
        self._model, self._seed, self._longest = model, batch.seed, max(batch.shape.longest)
        self._dropout = model.config.dropout if model.training else 0.0
        self._streams: Iterator[int] = count()  # every dropout of a pass has a number

    def embed(self, side: PackedSide, embedding: nn.Embedding) -> Tensor:
        """Embed pieces as `Transformer.embed` does."""
        config, positions = self._model.config, self._model.positions
        assert isinstance(positions, Positions)
        table = positions.rows(self._longest)
        factor = config.d_model**0.5 if config.scale == "embedding" else 1.0
        dtype = next(iter(self._model.encoder)).feed_forward.inner.weight.dtype
        random = self._dropout, self._seed, next(self._streams)
        return _kernels(side.ids).embed(
            side.ids, side.positions, embedding.weight, table, factor, dtype, *random
        )

    def run(self, x: Tensor, sublayers: Sequence[Sublayer], *, top: nn.Module) -> Tensor:
        """Return the output of the last sub-layer; `top` is the last norm of a pre-norm stack."""
        if self._model.config.norm == "post":
            normal = x
            for norm, sublayer in sublayers:
                _, x, normal = self._add_norm(x, sublayer(normal), norm)
            return x
        norms = [norm for norm, _ in sublayers]
        normal = norms[0](x)
        for (_, sublayer), norm in zip(sublayers, [*norms[1:], top], strict=True):
            assert isinstance(norm, nn.LayerNorm)
            x, normal, _ = self._add_norm(x, sublayer(normal), norm)
        return normal

    def _add_norm(
        self, x: Tensor, y: SublayerOutput, norm: nn.LayerNorm
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sum, and the sum normalised twice, for two readers."""
        gain, offset, epsilon = norm.weight, norm.bias, norm.eps
        random = self._dropout, self._seed, next(self._streams)
        return _kernels(x).add_norm(x, *y, gain, offset, epsilon, *random)


def _self_attention(
    attention: Attention, x: Tensor, *, side: PackedSide, longest: int, causal: bool
) -> SublayerOutput:
    packed = _project(x, attention.query, attention.key, attention.value)
    starts = side.starts, side.starts
    widths = longest, longest
    heads = _kernels(x).attention(packed, None, *starts, widths, attention.heads, causal)
    return SublayerOutput(_linear(heads, attention.out.weight), attention.out.bias)


def _cross_attention(
    attention: Attention,
    x: Tensor,
    *,
    memory: Tensor,
    starts: tuple[Tensor, Tensor],
    longest: tuple[int, int],
) -> SublayerOutput:
    packed = _project(memory, attention.key, attention.value)
    queries = _linear(x, attention.query.weight, attention.query.bias)
    heads = _kernels(x).attention(queries, packed, *starts, longest, attention.heads, False)
    return SublayerOutput(_linear(heads, attention.out.weight), attention.out.bias)


def _feed_forward(layer: FeedForward, x: Tensor) -> SublayerOutput:
    if layer.activation is not F.relu or layer.dropout:
        return SublayerOutput(layer(x), None)
    inner, outer = layer.inner, layer.outer
    values = _kernels(x).feed_forward(x, inner.weight, inner.bias, outer.weight)
    return SublayerOutput(values, outer.bias)


def _project(x: Tensor, *maps: nn.Linear) -> Tensor:
    """Apply several linear maps by one product."""
    biases: list[Tensor] = [linear.bias for linear in maps if "bias" in linear.state_dict()]
    bias = torch.cat(biases) if biases else None
    return _linear(x, torch.cat([linear.weight for linear in maps]), bias)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return _kernels(x).linear(x, weight, bias)


def _kernels(x: Tensor) -> Any:
    """Return the module of kernels for a tensor's device."""
    name = "cpp_kernels" if x.device.type == "cpu" else "triton_kernels"
    return import_module(f"transduce.model.{name}")


def split_projections(packed: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return views of queries, keys and values that lie side by side."""
    if memory is None:
        q, k, v = packed.chunk(3, -1)
    else:
        q, (k, v) = packed, memory.chunk(2, -1)
    return q, k, v
