"""Incremental decoding, the readable way: one target position a step, keys and values cached.

`fused_decoder.FusedDecoder` is the fast equivalent that translation uses; tests/parity holds it to
this one, and both to reading the whole target at once.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.model.attention import KeyValue, KVCache
from transduce.model.transformer import Transformer


class IncrementalDecoder:
    """Decoder state of a batch in translation: a `search.steps.Steps`.

    Rows are sentence-major: row = sentence * beams + beam.
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
            model: in eval mode.
            source: ids with EOS, padded.
            source_mask: True where a source position is not padding; None without padding.
            beams: rows a sentence.
        """
        # One row a beam is the simple way; `FusedDecoder` keeps one a sentence.
        memory = model.encode(source, source_mask).repeat_interleave(beams, 0)
        self._model, self._beams = model, beams
        self._mask = None if source_mask is None else source_mask.repeat_interleave(beams, 0)
        self._memories = [layer.cross_attention.project_kv(memory) for layer in model.decoder]
        self._caches = [KVCache() for _ in model.decoder]
        self._length = 0

    def step(self, ids: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Append one id to each row; return next-token logits. The first id is PAD."""
        x = self._model.embed(ids[:, None], first=self._length)  # rows 1 d_model
        for layer, memory, cache in zip(
            self._model.decoder, self._memories, self._caches, strict=True
        ):
            x = layer(x, memory, self._mask, cache=cache)
        self._length += 1
        return self._model.logits(self._model.decoder_norm(x))[:, 0]

    def reorder(self, beam_indices: Int[Tensor, " rows"]) -> None:
        """Make new row r a copy of old row `beam_indices[r]`, a row of the same sentence."""
        for cache in self._caches:  # the memories are alike in all rows of a sentence
            cache.reorder(beam_indices)

    def select(self, batch_indices: Int[Tensor, " remaining"]) -> None:
        """Keep only these sentences of the batch (ascending indices) with all their rows."""
        beams = torch.arange(self._beams, device=batch_indices.device)
        rows = (batch_indices[:, None] * self._beams + beams).flatten()
        self._mask = None if self._mask is None else self._mask[rows]
        self._memories = [KeyValue(kv.keys[rows], kv.values[rows]) for kv in self._memories]
        self.reorder(rows)
