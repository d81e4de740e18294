"""A column gives its rows back, and knows when its files are not its own."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.data.column import Column, ColumnWriter, mapped

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


def test_rows_cannot_be_written_to(tmp_path: Path):
    write(tmp_path / "ids", [[5, 7]])
    row = Column(tmp_path / "ids", dtype="<u2", rows=1)[0]

    with pytest.raises(ValueError, match="read-only"):
        row[0] = 3
