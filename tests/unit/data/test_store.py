"""A store gives back what was written, and any damage to it is one line."""

import itertools
import json
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.data.config import TokenizerConfig
from transduce.data.corpus import NumberedPair, Pair
from transduce.data.protection import Protection
from transduce.data.store import Column, ColumnWriter, MappedArray, Store, pack_rows
from transduce.data.tokenizer import Tokenizer
from transduce.io.atomic_folder import MANIFEST

PAIRS = [
    NumberedPair(2, Pair("a b c", "ä b")),
    NumberedPair(3, Pair("", "c")),
    NumberedPair(7, Pair("c a b", "")),
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["a b c ä"], TokenizerConfig(vocab_size=8))


@pytest.fixture
def store(tmp_path: Path, tokenizer: Tokenizer) -> Store:
    return Store.write(tmp_path / "store", PAIRS, tokenizer=tokenizer, max_pieces=97)


def test_pairs_come_back_with_their_lines(store: Store, tokenizer: Tokenizer):
    assert len(store) == 3
    for index, (line, pair) in enumerate(PAIRS):
        assert store.pair(index) == pair
        assert store.line(index) == line
        assert store.source(index).tolist() == tokenizer.encode(pair.source)
        assert store.target(index).tolist() == tokenizer.encode(pair.target)


def test_lengths_are_those_of_the_ids(store: Store):
    lengths = [[len(store.source(i)), len(store.target(i))] for i in range(len(store))]

    assert store.lengths.tolist() == lengths
    assert store.lengths.dtype == np.uint16


def test_opened_is_written(store: Store, tokenizer: Tokenizer, tmp_path: Path):
    opened = Store.open(tmp_path / "store", tokenizer_checksum=tokenizer.checksum)

    assert opened.metadata == store.metadata
    assert [opened.pair(i) for i in range(3)] == [pair for _, pair in PAIRS]


def test_side_without_any_piece_is_a_store(tmp_path: Path, tokenizer: Tokenizer):
    pairs = [NumberedPair(1, Pair("", "a"))]

    store = Store.write(tmp_path / "store", pairs, tokenizer=tokenizer, max_pieces=97)

    assert store.source(0).tolist() == []
    assert store.pair(0) == Pair("", "a")


def test_over_long_pairs_are_left_out_and_counted(tmp_path: Path, tokenizer: Tokenizer):
    pairs = [
        NumberedPair(1, Pair("a", "b")),
        NumberedPair(5, Pair("c c c c", "b")),
        NumberedPair(6, Pair("b", "c c c c")),
        NumberedPair(7, Pair("b", "c")),
    ]

    store = Store.write(tmp_path / "store", pairs, tokenizer=tokenizer, max_pieces=3)

    assert [store.line(i) for i in range(len(store))] == [1, 7]
    assert store.metadata.over_long == 2
    assert store.metadata.over_long_line == 5


def test_first_over_long_line_is_kept_over_many_chunks(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.data.store._CHUNK", 2)
    seen: list[int] = []
    pairs = [NumberedPair(line, Pair("c " * (line % 3), f"b{'c' * line}")) for line in range(1, 8)]

    store = Store.write(
        tmp_path / "store", pairs, tokenizer=tokenizer, max_pieces=6, progress=seen.append
    )

    assert seen == [2, 4, 6, 7]
    assert [store.pair(i) for i in range(len(store))] == [pair for _, pair in pairs[: len(store)]]
    assert store.metadata.over_long_line == len(store) + 1
    assert store.metadata.over_long == 7 - len(store) > 1


def test_several_threads_write_what_one_writes(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.data.store._CHUNK", 7)
    pairs = [
        NumberedPair(line, Pair("a b " * (line % 11), "ä c" * (line % 5))) for line in range(1, 99)
    ]

    for threads in (1, 3):
        Store.write(
            tmp_path / str(threads), pairs, tokenizer=tokenizer, max_pieces=31, threads=threads
        )

    single, several = (
        {file.name: file.read_bytes() for file in (tmp_path / threads).iterdir()}
        for threads in ("1", "3")
    )
    assert len(single) == 11
    assert single == several
    assert 0 < Store.open(tmp_path / "3").metadata.over_long < 98


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, OSError])
def test_encoding_that_is_stopped_leaves_neither_a_folder_nor_a_thread(
    tmp_path: Path,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
    failure: type[BaseException],
):
    monkeypatch.setattr("transduce.data.store._CHUNK", 7)
    read: list[int] = []

    def endless() -> Iterator[NumberedPair]:
        for line in itertools.count(1):
            read.append(line)
            yield NumberedPair(line, Pair("a", "b"))

    def stop(pairs: int) -> None:
        raise failure

    with pytest.raises(failure):
        Store.write(
            tmp_path / "new", endless(), tokenizer=tokenizer, max_pieces=9, progress=stop, threads=2
        )

    assert list(tmp_path.iterdir()) == []
    assert not [item for item in threading.enumerate() if item.name.startswith("encoder")]
    assert len(read) <= 7 * 4


def test_ids_are_as_large_as_the_vocabulary_needs(store: Store, tmp_path: Path):
    class Vast(Tokenizer):
        vocab_size = 1 << 17
        checksum = "0" * 64
        protection = Protection(())

        def __init__(self) -> None:
            pass

        def encode_all(self, texts: Sequence[str], *, threads: int = -1) -> list[list[int]]:
            return [[99_991] for _ in texts]

    vast = Store.write(tmp_path / "vast", PAIRS, tokenizer=Vast(), max_pieces=5)

    assert store.source(0).dtype == np.uint16
    assert vast.source(0).tolist() == [99_991]


@pytest.mark.parametrize("index", [-1, 3])
def test_pair_outside_the_store_is_refused(store: Store, index: int):
    for ask in (store.source, store.target, store.pair, store.line):
        with pytest.raises(IndexError, match=f"pair {index} of a store of 3"):
            ask(index)


def test_no_pair_left_is_refused_with_the_counts(tmp_path: Path, tokenizer: Tokenizer):
    with pytest.raises(ValueError, match=r"2 of 2 .* more than 1 pieces, such as line 2; see data"):
        Store.write(tmp_path / "store", [PAIRS[0], PAIRS[2]], tokenizer=tokenizer, max_pieces=1)

    assert list(tmp_path.iterdir()) == []


def test_failure_while_writing_leaves_the_old_store(
    store: Store, tmp_path: Path, tokenizer: Tokenizer
):
    def broken() -> Iterator[NumberedPair]:
        yield PAIRS[0]
        raise ValueError("a.de, line 2: not UTF-8")

    with pytest.raises(ValueError, match="line 2: not UTF-8"):
        Store.write(tmp_path / "store", broken(), tokenizer=tokenizer, max_pieces=97)

    assert len(Store.open(tmp_path / "store")) == len(store)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_old_store_is_replaced(store: Store, tmp_path: Path, tokenizer: Tokenizer):
    Store.write(tmp_path / "store", PAIRS[:1], tokenizer=tokenizer, max_pieces=97)

    assert len(Store.open(tmp_path / "store")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_no_store_is_not_replaced(tmp_path: Path, tokenizer: Tokenizer, kind: str):
    precious = tmp_path / "store"
    if kind == "folder":
        precious.mkdir()
        precious = precious / "thesis.tex"
    precious.write_text("years of work")

    with pytest.raises(ValueError, match="is neither empty nor a store"):
        Store.write(tmp_path / "store", PAIRS, tokenizer=tokenizer, max_pieces=97)

    assert precious.read_text() == "years of work"


def test_empty_folder_becomes_a_store(tmp_path: Path, tokenizer: Tokenizer):
    (tmp_path / "store").mkdir()

    assert len(Store.write(tmp_path / "store", PAIRS, tokenizer=tokenizer, max_pieces=97)) == 3


def test_ids_of_another_tokenizer_are_refused(store: Store, tmp_path: Path):
    with pytest.raises(ValueError, match=r"encoded with another tokenizer .* not 000000000000\)"):
        Store.open(tmp_path / "store", tokenizer_checksum="0" * 64)


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != MANIFEST)


def test_every_missing_file_is_refused(store: Store, tmp_path: Path):
    files = files_of(tmp_path / "store")

    assert len(files) == 10
    for file in files:
        content = file.read_bytes()
        file.unlink()
        for verify in (True, False):
            with pytest.raises(ValueError, match=file.name):
                Store.open(tmp_path / "store", verify=verify)
        file.write_bytes(content)


def test_every_truncated_file_is_refused(store: Store, tmp_path: Path):
    for file in files_of(tmp_path / "store"):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
        for verify in (True, False):
            with pytest.raises(ValueError, match=file.name.removesuffix(".starts")):
                Store.open(tmp_path / "store", verify=verify)
        file.write_bytes(content)


def test_every_flipped_bit_is_refused(store: Store, tmp_path: Path):
    for file in files_of(tmp_path / "store"):
        content = file.read_bytes()
        file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
        with pytest.raises(ValueError, match=file.name):
            Store.open(tmp_path / "store")
        file.write_bytes(content)


@pytest.mark.parametrize("name", [MANIFEST, "store.json"])
def test_folder_without_a_description_is_no_store(store: Store, tmp_path: Path, name: str):
    (tmp_path / "store" / name).unlink()

    with pytest.raises(ValueError, match=f"is not a store: it has no {name}"):
        Store.open(tmp_path / "store")


def test_folder_that_is_not_there_is_no_store(tmp_path: Path):
    with pytest.raises(ValueError, match="nowhere is not a store"):
        Store.open(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "a bundle"},
        {"version": 2},
        {"dtype": "<f4"},
        {"pairs": -1},
        {"pairs": "3"},
        {"tokenizer": 5},
        {"over_long": None},
    ],
)
def test_foreign_description_is_refused_in_one_line(
    store: Store, tmp_path: Path, changes: dict[str, object]
):
    file = tmp_path / "store" / "store.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    with pytest.raises(ValueError, match=r"store\.json is damaged") as caught:
        Store.open(tmp_path / "store", tokenizer_checksum="0" * 64, verify=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"{"])
def test_damaged_description_is_refused(store: Store, tmp_path: Path, content: bytes):
    (tmp_path / "store" / "store.json").write_bytes(content)

    with pytest.raises(ValueError, match=r"store\.json is damaged"):
        Store.open(tmp_path / "store", verify=False)


def test_lines_that_are_not_one_a_pair_are_refused(store: Store, tmp_path: Path):
    (tmp_path / "store" / "lines").write_bytes(bytes(16))

    with pytest.raises(ValueError, match="lines does not hold 3 numbers"):
        Store.open(tmp_path / "store", verify=False)


def test_writing_holds_a_few_chunks_in_memory_and_no_more(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.data.store._CHUNK", 101)

    def peak(count: int) -> int:
        pairs = (NumberedPair(line, Pair("a b c " * 11, "b " * 13)) for line in range(count))
        tracemalloc.start()
        Store.write(tmp_path / str(count), pairs, tokenizer=tokenizer, max_pieces=97, threads=2)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    # Both keep three chunks under way. Lengths are 4 bytes a pair; all the text would be 5 MB.
    assert peak(10_007) < peak(2003) + 1_000_000


def resident(path: Path) -> int:
    """KiB of a file that this process has in memory."""
    _, _, after = Path("/proc/self/smaps").read_text().partition(f"{path}\n")
    return int(after.partition("Rss:")[2].split()[0])


CHUNKS = st.lists(st.lists(st.lists(st.integers(0, 65535), max_size=5), max_size=4), max_size=3)


def write(path: Path, *chunks: list[list[int]]) -> None:
    with ExitStack() as files:
        writer = ColumnWriter(path, files=files)
        for chunk in chunks:
            writer.add(pack_rows(chunk, dtype="<u2"))


@settings(deadline=None)
@given(CHUNKS)
def test_rows_come_back(tmp_path_factory: pytest.TempPathFactory, chunks: list[list[list[int]]]):
    path = tmp_path_factory.mktemp("column") / "ids"
    rows = [row for chunk in chunks for row in chunk]
    write(path, *chunks)

    column = Column(path, dtype="<u2", rows=len(rows))

    assert [column[number].tolist() for number in range(len(rows))] == rows


def test_another_number_of_rows_is_refused(tmp_path: Path):
    write(tmp_path / "ids", [[5, 7], [3]])

    with pytest.raises(ValueError, match="ids does not hold 3 rows"):
        Column(tmp_path / "ids", dtype="<u2", rows=3)


def test_values_cut_between_two_are_refused(tmp_path: Path):
    write(tmp_path / "ids", [[5, 7], [3]])
    (tmp_path / "ids").write_bytes((tmp_path / "ids").read_bytes()[:-2])

    with pytest.raises(ValueError, match="ids does not hold 2 rows"):
        Column(tmp_path / "ids", dtype="<u2", rows=2)


def test_value_cut_through_is_refused(tmp_path: Path):
    (tmp_path / "ids").write_bytes(b"123")

    with pytest.raises(ValueError, match="ids is truncated"):
        MappedArray(tmp_path / "ids", dtype="<u2")


def test_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="ids is missing; prepare the corpus again"):
        MappedArray(tmp_path / "ids", dtype="<u2")


@pytest.mark.parametrize("starts", [[1, 2, 3], [0, 5, 3]])
def test_starts_that_do_not_rise_from_0_are_refused(tmp_path: Path, starts: list[int]):
    write(tmp_path / "ids", [[5, 7], [3]])
    content = b"".join(start.to_bytes(8, "little") for start in starts)
    (tmp_path / "ids.starts").write_bytes(content)

    with pytest.raises(ValueError, match="ids does not hold 2 rows"):
        Column(tmp_path / "ids", dtype="<u2", rows=2)


def test_starts_that_fall_between_two_blocks_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.data.store._BLOCK", 2)
    write(tmp_path / "ids", [[5], [7], [3], [2]])
    starts = b"".join(start.to_bytes(8, "little") for start in (0, 1, 3, 2, 4))
    (tmp_path / "ids.starts").write_bytes(starts)

    with pytest.raises(ValueError, match="ids does not hold 4 rows"):
        Column(tmp_path / "ids", dtype="<u2", rows=4)


def test_lengths_are_those_of_the_rows_in_two_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.data.store._BLOCK", 2)
    write(tmp_path / "ids", [[5, 7], [], [3], [1, 2, 3], [5]])

    lengths = Column(tmp_path / "ids", dtype="<u2", rows=5).lengths()

    assert lengths.tolist() == [2, 0, 1, 3, 1]
    assert lengths.dtype == np.uint16


def test_a_row_too_long_for_two_bytes_has_its_length_too(tmp_path: Path):
    write(tmp_path / "ids", [[5] * 65_535, [7]])

    assert Column(tmp_path / "ids", dtype="<u2", rows=2).lengths().tolist() == [65_535, 1]


def test_a_column_without_rows_has_no_lengths(tmp_path: Path):
    write(tmp_path / "ids")

    assert Column(tmp_path / "ids", dtype="<u2", rows=0).lengths().tolist() == []


def test_rows_stay_what_they_are_when_their_pages_are_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.data.store._LARGE", 0)
    monkeypatch.setattr("transduce.data.store._TOUCHES", 2)
    rows = [[number] * (number % 7) for number in range(5003)]
    write(tmp_path / "ids", rows)
    column = Column(tmp_path / "ids", dtype="<u2", rows=len(rows))

    held = [column[number] for number in range(len(rows))]

    assert [row.tolist() for row in held] == rows


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells")
def test_pages_of_a_large_column_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("transduce.data.store._LARGE", 1 << 20)
    write(tmp_path / "ids", [[number % 65_521] * 11 for number in range(100_003)])
    column = Column(tmp_path / "ids", dtype="<u2", rows=100_003)

    for number in range(0, 100_003, 7):
        column[number].sum()

    assert resident(tmp_path / "ids") < 1200  # KiB, of 2150


def test_rows_cannot_be_written_to(tmp_path: Path):
    write(tmp_path / "ids", [[5, 7]])
    row = Column(tmp_path / "ids", dtype="<u2", rows=1)[0]

    with pytest.raises(ValueError, match="read-only"):
        row[0] = 3
