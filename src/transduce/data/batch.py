"""The batch: ids become padded tensors; the shift right and the mask are made here, once.

Both sides end with EOS, and padding is on the right, so the decoder needs no mask of its own:
causal attention never looks that far. The decoder reads the target shifted right by one, behind
PAD, whose embedding is the zero vector. A mask is True where attention may look, and None where
nothing is padded: that is decided here, on the CPU, so that no device has to be asked.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Int64, Integer
from torch import Tensor
from torch.nn.functional import pad as pad_to

_ROWS = 8  # by which a batch is filled up

Ids: TypeAlias = Sequence[int] | Integer[np.ndarray, "_"]
"""The ids of one sentence, without EOS."""


class PaddedSource(NamedTuple):
    """Sources as the encoder reads them."""

    ids: Int64[Tensor, "batch source"]
    """Every source, EOS, then PAD."""

    mask: Bool[Tensor, "batch 1 1 source"] | None
    """True where there is a piece or EOS; None if nothing is padded."""


class Batch(NamedTuple):
    """What one forward pass sees."""

    source: Int64[Tensor, "batch source"]
    """Every source, EOS, then PAD."""

    source_mask: Bool[Tensor, "batch 1 1 source"] | None
    """True where there is a piece or EOS; None if nothing is padded."""

    target_in: Int64[Tensor, "batch target"]
    """PAD (the zero start), every target without EOS, then PAD: what the decoder reads."""

    target_out: Int64[Tensor, "batch target"]
    """Every target, EOS, then PAD: what the decoder should say, position by position."""

    target_tokens: int
    """Positions of `target_out` that are not padding; what a summed loss is divided by."""

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


def pad_source(sources: Sequence[Ids], *, pad: int, eos: int) -> PaddedSource:
    """End every source with EOS and pad it. An empty source still holds EOS: something to look at.

    Args:
        sources: at least one; ids without EOS.
        pad: the id that fills up.
        eos: the id that ends.
    """
    lengths = _lengths(sources)
    ids = _padded(sources, lengths=lengths, pad=pad, end=eos)
    if lengths.min() == lengths.max():
        return PaddedSource(torch.from_numpy(ids), None)
    mask = np.arange(ids.shape[1]) <= lengths[:, None]  # EOS is at [length]
    return PaddedSource(torch.from_numpy(ids), torch.from_numpy(mask[:, None, None, :]))


def collate(sources: Sequence[Ids], targets: Sequence[Ids], *, pad: int, eos: int) -> Batch:
    """Make the batch of some pairs.

    Args:
        sources: at least one; ids without EOS.
        targets: as many, in the same order; ids without EOS.
        pad: the id that fills up, and that the decoder starts from.
        eos: the id that ends both sides.
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


def filled(batch: Batch, *, pad: int) -> Batch:
    """The same pairs in one of few shapes: padded, and with rows that hold nothing but padding.

    Both sides are as wide as the wider one, to an even number, and rows come by eights. A kernel
    that is compiled for a shape, and a block of memory that was made for one, is then used again.
    Of a row that was added only the first position of its source is looked at.

    >>> batch = collate([[5]], [[6, 7]], pad=9, eos=2)
    >>> [tuple(each.shape) for each in filled(batch, pad=9)[:4]]
    [(8, 4), (8, 1, 1, 4), (8, 4), (8, 4)]
    """
    rows = len(batch.source)
    more, wide = -rows % _ROWS, batch.width + batch.width % 2
    source, target_in, target_out = (
        pad_to(ids, (0, wide - ids.size(1), 0, more), value=pad)
        for ids in (batch.source, batch.target_in, batch.target_out)
    )
    mask = batch.source_mask
    if mask is None:
        mask = batch.source.new_ones(rows, 1, 1, batch.source.size(1), dtype=torch.bool)
    mask = pad_to(mask, (0, wide - mask.size(-1), 0, 0, 0, 0, 0, more))
    mask[rows:, ..., 0] = True
    return Batch(source, mask, target_in, target_out, batch.target_tokens)


def _lengths(sentences: Sequence[Ids]) -> Int64[np.ndarray, " batch"]:
    assert len(sentences), "a batch holds at least one sentence"
    return np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))


def _padded(
    sentences: Sequence[Ids], *, lengths: Int64[np.ndarray, " batch"], pad: int, end: int
) -> Int64[np.ndarray, "batch width"]:
    """Each sentence in a row, `end` behind it, `pad` to the right."""
    ids = np.full((len(sentences), int(lengths.max()) + 1), pad, dtype=np.int64)
    places = np.arange(ids.shape[1]) < lengths[:, None]
    # Empty lists are floats to NumPy, hence the explicit cast.
    ids[places] = np.concatenate(sentences, dtype=np.int64, casting="unsafe")
    ids[np.arange(len(sentences)), lengths] = end
    return ids
