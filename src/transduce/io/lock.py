"""A folder for one process alone: a lock that dies with its owner, however that dies."""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has none, and no lock then
    fcntl = None

LOCK = ".lock"
"""The file that is locked. One that a killed process left behind holds nobody up."""

_held: set[tuple[Path, int]] = set()  # folders, and the threads that hold them


@contextmanager
def alone(folder: Path) -> Generator[None]:
    """Hold a folder, made if it is missing, for this thread; a folder left empty goes again.

    Raises:
        ValueError: if another one holds it, or it is a file; one line that says so.
        OSError: if the folder cannot be written to.
    """
    ours = (folder.resolve(), threading.get_ident())
    if ours in _held:
        yield
        return
    if folder.is_file():
        raise ValueError(f"{folder} is a file: name a folder by --out")
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if fcntl is None:
            yield
            return
        lock = _locked(folder / LOCK)
        _held.add(ours)
        try:
            yield
        finally:
            _held.discard(ours)
            (folder / LOCK).unlink(missing_ok=True)
            os.close(lock)
    finally:
        with suppress(OSError):  # something lies in it
            for path in made:
                path.rmdir()


def _locked(file: Path) -> int:
    """The open, locked file; it is closed, and so unlocked, when this process ends."""
    assert fcntl is not None
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(lock, 20).decode(errors="replace") or "unknown"
            os.close(lock)
            raise ValueError(
                f"{file.parent} is being written to by another process (number {owner}): wait "
                f"until that has ended, or name another folder"
            ) from None
        except OSError:  # a file system that knows no locks
            return lock
        with suppress(FileNotFoundError):
            if os.fstat(lock).st_ino == file.stat().st_ino:
                os.truncate(lock, 0)
                os.write(lock, str(os.getpid()).encode())
                return lock
        os.close(lock)  # its last owner deleted it meanwhile
