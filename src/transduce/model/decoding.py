"""What a model knows half-way through a translation: the state behind search's verbs.

Self-attention keeps one row a beam; the encoder's memory keeps one row a sentence, because the
beams of a sentence are just more queries on it. Rows are sentence-major: row = sentence x beams +
beam.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.model.attention import KeysValues
from transduce.model.layers import DecoderLayer


class Decoding:
    """One batch of sentences in mid-translation. Search sees `step`, `keep`, `drop`, no more."""

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
        self._layers = layers
        self._embed = embed
        self._logits = logits
        self._memories = list(memories)
        self._mask = mask
        self._beams = beams
        self._pasts: list[KeysValues | None] = [None] * len(self._memories)
        self._length = 0

    def step(self, ids: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Read one more id a row and return the logits of the next one. The first id is PAD."""
        x = self._embed(ids[:, None], self._length)
        for number, layer in enumerate(self._layers):
            append = partial(self._append, number=number)
            x = layer(x, self._memories[number], self._mask, append=append)
        self._length += 1
        return self._logits(x)[:, 0]

    def keep(self, rows: Int[Tensor, " rows"]) -> None:
        """Let new row r go on from old row `rows[r]`, a row of the same sentence."""
        self._pasts = [past and _select(past, rows) for past in self._pasts]

    def drop(self, sentences: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences (indices of present ones, ascending); forget the rest."""
        self._memories = [_select(memory, sentences) for memory in self._memories]
        if self._mask is not None:
            self._mask = self._mask[sentences]
        beams = torch.arange(self._beams, device=sentences.device)
        self.keep((sentences[:, None] * self._beams + beams).flatten())

    def _append(self, new: KeysValues, *, number: int) -> KeysValues:
        past = self._pasts[number]
        if past is not None:
            new = KeysValues(
                torch.cat([past.keys, new.keys], dim=2), torch.cat([past.values, new.values], dim=2)
            )
        self._pasts[number] = new
        return new


def _select(past: KeysValues, rows: Int[Tensor, " rows"]) -> KeysValues:
    return KeysValues(past.keys.index_select(0, rows), past.values.index_select(0, rows))
