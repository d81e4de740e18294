"""A column: rows of different lengths, one behind the other in a file, and where each begins.

`NAME` holds the values and `NAME.starts` the start of every row and, last, the end of all. Neither
is ever read whole: both are mapped, and the system fetches the pages that are looked at.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Int64, Integer

Dtype = Literal["<u2", "<i4", "|u1", "<i8"]
"""How a value lies on disk, as NumPy writes it; little-endian on every machine."""


class Column:
    """The rows of a column on disk."""

    def __init__(self, path: Path, *, dtype: Dtype, rows: int) -> None:
        """Map a column.

        Raises:
            ValueError: if its files do not hold `rows` rows.
        """
        self._values = mapped(path, dtype=dtype)
        self.starts: Int64[np.ndarray, " starts"] = mapped(_starts_of(path), dtype="<i8")
        """Where each row begins, and the end of the last."""
        if (
            len(self.starts) != rows + 1
            or self.starts[0] != 0
            or self.starts[-1] != len(self._values)
            or (self.starts[1:] < self.starts[:-1]).any()  # differences might overflow
        ):
            raise ValueError(f"{path} does not hold {rows} rows; prepare the corpus again")

    def __getitem__(self, row: int) -> Integer[np.ndarray, " values"]:
        return self._values[self.starts[row] : self.starts[row + 1]]


class ColumnWriter:
    """Writes a column row by row; to be closed by `with`."""

    def __init__(self, path: Path, *, dtype: Dtype) -> None:
        self._dtype = dtype
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
        for row in rows:
            self._values.write(
                row if isinstance(row, bytes) else np.array(row, dtype=self._dtype).tobytes()
            )
        ends = self._end + np.cumsum([len(row) for row in rows], dtype="<i8")
        self._starts.write(ends.tobytes())
        self._end = int(ends[-1]) if len(rows) else self._end


def mapped(path: Path, *, dtype: Dtype) -> Integer[np.ndarray, " values"]:
    """An array on disk as an array in memory; read-only.

    Raises:
        ValueError: if the file is missing or does not hold whole values.
    """
    if not path.is_file():
        raise ValueError(f"{path} is missing; prepare the corpus again")
    if path.stat().st_size % np.dtype(dtype).itemsize:
        raise ValueError(f"{path} is cut short; prepare the corpus again")
    if not path.stat().st_size:  # nothing cannot be mapped
        return np.zeros(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))  # a plain array slices faster


def _starts_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.starts")
