"""Where an export may be written: never over something that is not one."""

from collections.abc import Collection
from pathlib import Path

from transduce.io.atomic_folder import MANIFEST


def check_replaceable(folder: Path, own: Collection[str]) -> None:
    """Refuse to replace what is no earlier export of the same kind.

    Args:
        folder: where an export shall be written.
        own: the names of its files.

    Raises:
        ValueError: if there is a file, or a folder that holds something else.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file: name another folder for the export")
    held = {path.name for path in folder.iterdir()}
    foreign = sorted(held - {*own, MANIFEST})
    if foreign or (held and MANIFEST not in held):
        what = f"it holds {foreign[0]}" if foreign else f"it has no {MANIFEST}"
        raise ValueError(f"{folder} is not replaced by an export, {what}: name another folder")
