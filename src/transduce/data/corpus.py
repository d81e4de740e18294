"""The corpus: two files or one TSV become numbered pairs, and the pairs become clean ones.

A pair keeps the number of its line from here to the store, so that whatever is said about it later
can be looked up in the file. Lines end at a line feed and nowhere else: Python's `splitlines` also
cuts at U+0085 and U+2028, and one such character shifts all that follows it against the other side.
A pair is dropped whole or not at all, so cleaning cannot misalign the sides either.
"""

import gzip
import itertools
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int64

_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}".encode()
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_UNDECODED = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes of a stray byte
_RESERVED = "\u2581"  # SentencePiece writes a space so; text cannot hold one of its own
_FORBIDDEN = re.compile(f"{_CONTROL.pattern}|{_RESERVED}")
_HELD_OUT_SHARE = 20  # at most one pair in so many is held out
_LONGEST = 1 << 24  # bytes of a line
_BLOCK = 1 << 18  # bytes that are read at once
_MOST_SHIFTS = 16  # lines missing in as many places are still told apart


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class NumberedPair(NamedTuple):
    """A pair and the line it stands on in its files, counted from 1."""

    line: int
    pair: Pair


@dataclass(slots=True, kw_only=True)
class Cleaning:
    """What cleaning did, counted while the pairs stream through `clean`."""

    kept: int = 0
    """Pairs that came through."""

    dropped: dict[str, int] = field(default_factory=dict[str, int])
    """Pairs lost, by reason. A pair counts once, with the first reason that holds."""

    changed: dict[str, int] = field(default_factory=dict[str, int])
    """Kept pairs whose text was mended, by what was mended. A pair may count under several."""

    examples: dict[str, int] = field(default_factory=dict[str, int])
    """For every reason in `dropped` and `changed` the first line it was met on."""

    def summary(self) -> str:
        """Say it in one line.

        >>> Cleaning(kept=9, dropped={"length ratio": 1}, examples={"length ratio": 4}).summary()
        'kept 9 pairs; dropped 1 (length ratio: 1, such as line 4)'
        """
        parts = [f"kept {self.kept:,} pairs"]
        for verb, counts in (("dropped", self.dropped), ("mended", self.changed)):
            if counts:
                listed = "; ".join(
                    f"{reason}: {count:,}, such as line {self.examples[reason]}"
                    for reason, count in counts.items()
                )
                parts.append(f"{verb} {sum(counts.values()):,} ({listed})")
        return "; ".join(parts)


def read_pairs(
    files: Sequence[Path], *, not_utf8: Literal["refuse", "drop"] = "refuse"
) -> Iterator[NumberedPair]:
    """Stream the pairs of two parallel files, or of one TSV file of two columns.

    Args:
        files: source and target, or one TSV; a name that ends in .gz is decompressed.
        not_utf8: what becomes of a line that is not UTF-8: "refuse" raises, "drop" hands it on as
            no text can be, with lone surrogates, for `clean` to drop and count.

    Returns:
        The pairs in order, uncleaned. One "\\r" at a line's end and one BOM at the start are gone.

    Raises:
        ValueError: here if there are not one or two files; while reading, if a file cannot be read,
            is not UTF-8 or not whole, a TSV line has not two columns, one side is longer than the
            other, or there is no line at all. The message names file and line.
    """
    if len(files) not in (1, 2):
        raise ValueError(
            f"a corpus is two files (source, target) or one TSV file, not {len(files)} files"
        )
    texts = [_texts(path, strict=not_utf8 == "refuse") for path in files]
    pairs = _columns(files[0], texts[0]) if len(files) == 1 else _sides(files, texts)
    return _not_empty(pairs, files=files)


def clean(
    pairs: Iterable[NumberedPair], *, max_ratio: float, counts: Cleaning
) -> Iterator[NumberedPair]:
    """Tidy both sides of every pair, and drop the pairs that cannot be translations.

    Args:
        pairs: as read, in any order.
        max_ratio: most (longer + 10) / (shorter + 10) in characters that are not blank. Blanks do
            not count, because some scripts have none; the 10 forgives short sentences.
        counts: filled in as the pairs pass.

    Returns:
        The kept pairs, with their old line numbers.

    Raises:
        ValueError: at the end, if pairs were read and none was kept; the message has the counts.
    """
    for one in pairs:
        line, pair = one
        source, target = tidy(pair.source), tidy(pair.target)
        mended = source != pair.source or target != pair.target
        undecoded = mended and any(_UNDECODED.search(side) for side in pair)
        fault = "not UTF-8" if undecoded else _fault(source, target, max_ratio=max_ratio)
        if fault is not None:
            _count(counts, counts.dropped, reason=fault, line=line)
            continue
        counts.kept += 1
        if mended:
            for change in _changes(pair):
                _count(counts, counts.changed, reason=change, line=line)
        yield NumberedPair(line, Pair(source, target)) if mended else one
    if not counts.kept and counts.dropped:
        raise ValueError(
            f"cleaning left no pair: {counts.summary()}; check that each line holds a source "
            f"and its translation, and data.max_ratio"
        )


def tidy(text: str) -> str:
    """Mend one sentence: what a line cannot hold becomes a space, Unicode NFC, the ends bare.

    Training text goes through it in `clean`; a sentence to translate needs the same treatment.

    >>> tidy(" cafe\\u0301\\u2028noir\\t")
    'café noir'
    """
    if text.isascii() and text.isprintable():  # most lines: nothing to mend, told a lot sooner
        return text.strip()
    return unicodedata.normalize("NFC", one_line(text)).strip()


def one_line(text: str) -> str:
    """Put a space for every character that a line of text cannot hold.

    >>> one_line("a\\nb")
    'a b'
    """
    if text.isprintable() and _RESERVED not in text:  # what is forbidden else is not printable
        return text
    return _FORBIDDEN.sub(" ", text)


def hold_out(lines: Sequence[int], *, count: int, seed: int) -> frozenset[int]:
    """Choose the line numbers of the pairs that are kept apart for validation.

    Args:
        lines: the line numbers of the cleaned pairs; the choice depends on them and on `seed` only.
        count: how many are wanted (`data.held_out`); at most 5 % of the lines are taken.
        seed: of the random choice.

    Raises:
        ValueError: if some are wanted and the corpus is too small to spare one.
    """
    taken = min(count, len(lines) // _HELD_OUT_SHARE)
    if count and not taken:
        raise ValueError(
            f"a corpus of {len(lines)} pairs is too small to hold out 5 % for validation: "
            f"name files in data.validation, or bring at least {_HELD_OUT_SHARE} pairs"
        )
    chosen = np.random.default_rng(seed).choice(len(lines), size=taken, replace=False)
    return frozenset(int(lines[index]) for index in chosen.tolist())


def _count(cleaning: Cleaning, counts: dict[str, int], *, reason: str, line: int) -> None:
    counts[reason] = counts.get(reason, 0) + 1
    cleaning.examples.setdefault(reason, line)


def _fault(source: str, target: str, *, max_ratio: float) -> str | None:
    """Why a tidied pair cannot be kept."""
    if not source:
        return "empty source" if target else "empty on both sides"
    if not target:
        return "empty target"
    ours, theirs = _size(source), _size(target)
    shorter, longer = (ours, theirs) if ours < theirs else (theirs, ours)
    return "length ratio" if longer + 10 > max_ratio * (shorter + 10) else None


def _size(text: str) -> int:
    """Characters that are not blank."""
    if text.isascii() or text.isprintable():  # no blank but the space, of tidy text
        return len(text) - text.count(" ")
    return len("".join(text.split()))


def _changes(pair: Pair) -> Iterator[str]:
    """What `tidy` mends in a pair; white space at the ends is not worth a word."""
    text = "\n".join(side.strip() for side in pair)
    if any(_CONTROL.search(side.strip()) for side in pair):
        yield "control or line-separator character"
    if _RESERVED in text:
        yield "reserved character U+2581"
    if not unicodedata.is_normalized("NFC", text):
        yield "not in NFC"


def _not_empty(pairs: Iterable[NumberedPair], *, files: Sequence[Path]) -> Iterator[NumberedPair]:
    empty = True
    for pair in pairs:
        empty = False
        yield pair
    if empty:
        names = " and ".join(str(path) for path in files)
        raise ValueError(f"{names}: no line to read; a corpus needs one pair a line")


def _columns(path: Path, texts: Iterator[str]) -> Iterator[NumberedPair]:
    for number, text in enumerate(texts, start=1):
        columns = text.split("\t")
        if len(columns) != 2:
            raise ValueError(
                f"{path}, line {number}: {len(columns)} columns where there must be 2, "
                f"source and target with one tab between them"
            )
        yield NumberedPair(number, Pair(*columns))


def _sides(files: Sequence[Path], texts: Sequence[Iterator[str]]) -> Iterator[NumberedPair]:
    for number, sides in enumerate(itertools.zip_longest(*texts), start=1):
        if sides[0] is None or sides[1] is None:
            raise ValueError(_unequal(files[0], files[1]))
        yield NumberedPair(number, Pair(*sides))


def _texts(path: Path, *, strict: bool) -> Iterator[str]:
    """The lines of a file as text; where it is not UTF-8, an error or lone surrogates."""
    return itertools.chain.from_iterable(_decoded(path, strict=strict))


def _decoded(path: Path, *, strict: bool) -> Iterator[Iterable[str]]:
    """The same, many lines at a time, which is much quicker than one by one."""
    lines = 0
    for block in _raw_blocks(path):
        block = block if lines else block.removeprefix(_BOM)
        try:
            text = block.decode(errors="strict" if strict else "surrogateescape")
        except UnicodeDecodeError:
            yield _one_by_one(path, block, after=lines)
            continue
        several = text.split("\n")
        yield [line.removesuffix("\r") for line in several] if "\r" in text else several
        lines += len(several)


def _one_by_one(path: Path, block: bytes, *, after: int) -> Iterator[str]:
    """The lines of a block as text, to the first that is not UTF-8."""
    for number, line in enumerate(block.split(b"\n"), start=after + 1):
        try:
            yield line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            compressed = number == 1 and line.startswith(b"\x1f\x8b")
            mend = "name it .gz" if compressed else "convert the file to UTF-8"
            if not compressed:
                mend += ", or drop such pairs of data.train by data.not_utf8 = 'drop'"
            raise ValueError(
                f"{path}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x} at byte "
                f"{error.start + 1} of the line); {mend}"
            ) from error


def _raw_blocks(path: Path) -> Iterator[bytes]:
    """Whole lines of a file as bytes, without the last line feed of each block.

    Every failure is said in one line.
    """
    lines, begun = 0, b""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as handle:
            while data := handle.read(_BLOCK):
                whole, feed, rest = data.rpartition(b"\n")
                if feed:
                    whole, begun = begun + whole, rest
                    yield whole
                    lines += whole.count(b"\n") + 1
                else:
                    begun += rest
                if len(begun) > _LONGEST:  # else a file without line feeds would be read whole
                    raise ValueError(
                        f"{path}, line {lines + 1}: more than {_LONGEST:,} bytes; a corpus has a "
                        f"sentence a line, is this one?"
                    )
            if begun:
                yield begun
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path} is not a whole gzip file ({error}); fetch it again, or drop .gz from its name "
            f"if it is plain text"
        ) from error
    except FileNotFoundError as error:
        raise ValueError(f"{path} does not exist; check data.folder and the file's name") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


def _unequal(source: Path, target: Path) -> str:
    """Say how many lines each side has and where they seem to part."""
    sizes = [
        np.fromiter(
            (len(raw.strip()) for block in _raw_blocks(path) for raw in block.split(b"\n")),
            dtype=np.int64,
        )
        for path in (source, target)
    ]
    shorter, longer = sorted(sizes, key=len)
    return (
        f"{source} has {len(sizes[0])} lines but {target} has {len(sizes[1])}; line n must "
        f"translate line n: look first near line {_first_shifted(shorter, longer=longer)}"
    )


def _first_shifted(shorter: Int64[np.ndarray, " s"], *, longer: Int64[np.ndarray, " l"]) -> int:
    """Guess the first line without a partner, from the lines' lengths in bytes.

    Before a missing line, line i goes with line i; after it, with line i + 1. The cheapest path
    through these shifts, measured by how unlike the paired lengths are, says where the first lies.
    Where lengths tell nothing it is the line after the shorter side's last.
    """
    lines, missing = len(shorter), len(longer) - len(shorter)
    shifts = range(missing + 1) if missing <= _MOST_SHIFTS else (0, missing)
    usual = np.log((shorter.sum() + 10.0) / (longer.sum() + 10.0))
    places = np.arange(lines + 1)
    cost, first = np.zeros(lines + 1), places
    for shift in shifts:
        unlike = np.log((shorter + 10.0) / (longer[shift : shift + lines] + 10.0)) - usual
        here = np.concatenate([[0.0], np.abs(unlike).cumsum()])
        if shift == 0:
            cost = here
            continue
        ahead = cost - here
        best = np.minimum.accumulate(ahead)
        entered = np.maximum.accumulate(np.where(ahead == best, places, 0))
        cost, first = here + best, entered if shift == shifts[1] else first[entered]
    return int(first[-1]) + 1
