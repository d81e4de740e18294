"""The KV cache: keys and values of the target so far, computed once a position."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.model.attention import KeyValue

_MIN_FREE = 32
"""Positions allocated at first, and at least whenever the cache is full."""


class KVCache:
    """One layer's cache as a reader would write it. `PreallocatedCache` is the fast one."""

    def __init__(self) -> None:
        self._kv: KeyValue | None = None

    def append(self, kv: KeyValue) -> KeyValue:
        """Append positions; return the keys and values of all."""
        if self._kv is not None:
            keys = torch.cat([self._kv.keys, kv.keys], dim=2)
            kv = KeyValue(keys, torch.cat([self._kv.values, kv.values], dim=2))
        self._kv = kv
        return kv

    def reorder(self, rows: Int[Tensor, " rows"]) -> None:
        """Make new row r a copy of old row `rows[r]`."""
        if self._kv is not None:
            self._kv = KeyValue(self._kv.keys[rows], self._kv.values[rows])


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
