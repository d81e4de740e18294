"""What decoding remembers of the target: written once a position, read at every step."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_ROOM = 32
"""Positions that the past has room for at first, and the fewest that it gets when that is full."""


class KVCache:
    """What every row has said so far, keys and values: positions first, and room for more."""

    def __init__(self, first: Float[Tensor, "rows *width"], *, radius: int) -> None:
        self._held = first.new_empty(_ROOM, *first.shape)
        self._spare: Tensor | None = None
        self._length = 0
        self._radius = radius

    def append(self, new: Float[Tensor, "rows *width"]) -> Float[Tensor, "seen rows *width"]:
        """Add a position and return all that it sees."""
        if self._length == len(self._held):
            kept = self._held[-self._radius :]  # -0 is the beginning
            self._held = torch.cat([kept, kept.new_empty(max(_ROOM, len(kept)), *new.shape)])
            self._spare, self._length = None, len(kept)
        self._held[self._length] = new
        self._length += 1
        first = max(0, self._length - self._radius - 1) if self._radius else 0
        return self._held[first : self._length]

    def reorder(self, beam_indices: Int[Tensor, " rows"]) -> None:
        """Let new row r be old row `rows[r]`: there and back between two blocks of memory."""
        if self._spare is None or self._spare.size(1) != len(beam_indices):
            shape = len(self._held), len(beam_indices), *self._held.shape[2:]
            self._spare = self._held.new_empty(shape)
        torch.index_select(
            self._held[: self._length], 1, beam_indices, out=self._spare[: self._length]
        )
        self._held, self._spare = self._spare, self._held
