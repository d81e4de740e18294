"""Files of a corpus in shards: lines, JSONL, Parquet, and the folders of Hugging Face `datasets`.

Lines end at line feeds alone. Text may be compressed (gzip, xz, Zstandard). JSONL and tables keep
their fields, and get one for the translation. Files are at any address that fsspec reads.
"""

import hashlib
import io
import json
import posixpath
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, islice, pairwise
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO

from transduce.io.atomic_folder import atomic_file
from transduce.io.streams import (
    compressed_stream,
    encoding_error,
    reporting_damage,
    split_compression,
)

TRANSLATION = "translation"
"""Field of JSONL and column of tables that receives the translation."""

_TABLES = (".parquet", ".arrow")
_JSONL = (".jsonl", ".ndjson")
_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"  # of `datasets`


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """Consecutive rows of one file, which are translated and written together."""

    number: int
    """Place among all shards of the corpus."""
    address: str
    """The input file's."""
    output: str
    """Name of the output file, relative to the output folder."""
    first: int
    """First row, counted from 0."""
    rows: int
    offset: int
    """Of the first row in the decompressed file, in bytes; 0 for tables."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """A file of the corpus."""

    name: str
    """Relative to the input's folder."""
    sha256: str
    """Checksum of the decompressed content."""
    rows: int


def optional_module(name: str, *, needed_by: str = "--cluster") -> Any:
    """Import a module of the extra `cluster`.

    Raises:
        ValueError: if it is not installed; the message says how to install it.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise ValueError(
            f"{needed_by} needs {package}, which is missing: pip install 'transduce[cluster]'"
        ) from None


def resolve(address: str) -> Any:
    """Return the path object of a local path or an address of fsspec.

    Raises:
        ValueError: if a package is missing, or the kind of address is unknown.
    """
    path = optional_module("upath").UPath(address)
    if isinstance(path, Path):
        return path.absolute()  # workers have other current folders
    try:
        path.fs  # noqa: B018  opens the storage
    except (ImportError, ValueError) as error:  # names the package for this storage
        raise ValueError(f"{address}: {error}") from None
    return path


def write_atomically(path: Any, data: bytes) -> None:
    """Write a file whole or not at all; object stores show one when it is complete anyway."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(path, Path):
        path.write_bytes(data)
        return
    with atomic_file(path) as stream:
        stream.write(data)


def find_inputs(pattern: str, *, output: Any) -> list[tuple[str, str]]:
    """Return address and relative name of all files of a folder, a glob pattern or one file.

    Of a folder, hidden files and those that start in "_" or end in .json or .md are left out.

    Args:
        pattern: a local path or an address.
        output: folder whose files are left out.

    Raises:
        ValueError: if there is none, or the state of a data set is damaged.
    """
    path = resolve(pattern)
    local = "file" in path.fs.protocol

    def location(file: str) -> PurePath:
        return Path(file).resolve() if local else PurePosixPath(file)  # links may name one folder

    def is_input(file: str) -> bool:
        same = path.fs == output.fs
        written = same and location(file).is_relative_to(location(output.path))
        return not written and path.fs.isfile(file)

    if path.is_dir():
        listed = {str(f.relative_to(path)): f for f in path.rglob("*") if is_input(f.path)}
        folders = [posixpath.dirname(name) for name in listed if PurePosixPath(name).name == _INFO]
        names = [name for name in sorted(listed) if _is_data(name)]
        for folder in folders:  # Arrow files that its state does not list are caches
            if state := listed.get(posixpath.join(folder, _STATE)):
                own = {posixpath.join(folder, name) for name in _data_files(state)}
                names = [name for name in names if posixpath.dirname(name) != folder or name in own]
        inputs = [(str(listed[name]), name) for name in names]
    else:
        files = sorted(filter(is_input, path.fs.glob(path.path)))
        top = posixpath.commonpath([posixpath.dirname(file) for file in files] or [""])
        inputs = [(path.fs.unstrip_protocol(file), posixpath.relpath(file, top)) for file in files]
    if not inputs:
        raise ValueError(f"--input {pattern} names no files (those of the output do not count)")
    return inputs


def _data_files(state: Any) -> list[str]:
    """Return the names of the files that the state of a data set lists."""
    try:
        return [str(file["filename"]) for file in json.loads(state.read_bytes())["_data_files"]]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{state} is damaged: save the data set again") from None


def _is_data(name: str) -> bool:
    hidden = any(part.startswith((".", "_")) for part in name.split("/"))
    return not hidden and not name.endswith((".json", ".md"))


def scan_file(
    address: str, name: str, *, field: str, shard_rows: int, first_number: int
) -> tuple[InputFile, list[Shard]]:
    """Read a file once: check its rows, and cut it into shards.

    Args:
        name: its name, relative to the input's folder.
        field: that holds the text in JSONL and tables.
        shard_rows: rows of a shard; the last one of a file may have fewer.

    Raises:
        ValueError: if a row is not UTF-8 or lacks the field's text; it names file and line.
    """
    offsets, rows, position = list[int](), 0, 0
    if _suffix(name) in _TABLES:
        with resolve(address).open("rb") as stream:
            rows = _count_rows(stream, name, field=field)
            stream.seek(0)
            digest = hashlib.file_digest(stream, "sha256")
        offsets = [0] * -(-rows // shard_rows)
    else:
        digest = hashlib.sha256()
        with _open_lines(address) as lines:
            for line in lines:
                if rows % shard_rows == 0:
                    offsets.append(position)
                rows, position = rows + 1, position + len(line)
                digest.update(line)
                _parse(line, name, rows, field=field)
    plain, compression = split_compression(name)
    stem, suffix = posixpath.splitext(plain)
    shards = [
        Shard(
            number=first_number + index,
            address=address,
            output=f"{stem}-{index:05}-of-{len(offsets):05}{suffix}{compression}",
            first=index * shard_rows,
            rows=min(shard_rows, rows - index * shard_rows),
            offset=offset,
        )
        for index, offset in enumerate(offsets)
    ]
    return InputFile(name=name, sha256=digest.hexdigest(), rows=rows), shards


def read_rows(shard: Shard, *, field: str) -> tuple[list[str], Any]:
    """Return texts and all fields of a shard, with the errors of `scan_file`.

    The fields are a sequence for JSONL, a table of pyarrow for tables, None for lines.
    """
    if _suffix(shard.address) in _TABLES:
        with resolve(shard.address).open("rb") as stream:
            table = _read_table(stream, shard)
        return [text or "" for text in table.column(field).to_pylist()], table
    name = posixpath.basename(shard.address)
    with _open_lines(shard.address) as lines:
        lines.seek(shard.offset)
        numbered = enumerate(islice(lines, shard.rows), start=shard.first + 1)
        parsed = [_parse(line, name, number, field=field) for number, line in numbered]
    texts, fields = zip(*parsed, strict=True)
    return list(texts), fields if _suffix(name) in _JSONL else None


def encode_rows(shard: Shard, fields: Any, translations: Sequence[str]) -> bytes:
    """Return the content of a shard's output file; `fields` are those of `read_rows`."""
    if _suffix(shard.address) in _TABLES:
        return _encode_table(fields, _suffix(shard.address), translations)
    lines = translations
    if fields is not None:
        both = zip(fields, translations, strict=True)
        lines = [json.dumps({**old, TRANSLATION: new}, ensure_ascii=False) for old, new in both]
    data = "".join(f"{line}\n" for line in lines).encode()
    compression = split_compression(shard.address)[1]
    if not compression:
        return data
    buffer = io.BytesIO()
    with compressed_stream(buffer, compression, mode="wb") as stream:
        stream.write(data)
    return buffer.getvalue()


def write_dataset_folders(output: Any, source: Any, names: Sequence[str]) -> None:
    """Make output folders of Arrow files loadable by `datasets`, if the input's folders are.

    `names` are of all shards, in order.
    """
    if (source / _SPLITS).is_file():
        write_atomically(output / _SPLITS, (source / _SPLITS).read_bytes())
    for folder in dict.fromkeys(posixpath.dirname(name) for name in names):
        if not all((source / folder / name).is_file() for name in (_STATE, _INFO)):
            continue
        state, info = (
            json.loads((source / folder / file).read_bytes()) for file in (_STATE, _INFO)
        )
        shards = [name for name in names if posixpath.dirname(name) == folder]
        state["_data_files"] = [{"filename": posixpath.basename(name)} for name in shards]
        state["_fingerprint"] = hashlib.sha256(json.dumps(shards).encode()).hexdigest()[:16]
        info["features"][TRANSLATION] = {"dtype": "string", "_type": "Value"}
        for name, content in ((_STATE, state), (_INFO, info)):
            write_atomically(output / folder / name, json.dumps(content, indent=2).encode())


def _suffix(name: str) -> str:
    return PurePosixPath(split_compression(name)[0]).suffix


@contextmanager
def _open_lines(address: str) -> Generator[Any]:
    """Open a text file, decompressed; it can be sought forward."""
    with reporting_damage(Path(address)), resolve(address).open("rb") as stream:
        compression = split_compression(address)[1]
        yield compressed_stream(stream, compression) if compression else stream


def _parse(
    line: bytes, name: str, number: int, *, field: str
) -> tuple[str, dict[str, object] | None]:
    """Return the text of a line, and all fields if it is JSON."""
    try:
        text = line.removesuffix(b"\n").decode()
    except UnicodeDecodeError as error:
        raise ValueError(encoding_error(name, number, line, error)) from None
    if number == 1:
        text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    if _suffix(name) not in _JSONL:
        return text, None
    try:
        fields = json.loads(text)
        if "\\u" in text:  # only an escape can introduce a lone surrogate
            json.dumps(fields, ensure_ascii=False).encode()
    except ValueError as error:
        raise ValueError(f"{name}, line {number}: not JSON ({error})") from None
    if not isinstance(fields, dict) or not isinstance(fields.get(field), str):
        raise ValueError(
            f"{name}, line {number}: not an object with a text {field!r}: name the field by --field"
        )
    if TRANSLATION in fields:
        raise ValueError(f"{name}, line {number} has a {TRANSLATION!r} already: rename the field")
    return fields[field], fields


def _count_rows(stream: BinaryIO, name: str, *, field: str) -> int:
    """Return the rows of a table, whose columns are checked."""
    if _suffix(name) == ".parquet":
        table = optional_module("pyarrow.parquet").ParquetFile(stream)
        schema, rows = table.schema_arrow, table.metadata.num_rows
    else:
        table = optional_module("pyarrow.ipc").open_stream(stream)
        schema, rows = table.schema, sum(batch.num_rows for batch in table)
    if field not in schema.names:
        columns = ", ".join(schema.names)
        raise ValueError(f"{name} has columns {columns}: name one of them by --field")
    if TRANSLATION in schema.names:
        raise ValueError(f"{name} has a {TRANSLATION!r} already: rename the column")
    types, kind = optional_module("pyarrow.types"), schema.field(field).type
    content = kind.value_type if types.is_dictionary(kind) else kind
    # A null column has missing texts only.
    if str(content) not in ("string", "large_string", "string_view", "null"):
        raise ValueError(
            f"{name}: the column {field!r} has {kind}, not text: name another by --field"
        )
    return rows


def _read_table(stream: BinaryIO, shard: Shard) -> Any:
    if _suffix(shard.address) == ".arrow":
        table = optional_module("pyarrow.ipc").open_stream(stream).read_all()
        return table.slice(shard.first, shard.rows)
    file = optional_module("pyarrow.parquet").ParquetFile(stream)
    counts = (file.metadata.row_group(index).num_rows for index in range(file.num_row_groups))
    bounds = enumerate(pairwise(accumulate(counts, initial=0)))
    end = shard.first + shard.rows
    groups = {index: start for index, (start, stop) in bounds if start < end and stop > shard.first}
    table = file.read_row_groups(list(groups))
    return table.slice(shard.first - min(groups.values()), shard.rows)


def _encode_table(table: Any, suffix: str, translations: Sequence[str]) -> bytes:
    pyarrow = optional_module("pyarrow")
    table = table.append_column(TRANSLATION, pyarrow.array(translations, pyarrow.string()))
    sink = pyarrow.BufferOutputStream()
    if suffix == ".parquet":
        optional_module("pyarrow.parquet").write_table(table, sink)
    else:
        table = table.replace_schema_metadata()  # which describes the columns of the input
        with optional_module("pyarrow.ipc").new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue().to_pybytes()
