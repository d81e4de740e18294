"""The store: cleaned text and its ids on disk, written once, verified when opened, memory-mapped.

A store is a folder of four columns (`source.ids`, `source.text`, and the target's; text in UTF-8)
and `lines`, the line number of each pair in its corpus. A column is a file of values, rows end to
end, and `NAME.starts`, the start of every row and the end of the last. `store.json` has the
tokenizer's checksum and the number of pairs left out, `manifest.json` the size and SHA-256 of every
file. The folder is written under another name and renamed when complete, hence atomic.

Encoding dominates preparation, so it runs on all cores: in threads, as SentencePiece releases the
GIL. Chunks are written in order, so the number of threads changes no byte.

Files may be larger than memory: rows of a large column lie anywhere, so its pages are released now
and then. The system caches them while there is memory.
"""

import itertools
import json
import mmap
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from jaxtyping import Int64, Integer
from pydantic import Field

from transduce.data.corpus import NumberedPair, Pair
from transduce.data.tokenizer import Tokenizer
from transduce.io.atomic_folder import MANIFEST, atomic_folder, check_folder
from transduce.io.machine import usable_cores
from transduce.io.records import read_record

PREPARED_FOLDER = "prepared"
"""Folder of a run that holds its stores: `prepared/train`, and others that were held out of it."""

Dtype = Literal["<u2", "<i4", "|u1", "<i8"]
"""NumPy dtype of a value on disk; little-endian on every machine."""

Count = Annotated[int, Field(ge=0)]

_METADATA = "store.json"
_COLUMNS = ("source.ids", "target.ids", "source.text", "target.text")
_CHUNK = 2048  # pairs encoded and written together; a few megabytes per thread
_BLOCK = 1 << 20  # starts processed together
_LARGE = 1 << 25  # bytes from which a file's pages are released
_TOUCHES = 256  # rows read before pages are released; each may map 64 KiB


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreMetadata:
    """Contents of `store.json`."""

    format: Literal["transduce store"] = "transduce store"
    version: Literal[1] = 1
    tokenizer: str
    """SHA-256 of the tokenizer model that encoded the pairs."""
    dtype: Literal["<u2", "<i4"]
    """Dtype of an id on disk: two bytes if the vocabulary fits, else four."""
    pairs: Count
    max_pieces: Count
    """Maximum pieces of a source or target."""
    over_long: Count
    """Pairs left out because one side had more."""
    over_long_line: Count
    """Line of the first of them; 0 if there is none."""


class Store:
    """The pairs of a corpus on disk. Reading a pair touches only its pages."""

    def __init__(self, folder: Path, *, metadata: StoreMetadata) -> None:
        """Use `write` or `open`, which ensure that `metadata` describes `folder`."""
        self.metadata = metadata
        rows = metadata.pairs
        dtypes: tuple[Dtype, ...] = (metadata.dtype, metadata.dtype, "|u1", "|u1")
        self._source_ids, self._target_ids, self._source_text, self._target_text = (
            Column(folder / name, dtype=dtype, rows=rows)
            for name, dtype in zip(_COLUMNS, dtypes, strict=True)
        )
        self.lines: Int64[np.ndarray, " pairs"] = MappedArray(folder / "lines", dtype="<i8").values
        """The line number of every pair in its corpus, rising."""
        if len(self.lines) != rows:
            raise ValueError(
                f"{folder / 'lines'} does not hold {rows} numbers; prepare the corpus again"
            )
        self.lengths: Integer[np.ndarray, "pairs 2"] = np.stack(
            [self._source_ids.lengths(), self._target_ids.lengths()], axis=1
        )
        """Source and target pieces of every pair, EOS not counted."""

    @staticmethod
    def write(
        folder: Path,
        pairs: Iterable[NumberedPair],
        *,
        tokenizer: Tokenizer,
        max_pieces: int,
        progress: Callable[[int], None] | None = None,
        threads: int = 0,
    ) -> "Store":
        """Encode and write pairs, in memory that does not grow with the corpus.

        Args:
            folder: the store's; an existing store is replaced once the new one is complete.
            max_pieces: pairs with a side of more pieces are left out and counted.
            progress: called now and then with the number of pairs read.
            threads: encoding threads; 0 uses all cores available to this process.

        Raises:
            ValueError: if no pair is left, or `folder` is neither empty nor a store.
        """
        encoder = PairEncoder(tokenizer, max_pieces=max_pieces)
        chunks = encoder.encoded(pairs, threads=threads or max(1, int(usable_cores())))
        return Store.write_encoded(folder, chunks, encoder=encoder, progress=progress)

    @staticmethod
    def write_encoded(
        folder: Path,
        chunks: Iterable["EncodedPairs"],
        *,
        encoder: "PairEncoder",
        progress: Callable[[int], None] | None = None,
    ) -> "Store":
        """Write consecutive chunks of pairs that are encoded already, as `write`."""
        if folder.exists() and not _replaceable(folder):
            raise ValueError(f"{folder} is neither empty nor a store; name another folder")
        with atomic_folder(folder) as fresh:
            metadata = _write_columns(fresh, chunks, encoder=encoder, progress=progress)
            text = json.dumps(asdict(metadata), indent=2)
            (fresh / _METADATA).write_text(f"{text}\n", encoding="utf-8")
        checksum = encoder.tokenizer.checksum
        return Store.open(folder, tokenizer_checksum=checksum, verify=False)

    @staticmethod
    def open(
        folder: Path, *, tokenizer_checksum: str | None = None, verify: bool = True
    ) -> "Store":
        """Open a store and check its integrity.

        Args:
            tokenizer_checksum: of the tokenizer in use; None accepts any.
            verify: compare the SHA-256 of every file; sizes are checked in any case.

        Raises:
            ValueError: if a file is missing, damaged or foreign, or another tokenizer encoded the
                pairs.
        """
        for name in (MANIFEST, _METADATA):
            if not (folder / name).is_file():
                raise ValueError(f"{folder} is not a store: it has no {name}")
        if verify:
            check_folder(folder, expected="a store")
        remedy = "prepare the corpus again"
        metadata = read_record(folder / _METADATA, StoreMetadata, remedy=remedy)
        if tokenizer_checksum is not None and metadata.tokenizer != tokenizer_checksum:
            raise ValueError(
                f"{folder} was encoded with another tokenizer (checksum {metadata.tokenizer[:12]}, "
                f"not {tokenizer_checksum[:12]}); prepare the corpus again"
            )
        return Store(folder, metadata=metadata)

    def __len__(self) -> int:
        return self.metadata.pairs

    def source(self, index: int) -> Integer[np.ndarray, " pieces"]:
        """The ids of a source, without EOS; a view of the file."""
        return self._source_ids[self._checked(index)]

    def target(self, index: int) -> Integer[np.ndarray, " pieces"]:
        """The ids of a target, without EOS; a view of the file."""
        return self._target_ids[self._checked(index)]

    def pair(self, index: int) -> Pair:
        """The text of a pair."""
        row = self._checked(index)
        return Pair(
            self._source_text[row].tobytes().decode(), self._target_text[row].tobytes().decode()
        )

    def line(self, index: int) -> int:
        """The line number of a pair in its corpus, counted from 1."""
        return int(self.lines[self._checked(index)])

    def _checked(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of a store of {len(self)}")
        return index


class PackedRows(NamedTuple):
    """Rows as stored on disk."""

    values: bytes
    lengths: Int64[np.ndarray, " rows"]


def pack_rows(rows: Sequence[Sequence[int] | bytes], *, dtype: Dtype) -> PackedRows:
    """Concatenate rows of numbers, or of bytes."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    if all(isinstance(row, bytes) for row in rows):
        return PackedRows(b"".join(map(bytes, rows)), lengths)
    values = itertools.chain.from_iterable(rows)
    return PackedRows(np.fromiter(values, dtype=dtype, count=int(lengths.sum())).tobytes(), lengths)


class MappedArray:
    """A read-only, memory-mapped array."""

    def __init__(self, path: Path, *, dtype: Dtype) -> None:
        """Map a file, if it holds values of this type."""
        if not path.is_file():
            raise ValueError(f"{path} is missing; prepare the corpus again")
        size = path.stat().st_size
        if size % np.dtype(dtype).itemsize:
            raise ValueError(f"{path} is truncated; prepare the corpus again")
        self._map: mmap.mmap | None = None
        self._touched = 0
        if size:  # an empty file cannot be mapped
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._releases = size > _LARGE and hasattr(mmap, "MADV_DONTNEED")
        self.values: Integer[np.ndarray, " values"] = np.frombuffer(self._map or b"", dtype=dtype)

    def touch(self) -> None:
        """Count a read; release the pages of a large file after many."""
        self._touched += 1
        if self._touched >= _TOUCHES:
            self.release()

    def release(self) -> None:
        """Release the pages of a large file. Views stay valid: their pages are mapped again."""
        self._touched = 0
        if self._releases and self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)


class Column:
    """The rows of a column on disk."""

    def __init__(self, path: Path, *, dtype: Dtype, rows: int) -> None:
        """Map a column, if its files hold so many rows."""
        self._values = MappedArray(path, dtype=dtype)
        self._starts = MappedArray(_starts_file(path), dtype="<i8")
        starts = self._starts.values
        if (
            len(starts) != rows + 1
            or starts[0] != 0
            or starts[-1] != len(self._values.values)
            # compared rather than subtracted, as differences might overflow
            or any((block[1:] < block[:-1]).any() for block in self._blocks())
        ):
            raise ValueError(f"{path} does not hold {rows} rows; prepare the corpus again")

    def __getitem__(self, row: int) -> Integer[np.ndarray, " values"]:
        self._starts.touch()
        self._values.touch()
        starts = self._starts.values
        return self._values.values[starts[row] : starts[row + 1]]

    def lengths(self) -> Integer[np.ndarray, " rows"]:
        """Length of every row, as uint16 if all fit, else int64."""
        longest = max((int(np.diff(block).max(initial=0)) for block in self._blocks()), default=0)
        dtype = np.uint16 if longest < np.iinfo(np.uint16).max else np.int64
        lengths = np.empty(len(self._starts.values) - 1, dtype=dtype)
        end = 0
        for block in self._blocks():
            lengths[end : end + len(block) - 1] = np.diff(block)
            end += len(block) - 1
        return lengths

    def _blocks(self) -> Iterator[Int64[np.ndarray, " block"]]:
        """The starts in blocks; the last of one is the first of the next."""
        starts = self._starts.values
        for first in range(0, len(starts) - 1, _BLOCK):
            yield starts[first : first + _BLOCK + 1]
            self._starts.release()


class ColumnWriter:
    """Writes a column in chunks of rows."""

    def __init__(self, path: Path, *, files: ExitStack) -> None:
        """Create the column's files, which `files` closes."""
        self._values = files.enter_context(path.open("wb"))
        self._starts = files.enter_context(_starts_file(path).open("wb"))
        self._starts.write(np.zeros(1, dtype="<i8").tobytes())
        self._end = 0

    def add(self, packed: PackedRows) -> None:
        """Append rows."""
        self._values.write(packed.values)
        ends = self._end + np.cumsum(packed.lengths, dtype="<i8")
        self._starts.write(ends.tobytes())
        self._end = int(ends[-1]) if len(ends) else self._end


class EncodedPairs(NamedTuple):
    """A chunk of pairs packed for the columns."""

    read: int
    """Pairs, before the over-long ones were left out."""
    columns: tuple[PackedRows, ...]
    """In the order of `_COLUMNS`."""
    lines: bytes
    over_long: tuple[int, ...]
    """Line numbers of the pairs left out."""


class PairEncoder:
    """Encodes pairs in chunks."""

    def __init__(self, tokenizer: Tokenizer, *, max_pieces: int) -> None:
        """Set up an encoder, with the tokenizer and the maximum length of a side."""
        self.tokenizer = tokenizer
        self.max_pieces = max_pieces
        self.dtype: Literal["<u2", "<i4"] = "<u2" if tokenizer.vocab_size <= 1 << 16 else "<i4"

    def encoded(self, pairs: Iterable[NumberedPair], *, threads: int) -> Iterator[EncodedPairs]:
        """Encode all pairs in so many threads, a few chunks ahead of the consumer."""
        numbered = iter(pairs)
        chunks = iter(lambda: list(itertools.islice(numbered, _CHUNK)), [])
        pending: deque[Future[EncodedPairs]] = deque()
        with ThreadPoolExecutor(threads, thread_name_prefix="encoder") as pool:
            try:
                for chunk in chunks:
                    pending.append(pool.submit(self.encode, chunk))
                    if len(pending) > threads:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:  # on an error, wait only for chunks already started
                pool.shutdown(wait=True, cancel_futures=True)

    def encode(self, chunk: Sequence[NumberedPair]) -> EncodedPairs:
        """Encode pairs and leave out the over-long ones."""
        texts = [self.tokenizer.protection.mask_pair(pair) for _, pair in chunk]
        sources = self.tokenizer.encode_all([pair.source for pair in texts], threads=1)
        targets = self.tokenizer.target.encode_all([pair.target for pair in texts], threads=1)
        fits = [
            len(source) <= self.max_pieces and len(target) <= self.max_pieces
            for source, target in zip(sources, targets, strict=True)
        ]
        over_long: tuple[int, ...] = ()
        if not all(fits):
            over_long = tuple(pair.line for pair, fit in zip(chunk, fits, strict=True) if not fit)
            chunk = list(itertools.compress(chunk, fits))
            sources = list(itertools.compress(sources, fits))
            targets = list(itertools.compress(targets, fits))
        columns = (
            pack_rows(sources, dtype=self.dtype),
            pack_rows(targets, dtype=self.dtype),
            pack_rows([pair.source.encode() for _, pair in chunk], dtype="|u1"),
            pack_rows([pair.target.encode() for _, pair in chunk], dtype="|u1"),
        )
        lines = np.array([line for line, _ in chunk], dtype="<i8").tobytes()
        return EncodedPairs(len(fits), columns, lines, over_long)


def _write_columns(
    folder: Path,
    chunks: Iterable[EncodedPairs],
    *,
    encoder: PairEncoder,
    progress: Callable[[int], None] | None,
) -> StoreMetadata:
    read = over_long = over_long_line = 0
    with ExitStack() as files:
        columns = [ColumnWriter(folder / name, files=files) for name in _COLUMNS]
        lines = files.enter_context((folder / "lines").open("wb"))
        for encoded in chunks:
            if encoded.over_long and not over_long:
                over_long_line = encoded.over_long[0]
            over_long += len(encoded.over_long)
            read += encoded.read
            for column, packed in zip(columns, encoded.columns, strict=True):
                column.add(packed)
            lines.write(encoded.lines)
            if progress is not None:
                progress(read)
    if over_long == read:
        raise ValueError(
            f"no pair is left to store: {over_long} of {read} have a side of more than "
            f"{encoder.max_pieces} pieces, such as line {over_long_line}; see data.max_pieces"
        )
    return StoreMetadata(
        tokenizer=encoder.tokenizer.checksum,
        dtype=encoder.dtype,
        pairs=read - over_long,
        max_pieces=encoder.max_pieces,
        over_long=over_long,
        over_long_line=over_long_line,
    )


def _replaceable(folder: Path) -> bool:
    return folder.is_dir() and ((folder / _METADATA).is_file() or not any(folder.iterdir()))


def _starts_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.starts")
