"""The user's cache folder: converted models and measured plans.

It never fails: if the folder is not writable, a temporary one is used and removed with the process.
Concurrent processes are safe: entries are written atomically, named by what they depend on.
"""

import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

from transduce.io.atomic_folder import check_folder

MAX_FOLDERS = 20
"""Folders kept; the least recently used ones beyond that are deleted."""

_IN_USE = 3600.0  # seconds: another process may still be reading a folder that it just looked up


def user_cache(environment: Mapping[str, str], *, system: str, home: Path) -> Path:
    """Return the user's cache folder: TRANSDUCE_CACHE, or the system's standard location.

    Args:
        environment: environment variables.
        system: `sys.platform`.
        home: the user's home folder.
    """
    if override := environment.get("TRANSDUCE_CACHE"):
        return Path(override)
    if system == "win32":
        local = environment.get("LOCALAPPDATA")
        return (Path(local) if local else home / "AppData" / "Local") / "transduce" / "cache"
    if system == "darwin":
        return home / "Library" / "Caches" / "transduce"
    xdg = Path(environment.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else home / ".cache") / "transduce"


class Cache:
    """Folders and small text files by name."""

    def __init__(self, root: Path | None = None) -> None:
        """Use `root`; None is the user's cache folder."""
        try:
            self.root = root or user_cache(os.environ, system=sys.platform, home=Path.home())
            self.root.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.root).close()
        except (OSError, RuntimeError):  # RuntimeError: no home folder
            self._use_temporary()

    def folder(self, name: str, write: Callable[[Path], None]) -> Path:
        """Return the folder of that name, writing it if it is missing or damaged.

        Args:
            name: identifies everything that the contents depend on.
            write: writes the folder, with `atomic_folder`.

        Raises:
            OSError: if not even a temporary folder can be written.
        """
        folder = self.root / name
        if _is_intact(folder):
            return folder
        try:
            return self._write(folder, write)
        except OSError:
            self._use_temporary()
            return self._write(self.root / name, write)

    def read_text(self, name: str) -> str:
        """Return the text of that name; empty if there is none."""
        try:
            return (self.root / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def store_text(self, name: str, text: str) -> None:
        """Store a text if possible."""
        try:
            with tempfile.TemporaryDirectory(dir=self.root, prefix=".new-") as fresh:
                (Path(fresh) / name).write_text(text, encoding="utf-8")
                (Path(fresh) / name).replace(self.root / name)
        except OSError:
            return

    def _write(self, folder: Path, write: Callable[[Path], None]) -> Path:
        fresh = Path(tempfile.mkdtemp(dir=self.root, prefix=".new-"))
        try:
            write(fresh / "new")
            if folder.exists() and not _is_intact(folder):
                folder.rename(fresh / "damaged")
            try:
                (fresh / "new").rename(folder)
            except OSError:  # another process was faster
                if not _is_intact(folder):
                    raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        self._evict()
        return folder

    def _evict(self) -> None:
        """Delete the least recently used folders, and leftovers of killed processes."""
        try:
            used = {path: path.stat().st_mtime for path in self.root.iterdir() if path.is_dir()}
        except OSError:
            return
        recent_first = sorted(used, key=lambda path: (path.name.startswith("."), -used[path]))
        complete = [path for path in recent_first if not path.name.startswith(".")]
        for path in recent_first:
            if path not in complete[:MAX_FOLDERS] and used[path] < time.time() - _IN_USE:
                shutil.rmtree(path, ignore_errors=True)

    def _use_temporary(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="transduce-"))
        weakref.finalize(self, shutil.rmtree, self.root, ignore_errors=True)


def _is_intact(folder: Path) -> bool:
    """Verify all checksums and mark the folder as used."""
    try:
        check_folder(folder, expected="a cache folder")
        os.utime(folder)
    except (ValueError, OSError):
        return False
    return True
