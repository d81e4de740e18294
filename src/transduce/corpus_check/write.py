"""A corpus without what was found in it, written beside the one it was made of."""

import gzip
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from transduce.config import Recipe
from transduce.corpus_check.findings import Kind
from transduce.corpus_check.inspect import Inspection, Pairs
from transduce.data.corpus import Pair, tidy
from transduce.io.atomic_folder import atomic_folder

_REMOVED: tuple[Kind, ...] = (
    "not UTF-8",
    "empty",
    "copy",
    "leaked source",
    "duplicate",
    "length ratio",
)
"""A pair is removed for the first that holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaned:
    """What became of a corpus that was written out clean."""

    files: tuple[str, ...]
    kept: int
    """Pairs written, those with exchanged sides among them."""
    exchanged: int
    """Pairs whose sides were the wrong way round."""
    removed: dict[str, int] = field(default_factory=dict[str, int])
    """Pairs left out, by reason; a pair counts once."""

    def __str__(self) -> str:
        listed = "; ".join(f"{reason}: {count:,}" for reason, count in self.removed.items())
        removed = f", removed {sum(self.removed.values()):,}" + (f" ({listed})" if listed else "")
        return f"kept {self.kept:,} pairs, exchanged the sides of {self.exchanged:,}{removed}"


def check_place(folder: Path) -> None:
    """Refuse a folder that the cleaned corpus cannot be written to.

    Raises:
        ValueError: if there is something in it, or it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a folder by --write")
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: name another folder by --write")


def write_cleaned(recipe: Recipe, inspection: Inspection, *, pairs: Pairs, folder: Path) -> Cleaned:
    """Write the training pairs without faults, tidied, under the names of their files.

    Swapped pairs have their sides exchanged; copies, duplicates but for the first, pairs whose
    source validation or test holds too, odd lengths, empty sides and lines that are not UTF-8 are
    removed. Nothing else is changed, and the files that were read stay as they are.

    Raises:
        ValueError: if `folder` is not empty.
    """
    check_place(folder)
    reason = np.zeros(len(inspection.look.line), dtype=np.int8)  # 0 is none
    for number, kind in reversed(list(enumerate(_REMOVED, start=1))):
        reason[inspection.marks[kind]] = number
    names = _names(recipe)
    with atomic_folder(folder) as fresh:
        with ExitStack() as stack:
            files = [stack.enter_context(_open(fresh / name)) for name in names]
            for pair in _kept(inspection, reason=reason, pairs=pairs):
                sides = [f"{pair.source}\t{pair.target}"] if len(files) == 1 else pair
                for file, text in zip(files, sides, strict=True):
                    file.write(f"{text}\n".encode())
        counts = np.bincount(reason, minlength=len(_REMOVED) + 1).tolist()
        cleaned = Cleaned(
            files=tuple(names),
            kept=counts[0],
            exchanged=int((inspection.look.swapped & (reason == 0)).sum()),
            removed={
                kind: count for kind, count in zip(_REMOVED, counts[1:], strict=True) if count
            },
        )
        facts = {"cleaned": asdict(cleaned), "found": asdict(inspection.report)}
        (fresh / "cleaned.json").write_text(
            json.dumps(facts, indent=2, ensure_ascii=False).encode(errors="replace").decode()
            + "\n",
            encoding="utf-8",
        )
    return cleaned


def _kept(inspection: Inspection, *, reason: np.ndarray, pairs: Pairs) -> Iterator[Pair]:
    """The pairs that are left, the right way round."""
    for (_, pair), why, swapped in zip(pairs(), reason, inspection.look.swapped, strict=True):
        if not why:
            source, target = tidy(pair.source), tidy(pair.target)
            yield Pair(target, source) if swapped else Pair(source, target)


def _names(recipe: Recipe) -> list[str]:
    names = [Path(name).name for name in recipe.data.train]
    if len(set(names)) < len(names):  # the sides lie in two folders
        names = [f"{side}.{name}" for side, name in zip(Pair._fields, names, strict=True)]
    return names


def _open(file: Path) -> gzip.GzipFile | BinaryIO:
    return gzip.GzipFile(file, "wb", mtime=0) if file.suffix == ".gz" else file.open("wb")
