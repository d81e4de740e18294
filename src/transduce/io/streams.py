"""Text input and output: compressed files, strict UTF-8, lines that end at line feeds only."""

import codecs
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from transduce.io.atomic_folder import atomic_file, naming

Compression = Literal["", ".gz", ".xz", ".zst"]

_MAGIC: dict[bytes, Compression] = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\0": ".xz", b"(\xb5/\xfd": ".zst"}
_NO_TEXT = {
    "bzip2": rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)",
    "zip": rb"PK\x03\x04",
    "7z": rb"7z\xbc\xaf\x27\x1c",
    "Parquet": rb"PAR1\x15",
}
_ZSTD = ("compression.zstd", "backports.zstd")  # the first since Python 3.14
_FORMATS = {".gz": "gzip", ".xz": "xz", ".zst": "Zstandard"}


def split_compression(name: str) -> tuple[str, Compression]:
    """Split the suffix of a compressed file off its name.

    >>> split_compression("train.en.gz"), split_compression("train.en")
    (('train.en', '.gz'), ('train.en', ''))
    """
    suffix = cast(Compression, next((end for end in _FORMATS if name.endswith(end)), ""))
    return name.removesuffix(suffix), suffix


@contextmanager
def open_compressed(file: Path, *, text: bool = True) -> Generator[io.BufferedIOBase]:
    """Open a file, decompressed by gzip, xz or Zstandard if its name ends in .gz, .xz or .zst.

    The first bytes of any other name decide.

    Args:
        text: refuse bzip2, zip, 7z and Parquet, whose bytes would be read as lines.

    Raises:
        ValueError: if it is no text, there is no module for the format, or, while reading, for a
            damaged file.
        OSError: if the file cannot be opened.
    """
    compression = split_compression(file.name)[1]
    if not compression and file.is_file():  # a named pipe can be opened once only
        with naming(file), file.open("rb") as stream:
            first = stream.read(10)
        ends = (end for magic, end in _MAGIC.items() if first.startswith(magic))
        compression = cast(Compression, next(ends, ""))
        kinds = (kind for kind, magic in _NO_TEXT.items() if text and re.match(magic, first))
        if kind := next(kinds, ""):
            remedy = "unpack it, or compress it by gzip, xz or Zstandard"
            if kind == "Parquet":
                remedy = "convert it to text (transduce corpus build reads FILE.parquet of pairs)"
            raise ValueError(f"{file} is {kind}: {remedy}")
    opened = compressed_stream(file, compression) if compression else file.open("rb")
    with reporting_damage(file), opened as stream:
        yield stream


def compressed_stream(
    file: Any, compression: Compression, *, mode: Literal["rb", "wb"] = "rb"
) -> io.BufferedIOBase:
    """(De)compress a file, or a stream that the caller closes. Equal content gives equal bytes.

    Raises:
        ValueError: if there is no module for the format.
        OSError: if the file cannot be opened.
    """
    if compression == ".gz" and isinstance(file, Path):
        return gzip.GzipFile(file, mode, mtime=0)
    if compression == ".gz":
        return gzip.GzipFile("", mode, fileobj=file, mtime=0)
    if compression == ".xz":
        return lzma.LZMAFile(file, mode)
    module = next(filter(_importable, _ZSTD), None)
    if module is None:
        raise ValueError(f"{file} is compressed with Zstandard: pip install backports.zstd")
    return import_module(module).ZstdFile(file, mode)


@contextmanager
def reporting_damage(file: Path) -> Generator[None]:
    """Report that a compressed file cannot be read to its end.

    Raises:
        ValueError: for a damaged file; the message names it and a remedy.
    """
    zstd = (module.ZstdError for name in _ZSTD if (module := sys.modules.get(name)))
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError, *zstd) as error:
        suffix = split_compression(file.name)[1]
        remedy = f", or drop {suffix} from its name if it is plain text" if suffix else ""
        name = _FORMATS.get(suffix, "compressed")
        raise ValueError(
            f"{file} is not a complete {name} file ({error}); download it again{remedy}"
        ) from error


def _importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its package is missing
        return False


def encoding_error(name: str, number: int, line: bytes, error: UnicodeDecodeError) -> str:
    """Return the message about a line (counted from 1) that is not UTF-8, with a remedy."""
    if number == 1 and (utf16 := utf16_error(name, line)):
        return utf16
    return (
        f"{name}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x} at byte "
        f"{error.start + 1} of the line); convert it to UTF-8, if it is Latin-1 by: "
        f"iconv -f LATIN1 -t UTF-8 {name} > NEW"
    )


def utf16_error(name: str, start: bytes) -> str:
    """Return the message about a file that starts as UTF-16, with a remedy; else nothing."""
    if not start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ""
    return f"{name} is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8 {name} > NEW"


def decode_utf8(name: str, content: bytes) -> str:
    """Return the text of a file in UTF-8, whose name is for messages.

    Raises:
        ValueError: if it is not UTF-8; the message names the line.
    """
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        begin = content.rfind(b"\n", 0, error.start) + 1
        error.start -= begin
        raise ValueError(encoding_error(name, line, content[begin:], error)) from None


@contextmanager
def open_lines(file: Path | None) -> Generator[Iterator[str]]:
    """Open a file, or stdin (None or "-"), and yield its lines without line ends.

    A seekable input is checked to its end before the first line is yielded; a pipe is not. A file
    may be compressed (`open_compressed`).

    Raises:
        ValueError: if a line is not UTF-8.
        OSError: if the file cannot be read.
    """
    if file is None or file == Path("-"):
        yield from _checked_lines(cast(io.BufferedIOBase, sys.stdin.buffer), name="stdin")
    else:
        with open_compressed(file) as stream:
            yield from _checked_lines(stream, name=str(file))


def read_lines(file: Path) -> list[str]:
    """Read all lines of a file, as `open_lines` does; "-" is stdin."""
    with open_lines(file) as lines:
        return list(lines)


def read_content(file: Path) -> bytes:
    """Read a file, which may be compressed, as `open_compressed` does."""
    with open_compressed(file, text=False) as stream, naming(file):
        return stream.read()


def check_output(file: Path | None, *, inputs: Iterable[object], option: str) -> None:
    """Refuse an output that is one of the inputs; those that are no path are left out.

    Raises:
        ValueError: if it is one; the message names the option.
    """
    paths = (path.resolve() for path in inputs if isinstance(path, Path))
    if file is not None and file.resolve() in paths:
        raise ValueError(f"{option} {file} would replace one of its inputs: name another file")


@contextmanager
def open_output(file: Path | None) -> Generator[BinaryIO]:
    """Open stdout (None or "-"), or a file that is written atomically."""
    if file is None or file == Path("-"):
        yield sys.stdout.buffer
        return
    with atomic_file(file) as stream:
        yield stream


def _checked_lines(stream: io.BufferedIOBase, *, name: str) -> Iterator[Iterator[str]]:
    if stream.seekable():
        start = stream.tell()
        for _ in decode_lines(stream, name=name):
            pass
        stream.seek(start)
    yield decode_lines(stream, name=name)


def decode_lines(stream: Iterable[bytes], *, name: str) -> Iterator[str]:
    """Decode the lines of a stream, without byte order mark, and LF or CR LF at their ends.

    Raises:
        ValueError: if a line is not UTF-8.
    """
    with naming(Path(name)):
        for number, line in enumerate(stream, start=1):
            try:
                text = line.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError as error:
                raise ValueError(encoding_error(name, number, line, error)) from None
            yield text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}") if number == 1 else text
