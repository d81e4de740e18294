"""Atomic writes: a folder or file appears complete or not at all (written aside, then renamed).

Every folder gets a manifest.json with the size and SHA-256 of its files, so that a reader can tell
an intact folder from a damaged or foreign one before it reads any other byte. A writer that is
killed leaves `.NAME.new-PID` or, during the exchange of two folders, `.NAME.old-PID`. The next
writer deletes them: it holds the lock, so that their owner is dead, even one on another host or in
another container, whose PID says nothing here. A reader deletes nothing (`recover_interrupted`).
"""

import glob
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from transduce.io.lock import writer_lock

MANIFEST = "manifest.json"
CARD = "README.md"
"""Written for people, who may edit it: not in the manifest."""


@contextmanager
def atomic_folder(folder: Path) -> Generator[Path]:
    """Yield an empty folder to write into; it becomes `folder` when the block succeeds.

    An existing folder is replaced; if the block fails, it stays as it was.

    Raises:
        ValueError: if another process is writing it.
    """
    if folder.is_symlink():
        folder = folder.resolve()  # the link stays
    folder.parent.mkdir(parents=True, exist_ok=True)
    with writer_lock(folder):
        recover_interrupted(folder)
        for leftover in (*_leftovers(folder, "old"), *_leftovers(folder, "new")):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh = folder.with_name(f".{folder.name}.new-{os.getpid()}")
        fresh.mkdir()
        try:
            yield fresh
            _write_manifest(fresh)
            _fsync(*fresh.rglob("*"), fresh, fresh.parent)
            _swap_in(fresh, folder)
        except BaseException as error:
            shutil.rmtree(fresh, ignore_errors=True)
            _name(error, folder)
            raise


@contextmanager
def atomic_file(file: Path) -> Generator[BinaryIO]:
    """Yield a stream to write to; it becomes `file` only if the block succeeds.

    Anything but a regular file, such as /dev/null or a pipe, is written to directly.

    Raises:
        ValueError: if another process is writing it.
    """
    if file.exists() and not file.is_file():
        with file.open("wb") as stream:
            yield stream
        return
    if file.is_symlink():
        file = file.resolve()  # the link stays
    with writer_lock(file):
        for leftover in _leftovers(file, "new"):
            with suppress(OSError):
                leftover.unlink()
        fresh = file.with_name(f".{file.name}.new-{os.getpid()}")
        try:
            with fresh.open("wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(fresh, file)
        except BaseException as error:
            with suppress(OSError):  # the first error is the informative one
                fresh.unlink()
            _name(error, file)
            raise


def recover_interrupted(folder: Path) -> bool:
    """Return whether a folder exists, having moved back what a killed writer had moved aside.

    Readers call this too: it deletes nothing, and waits for a writer that lives.
    """
    if folder.is_symlink():
        folder = folder.resolve()
    if not folder.exists() and _leftovers(folder, "old"):
        with suppress(OSError, ValueError), writer_lock(folder):  # read-only media stay as they are
            if not folder.exists():
                _leftovers(folder, "old")[-1].rename(folder)
    return folder.is_dir()


def path_identity(path: Path) -> tuple[int, ...]:
    """Return what changes when another file or folder takes its place; () if it cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def check_folder(folder: Path, *, expected: str, required: Collection[str] = ()) -> None:
    """Check every file of a folder against its manifest.

    Args:
        folder: written by `atomic_folder`.
        expected: what the folder should be, for messages: "a model bundle".
        required: names of files that must be there and have a checksum.

    Raises:
        ValueError: if it is missing, foreign or damaged; the message names the file.
    """
    if not folder.is_dir() and not recover_interrupted(folder):
        raise ValueError(f"{folder} is not {expected}: it does not exist")
    path = folder / MANIFEST
    if not path.is_file():
        raise ValueError(f"{folder} is not {expected}: it has no {MANIFEST}")
    manifest = _read_manifest(path)
    for name in required:
        if not (folder / name).is_file():
            raise ValueError(f"{folder / name} is missing: {folder} is incomplete, copy it again")
        if name not in manifest:
            raise ValueError(
                f"{path} has no checksum for {name}: {folder} is incomplete, copy it again"
            )
    for name, facts in manifest.items():
        file = folder / name
        if not file.is_file():
            raise ValueError(f"{file} is missing: {folder} is damaged, copy it again")
        size, checksum = facts
        if file.stat().st_size != size:
            raise ValueError(
                f"{file} has {file.stat().st_size} bytes instead of {size}: "
                f"{folder} is damaged, copy it again"
            )
        if sha256(file) != checksum:
            raise ValueError(
                f"{file} does not match its checksum: {folder} is damaged, copy it again"
            )


def sanitise(text: str) -> str:
    """Make text from a file fit for a message: one line, printable, at most 200 characters.

    >>> sanitise("tensor\\n")
    'tensor�'
    """
    printable = "".join(char if char.isprintable() else "\ufffd" for char in text[:200])
    return printable if len(text) <= 200 else f"{printable[:197]}..."


@contextmanager
def naming(path: Path) -> Generator[None]:
    """Name a file in the error of a read or write that fails, which names none."""
    try:
        yield
    except OSError as error:
        _name(error, path)
        raise


def _name(error: BaseException, path: Path) -> None:
    # With a filename, an error without a number would lose its text.
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = str(path)


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with naming(file), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _leftovers(folder: Path, kind: str) -> list[Path]:
    """Temporary files or folders of writers; none of them lives if this process is the writer."""
    return sorted(folder.parent.glob(f".{glob.escape(folder.name)}.{kind}-*"))


def _write_manifest(folder: Path) -> None:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / CARD)
    facts = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in files
    }
    (folder / MANIFEST).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _read_manifest(path: Path) -> dict[str, tuple[int, str]]:
    damaged = ValueError(f"{path} is damaged or not a manifest: copy the folder again")
    try:
        with naming(path):
            facts = json.loads(path.read_text(encoding="utf-8"))
        manifest = {name: (int(fact["bytes"]), str(fact["sha256"])) for name, fact in facts.items()}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise damaged from None
    if not manifest or not all(map(_is_inside, manifest)):
        raise damaged
    return manifest


def _is_inside(name: str) -> bool:
    """Whether a file name of a manifest is relative, stays in its folder and is valid."""
    valid_parts = all(len(part.encode(errors="replace")) < 256 for part in name.split("/"))
    inside = not Path(name).is_absolute() and ".." not in name
    return inside and valid_parts and len(name) < 1024 and name.isprintable()


def _swap_in(fresh: Path, folder: Path) -> None:
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
    _fsync(folder.parent)


def _fsync(*paths: Path) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _check_name(folder: Path) -> None:
    if folder.name in ("", ".."):
        raise ValueError(
            f"{folder} cannot be replaced: name a folder that is not the current one, or change to "
            f"another one first"
        )


def check_new_folder(folder: Path) -> None:
    """Refuse a folder that is a file, or holds anything, or the current one."""
    _check_name(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is not an empty folder: name another one by --out")


def check_replaceable(folder: Path, own: Collection[str]) -> None:
    """Refuse a folder that is a file, or holds more than these files, or the current one."""
    _check_name(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file: name another folder")
    names = {path.name for path in folder.iterdir()}
    foreign = sorted(names - {*own, MANIFEST})
    if foreign or (names and MANIFEST not in names):
        what = f"it holds {foreign[0]}" if foreign else f"it has no {MANIFEST}"
        raise ValueError(f"{folder} is not replaced, {what}: move it away, or name another folder")
