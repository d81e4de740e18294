"""`transduce corpus build` reads tables: Parquet, and folders of Hugging Face `datasets`."""

from pathlib import Path

import pyarrow
import pytest
from pyarrow import ipc, parquet
from tests.conftest import CommandResult, Transduce, refuses
from tests.sentences import sentences

PAIRS = sentences(200)


def build(transduce: Transduce, out: Path, *files: object) -> CommandResult:
    options = ("--source-lang", "en", "--target-lang", "de", "--validation", 0, "--test", 0)
    return transduce("corpus", "build", *files, *options, "--licence", "MIT", "--out", out)


def test_tables_are_sources(transduce: Transduce, tmp_path: Path):
    saved = tmp_path / "saved"
    saved.mkdir()
    rows = [{"translation": {"en": pair.source, "de": pair.target}} for pair in PAIRS[:100]]
    table = pyarrow.Table.from_pylist(rows)
    with ipc.new_stream(saved / "data-00000-of-00001.arrow", table.schema) as stream:
        stream.write_table(table)
    rows = [{"source": pair.source, "target": pair.target, "id": 1} for pair in PAIRS[100:]]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "more.parquet")

    result = build(transduce, tmp_path / "out", saved, tmp_path / "more.parquet")

    assert (result.code, result.err) == (0, "")
    for side, code in enumerate(("en", "de")):
        lines = (tmp_path / "out" / f"train.{code}").read_text().split("\n")
        assert lines == [*(pair[side] for pair in PAIRS), ""]


def test_other_tables_are_refused(transduce: Transduce, tmp_path: Path):
    parquet.write_table(pyarrow.table({"x": ["a"]}), tmp_path / "x.parquet")
    (tmp_path / "empty").mkdir()

    refuses(
        build(transduce, tmp_path / "out", tmp_path / "x.parquet"),
        "x.parquet, row 1: expected texts en and de, or source and target, not {'x': 'a'}",
    )
    refuses(
        build(transduce, tmp_path / "out", tmp_path / "empty"),
        "empty has no .arrow or .parquet files",
    )


@pytest.mark.parametrize(
    "bad", [{"translation": "A dog."}, {"source": 1, "target": "Ein Hund."}, {"source": "A dog."}]
)
def test_a_row_without_two_texts_is_named(
    transduce: Transduce, tmp_path: Path, bad: dict[str, object]
):
    file = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([bad]), file)

    refuses(build(transduce, tmp_path / "out", file), f"{file}, row 1: expected texts en and")


def test_null_is_empty_text(transduce: Transduce, tmp_path: Path):
    rows = [{"source": pair.source, "target": pair.target} for pair in PAIRS]
    file = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([*rows, {"source": "A dog."}]), file)

    result = build(transduce, tmp_path / "out", file)

    assert (result.code, result.err) == (0, "")
    assert "empty target: 1" in result.out
