"""Incremental decoding with a KV cache, in fused products.

tests/parity holds it to reading the whole target at once (`Transformer.decode`).

A step computes one position a row, so its time goes into small operations and moved memory, not
into arithmetic: calling a layer's modules would take as long as their work. Here the projections of
self-attention are one product, and both attentions are laid out so that a batched product reads
them in place: the cache with positions first, the source with heads apart.

Self-attention caches one row a beam; the encoder's memory has one row a sentence, because the beams
of a sentence are just more queries on it. Rows are sentence-major: row = sentence * beams + beam.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transduce.model.attention import Attention, KeyValue
from transduce.model.kernels import softmax
from transduce.model.layers import AddNorm, DecoderLayer
from transduce.model.transformer import Transformer

_MIN_FREE = 32
"""Positions that the cache allocates at first, and at least whenever it is full."""

_MIN_BMM = 400
"""Multiplications a product below which torch's `bmm` takes a plain loop: several times slower."""


class FusedDecoder:
    """Decoder state of a batch in translation: a `search.steps.Steps`.

    Equals reading the whole target at once but for rounding; there is no dropout.
    """

    def __init__(
        self,
        model: Transformer,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch 1 1 source"] | None,
        *,
        beams: int = 1,
    ) -> None:
        """Encode the source once.

        Args:
            model: in eval mode; its weights must not change from then on.
            source: ids with EOS, padded.
            source_mask: True where a source position is not padding; None without padding.
            beams: rows a sentence.
        """
        memory = model.encode(source, source_mask)
        self._model, self._beams = model, beams
        self._layers = [
            FusedDecoderLayer(layer, layer.cross_attention.project_kv(memory), beams=beams)
            for layer in model.decoder
        ]
        self._padding: Float[Tensor, "batch heads 1 source"] | None = None
        if source_mask is not None:
            self._padding = _additive_padding_mask(source_mask, memory, model.config.heads)
        self._length = 0

    def step(self, ids: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Append one id to each row; return next-token logits. The first id is PAD."""
        x = self._model.embed(ids[:, None], first=self._length)[:, 0]
        padding = None if self._padding is None else self._padding.flatten(0, 1)
        for layer in self._layers:
            x = layer.step(x, padding)
        self._length += 1
        return self._model.logits(self._model.decoder_norm(x))

    def reorder(self, beam_indices: Int[Tensor, " rows"]) -> None:
        """Make new row r a copy of old row `beam_indices[r]`, a row of the same sentence."""
        for layer in self._layers:
            layer.reorder(beam_indices)

    def select(self, batch_indices: Int[Tensor, " remaining"]) -> None:
        """Keep only these sentences of the batch (ascending indices) with all their rows."""
        if self._padding is not None:
            self._padding = self._padding.index_select(0, batch_indices)
        beams = torch.arange(self._beams, device=batch_indices.device)
        for layer in self._layers:
            layer.select(batch_indices)
        self.reorder((batch_indices[:, None] * self._beams + beams).flatten())


class FusedDecoderLayer:
    """`DecoderLayer` for one position a row, with its KV cache and its projected memory.

    What never changes is arranged once: the three projections of self-attention become one, whose
    output holds a head's query, key and value side by side, and queries come scaled by 1 / √d_k.
    """

    def __init__(self, layer: DecoderLayer, memory: KeyValue, *, beams: int) -> None:
        self._qkv, self._self_out = _fuse_qkv(layer.self_attention), _of(layer.self_attention.out)
        self._query = _scaled_query(layer.cross_attention)
        self._cross_out = _of(layer.cross_attention.out)
        self._inner, self._outer = _of(layer.feed_forward.inner), _of(layer.feed_forward.outer)
        self._activation = layer.feed_forward.activation
        self._heads, self._radius = layer.self_attention.heads, layer.self_attention.radius
        self._d_k, self._beams = memory.keys.size(-1), beams
        # Views of the modules' weights: nothing but the fused and scaled projections is copied.
        self._pre_norm = layer.self_attention_norm.pre_norm
        self._self_norm = _Norm.of(layer.self_attention_norm)
        self._cross_norm = _Norm.of(layer.cross_attention_norm)
        self._feed_forward_norm = _Norm.of(layer.feed_forward_norm)
        self._cache: PreallocatedCache | None = None
        self._memory = KeyValue(memory.keys.contiguous(), memory.values.contiguous())
        self._flat_memory = _flatten_heads(self._memory)

    def step(
        self, x: Float[Tensor, "rows d_model"], padding: Float[Tensor, "flat 1 source"] | None
    ) -> Float[Tensor, "rows d_model"]:
        """Pass one position a row through the layer."""
        # The sub-layers return fresh tensors, so the residual can be added in place.
        if self._pre_norm:
            x = self._self_attention(self._self_norm(x)).add_(x)
            x = self._cross_attention(self._cross_norm(x), padding).add_(x)
            return self._feed_forward(self._feed_forward_norm(x)).add_(x)
        x = self._self_norm(self._self_attention(x).add_(x))
        x = self._cross_norm(self._cross_attention(x, padding).add_(x))
        return self._feed_forward_norm(self._feed_forward(x).add_(x))

    def reorder(self, beam_indices: Int[Tensor, " rows"]) -> None:
        """Make new row r a copy of old row `beam_indices[r]`."""
        if self._cache is not None:
            self._cache.reorder(beam_indices)

    def select(self, batch_indices: Int[Tensor, " remaining"]) -> None:
        """Keep only these sentences' memory; `reorder` does the same for the cache."""
        keys, values = (part.index_select(0, batch_indices) for part in self._memory)
        self._memory = KeyValue(keys, values)
        self._flat_memory = _flatten_heads(self._memory)

    def _self_attention(self, y: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows d_model"]:
        """One query a row, which attends to all positions of its row."""
        rows, heads, d_k = y.size(0), self._heads, self._d_k
        qkv = self._qkv(y).view(rows, heads, -1)  # a head's query, key and value side by side
        new = qkv.narrow(2, d_k, qkv.size(2) - d_k)  # key and value go to the cache together
        if self._cache is None:
            self._cache = PreallocatedCache(new, radius=self._radius)
        seen = self._cache.append(new).flatten(1, 2)  # seen, rows x heads, d_k + d_v
        attended = _attend(
            qkv.narrow(2, 0, d_k).view(rows * heads, 1, d_k),
            seen.narrow(2, 0, d_k).permute(1, 2, 0),  # keys, transposed without a copy
            seen.narrow(2, d_k, seen.size(2) - d_k).transpose(0, 1),  # values
        )
        return self._self_out(attended.view(rows, -1))

    def _cross_attention(
        self, y: Float[Tensor, "rows d_model"], padding: Float[Tensor, "flat 1 source"] | None
    ) -> Float[Tensor, "rows d_model"]:
        """The beams of a sentence attend to its source together."""
        rows, heads, d_k = y.size(0), self._heads, self._d_k
        queries = self._query(y)  # scaled already
        if self._beams == 1:  # no heads to move: the product reads the queries in place
            attended = _attend(queries.view(rows * heads, 1, d_k), *self._flat_memory, padding)
            return self._cross_out(attended.view(rows, -1))
        # Beams are more queries on one memory: sentence and head in front, beams as rows.
        queries = queries.view(-1, self._beams, heads, d_k).transpose(1, 2).flatten(0, 1)
        attended = _attend(queries, *self._flat_memory, padding)
        by_row = attended.view(-1, heads, self._beams, attended.size(2)).transpose(1, 2)
        return self._cross_out(by_row.reshape(rows, -1))

    def _feed_forward(self, y: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows d_model"]:
        return self._outer(self._activation(self._inner(y)))


class PreallocatedCache:
    """Keys and values side by side in one block of memory, positions first.

    Appending writes one slice, and reordering copies between two blocks: neither allocates. With a
    radius, positions that are out of sight are dropped whenever the block is full.
    """

    def __init__(self, first: Float[Tensor, "rows *width"], *, radius: int) -> None:
        self._block = first.new_empty(_MIN_FREE, *first.shape)
        self._spare: Tensor | None = None  # the other block
        self._length = 0
        self._radius = radius

    def append(self, new: Float[Tensor, "rows *width"]) -> Float[Tensor, "seen rows *width"]:
        """Append a position; return all that it sees."""
        if self._length == len(self._block):
            kept = self._block[-self._radius :]  # without a radius all, as -0 is the beginning
            # Doubling the block makes the copies of all positions together linear in the length.
            self._block = torch.cat([kept, kept.new_empty(max(_MIN_FREE, len(kept)), *new.shape)])
            self._spare, self._length = None, len(kept)
        self._block[self._length] = new
        self._length += 1
        first = max(0, self._length - self._radius - 1) if self._radius else 0
        return self._block[first : self._length]

    def reorder(self, rows: Int[Tensor, " rows"]) -> None:
        """Make new row r a copy of old row `rows[r]`."""
        if self._spare is None or self._spare.size(1) != len(rows):
            shape = len(self._block), len(rows), *self._block.shape[2:]
            self._spare = self._block.new_empty(shape)
        torch.index_select(self._block[: self._length], 1, rows, out=self._spare[: self._length])
        self._block, self._spare = self._spare, self._block


class _Linear(NamedTuple):
    """A linear map as a product reads it: columns are outputs."""

    matrix: Float[Tensor, "inputs outputs"]
    bias: Float[Tensor, " outputs"] | None

    def __call__(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        if self.bias is None:
            return torch.mm(x, self.matrix)
        return torch.addmm(self.bias, x, self.matrix)  # one call: a step is bound by their number


def _of(linear: nn.Linear) -> _Linear:
    return _Linear(linear.weight.t(), linear.bias)


def _scaled_query(attention: Attention) -> _Linear:
    """The projection to queries, divided by √d_k."""
    (matrix, bias), heads = _of(attention.query), attention.heads
    scale = (matrix.size(1) // heads) ** -0.5  # into the weights, once, not into every query
    return _Linear(matrix * scale, None if bias is None else bias * scale)


def _fuse_qkv(attention: Attention) -> _Linear:
    """The projection to each head's query, key and value, head by head."""
    heads = attention.heads
    parts = _scaled_query(attention), _of(attention.key), _of(attention.value)
    weights = torch.cat([part.matrix.t().unflatten(0, (heads, -1)) for part in parts], 1)
    if parts[0].bias is None:
        return _Linear(weights.flatten(0, 1).t(), None)
    biases = torch.cat([part.bias.view(heads, -1) for part in parts if part.bias is not None], 1)
    return _Linear(weights.flatten(0, 1).t(), biases.flatten())


class _Norm(NamedTuple):
    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, add_norm: AddNorm) -> "_Norm":
        return cls(add_norm.norm.weight, add_norm.norm.bias, add_norm.norm.eps)

    def __call__(self, x: Tensor) -> Tensor:
        if x.is_cuda and x.dtype != self.weight.dtype:  # its kernel takes one precision only
            return self(x.to(self.weight.dtype)).to(x.dtype)
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


def _flatten_heads(memory: KeyValue) -> tuple[Tensor, Tensor]:
    """Keys and values as batched products read them: sentences x heads in one axis."""
    return memory.keys.flatten(0, 1).mT, memory.values.flatten(0, 1)


def _attend(
    queries: Float[Tensor, "batch queries d_k"],
    keys: Float[Tensor, "batch d_k memory"],
    values: Float[Tensor, "batch memory d_v"],
    padding: Float[Tensor, "batch 1 memory"] | None = None,
) -> Float[Tensor, "batch queries d_v"]:
    """Equation (1) for scaled queries; `padding` is added to the scores."""
    scores = torch.bmm(queries, keys) if padding is None else torch.baddbmm(padding, queries, keys)
    weights = softmax(scores)
    batch, memory, d_v = values.shape
    # A product and a sum in place of many products too small for `bmm`'s fast kernel.
    if batch > 8 and queries.size(1) == 1 and memory * d_v < _MIN_BMM:
        return (weights.mT * values).sum(1, keepdim=True)
    return torch.bmm(weights, values)


def _additive_padding_mask(
    mask: Bool[Tensor, "batch 1 1 source"],
    memory: Float[Tensor, "batch source d_model"],
    heads: int,
) -> Float[Tensor, "batch heads 1 source"]:
    """Zero where a source position is a piece, minus infinity where it is padding."""
    # Additive, as `baddbmm` adds it to the product for free; one row a head, as that reads it.
    added = torch.zeros_like(mask, dtype=memory.dtype).masked_fill_(~mask, -torch.inf)
    return added.expand(-1, heads, -1, -1).contiguous()
