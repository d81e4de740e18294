"""A glossary: terms whose translation is prescribed wherever their source side stands.

A term is met where its source stands as whole words (`text.words`), written exactly so; as the
first word of a sentence it may have a capital. Where terms overlap the longest wins, then the
first. What was met is asked of the search as a run of pieces, once a sentence. Such a run does not
end a word ("Hund" is met by "Hunde"), so what came of it is told from the words: see `honoured`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from transduce.data.corpus import tidy
from transduce.data.segmentation import words
from transduce.data.tokenizer import UNK


class Term(NamedTuple):
    """What a source text may say, and how it is to be translated."""

    source: str
    target: str

    def __str__(self) -> str:
        """Show it on one line.

        >>> print(Term("dog", "Hund"))
        dog → Hund
        """
        return f"{self.source} → {self.target}"


def read_glossary(path: str | Path) -> tuple[Term, ...]:
    """Read the terms of a TSV file: source, a tab, target; UTF-8.

    Blank lines are left out, and so are lines that begin with "#".

    Raises:
        ValueError: if the file cannot be read or is not UTF-8, or a line has not two columns, has
            an empty one, or gives a source a second target. The message names file and line.
    """
    terms: dict[tuple[str, ...], tuple[Term, int]] = {}
    for number, line in enumerate(_lines(Path(path)), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        place = f"{path}, line {number}"
        term = _term(line, place=place)
        first, at = terms.setdefault(tuple(words(term.source)), (term, number))
        if first.target != term.target:
            raise ValueError(
                f"{place}: {term.source!r} shall be {term.target!r}, but on line {at} "
                f"{first.target!r}; keep one of the two"
            )
    return tuple(term for term, _ in terms.values())


def terms_in(sentence: str, terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Return the terms that a source sentence calls for, one for each place, in their order.

    >>> terms_in("Ice cream and dogs", (Term("ice", "Eis"), Term("ice cream", "Glace")))
    (Term(source='ice cream', target='Glace'),)
    """
    if not terms:  # and nobody has to wait for what words are
        return ()
    index = _index(terms)
    said = words(tidy(sentence))
    found: list[tuple[int, int, Term]] = []
    for start in range(len(said)):
        for size in range(1, min(index.longest, len(said) - start) + 1):
            met = (index.terms.get(reading) for reading in readings(said, start, size))
            found += [(start, size, term) for term in met if term is not None]
    taken: set[int] = set()
    kept: list[tuple[int, Term]] = []
    for start, size, term in sorted(found, key=lambda one: (-one[1], one[0])):
        places = range(start, start + size)
        if taken.isdisjoint(places):
            taken.update(places)
            kept.append((start, term))
    return tuple(term for _, term in sorted(kept))


def phrases(
    terms: Iterable[Term], encode: Callable[[str], Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    """Return the runs of ids that a search must say: the targets, each from a word's beginning.

    Args:
        terms: those of one sentence (`terms_in`). What is met twice is demanded once, since a
            translation may well say "it" the second time.
        encode: that of the target's tokenizer, without EOS; it marks where the first word begins.

    Raises:
        ValueError: if a target has a character that the vocabulary cannot write.
    """
    runs: dict[tuple[int, ...], None] = {}
    for term in terms:
        ids = tuple(encode(term.target))
        if UNK in ids:
            raise ValueError(
                f"the term {term} cannot be met: the model's vocabulary lacks a character of "
                f"{term.target!r}; drop the term, or write it otherwise"
            )
        runs.setdefault(ids)
    return tuple(runs)


def readings(said: Sequence[str], start: int, size: int) -> list[tuple[str, ...]]:
    """Return some words of a sentence as they stand, and without a capital it may have given them.

    >>> readings(["«", "Hot", "Dog", "»"], 1, 2)
    [('Hot', 'Dog'), ('hot', 'Dog')]
    >>> readings(["Hot", "Dog"], 1, 1)
    [('Dog',)]
    """
    exact = tuple(said[start : start + size])
    small = exact[0][0].lower() + exact[0][1:]
    if small == exact[0] or any(word[0].isalnum() for word in said[:start]):
        return [exact]
    return [exact, (small, *exact[1:])]


class _Index(NamedTuple):
    terms: dict[tuple[str, ...], Term]
    longest: int


@lru_cache(maxsize=4)
def _index(terms: tuple[Term, ...]) -> _Index:
    index = {tuple(words(tidy(term.source))): term for term in terms}
    return _Index(index, max(map(len, index), default=0))


def _term(line: str, *, place: str) -> Term:
    columns = [tidy(column) for column in line.split("\t")]
    if len(columns) != 2:
        raise ValueError(
            f"{place}: {len(columns)} columns where there must be 2, source and target with one "
            f"tab between them"
        )
    term = Term(*columns)
    if not all(term):
        side = "target" if term.source else "source"
        raise ValueError(f"{place}: the {side} is empty; fill it, or drop the line")
    return term


def _lines(path: Path) -> list[str]:
    try:
        raw = path.read_bytes().removeprefix("\ufeff".encode())
    except OSError as error:
        raise ValueError(f"{path}: the glossary cannot be read: {error.strerror}") from error
    lines: list[str] = []
    for number, line in enumerate(raw.split(b"\n"), start=1):
        try:
            lines.append(line.decode())
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x}); convert the "
                f"file to UTF-8"
            ) from error
    return lines
