"""Exclusive use of a folder: a file lock that the system releases when its owner dies."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK_FILE = ".lock"
"""The locked file; it holds its owner's PID. One left by a killed process blocks nobody."""

_TIMEOUT = 0.1  # seconds: long enough to retry a file that its last owner was just deleting
_WRITING = 10.0  # seconds that a writer waits for another one of the same file or folder


@contextmanager
def exclusive_lock(folder: Path) -> Generator[None]:
    """Hold a folder for this thread, which may lock it again.

    The folder is created if missing, and removed afterwards if it is still empty.

    Raises:
        ValueError: if another process or thread holds it, or it is a file.
        OSError: if the folder cannot be written to.
    """
    if folder.is_file():
        raise ValueError(f"{folder} is a file: name a folder by --out")
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        file = folder.resolve() / LOCK_FILE
        with _held(file, file.parent, timeout=_TIMEOUT):
            with suppress(OSError):
                file.write_text(str(os.getpid()))
            yield
    finally:
        with suppress(OSError):  # it is not empty
            for path in created:
                path.rmdir()


@contextmanager
def writer_lock(path: Path) -> Generator[None]:
    """Be the only writer of a file or folder, by a lock file beside it: `.NAME.lock`.

    Raises:
        ValueError: if another process or thread is writing it, and takes long, or there is no
            folder to write it to.
        OSError: if nothing can be written there.
    """
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is not a folder: make it, or name another file")
    with _held(path.parent.resolve() / f".{path.name}{LOCK_FILE}", path, timeout=_WRITING):
        yield


@contextmanager
def _held(file: Path, locked: Path, *, timeout: float) -> Generator[None]:
    """Hold a lock file, which stands for what is locked, and delete it afterwards."""
    lock = FileLock(file, timeout=timeout, thread_local=True, is_singleton=True)
    if lock.is_locked:
        yield
        return
    file.touch()  # so that an OSError below is about locking, not about writing
    try:
        lock.acquire()
    except Timeout:
        owner = ""
        with suppress(OSError):  # Windows reads no locked file
            owner = file.read_text(errors="replace")
        raise ValueError(
            f"{locked} is being written to by another process{owner and f' (PID {owner})'}: "
            f"wait until it ends, or choose another {'file' if locked.is_file() else 'folder'}"
        ) from None
    except OSError:  # a file system without locks
        pass
    try:
        yield
    finally:
        with suppress(OSError):  # Windows deletes no open file
            file.unlink()  # before the release: afterwards it may be another owner's
        lock.release()
