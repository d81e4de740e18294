"""What a model knows half-way through a translation: the state behind search's verbs.

Self-attention keeps one row a beam; the encoder's memory keeps one row a sentence, because the
beams of a sentence are just more queries on it. Rows are sentence-major: row = sentence x beams +
beam.

A step reads one position a row, so its time goes into small operations and moved memory, not into
arithmetic. Both attentions are therefore laid out so that a batched product reads them where they
lie: the past with positions first, and with room for those to come; the source with heads apart.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transduce.model.attention import Attention, KeyValue
from transduce.model.cpu.softmax import softmax
from transduce.model.kv_cache import KVCache
from transduce.model.layers import DecoderLayer

_SMALL = 400
"""Multiplications a product below which torch's `bmm` takes a plain loop: several times slower."""


class IncrementalDecoder:
    """One batch of sentences in mid-translation. Search sees `step`, `keep`, `drop`, no more.

    It equals reading the whole target at once, but for rounding; nothing is dropped out.
    """

    def __init__(
        self,
        layers: Sequence[DecoderLayer],
        *,
        embed: Callable[[Tensor, int], Tensor],
        logits: Callable[[Tensor], Tensor],
        memories: Sequence[KeyValue],
        mask: Bool[Tensor, "batch 1 1 source"] | None,
        beams: int,
    ) -> None:
        """Use `Transformer.start_decoding`, which supplies the encoded source."""
        self._layers = [
            IncrementalDecoderLayer(*both) for both in zip(layers, memories, strict=True)
        ]
        self._embed = embed
        self._logits = logits
        self._barred = None if mask is None else _barred(mask, memories[0])
        self._beams = beams
        self._length = 0

    def step(self, ids: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Read one more id a row and return the logits of the next one. The first id is PAD."""
        x = self._embed(ids[:, None], self._length)[:, 0]
        barred = None if self._barred is None else self._barred.flatten(0, 1)
        for layer in self._layers:
            x = layer.step(x, barred, beams=self._beams)
        self._length += 1
        return self._logits(x)

    def reorder(self, beam_indices: Int[Tensor, " rows"]) -> None:
        """Let new row r go on from old row `rows[r]`, a row of the same sentence."""
        for layer in self._layers:
            layer.reorder(beam_indices)

    def select(self, batch_indices: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences (indices of present ones, ascending); forget the rest."""
        if self._barred is not None:
            self._barred = self._barred.index_select(0, batch_indices)
        beams = torch.arange(self._beams, device=batch_indices.device)
        for layer in self._layers:
            layer.select(batch_indices)
        self.reorder((batch_indices[:, None] * self._beams + beams).flatten())


class IncrementalDecoderLayer:
    """A decoder layer that is read one position at a time, and what it remembers.

    It does what `DecoderLayer` does, by plain operations: calling its modules would take as long.
    What never changes is arranged when decoding starts: the three maps of self-attention become
    one, whose output holds a head's query, key and value side by side, and queries come scaled.
    """

    def __init__(self, layer: DecoderLayer, memory: KeyValue) -> None:
        self._attend_in, self._attend_out = (
            _one_map(layer.self_attention),
            _Map.of(layer.self_attention.out),
        )
        self._cross_in, self._cross_out = (
            _scaled(layer.cross_attention),
            _Map.of(layer.cross_attention.out),
        )
        self._feed_in, self._feed_out = (
            _Map.of(layer.feed_forward.inner),
            _Map.of(layer.feed_forward.outer),
        )
        self._activation = layer.feed_forward.activation
        self._heads, self._radius = layer.self_attention.heads, layer.self_attention.radius
        self._d_k = memory.keys.size(-1)
        self._pre = layer.self_attention_norm.pre_norm
        self._norms = [
            _Norm(around.norm.weight, around.norm.bias, around.norm.eps)
            for around in (
                layer.self_attention_norm,
                layer.cross_attention_norm,
                layer.feed_forward_norm,
            )
        ]
        self._past: KVCache | None = None
        self._memory = KeyValue(memory.keys.contiguous(), memory.values.contiguous())
        self._read = _flat(self._memory)

    def step(
        self,
        x: Float[Tensor, "rows d_model"],
        barred: Float[Tensor, "flat 1 source"] | None,
        *,
        beams: int,
    ) -> Float[Tensor, "rows d_model"]:
        """Pass one position a row up the right side of Figure 1; sub-layers give fresh tensors."""
        attend, cross, feed = self._norms
        if self._pre:
            x = self._attend(attend(x)).add_(x)
            x = self._cross(cross(x), barred=barred, beams=beams).add_(x)
            return self._feed(feed(x)).add_(x)
        x = attend(self._attend(x).add_(x))
        x = cross(self._cross(x, barred=barred, beams=beams).add_(x))
        return feed(self._feed(x).add_(x))

    def reorder(self, beam_indices: Int[Tensor, " rows"]) -> None:
        """Let new row r go on from old row `rows[r]`."""
        if self._past is not None:
            self._past.reorder(beam_indices)

    def select(self, batch_indices: Int[Tensor, " kept"]) -> None:
        """Keep the memory of these sentences alone."""
        keys, values = (part.index_select(0, batch_indices) for part in self._memory)
        self._memory = KeyValue(keys, values)
        self._read = _flat(self._memory)

    def _attend(self, y: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows d_model"]:
        """Equation (1) for one query a row, which looks at all that its row has said."""
        rows, heads, d_k = y.size(0), self._heads, self._d_k
        each = self._attend_in(y).view(rows, heads, -1)
        new = each.narrow(2, d_k, each.size(2) - d_k)
        if self._past is None:
            self._past = KVCache(new, radius=self._radius)
        seen = self._past.append(new).flatten(1, 2)
        mixed = _mixed(
            each.narrow(2, 0, d_k).view(rows * heads, 1, d_k),
            seen.narrow(2, 0, d_k).permute(1, 2, 0),
            seen.narrow(2, d_k, seen.size(2) - d_k).transpose(0, 1),
        )
        return self._attend_out(mixed.view(rows, -1))

    def _cross(
        self,
        y: Float[Tensor, "rows d_model"],
        *,
        barred: Float[Tensor, "flat 1 source"] | None,
        beams: int,
    ) -> Float[Tensor, "rows d_model"]:
        """Equation (1) for the beams of a sentence, which look at its source together."""
        rows, heads, d_k = y.size(0), self._heads, self._d_k
        queries = self._cross_in(y)
        if beams == 1:
            mixed = _mixed(queries.view(rows * heads, 1, d_k), *self._read, barred)
            return self._cross_out(mixed.view(rows, -1))
        queries = queries.view(-1, beams, heads, d_k).transpose(1, 2).flatten(0, 1)
        mixed = _mixed(queries, *self._read, barred)
        beside = mixed.view(-1, heads, beams, mixed.size(2)).transpose(1, 2)
        return self._cross_out(beside.reshape(rows, -1))

    def _feed(self, y: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows d_model"]:
        return self._feed_out(self._activation(self._feed_in(y)))


class _Map(NamedTuple):
    """A linear map, as a product reads it: columns are outputs."""

    matrix: Float[Tensor, "read said"]
    bias: Float[Tensor, " said"] | None

    @classmethod
    def of(cls, linear: nn.Linear) -> "_Map":
        return cls(linear.weight.t(), linear.bias)

    def __call__(self, x: Float[Tensor, "rows read"]) -> Float[Tensor, "rows said"]:
        if self.bias is None:
            return torch.mm(x, self.matrix)
        return torch.addmm(self.bias, x, self.matrix)


def _scaled(attention: Attention) -> _Map:
    """The map to queries that are divided by √d_k already."""
    (matrix, bias), heads = _Map.of(attention.query), attention.heads
    scale = (matrix.size(1) // heads) ** -0.5
    return _Map(matrix * scale, None if bias is None else bias * scale)


def _one_map(attention: Attention) -> _Map:
    """The map to each head's query, key and value, head by head."""
    of, heads = attention, attention.heads
    parts = _scaled(of), _Map.of(of.key), _Map.of(of.value)
    weights = torch.cat([one.matrix.t().unflatten(0, (heads, -1)) for one in parts], 1)
    if parts[0].bias is None:
        return _Map(weights.flatten(0, 1).t(), None)
    biases = torch.cat([one.bias.view(heads, -1) for one in parts if one.bias is not None], 1)
    return _Map(weights.flatten(0, 1).t(), biases.flatten())


class _Norm(NamedTuple):
    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


def _flat(memory: KeyValue) -> tuple[Tensor, Tensor]:
    """Keys and values of a memory as batched products read them: sentences x heads in a row."""
    return memory.keys.flatten(0, 1).mT, memory.values.flatten(0, 1)


def _mixed(
    queries: Float[Tensor, "batch queries d_k"],
    keys: Float[Tensor, "batch d_k memory"],
    values: Float[Tensor, "batch memory d_v"],
    barred: Float[Tensor, "batch 1 memory"] | None = None,
) -> Float[Tensor, "batch queries d_v"]:
    """Equation (1) with scaled queries: what is added to the scores bars what must not be seen."""
    scores = torch.bmm(queries, keys) if barred is None else torch.baddbmm(barred, queries, keys)
    weights = softmax(scores)
    batch, memory, d_v = values.shape
    if batch > 8 and queries.size(1) == 1 and memory * d_v < _SMALL:
        return (weights.mT * values).sum(1, keepdim=True)
    return torch.bmm(weights, values)


def _barred(
    mask: Bool[Tensor, "batch 1 1 source"], memory: KeyValue
) -> Float[Tensor, "batch heads 1 source"]:
    """Zero where a piece of the source may be looked at, minus infinity where it is padding."""
    added = torch.zeros_like(mask, dtype=memory.keys.dtype).masked_fill_(~mask, -torch.inf)
    return added.expand(-1, memory.keys.size(1), -1, -1).contiguous()
