"""A disk that fails: each touch of it in turn, or all from one on, as a program would meet it."""

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

Failure = Literal["full once", "forbidden from then on"]

_CALLS = ("fsync", "rename", "replace", "mkdir")
_ALSO_FORBIDDEN = ("unlink", "rmdir", "remove")


class Disk:
    """Counts what writes below a folder, and fails at one such touch, or from it on."""

    def __init__(self, folder: Path, *, touch: int, failure: Failure) -> None:
        self.touched: list[str] = []
        self._folder = f"{folder}{os.sep}"
        self._failing_touch = touch
        self._failure: Failure = failure
        self._open = io.open

    @property
    def failed(self) -> bool:
        """Whether it came to that."""
        return len(self.touched) >= self._failing_touch

    def fails(self, what: str, place: object) -> bool:
        """Count a touch, and say whether it fails."""
        in_folder = isinstance(place, int) or str(place).startswith(self._folder)
        if not in_folder:
            return False
        self.touched.append(f"{what} {place}")
        now = len(self.touched)
        return now == self._failing_touch or (
            now > self._failing_touch and self._failure != "full once"
        )

    def error(self, place: object) -> OSError:
        number = errno.ENOSPC if self._failure == "full once" else errno.EACCES
        named = () if isinstance(place, int) else (str(place),)
        return OSError(number, os.strerror(number), *named)

    def open(self, file: object, mode: str = "r", *rest: object, **more: object) -> object:
        """On a full disk a file can be made, and not be written to."""
        if set(mode) & set("wax+") and self.fails("open", file):
            if self._failure != "full once":
                raise self.error(file)
            self._open(file, mode, *rest, **more).close()  # pyright: ignore
            file = "/dev/full"
        return self._open(file, mode, *rest, **more)  # pyright: ignore

    def wrapped(self, name: str) -> Callable[..., object]:
        """A call of the system that may fail."""
        call: Callable[..., object] = getattr(os, name)

        def failing(place: object, *rest: object, **more: object) -> object:
            if self.fails(name, place):
                raise self.error(place)
            return call(place, *rest, **more)

        return failing


@contextmanager
def failing(folder: Path, *, touch: int, failure: Failure) -> Iterator[Disk]:
    """Let the disk below a folder fail, within the block."""
    disk = Disk(folder, touch=touch, failure=failure)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", disk.open)
        for name in (*_CALLS, *(_ALSO_FORBIDDEN if failure != "full once" else ())):
            patch.setattr(os, name, disk.wrapped(name))
        yield disk


def at_every_touch(
    folder: Path, failure: Failure, *, work: Callable[[], object], check: Callable[[], object]
) -> int:
    """Do some work on a disk that fails at its first touch, its second, ...; check after each.

    Returns:
        How many touches were tried: the work was done without a failure after that.
    """
    for touch in range(1, 1000):
        with failing(folder, touch=touch, failure=failure) as disk:
            try:
                work()
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EACCES):
                    raise
        if not disk.failed:
            return touch - 1
        check()
    raise AssertionError("there is no end to it")
