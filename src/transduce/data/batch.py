"""Batches: padded id tensors, with the decoder input's shift right and the source mask.

For the pairs (A dog → Ein Hund) and (Stop → Halt):

    source       A     dog   EOS        Stop  EOS   PAD
    source_mask  True  True  True       True  True  False
    target_in    PAD   Ein   Hund       PAD   Halt  PAD
    target_out   Ein   Hund  EOS        Halt  EOS   PAD

Both sides end with EOS and are padded on the right, so the decoder needs no padding mask: causal
attention never reaches the padding. Its input is the target shifted right by one, behind PAD, whose
embedding is the zero vector. A mask is True where attention is allowed, and None if nothing is
padded; this is decided here, on the CPU, which avoids a device synchronisation.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Int64, Integer
from torch import Tensor
from torch.nn.functional import pad as pad_to

_ROWS = 8  # rows of a bucket are a multiple of this

Ids: TypeAlias = Sequence[int] | Integer[np.ndarray, "_"]
"""The ids of one sentence, without EOS."""


class PaddedSource(NamedTuple):
    """Padded sources: the encoder's input."""

    ids: Int64[Tensor, "batch source"]
    """Every source, EOS, then PAD."""
    mask: Bool[Tensor, "batch 1 1 source"] | None
    """True where there is a piece or EOS; None if nothing is padded."""


class Batch(NamedTuple):
    """Input and labels of one forward pass."""

    source: Int64[Tensor, "batch source"]
    """Every source, EOS, then PAD."""
    source_mask: Bool[Tensor, "batch 1 1 source"] | None
    """True where there is a piece or EOS; None if nothing is padded."""
    target_in: Int64[Tensor, "batch target"]
    """PAD (the zero start), every target without EOS, then PAD: the decoder's input."""
    target_out: Int64[Tensor, "batch target"]
    """Every target, EOS, then PAD: the labels of each position."""
    target_tokens: int
    """Positions of `target_out` that are not padding; the divisor of a summed loss."""

    @property
    def width(self) -> int:
        """The longest source or target, EOS counted."""
        return max(self.source.size(1), self.target_in.size(1))

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        mask = self.source_mask
        return self._replace(
            source=self.source.to(device, non_blocking=True),
            source_mask=None if mask is None else mask.to(device, non_blocking=True),
            target_in=self.target_in.to(device, non_blocking=True),
            target_out=self.target_out.to(device, non_blocking=True),
        )

    def repeat(self) -> "Batch":
        """The same batch with every row twice: all rows, then all again."""
        mask = self.source_mask
        return Batch(
            source=self.source.repeat(2, 1),
            source_mask=None if mask is None else mask.repeat(2, 1, 1, 1),
            target_in=self.target_in.repeat(2, 1),
            target_out=self.target_out.repeat(2, 1),
            target_tokens=2 * self.target_tokens,
        )


def pad_source(sources: Sequence[Ids], *, pad: int, eos: int) -> PaddedSource:
    """Append EOS to every source and pad. An empty source still holds EOS to attend to.

    Args:
        sources: at least one; ids without EOS.
    """
    lengths = _lengths(sources)
    ids = _padded(sources, lengths=lengths, pad=pad, end=eos)
    if lengths.min() == lengths.max():
        return PaddedSource(torch.from_numpy(ids), None)
    mask = np.arange(ids.shape[1]) <= lengths[:, None]  # EOS is at [length]
    return PaddedSource(torch.from_numpy(ids), torch.from_numpy(mask[:, None, None, :]))


def collate(sources: Sequence[Ids], targets: Sequence[Ids], *, pad: int, eos: int) -> Batch:
    """Build a batch from some pairs.

    Args:
        sources: at least one; ids without EOS.
        targets: as many, in the same order; ids without EOS.
        pad: the padding id, which also starts the decoder's input.
    """
    assert len(sources) == len(targets), f"{len(sources)} sources, {len(targets)} targets"
    source = pad_source(sources, pad=pad, eos=eos)
    lengths = _lengths(targets)
    target_out = _padded(targets, lengths=lengths, pad=pad, end=eos)
    target_in = np.full_like(target_out, pad)
    target_in[:, 1:] = _padded(targets, lengths=lengths, pad=pad, end=pad)[:, :-1]
    return Batch(
        source=source.ids,
        source_mask=source.mask,
        target_in=torch.from_numpy(target_in),
        target_out=torch.from_numpy(target_out),
        target_tokens=int(lengths.sum()) + len(lengths),
    )


def pad_to_bucket(batch: Batch, *, pad: int) -> Batch:
    """Pad a batch to one of few shapes, so that compiled kernels and memory blocks are reused.

    Both sides get the width of the wider one, rounded up to an even number; the number of rows is
    rounded up to a multiple of eight.

    >>> batch = collate([[5]], [[6, 7]], pad=9, eos=2)
    >>> [tuple(tensor.shape) for tensor in pad_to_bucket(batch, pad=9)[:4]]
    [(8, 4), (8, 1, 1, 4), (8, 4), (8, 4)]
    """
    rows = len(batch.source)
    extra_rows, width = -rows % _ROWS, batch.width + batch.width % 2
    source, target_in, target_out = (
        pad_to(ids, (0, width - ids.size(1), 0, extra_rows), value=pad)
        for ids in (batch.source, batch.target_in, batch.target_out)
    )
    mask = batch.source_mask
    if mask is None:
        mask = batch.source.new_ones(rows, 1, 1, batch.source.size(1), dtype=torch.bool)
    mask = pad_to(mask, (0, width - mask.size(-1), 0, 0, 0, 0, 0, extra_rows))
    mask[rows:, ..., 0] = True  # a row without any True would make its softmax NaN
    return Batch(source, mask, target_in, target_out, batch.target_tokens)


def _lengths(sentences: Sequence[Ids]) -> Int64[np.ndarray, " batch"]:
    assert len(sentences), "a batch holds at least one sentence"
    return np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))


def _padded(
    sentences: Sequence[Ids], *, lengths: Int64[np.ndarray, " batch"], pad: int, end: int
) -> Int64[np.ndarray, "batch width"]:
    """One row per sentence: its ids, `end`, then `pad`."""
    ids = np.full((len(sentences), int(lengths.max()) + 1), pad, dtype=np.int64)
    is_piece = np.arange(ids.shape[1]) < lengths[:, None]
    # NumPy makes float arrays of empty lists, hence the explicit cast.
    ids[is_piece] = np.concatenate(sentences, dtype=np.int64, casting="unsafe")
    ids[np.arange(len(sentences)), lengths] = end
    return ids
