"""Exclusive use of a folder: a file lock that the system releases when its owner dies."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK_FILE = ".lock"
"""The locked file; it holds its owner's PID. One left by a killed process blocks nobody."""

_TIMEOUT = 0.1  # seconds: long enough to retry a file that its last owner was just deleting


@contextmanager
def exclusive_lock(folder: Path) -> Generator[None]:
    """Hold a folder for this thread, which may lock it again.

    The folder is created if missing, and removed afterwards if it is still empty.

    Raises:
        ValueError: if another process or thread holds it, or it is a file.
        OSError: if the folder cannot be written to.
    """
    file = folder.resolve() / LOCK_FILE
    lock = FileLock(file, timeout=_TIMEOUT, thread_local=True, is_singleton=True)
    if lock.is_locked:
        yield
        return
    if folder.is_file():
        raise ValueError(f"{folder} is a file: name a folder by --out")
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _acquire(lock, file)
        try:
            yield
        finally:
            with suppress(OSError):  # Windows deletes no open file
                file.unlink()  # before the release: afterwards it may be another owner's
            lock.release()
    finally:
        with suppress(OSError):  # it is not empty
            for path in created:
                path.rmdir()


def _acquire(lock: FileLock, file: Path) -> None:
    file.touch()  # so that an OSError below is about locking, not about writing
    try:
        lock.acquire()
    except Timeout:
        owner = ""
        with suppress(OSError):  # Windows reads no locked file
            owner = file.read_text(errors="replace")
        raise ValueError(
            f"{file.parent} is being written to by another process (PID {owner or 'unknown'}): "
            f"wait until it ends, or choose another folder"
        ) from None
    except OSError:  # a file system without locks
        return
    with suppress(OSError):
        file.write_text(str(os.getpid()))
