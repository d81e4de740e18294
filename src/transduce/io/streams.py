"""Text input and output of the command line: strict UTF-8, split at line feeds only."""

import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from transduce.io.atomic_folder import atomic_file, naming


@contextmanager
def open_lines(file: Path | None) -> Generator[Iterator[str]]:
    """Open a file, or stdin, and yield its lines without line feeds.

    A seekable input is checked to its end before the first line is yielded; a pipe is not.

    Raises:
        ValueError: if a line is not UTF-8.
        OSError: if the file cannot be read.
    """
    name = "stdin" if file is None else str(file)
    stream = sys.stdin.buffer if file is None else file.open("rb")
    try:
        if stream.seekable():
            start = stream.tell()
            for _ in _decode_lines(stream, name=name):
                pass
            stream.seek(start)
        yield _decode_lines(stream, name=name)
    finally:
        if file is not None:
            stream.close()


def read_lines(file: Path) -> list[str]:
    """Read all lines of a file.

    Raises:
        ValueError: if a line is not UTF-8.
        OSError: if the file cannot be read.
    """
    with open_lines(file) as lines:
        return list(lines)


@contextmanager
def open_output(file: Path | None) -> Generator[BinaryIO]:
    """Open stdout, or a file that is written atomically."""
    if file is None:
        yield sys.stdout.buffer
        return
    with atomic_file(file) as stream:
        yield stream


def _decode_lines(stream: Iterable[bytes], *, name: str) -> Iterator[str]:
    with naming(Path(name)):
        for number, line in enumerate(stream, start=1):
            try:
                text = line.removesuffix(b"\n").decode()
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{name}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x} at byte "
                    f"{error.start + 1} of the line); convert it to UTF-8"
                ) from None
            yield text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}") if number == 1 else text
