"""What a model knows half-way through a translation: the state behind search's verbs.

Self-attention keeps one row a beam; the encoder's memory keeps one row a sentence, because the
beams of a sentence are just more queries on it. Rows are sentence-major: row = sentence x beams +
beam.

A step reads one position a row, so its time goes into small operations and moved memory, not into
arithmetic. Both attentions are therefore laid out so that a batched product reads them where they
lie: the past with positions first, and with room for those to come; the source with heads apart.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.attention import Attention, KeysValues
from transduce.model.layers import DecoderLayer

_ROOM = 32
"""Positions that the past has room for at first, and the fewest that it gets when that is full."""


class Decoding:
    """One batch of sentences in mid-translation. Search sees `step`, `keep`, `drop`, no more.

    It equals reading the whole target at once, but for rounding; nothing is dropped out.
    """

    def __init__(
        self,
        layers: Sequence[DecoderLayer],
        *,
        embed: Callable[[Tensor, int], Tensor],
        logits: Callable[[Tensor], Tensor],
        memories: Sequence[KeysValues],
        mask: Bool[Tensor, "batch 1 1 source"] | None,
        beams: int,
    ) -> None:
        """Use `Transformer.start`: it supplies the model's parts and what it read of the source."""
        self._layers = [StepLayer(*both) for both in zip(layers, memories, strict=True)]
        self._embed = embed
        self._logits = logits
        self._barred = None if mask is None else _barred(mask, memories[0])
        self._beams = beams
        self._length = 0

    def step(self, ids: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Read one more id a row and return the logits of the next one. The first id is PAD."""
        x = self._embed(ids[:, None], self._length)[:, 0]
        for layer in self._layers:
            x = layer.step(x, self._barred, beams=self._beams)
        self._length += 1
        return self._logits(x)

    def keep(self, rows: Int[Tensor, " rows"]) -> None:
        """Let new row r go on from old row `rows[r]`, a row of the same sentence."""
        for layer in self._layers:
            layer.keep(rows)

    def drop(self, sentences: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences (indices of present ones, ascending); forget the rest."""
        if self._barred is not None:
            self._barred = self._barred[sentences]
        beams = torch.arange(self._beams, device=sentences.device)
        for layer in self._layers:
            layer.forget_all_but(sentences)
        self.keep((sentences[:, None] * self._beams + beams).flatten())


class StepLayer:
    """A decoder layer that is read one position at a time, and what it remembers.

    It does what `DecoderLayer` does, by plain operations: calling its modules would take as long.
    """

    def __init__(self, layer: DecoderLayer, memory: KeysValues) -> None:
        self._attend_maps, self._cross_maps = _maps(layer.attend), _maps(layer.cross)
        self._feed_maps = _map(layer.feed.inner), _map(layer.feed.outer)
        self._activation = layer.feed.activation
        self._heads, self._radius = layer.attend.heads, layer.attend.radius
        self._pre = layer.after_attend.pre
        self._norms = [
            _Norm(around.norm.weight, around.norm.bias, around.norm.eps)
            for around in (layer.after_attend, layer.after_cross, layer.after_feed)
        ]
        self._past: tuple[Past, Past] | None = None
        self._memory = KeysValues(memory.keys.contiguous(), memory.values.contiguous())

    def step(
        self,
        x: Float[Tensor, "rows d_model"],
        barred: Float[Tensor, "batch heads 1 source"] | None,
        *,
        beams: int,
    ) -> Float[Tensor, "rows d_model"]:
        """Pass one position a row up the right side of Figure 1."""
        sublayers = (
            self._attend,
            partial(self._cross, barred=barred, beams=beams),
            self._feed,
        )
        for norm, sublayer in zip(self._norms, sublayers, strict=True):
            x = x + sublayer(norm(x)) if self._pre else norm(x + sublayer(x))
        return x

    def keep(self, rows: Int[Tensor, " rows"]) -> None:
        """Let new row r go on from old row `rows[r]`."""
        for past in self._past or ():
            past.keep(rows)

    def forget_all_but(self, sentences: Int[Tensor, " kept"]) -> None:
        """Keep the memory of these sentences alone."""
        keys, values = self._memory
        self._memory = KeysValues(keys[sentences], values[sentences])

    def _attend(self, y: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows d_model"]:
        """Equation (1) for one query a row, which looks at all that its row has said."""
        maps, rows = self._attend_maps, y.size(0) * self._heads
        queries, keys, values = (F.linear(y, *one) for one in maps[:3])
        if self._past is None:
            self._past = Past(keys, radius=self._radius), Past(values, radius=self._radius)
        keys, values = self._past[0].add(keys), self._past[1].add(values)
        length = keys.size(0)
        mixed = _mixed(
            queries.view(rows, 1, -1),
            keys.view(length, rows, -1).permute(1, 2, 0),
            values.view(length, rows, -1).transpose(0, 1),
        )
        return F.linear(mixed.view(y.size(0), -1), *maps.out)

    def _cross(
        self,
        y: Float[Tensor, "rows d_model"],
        *,
        barred: Float[Tensor, "batch heads 1 source"] | None,
        beams: int,
    ) -> Float[Tensor, "rows d_model"]:
        """Equation (1) for the beams of a sentence, which look at its source together."""
        maps, (keys, values) = self._cross_maps, self._memory
        queries = F.linear(y, *maps.query).view(-1, beams, self._heads, keys.size(-1))
        mixed = _mixed(
            queries.transpose(1, 2).flatten(0, 1),
            keys.flatten(0, 1).mT,
            values.flatten(0, 1),
            None if barred is None else barred.flatten(0, 1),
        )
        beside = mixed.view(-1, self._heads, beams, values.size(-1)).transpose(1, 2)
        return F.linear(beside.reshape(y.size(0), -1), *maps.out)

    def _feed(self, y: Float[Tensor, "rows d_model"]) -> Float[Tensor, "rows d_model"]:
        inner, outer = self._feed_maps
        return F.linear(self._activation(F.linear(y, *inner)), *outer)


class _Map(NamedTuple):
    """A linear map, as `F.linear` takes it."""

    weight: Tensor
    bias: Tensor | None


class _Maps(NamedTuple):
    """Those of an attention."""

    query: _Map
    key: _Map
    value: _Map
    out: _Map


class _Norm(NamedTuple):
    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


def _map(linear: nn.Linear) -> _Map:
    return _Map(linear.weight, linear.bias)


def _maps(attention: Attention) -> _Maps:
    of = attention
    return _Maps(_map(of.query), _map(of.key), _map(of.value), _map(of.out))


class Past:
    """What every row has said so far, as keys or as values: positions first, and room for more."""

    def __init__(self, first: Float[Tensor, "rows width"], *, radius: int) -> None:
        self._held = first.new_empty(_ROOM, *first.shape)
        self._spare: Tensor | None = None
        self._length = 0
        self._radius = radius

    def add(self, new: Float[Tensor, "rows width"]) -> Float[Tensor, "seen rows width"]:
        """Add a position and return all that it sees."""
        if self._length == len(self._held):
            kept = self._held[-self._radius :]  # -0 is the beginning
            self._held = torch.cat([kept, kept.new_empty(max(_ROOM, len(kept)), *new.shape)])
            self._spare, self._length = None, len(kept)
        self._held[self._length] = new
        self._length += 1
        first = max(0, self._length - self._radius - 1) if self._radius else 0
        return self._held[first : self._length]

    def keep(self, rows: Int[Tensor, " rows"]) -> None:
        """Let new row r be old row `rows[r]`: there and back between two blocks of memory."""
        if self._spare is None or self._spare.size(1) != len(rows):
            self._spare = self._held.new_empty(len(self._held), len(rows), self._held.size(2))
        torch.index_select(self._held[: self._length], 1, rows, out=self._spare[: self._length])
        self._held, self._spare = self._spare, self._held


def _mixed(
    queries: Float[Tensor, "batch queries d_k"],
    keys: Float[Tensor, "batch d_k memory"],
    values: Float[Tensor, "batch memory d_v"],
    barred: Float[Tensor, "batch 1 memory"] | None = None,
) -> Float[Tensor, "batch queries d_v"]:
    """Equation (1) in four operations: what is added to the scores bars what must not be seen."""
    scale = queries.size(-1) ** -0.5
    added = queries.new_zeros(()) if barred is None else barred
    beta = 0.0 if barred is None else 1.0
    scores = torch.baddbmm(added, queries, keys, beta=beta, alpha=scale)
    return torch.bmm(scores.softmax(-1), values)


def _barred(
    mask: Bool[Tensor, "batch 1 1 source"], memory: KeysValues
) -> Float[Tensor, "batch heads 1 source"]:
    """Zero where a piece of the source may be looked at, minus infinity where it is padding."""
    added = torch.zeros_like(mask, dtype=memory.keys.dtype).masked_fill_(~mask, -torch.inf)
    return added.expand(-1, memory.keys.size(1), -1, -1).contiguous()
