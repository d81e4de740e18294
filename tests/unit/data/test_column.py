"""A column gives its rows back, and knows when its files are not its own."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.data.column import Column, ColumnWriter, mapped


def resident(path: Path) -> int:
    """KiB of a file that this process has in memory."""
    _, _, after = Path("/proc/self/smaps").read_text().partition(f"{path}\n")
    return int(after.partition("Rss:")[2].split()[0])


CHUNKS = st.lists(st.lists(st.lists(st.integers(0, 65535), max_size=5), max_size=4), max_size=3)


def write(path: Path, *chunks: list[list[int]]) -> None:
    with ColumnWriter(path, dtype="<u2") as writer:
        for chunk in chunks:
            writer.add(chunk)


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

    with pytest.raises(ValueError, match="ids is cut short"):
        mapped(tmp_path / "ids", dtype="<u2")


def test_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="ids is missing; prepare the corpus again"):
        mapped(tmp_path / "ids", dtype="<u2")


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
    monkeypatch.setattr("transduce.data.column._BLOCK", 2)
    write(tmp_path / "ids", [[5], [7], [3], [2]])
    starts = b"".join(start.to_bytes(8, "little") for start in (0, 1, 3, 2, 4))
    (tmp_path / "ids.starts").write_bytes(starts)

    with pytest.raises(ValueError, match="ids does not hold 4 rows"):
        Column(tmp_path / "ids", dtype="<u2", rows=4)


def test_lengths_are_those_of_the_rows_in_two_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.data.column._BLOCK", 2)
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
    monkeypatch.setattr("transduce.data.column._LARGE", 0)
    monkeypatch.setattr("transduce.data.column._TOUCHES", 2)
    rows = [[number] * (number % 7) for number in range(5003)]
    write(tmp_path / "ids", rows)
    column = Column(tmp_path / "ids", dtype="<u2", rows=len(rows))

    held = [column[number] for number in range(len(rows))]

    assert [row.tolist() for row in held] == rows


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells")
def test_pages_of_a_large_column_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("transduce.data.column._LARGE", 1 << 20)
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
