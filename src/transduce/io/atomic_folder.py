"""A folder, or a file, that is whole or absent: written beside its place, then renamed.

A folder is flushed and described first. Its manifest.json holds the size and SHA-256 of its other
files, so that a reader can tell a whole folder from a damaged or a foreign one before it believes a
byte of it. What a killed writer leaves carries its number, `.NAME.new-PID` or, while NAME itself is
being exchanged, `.NAME.old-PID`; whoever comes next puts it right.
"""

import errno
import glob
import hashlib
import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

MANIFEST = "manifest.json"
CARD = "README.md"
"""For people, who may edit it: the manifest leaves it out."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def whole_folder(folder: Path) -> Generator[Path]:
    """Yield an empty folder to write into; when the block ends well it becomes `folder`.

    A folder that is there already is replaced; when the block fails it stays as it was.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    recover(folder)
    fresh = folder.with_name(f".{folder.name}.new-{os.getpid()}")
    fresh.mkdir()
    try:
        yield fresh
        _describe(fresh)
        _flush(fresh)
        _move(fresh, folder)
    except BaseException as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            error.filename = str(folder)  # a failed write does not say of what
        raise


@contextmanager
def whole_file(file: Path) -> Generator[BinaryIO]:
    """Yield a stream to write to; when the block ends well, and then alone, it becomes `file`.

    What is no file, such as /dev/null or a pipe, is written to as it is.
    """
    if file.exists() and not file.is_file():
        with file.open("wb") as stream:
            yield stream
        return
    for left in _left(file, "new"):
        with suppress(OSError):
            left.unlink()
    fresh = file.with_name(f".{file.name}.new-{os.getpid()}")
    try:
        with fresh.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, file)
    except BaseException:
        with suppress(OSError):  # what went wrong before says more
            fresh.unlink()
        raise


def recover(folder: Path) -> bool:
    """Put right what killed writers left beside `folder`, and say whether it is there.

    One that was killed between the two renames of an exchange had moved the old folder away: it
    comes back. Whatever is not whole is deleted. Nothing of a writer that lives is touched.
    """
    for old in _left(folder, "old"):
        with suppress(OSError):  # a medium that cannot be written to is as it is
            if folder.exists():
                shutil.rmtree(old)
            else:
                old.rename(folder)
    for new in _left(folder, "new"):
        shutil.rmtree(new, ignore_errors=True)
    return folder.is_dir()


def check_folder(folder: Path, *, what: str) -> None:
    """Check every file of a folder against its manifest.

    Args:
        folder: where `whole_folder` wrote.
        what: what the folder should be, such as "a model bundle"; the messages say it.

    Raises:
        ValueError: one line that names the folder or the file and what is wrong with it.
    """
    if not folder.is_dir() and not recover(folder):
        raise ValueError(f"{folder} is not {what}: there is no such folder")
    path = folder / MANIFEST
    if not path.is_file():
        raise ValueError(f"{folder} is not {what}: it has no {MANIFEST}")
    for name, facts in _read_manifest(path).items():
        file = folder / name
        if not file.is_file():
            raise ValueError(f"{file} is missing: {folder} is damaged, copy it again")
        size, checksum = facts
        if file.stat().st_size != size:
            raise ValueError(
                f"{file} has {file.stat().st_size} bytes in place of {size}: "
                f"{folder} is damaged, copy it again"
            )
        if sha256(file) != checksum:
            raise ValueError(
                f"{file} does not match its checksum: {folder} is damaged, copy it again"
            )


def quoted(text: str) -> str:
    """What a file said, fit for a message: one line of characters that show, and not too long.

    >>> quoted("tensor\\n")
    'tensor�'
    """
    shown = "".join(one if one.isprintable() else "\ufffd" for one in text[:200])
    return shown if len(text) <= 200 else f"{shown[:197]}..."


def sha256(file: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _left(folder: Path, kind: str) -> list[Path]:
    """What writers that are no more left beside a folder."""
    left = folder.parent.glob(f".{glob.escape(folder.name)}.{kind}-*")
    return [path for path in left if not _lives(path.name.rpartition("-")[2])]


def _lives(writer: str) -> bool:
    """Whether a process of that number is another one that is alive, as far as can be told."""
    if not writer.isdecimal() or os.name != "posix":
        return True
    if int(writer) == os.getpid():  # of an earlier process: numbers come again
        return False
    try:
        os.kill(int(writer), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # somebody else's
        return True
    return True


def _describe(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / CARD)
    facts = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in files
    }
    (folder / MANIFEST).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _read_manifest(path: Path) -> dict[str, tuple[int, str]]:
    damaged = ValueError(f"{path} is damaged or foreign: copy the folder again")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        manifest = {name: (int(fact["bytes"]), str(fact["sha256"])) for name, fact in facts.items()}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise damaged from None
    if not manifest or not all(map(_is_inside, manifest)):
        raise damaged
    return manifest


def _is_inside(name: str) -> bool:
    """Whether a manifest may speak of a file of that name."""
    short = all(len(part.encode(errors="replace")) < 256 for part in name.split("/"))
    inside = not Path(name).is_absolute() and ".." not in name
    return inside and short and len(name) < 1024 and name.isprintable()


def _flush(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder, folder.parent]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _move(fresh: Path, folder: Path) -> None:
    old = folder.with_name(f".{folder.name}.old-{os.getpid()}")
    if folder.exists():
        folder.rename(old)
    try:
        fresh.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
    handle = os.open(folder.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
