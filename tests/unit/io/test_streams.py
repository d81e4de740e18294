"""Lines go in and out as they are, or not at all."""

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

from transduce.io.streams import compressed_stream, open_output, read_content, read_lines

TEXT = "ä\nb\n".encode()


def _zstd() -> ModuleType:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    return pytest.importorskip(name)


def zstd(content: bytes) -> bytes:
    return _zstd().compress(content)


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


@pytest.mark.parametrize("name", ["text", "text.en{}"])
@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_compressed_file_is_read_whatever_its_name(suffix: str, name: str, tmp_path: Path):
    file = tmp_path / name.format(suffix)
    file.write_bytes(COMPRESSIONS[suffix](TEXT))

    assert read_lines(file) == ["ä", "b"]


def test_a_dash_is_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    monkeypatch.chdir(tmp_path)

    with open_output(Path("-")) as out:
        out.write(TEXT)
        out.flush()

    assert capfdbinary.readouterr().out == TEXT
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_a_truncated_file_is_named_with_its_format(suffix: str, tmp_path: Path):
    file = tmp_path / f"text{suffix}"
    file.write_bytes(COMPRESSIONS[suffix](os.urandom(9000).hex().encode())[:-700])

    with pytest.raises(ValueError, match=rf"text\{suffix} is not a complete \w+ file .* drop"):
        read_lines(file)


@pytest.mark.parametrize("name", ["text", "text.de"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bz2.compress(TEXT), "is bzip2: unpack it, or compress it by gzip, xz or Zstandard"),
        (bz2.compress(b""), "is bzip2: "),
        (b"PK\x03\x04\x14\0\0\0", "is zip: unpack it"),
        (b"7z\xbc\xaf'\x1c\0\x04", "is 7z: unpack it"),
        (b"PAR1\x15\x04\x15\n", "is Parquet: convert it to text"),
    ],
    ids=["bzip2", "empty bzip2", "zip", "7z", "Parquet"],
)
def test_another_compression_is_named(content: bytes, message: str, name: str, tmp_path: Path):
    (tmp_path / name).write_bytes(content)

    with pytest.raises(ValueError, match=rf"{name} {message}"):
        read_lines(tmp_path / name)
    assert read_content(tmp_path / name) == content  # a document may be a zip file


def test_text_may_begin_as_another_compression_does(tmp_path: Path):
    (tmp_path / "text").write_bytes(b"BZh9 1AY\nPK\nPAR1")

    assert read_lines(tmp_path / "text") == ["BZh9 1AY", "PK", "PAR1"]


@pytest.mark.parametrize("suffix", ["", *COMPRESSIONS])
def test_what_is_written_compressed_is_read_again_and_always_the_same(suffix: str, tmp_path: Path):
    files = [tmp_path / folder / f"text{suffix}" for folder in "ab"]
    if suffix == ".zst":
        _zstd()
    for file in files:
        file.parent.mkdir()
        with compressed_stream(file, suffix, mode="wb") if suffix else file.open("wb") as out:
            out.write(TEXT)

    assert read_lines(files[0]) == ["ä", "b"]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT)))

    assert read_lines(Path("-")) == ["ä", "b"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_named_pipe_is_opened_once(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=[TEXT])
    writer.start()

    assert read_lines(pipe) == ["ä", "b"]
    writer.join()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("ä\n".encode("utf-16"), r"is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8 "),
        (b"a\n\xe4\n", r"line 2: not UTF-8 \(byte 0xe4 at byte 1 .* iconv -f LATIN1 -t UTF-8 "),
    ],
)
def test_another_encoding_is_named_with_the_command_that_converts_it(
    content: bytes, message: str, tmp_path: Path
):
    (tmp_path / "text").write_bytes(content)

    with pytest.raises(ValueError, match=message):
        read_lines(tmp_path / "text")


def test_lines_end_at_line_feeds_alone(tmp_path: Path):
    (tmp_path / "text").write_bytes("a\u2028b\x85c\vd\n\ne".encode())

    assert read_lines(tmp_path / "text") == ["a\u2028b\x85c\vd", "", "e"]


def test_line_ends_of_windows_are_no_text(tmp_path: Path):
    (tmp_path / "text").write_bytes(b"a\r\nb\rc\r\r\n\r\n")

    assert read_lines(tmp_path / "text") == ["a", "b\rc\r", ""]


def test_a_byte_order_mark_is_no_text(tmp_path: Path):
    (tmp_path / "text").write_text("a\nb\n", encoding="utf-8-sig")

    assert read_lines(tmp_path / "text") == ["a", "b"]


def test_an_output_that_fails_midway_leaves_what_was_there(tmp_path: Path):
    (tmp_path / "out").write_text("before")

    with suppress(RuntimeError), open_output(tmp_path / "out") as out:
        out.write(b"half")
        raise RuntimeError

    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_text() == "before"
