"""The user's cache folder: what can be made again, kept so that it need not be.

It never fails: where nothing can be written, a folder of this process takes its place and goes with
it. Two processes may use it at once: what they write appears whole, under the name of its contents.
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

KEPT = 20
"""Folders that stay; of more, those go that were not used for the longest time."""

_IN_USE = 3600.0  # seconds for which another process may still be reading what it asked for


def user_cache(environment: Mapping[str, str], *, system: str, home: Path) -> Path:
    """Where a user's cache is: TRANSDUCE_CACHE, or the system's usual place.

    Args:
        environment: its variables.
        system: `sys.platform`.
        home: the user's own folder.
    """
    if named := environment.get("TRANSDUCE_CACHE"):
        return Path(named)
    if system == "win32":
        local = environment.get("LOCALAPPDATA")
        return (Path(local) if local else home / "AppData" / "Local") / "transduce" / "cache"
    if system == "darwin":
        return home / "Library" / "Caches" / "transduce"
    shared = Path(environment.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else home / ".cache") / "transduce"


class Cache:
    """Folders and small texts by name."""

    def __init__(self, root: Path | None = None) -> None:
        """Keep things below `root`; None: where the user's cache is."""
        try:
            self.root = root or user_cache(os.environ, system=sys.platform, home=Path.home())
            self.root.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.root).close()
        except (OSError, RuntimeError):  # RuntimeError: nobody's home
            self._retreat()

    def folder(self, name: str, write: Callable[[Path], None]) -> Path:
        """Return the folder of that name; where it is missing or damaged, `write` makes it.

        Args:
            name: says all that the contents depend on.
            write: makes a folder as `atomic_folder` does.

        Raises:
            OSError: if it cannot be written, not even as a temporary one.
        """
        place = self.root / name
        if _is_whole(place):
            return place
        try:
            return self._made(place, write)
        except OSError:
            self._retreat()
            return self._made(self.root / name, write)

    def text(self, name: str) -> str:
        """Return the text of that name; empty if there is none."""
        try:
            return (self.root / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def remember(self, name: str, text: str) -> None:
        """Keep a text, if it can be kept."""
        try:
            with tempfile.TemporaryDirectory(dir=self.root, prefix=".new-") as fresh:
                (Path(fresh) / name).write_text(text, encoding="utf-8")
                (Path(fresh) / name).replace(self.root / name)
        except OSError:
            return

    def _made(self, place: Path, write: Callable[[Path], None]) -> Path:
        fresh = Path(tempfile.mkdtemp(dir=self.root, prefix=".new-"))
        try:
            write(fresh / "made")
            if place.exists() and not _is_whole(place):
                place.rename(fresh / "damaged")
            try:
                (fresh / "made").rename(place)
            except OSError:  # another process was quicker
                if not _is_whole(place):
                    raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        self._forget()
        return place

    def _forget(self) -> None:
        """Remove what has not been used for the longest time, and what a killed process left."""
        try:
            used = {path: path.stat().st_mtime for path in self.root.iterdir() if path.is_dir()}
        except OSError:
            return
        latest = sorted(used, key=lambda path: (path.name.startswith("."), -used[path]))
        whole = [path for path in latest if not path.name.startswith(".")]
        for path in latest:
            if path not in whole[:KEPT] and used[path] < time.time() - _IN_USE:
                shutil.rmtree(path, ignore_errors=True)

    def _retreat(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="transduce-"))
        weakref.finalize(self, shutil.rmtree, self.root, ignore_errors=True)


def _is_whole(folder: Path) -> bool:
    """Check every byte, and note that the folder is in use."""
    try:
        check_folder(folder, expected="a folder of the cache")
        os.utime(folder)
    except (ValueError, OSError):
        return False
    return True
