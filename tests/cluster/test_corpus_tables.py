"""`transduce corpus build` reads tables: Parquet, and folders of Hugging Face `datasets`."""

from pathlib import Path

import pyarrow
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
        "x.parquet has columns x: expected en and de, or source and target",
    )
    refuses(
        build(transduce, tmp_path / "out", tmp_path / "empty"),
        "empty has no .arrow or .parquet files",
    )
