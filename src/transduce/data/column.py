"""A column: rows of different lengths, one behind the other in a file, and where each begins.

`NAME` holds the values and `NAME.starts` the start of every row and, last, the end of all. Neither
is ever read whole: both are mapped, and the system fetches the pages that are looked at. Rows of a
large column lie anywhere, so now and then the pages are given back: the file may be larger than the
memory. They stay in the system's cache as long as there is room.
"""

import itertools
import mmap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int64, Integer

Dtype = Literal["<u2", "<i4", "|u1", "<i8"]
"""How a value lies on disk, as NumPy writes it; little-endian on every machine."""

_BLOCK = 1 << 20  # starts that are looked at together
_LARGE = 1 << 25  # bytes of a file whose pages are given back
_TOUCHES = 256  # rows that are read before; the system may fetch 64 KiB around each


class Packed(NamedTuple):
    """Rows as they lie on disk."""

    values: bytes
    lengths: Int64[np.ndarray, " rows"]


def pack(rows: Sequence[Sequence[int] | bytes], *, dtype: Dtype) -> Packed:
    """Put rows behind each other. Bytes are rows of small numbers."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    if all(isinstance(row, bytes) for row in rows):
        return Packed(b"".join(map(bytes, rows)), lengths)
    values = itertools.chain.from_iterable(rows)
    return Packed(np.fromiter(values, dtype=dtype, count=int(lengths.sum())).tobytes(), lengths)


class Mapped:
    """An array on disk as an array in memory; read-only."""

    def __init__(self, path: Path, *, dtype: Dtype) -> None:
        """Map a file.

        Raises:
            ValueError: if it is missing or does not hold whole values.
        """
        if not path.is_file():
            raise ValueError(f"{path} is missing; prepare the corpus again")
        size = path.stat().st_size
        if size % np.dtype(dtype).itemsize:
            raise ValueError(f"{path} is cut short; prepare the corpus again")
        self._map: mmap.mmap | None = None
        self._touched = 0
        if size:  # nothing cannot be mapped
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._gives_back = size > _LARGE and hasattr(mmap, "MADV_DONTNEED")
        self.values: Integer[np.ndarray, " values"] = np.frombuffer(self._map or b"", dtype=dtype)

    def touch(self) -> None:
        """Count a look somewhere; give the pages of a large file back when there were many."""
        self._touched += 1
        if self._touched >= _TOUCHES:
            self.give_back()

    def give_back(self) -> None:
        """Let the pages of a large file go. What was handed out stays as it is: they come again."""
        self._touched = 0
        if self._gives_back and self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)


class Column:
    """The rows of a column on disk."""

    def __init__(self, path: Path, *, dtype: Dtype, rows: int) -> None:
        """Map a column.

        Raises:
            ValueError: if its files do not hold `rows` rows.
        """
        self._values = Mapped(path, dtype=dtype)
        self._starts = Mapped(_starts_of(path), dtype="<i8")
        starts = self._starts.values
        if (
            len(starts) != rows + 1
            or starts[0] != 0
            or starts[-1] != len(self._values.values)
            # before differences are taken, which might overflow
            or any((block[1:] < block[:-1]).any() for block in self._blocks())
        ):
            raise ValueError(f"{path} does not hold {rows} rows; prepare the corpus again")

    def __getitem__(self, row: int) -> Integer[np.ndarray, " values"]:
        self._starts.touch()
        self._values.touch()
        starts = self._starts.values
        return self._values.values[starts[row] : starts[row + 1]]

    def lengths(self) -> Integer[np.ndarray, " rows"]:
        """The length of every row, in two bytes each where that is enough, or else in eight."""
        longest = max((int(np.diff(block).max(initial=0)) for block in self._blocks()), default=0)
        dtype = np.uint16 if longest < np.iinfo(np.uint16).max else np.int64
        lengths = np.empty(len(self._starts.values) - 1, dtype=dtype)
        done = 0
        for block in self._blocks():
            lengths[done : done + len(block) - 1] = np.diff(block)
            done += len(block) - 1
        return lengths

    def _blocks(self) -> Iterator[Int64[np.ndarray, " block"]]:
        """The starts, in blocks that share their last and first."""
        starts = self._starts.values
        for first in range(0, len(starts) - 1, _BLOCK):
            yield starts[first : first + _BLOCK + 1]
            self._starts.give_back()


class ColumnWriter:
    """Writes a column row by row; to be closed by `with`."""

    def __init__(self, path: Path, *, dtype: Dtype) -> None:
        self._dtype: Dtype = dtype
        self._end = 0
        with ExitStack() as files:  # closes the one where the other cannot be made
            self._values = files.enter_context(path.open("wb"))
            self._starts = files.enter_context(_starts_of(path).open("wb"))
            self._starts.write(np.zeros(1, dtype="<i8").tobytes())
            self._files = files.pop_all()

    def __enter__(self) -> "ColumnWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def add(self, rows: Sequence[Sequence[int] | bytes]) -> None:
        """Append rows. Bytes are rows of small numbers."""
        self.add_packed(pack(rows, dtype=self._dtype))

    def add_packed(self, packed: Packed) -> None:
        """Append rows that are packed already, in this column's dtype."""
        self._values.write(packed.values)
        ends = self._end + np.cumsum(packed.lengths, dtype="<i8")
        self._starts.write(ends.tobytes())
        self._end = int(ends[-1]) if len(ends) else self._end


def mapped(path: Path, *, dtype: Dtype) -> Integer[np.ndarray, " values"]:
    """The values of a file, mapped for good.

    Raises:
        ValueError: if the file is missing or does not hold whole values.
    """
    return Mapped(path, dtype=dtype).values


def _starts_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.starts")
