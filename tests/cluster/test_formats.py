"""Each format is read in shards and written as the same format, row by row."""

import gzip
import json
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cluster.conftest import LINES

from transduce.cluster.formats import (
    Shard,
    encode_rows,
    find_inputs,
    read_rows,
    resolve,
    scan_file,
    write_dataset_folders,
)
from transduce.io.streams import compressed_stream, read_lines


def converted(source: Path, out: Path, *, field: str = "text") -> list[Path]:
    """Write the shards of all files, with texts in upper case; return their files in order."""
    shards: list[Shard] = []
    for address, name in find_inputs(str(source), output=resolve(str(out))):
        shards += scan_file(address, name, field=field, shard_rows=7, first_number=len(shards))[1]
    out.mkdir()
    for shard in shards:
        texts, fields = read_rows(shard, field=field)
        target = out / shard.output
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(encode_rows(shard, fields, [text.upper() for text in texts]))
    if source.is_dir():
        names = [shard.output for shard in shards]
        write_dataset_folders(resolve(str(out)), resolve(str(source)), names)
    return [out / shard.output for shard in shards]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_lines_end_at_line_feeds_alone_and_keep_their_compression(tmp_path: Path, suffix: str):
    source = tmp_path / f"a.txt{suffix}"
    with compressed_stream(source, suffix, mode="wb") if suffix else source.open("wb") as stream:
        stream.write("\n".join(LINES).encode())  # without a last line feed

    files = converted(source, tmp_path / "out")

    assert len(files) == 15
    assert files[1].name == f"a-00001-of-00015.txt{suffix}"
    assert [line for file in files for line in read_lines(file)] == [line.upper() for line in LINES]


def test_jsonl_keeps_its_fields(tmp_path: Path):
    source = tmp_path / "a.jsonl.gz"
    objects = [{"id": number, "en": line, "é": None} for number, line in enumerate(LINES)]
    source.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in objects).encode()))

    files = converted(source, tmp_path / "out", field="en")

    rows = [json.loads(line) for file in files for line in read_lines(file)]
    assert rows == [row | {"translation": str(row["en"]).upper()} for row in objects]


def test_parquet_is_cut_across_row_groups(tmp_path: Path):
    table = pa.table({"id": list(range(100)), "text": [None, *LINES[1:]]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=9)

    files = converted(tmp_path / "a.parquet", tmp_path / "out")

    written = pa.concat_tables([pq.read_table(file) for file in files])
    assert written.select(["id", "text"]) == table
    assert written["translation"].to_pylist() == ["", *(line.upper() for line in LINES[1:])]


def test_a_folder_of_datasets_loads_again(tmp_path: Path):
    rows = {"text": LINES, "label": list(range(100))}
    splits = {"train": datasets.Dataset.from_dict(rows), "test": datasets.Dataset.from_dict(rows)}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "in", num_shards={"train": 2, "test": 1})
    (tmp_path / "in" / "train" / "cache-0.arrow").write_bytes(b"of an earlier map")

    converted(tmp_path / "in", tmp_path / "out")

    loaded = datasets.load_from_disk(tmp_path / "out")
    for split in loaded.values():
        assert split.to_dict() == rows | {"translation": [line.upper() for line in LINES]}


def test_any_address_of_fsspec_is_read():
    folder = resolve("memory://corpus")
    folder.mkdir(exist_ok=True)
    (folder / "b.txt").write_bytes(b"b\nc\n")
    (folder / "a.en").write_bytes(b"a\n")
    (folder / "README.md").write_bytes(b"about\n")
    (folder / "out" / "a.en").write_bytes(b"A\n")

    inputs = find_inputs("memory://corpus", output=folder / "out")

    assert [name for _, name in inputs] == ["a.en", "b.txt"]
    (shard,) = scan_file(*inputs[1], field="text", shard_rows=5, first_number=0)[1]
    assert read_rows(shard, field="text")[0] == ["b", "c"]


@pytest.mark.parametrize("pattern", [".", "**/*.txt"])
def test_an_output_inside_the_input_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
):
    monkeypatch.chdir(tmp_path)
    for name in ("corpus/a.txt", "translated/corpus/a-00000-of-00001.txt"):
        Path(name).parent.mkdir(parents=True)
        Path(name).write_text("a\n")
    Path("link").symlink_to("translated")

    for output in ("later", "translated", "link"):
        names = [name for _, name in find_inputs(pattern, output=resolve(output))]

        assert (len(names) == 1) == (output != "later"), names
    with pytest.raises(ValueError, match=r"names no files \(those of the output"):
        find_inputs(pattern, output=resolve("."))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"good\nb\xe9d\n", "a.txt, line 2: not UTF-8"),
        ("a.jsonl", b'{"text": "x"}\n{"texts": "x"}\n', "line 2: not an object with a text 'text'"),
        ("a.jsonl", b"\n", "line 1: not JSON"),
        ("a.jsonl", b'{"text": "x"}\n{"text": "\\ud800"}\n', "a.jsonl, line 2: .*surrogates"),
        ("a.jsonl", b'{"text": "x", "translation": ""}', "has a 'translation' already"),
        ("a.txt.gz", gzip.compress(b"x\n" * 9)[:-4], "not a complete gzip file"),
    ],
)
def test_faulty_input_is_named_before_anything_is_translated(
    tmp_path: Path, name: str, content: bytes, message: str
):
    (tmp_path / name).write_bytes(content)

    with pytest.raises(ValueError, match=message):
        converted(tmp_path / name, tmp_path / "out")


def test_a_missing_column_is_named(tmp_path: Path):
    pq.write_table(pa.table({"en": ["x"], "id": [1]}), tmp_path / "a.parquet")

    with pytest.raises(ValueError, match=r"a.parquet has columns en, id: name one .* --field"):
        converted(tmp_path / "a.parquet", tmp_path / "out")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_column_without_text_is_named(tmp_path: Path, suffix: str):
    table = pa.table({"en": ["x"], "id": [1]})
    if suffix == ".parquet":
        pq.write_table(table, tmp_path / "a.parquet")
    else:
        with pa.ipc.new_stream(tmp_path / "a.arrow", table.schema) as writer:
            writer.write_table(table)

    with pytest.raises(ValueError, match=rf"a{suffix}: the column 'id' has int64, not text"):
        converted(tmp_path / f"a{suffix}", tmp_path / "out", field="id")


def test_repeated_texts_may_be_a_dictionary(tmp_path: Path):
    texts = pa.array(["a", "b", "a"]).dictionary_encode()
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")

    (file,) = converted(tmp_path / "a.parquet", tmp_path / "out")

    assert pq.read_table(file)["translation"].to_pylist() == ["A", "B", "A"]


def test_only_the_state_of_a_data_set_names_its_files(tmp_path: Path):
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "state.json").write_text("[]")  # of another program
    out = resolve(str(tmp_path / "out"))

    assert [name for _, name in find_inputs(str(tmp_path), output=out)] == ["a.txt"]
    (tmp_path / "dataset_info.json").write_text("{}")
    with pytest.raises(ValueError, match=r"state.json is damaged: save the data set again"):
        find_inputs(str(tmp_path), output=out)
