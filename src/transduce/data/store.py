"""The store: cleaned text and its ids on disk, written once, checked when opened, never read whole.

A store is a folder of four columns (`source.ids`, `source.text`, and the target's; text in UTF-8)
and `lines`, each pair's line number in its corpus. `store.json` says with which tokenizer the ids
were made and what was left out; `manifest.json` has the size and SHA-256 of every file. The folder
is written under another name and renamed when it is whole.

Encoding takes most of the time of preparing, so it is done on all cores: in threads, because the
library computes without Python's lock. The chunks are written in their order, so the number of
threads changes no byte.
"""

import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from jaxtyping import Integer
from pydantic import Field, TypeAdapter, ValidationError

from transduce.data.column import Column, ColumnWriter, Dtype, Packed, mapped, pack
from transduce.data.corpus import NumberedPair, Pair
from transduce.data.tokenizer import Tokenizer
from transduce.io.atomic_folder import MANIFEST, atomic_folder, check_folder
from transduce.io.machine import usable_cores

PREPARED_FOLDER = "prepared"
"""Folder of a run that holds its stores: `prepared/train` and, where one is cut off, others."""

_FACTS = "store.json"
_CHUNK = 2048  # pairs encoded and written at once; a few megabytes for each thread

Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreFacts:
    """What `store.json` says of a store."""

    format: Literal["transduce store"] = "transduce store"
    version: Literal[1] = 1

    tokenizer: str
    """SHA-256 of the tokenizer model that made the ids."""

    dtype: Literal["<u2", "<i4"]
    """Of an id on disk: two bytes where the vocabulary allows, or else four."""

    pairs: Count
    """Pairs in the store."""

    max_pieces: Count
    """Most pieces that a source or a target was allowed to have."""

    over_long: Count
    """Pairs left out because one side had more."""

    over_long_line: Count
    """The line of the first of them; 0 if there is none."""


class Store:
    """The pairs of a corpus on disk. Reading one touches only its own pages."""

    def __init__(self, folder: Path, *, facts: StoreFacts) -> None:
        """Use `write` or `open`: they make sure that `facts` describe `folder`."""
        self.facts = facts
        rows = facts.pairs
        self._source_ids = Column(folder / "source.ids", dtype=facts.dtype, rows=rows)
        self._target_ids = Column(folder / "target.ids", dtype=facts.dtype, rows=rows)
        self._source_text = Column(folder / "source.text", dtype="|u1", rows=rows)
        self._target_text = Column(folder / "target.text", dtype="|u1", rows=rows)
        self._lines = mapped(folder / "lines", dtype="<i8")
        if len(self._lines) != rows:
            raise ValueError(f"{folder / 'lines'} is not {rows} numbers; prepare the corpus again")
        self.lengths: Integer[np.ndarray, "pairs 2"] = np.stack(
            [self._source_ids.lengths(), self._target_ids.lengths()], axis=1
        )
        """Source and target ids of every pair, EOS not counted."""

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
        """Encode pairs and write them; the memory used does not grow with the corpus.

        Args:
            folder: becomes the store. A store that is there already is replaced, once the new one
                is whole.
            pairs: cleaned.
            tokenizer: makes the ids.
            max_pieces: pairs with a side of more pieces are left out and counted.
            progress: told now and then how many pairs were read.
            threads: how many encode at once; 0 takes all cores that this process may use.

        Raises:
            ValueError: if no pair is left, or `folder` holds something that is no store.
        """
        if folder.exists() and not _replaceable(folder):
            raise ValueError(f"{folder} holds something that is no store; name another folder")
        with atomic_folder(folder) as fresh:
            encoder = _Encoder(tokenizer, max_pieces=max_pieces)
            with _Writer(fresh, encoder=encoder) as writer:
                for encoded in encoder.encoded(
                    pairs, threads=threads or max(1, int(usable_cores()))
                ):
                    writer.add(encoded)
                    if progress is not None:
                        progress(writer.read)
            text = json.dumps(asdict(writer.facts()), indent=2)
            (fresh / _FACTS).write_text(f"{text}\n", encoding="utf-8")
        return Store.open(folder, tokenizer_checksum=tokenizer.checksum, verify=False)

    @staticmethod
    def open(
        folder: Path, *, tokenizer_checksum: str | None = None, verify: bool = True
    ) -> "Store":
        """Open a store, after a look at whether it is whole.

        Args:
            folder: where `write` wrote.
            tokenizer_checksum: of the tokenizer in use; None takes the ids of any.
            verify: read every file and compare its SHA-256; whether the sizes agree with each other
                is looked at anyway.

        Raises:
            ValueError: in one line, if a file is missing, damaged or foreign, or the ids were made
                with another tokenizer.
        """
        for name in (MANIFEST, _FACTS):
            if not (folder / name).is_file():
                raise ValueError(f"{folder} is not a store: it has no {name}")
        if verify:
            check_folder(folder, expected="a store")
        facts = _read_facts(folder / _FACTS)
        if tokenizer_checksum is not None and facts.tokenizer != tokenizer_checksum:
            raise ValueError(
                f"{folder} was encoded with another tokenizer (checksum {facts.tokenizer[:12]}, "
                f"not {tokenizer_checksum[:12]}); prepare the corpus again"
            )
        return Store(folder, facts=facts)

    def __len__(self) -> int:
        return self.facts.pairs

    @property
    def dropped(self) -> int:
        """Pairs left out because one side had more than `max_pieces` pieces."""
        return self.facts.over_long

    def source(self, index: int) -> Integer[np.ndarray, " pieces"]:
        """The ids of a source, without EOS; a view of the file."""
        return self._source_ids[self._checked(index)]

    def target(self, index: int) -> Integer[np.ndarray, " pieces"]:
        """The ids of a target, without EOS; a view of the file."""
        return self._target_ids[self._checked(index)]

    def pair(self, index: int) -> Pair:
        """The text of a pair, as it was encoded."""
        row = self._checked(index)
        return Pair(
            self._source_text[row].tobytes().decode(), self._target_text[row].tobytes().decode()
        )

    def line(self, index: int) -> int:
        """The line of a pair in its corpus, counted from 1."""
        return int(self._lines[self._checked(index)])

    def _checked(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(f"pair {index} of a store of {len(self)}")
        return index


class _Encoded(NamedTuple):
    """A chunk of pairs as it lies in the columns, and what was left out of it."""

    read: int
    columns: dict[str, Packed]
    lines: bytes
    over_long: tuple[int, ...]
    """Lines of the pairs that were left out."""


class _Encoder:
    """Makes ids of text, in chunks."""

    def __init__(self, tokenizer: Tokenizer, *, max_pieces: int) -> None:
        self.tokenizer = tokenizer
        self.max_pieces = max_pieces
        self.dtype: Literal["<u2", "<i4"] = "<u2" if tokenizer.vocab_size <= 1 << 16 else "<i4"

    def encoded(self, pairs: Iterable[NumberedPair], *, threads: int) -> Iterator[_Encoded]:
        """Encode all pairs, a few chunks ahead of the one that comes out."""
        numbered = iter(pairs)
        chunks = iter(lambda: list(itertools.islice(numbered, _CHUNK)), [])
        waiting: deque[Future[_Encoded]] = deque()
        with ThreadPoolExecutor(threads, thread_name_prefix="encoder") as pool:
            try:
                for chunk in chunks:
                    waiting.append(pool.submit(self._encode, chunk))
                    if len(waiting) > threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:  # whatever went wrong, nobody waits for more than what is being done
                pool.shutdown(wait=True, cancel_futures=True)

    def _encode(self, chunk: Sequence[NumberedPair]) -> _Encoded:
        """Encode pairs, the over-long ones excepted."""
        texts = [pair for _, pair in chunk]
        sources = self.tokenizer.encode_all([pair.source for pair in texts], threads=1)
        targets = self.tokenizer.target.encode_all([pair.target for pair in texts], threads=1)
        fits = [
            len(source) <= self.max_pieces and len(target) <= self.max_pieces
            for source, target in zip(sources, targets, strict=True)
        ]
        over_long: tuple[int, ...] = ()
        if not all(fits):
            over_long = tuple(one.line for one, fit in zip(chunk, fits, strict=True) if not fit)
            chunk = list(itertools.compress(chunk, fits))
            sources = list(itertools.compress(sources, fits))
            targets = list(itertools.compress(targets, fits))
        columns = {
            "source.ids": pack(sources, dtype=self.dtype),
            "target.ids": pack(targets, dtype=self.dtype),
            "source.text": pack([pair.source.encode() for _, pair in chunk], dtype="|u1"),
            "target.text": pack([pair.target.encode() for _, pair in chunk], dtype="|u1"),
        }
        lines = np.array([line for line, _ in chunk], dtype="<i8").tobytes()
        return _Encoded(len(fits), columns, lines, over_long)


class _Writer:
    """The columns of a store being written, and what was left out."""

    def __init__(self, folder: Path, *, encoder: _Encoder) -> None:
        self.read = 0
        self._encoder = encoder
        self._over_long = self._over_long_line = 0
        kinds: dict[str, Dtype] = {"ids": encoder.dtype, "text": "|u1"}
        with ExitStack() as files:  # closes those that are open where one cannot be made
            self._columns = {
                name: files.enter_context(ColumnWriter(folder / name, dtype=dtype))
                for kind, dtype in kinds.items()
                for name in (f"source.{kind}", f"target.{kind}")
            }
            self._lines = files.enter_context((folder / "lines").open("wb"))
            self._files = files.pop_all()

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def add(self, encoded: _Encoded) -> None:
        """Write the next chunk."""
        if encoded.over_long and not self._over_long:
            self._over_long_line = encoded.over_long[0]
        self._over_long += len(encoded.over_long)
        self.read += encoded.read
        for name, packed in encoded.columns.items():
            self._columns[name].add_packed(packed)
        self._lines.write(encoded.lines)

    def facts(self) -> StoreFacts:
        """What was written.

        Raises:
            ValueError: if that is nothing.
        """
        over_long, line, encoder = self._over_long, self._over_long_line, self._encoder
        if over_long == self.read:
            raise ValueError(
                f"no pair is left to store: {over_long} of {self.read} have a side of more than "
                f"{encoder.max_pieces} pieces, such as line {line}; see data.max_pieces"
            )
        return StoreFacts(
            tokenizer=encoder.tokenizer.checksum,
            dtype=encoder.dtype,
            pairs=self.read - over_long,
            max_pieces=encoder.max_pieces,
            over_long=over_long,
            over_long_line=line,
        )


def _replaceable(folder: Path) -> bool:
    return folder.is_dir() and ((folder / _FACTS).is_file() or not any(folder.iterdir()))


def _read_facts(path: Path) -> StoreFacts:
    try:
        return TypeAdapter(StoreFacts).validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        raise ValueError(
            f"{path} does not describe a store of this version; prepare the corpus again"
        ) from error
