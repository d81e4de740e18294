"""A shortlist: for each source piece the few target pieces that it may become.

A translation is made of some words that fit its source and of others that fit everywhere. An engine
that knows them leaves the rest of the vocabulary out of its last and widest product, and out of its
search. It is written as CTranslate2 reads it (its `vmap.txt`): a line has a source piece, a tab,
and target pieces with blanks between them; the line without a source piece has those that are
always allowed.

CTranslate2 allows a batch what any of its sentences is allowed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

VMAP = "vmap.txt"
"""The file in a folder that CTranslate2 reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortlist:
    """What may be said, in ids. `export.shortlist` learns one."""

    always: tuple[int, ...]
    """Whatever the source is; EOS and UNK among them."""

    after: Mapping[int, tuple[int, ...]]
    """By source piece, what it allows beyond that."""

    def allowed(self, source: Iterable[int]) -> frozenset[int]:
        """Return what a sentence may say.

        >>> sorted(Shortlist(always=(0, 1), after={5: (7, 5), 6: (8,)}).allowed([5, 9]))
        [0, 1, 5, 7]
        """
        return frozenset(self.always).union(*(self.after.get(one, ()) for one in source))

    def coverage(self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> float:
        """Return the share of the targets' pieces, EOS not counted, that their sources allow.

        >>> Shortlist(always=(0, 1), after={5: (7,)}).coverage([([5], [7, 7, 8]), ([6], [1])])
        0.75
        """
        covered = total = 0
        for source, target in pairs:
            allowed = self.allowed(source)
            covered += sum(one in allowed for one in target)
            total += len(target)
        return covered / total if total else 1.0

    def to_text(self, pieces: Sequence[str]) -> str:
        """Write it as CTranslate2 reads it.

        Args:
            pieces: the vocabulary by id. A piece with a blank in it cannot be written, and is not.
        """
        lines = [("", self.always), *((pieces[one], ids) for one, ids in self.after.items())]
        return "".join(
            f"{piece}\t{' '.join(pieces[one] for one in ids if _one_word(pieces[one]))}\n"
            for piece, ids in lines
            if not piece or _one_word(piece)
        )


def read_shortlist(file: Path, pieces: Sequence[str]) -> Shortlist:
    """Read a shortlist that was written for a vocabulary.

    Args:
        file: as `Shortlist.to_text` has it.
        pieces: the vocabulary by id.

    Raises:
        ValueError: if it is no shortlist, or one for other pieces; one line that names the file.
        OSError: if it cannot be read.
    """
    ids = {piece: number for number, piece in enumerate(pieces)}
    found: dict[str, tuple[int, ...]] = {}
    try:
        lines = file.read_bytes().decode().split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{file} is no shortlist: it is not UTF-8") from None
    for number, line in enumerate(lines, 1):
        piece, tab, said = line.partition("\t")
        if line and not tab:
            raise ValueError(f"{file} is no shortlist: line {number} has no tab")
        for one in (piece, *said.split(" ")):
            if one and one not in ids:
                raise ValueError(
                    f"{file}, line {number}: the model has no piece {one!r}; take the shortlist "
                    f"that was learned from this model"
                )
        if line:
            found[piece] = tuple(ids[one] for one in said.split(" ") if one)
    always = found.pop("", ())
    if not always:
        raise ValueError(f"{file} is no shortlist: no line says what is always allowed")
    return Shortlist(always=always, after={ids[piece]: said for piece, said in found.items()})


def _one_word(piece: str) -> bool:
    return not any(mark in piece for mark in " \t\n\r")
