"""Memory that runs out in an update: the same rows again, in micro-batches half as large.

Losses are summed, so how rows are cut into micro-batches changes memory and time, not learning.
Positions are counted as `batch.micro_tokens` counts them: rows x the longest source or target.
"""

import sys
from collections.abc import Iterable, Iterator

import torch

from transduce.data.batch import Batch

_SAID = (
    "can't allocate memory",  # torch's allocator on CPUs
    "not enough memory",  # the same on other systems
    "out of memory",  # a device's driver
    "CUBLAS_STATUS_ALLOC_FAILED",
)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is no memory left, here or on a device.

    >>> out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))
    True
    >>> out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    False
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID)


def positions(batch: Batch) -> int:
    """Rows x the longest source or target, padding counted."""
    return len(batch.source) * batch.width


def halve_limit(batch: Batch) -> int:
    """The positions that one half of a batch may have.

    Raises:
        MemoryError: if the batch is one row, which nothing can be taken from.
    """
    rows = len(batch.source)
    if rows == 1:
        raise MemoryError(
            f"memory runs out on a single pair of {batch.width} positions: lower data.max_pieces "
            f"below {batch.width - 1} and prepare anew, or take a smaller model"
        )
    return -(-rows // 2) * batch.width


def split_batch(batches: Iterable[Batch], *, most: int, pad: int) -> Iterator[Batch]:
    """The same rows in batches of at most so many positions; one row always may be a batch.

    Args:
        batches: as they are planned.
        most: positions; 0 leaves every batch as it is.
        pad: the id that fills up; columns that hold nothing else any more are left out.
    """
    for batch in batches:
        if len(batch.source) == 1 or positions(batch) <= (most or sys.maxsize):
            yield batch
            continue
        half = -(-len(batch.source) // 2)
        parts = (_rows(batch, part, pad=pad) for part in (slice(half), slice(half, None)))
        yield from split_batch(parts, most=most, pad=pad)


def _rows(batch: Batch, rows: slice, *, pad: int) -> Batch:
    """Some rows of a batch, no wider than they need."""
    source, target_out = batch.source[rows], batch.target_out[rows]
    real = target_out != pad
    wide, long = (int(each.sum(1).max()) for each in (source != pad, real))
    mask = None if batch.source_mask is None else batch.source_mask[rows, ..., :wide]
    return Batch(
        source=source[:, :wide],
        source_mask=None if mask is None or bool(mask.all()) else mask,
        target_in=batch.target_in[rows, :long],
        target_out=target_out[:, :long],
        target_tokens=int(real.sum()),
    )
