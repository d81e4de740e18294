"""The parallel corpus: reading two files or a TSV as numbered pairs, cleaning, held-out pairs.

A pair keeps its line number up to the store, so messages can refer to it. Lines end at a line feed
only: Python's `splitlines` also splits at U+0085 and U+2028, and one such character would misalign
all following lines. Cleaning drops pairs, never a single side, so it cannot misalign them either.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Int64

from transduce.data.pair_files import LanguageCodes, named_columns, pair_reader
from transduce.io.streams import encoding_error, open_compressed, utf16_error

_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}".encode()
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
STRAY_BYTE = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes of one
_RESERVED = "\u2581"  # SentencePiece writes a space so; text cannot hold one of its own
_FORBIDDEN = re.compile(f"{_CONTROL.pattern}|{_RESERVED}")
_HELD_OUT_SHARE = 20  # at most one pair in 20 is held out
_LONGEST = 1 << 24  # maximum bytes of a line
_BLOCK = 1 << 18  # bytes read at a time
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
_MAX_SHIFTS = 16  # missing lines up to which each place is located
_MAX_LOCATED = 3_000_000  # lines of a side up to which they are located: the arrays grow

_Item = TypeVar("_Item")


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


HEADER: Final = Pair("", "")
"""This object stands for a first line that names the columns."""


class NumberedPair(NamedTuple):
    """A pair and its line number in its files, counted from 1."""

    line: int
    pair: Pair


class PairRange(NamedTuple):
    """Consecutive pairs of a corpus."""

    first: int
    """Counted from 0."""
    pairs: int
    offsets: tuple[int, ...]
    """Where they begin in each decompressed file, in bytes; none in files of other formats."""


@dataclass(slots=True, kw_only=True)
class CleaningCounts:
    """Counts of what `clean` did, updated while pairs stream through it."""

    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    """Pairs dropped, by the first reason that applies."""
    changed: dict[str, int] = field(default_factory=dict[str, int])
    """Kept pairs whose text was normalised, by change; a pair may count under several."""
    examples: dict[str, int] = field(default_factory=dict[str, int])
    """First line number of each reason in `dropped` and `changed`."""

    def drop_kept(self, reason: str, lines: Sequence[int]) -> None:
        """Count pairs as dropped that counted as kept, by line number."""
        if lines:
            self.kept -= len(lines)
            self.dropped[reason] = len(lines)
            self.examples[reason] = min(lines)

    def add(self, other: "CleaningCounts") -> None:
        """Add the counts of the pairs that follow."""
        self.kept += other.kept
        for mine, new in ((self.dropped, other.dropped), (self.changed, other.changed)):
            for reason, count in new.items():
                mine[reason] = mine.get(reason, 0) + count
        self.examples = other.examples | self.examples

    def check(self) -> None:
        """Refuse a corpus of which nothing is left; the message has the counts and what to do."""
        if self.kept or not self.dropped:
            return
        advice = "check that each line holds a source and its translation, and data.max_ratio"
        if 2 * self.dropped.get("empty on both sides", 0) > sum(self.dropped.values()):
            advice = "if the files name languages, check that these are the run's"
        if 2 * self.dropped.get("not UTF-8", 0) > sum(self.dropped.values()):
            advice = (
                "convert the files to UTF-8, if they are Latin-1 by: iconv -f LATIN1 -t UTF-8 "
                "FILE > NEW"
            )
        raise ValueError(f"cleaning left no pair: {self.summary()}; {advice}")

    def summary(self) -> str:
        """Format the counts in one line.

        >>> CleaningCounts(kept=9, dropped={"empty": 1}, examples={"empty": 4}).summary()
        'kept 9 pairs; dropped 1 (empty: 1, such as line 4)'
        """
        parts = [f"kept {self.kept:,} pairs"]
        for verb, counts in (("dropped", self.dropped), ("normalised", self.changed)):
            if counts:
                listed = "; ".join(
                    f"{reason}: {count:,}, such as line {self.examples[reason]}"
                    for reason, count in counts.items()
                )
                parts.append(f"{verb} {sum(counts.values()):,} ({listed})")
        return "; ".join(parts)


def read_pairs(
    files: Sequence[Path],
    *,
    not_utf8: Literal["refuse", "drop"] = "refuse",
    languages: LanguageCodes = ("", ""),
    part: PairRange | None = None,
) -> Iterator[NumberedPair]:
    """Stream the pairs of two parallel files, or of one (TSV, CSV, TMX, XLIFF, PO, JSON lines).

    Args:
        files: source and target, or one of pairs, by its ending (.csv, .tmx, .xlf, .xliff, .po,
            .jsonl, .ndjson; others are TSV of two columns); they may be compressed by gzip, xz or
            Zstandard.
        languages: codes of source and target, which a file may name; without them the first is the
            source. Pairs of other languages have empty sides.
        not_utf8: for lines that are not UTF-8, "refuse" raises; "drop" yields them with lone
            surrogates, for `clean` to drop and count (two files and TSV only).
        part: read these pairs alone, of `split_pairs`.

    Returns:
        The pairs in order, uncleaned but for a "\\r" at line ends and a BOM at the start. A first
        line that names the columns (source and target) is a pair of empty sides.

    Raises:
        ValueError: if there are not one or two files, or one is a pipe; while reading, if a file
            cannot be read, is not UTF-8 or truncated, a TSV line does not have two columns, the
            sides differ in length, or there are no lines. The message names file and line.
    """
    if len(files) not in (1, 2):
        raise ValueError(
            "a corpus is two files (source, target) or one of pairs (TSV, CSV, TMX, XLIFF, PO, "
            f"JSON lines), not {len(files)} files"
        )
    _refuse_pipes(files)
    reader = pair_reader(files[0]) if len(files) == 1 else None
    first, size, offsets = part or (0, None, ())
    if reader is not None:
        units = itertools.islice(enumerate(reader(files[0], languages), start=1), first, None)
        pairs = (NumberedPair(n, Pair(*pair)) for n, pair in units)
    else:
        strict = not_utf8 == "refuse"
        blocks = (
            _decoded(path, strict=strict, first=first, offset=offset)
            for path, offset in zip(files, offsets or (0, 0), strict=False)
        )
        texts = [itertools.chain.from_iterable(lines) for lines in blocks]
        one_file = len(files) == 1
        pairs = _columns(files[0], texts[0], first) if one_file else _sides(files, texts, first)
        pairs = pairs if first else _mark_header(pairs)
    return _not_empty(itertools.islice(pairs, size), files=files)


def split_pairs(
    files: Sequence[Path], *, size: int, languages: LanguageCodes = ("", "")
) -> list[PairRange]:
    """Read a corpus once, and split it into ranges for `read_pairs`.

    Args:
        files: as for `read_pairs`, as are the languages.
        size: pairs of a range; the last one may have fewer.

    Raises:
        ValueError: as for `read_pairs`, but for lines that are not UTF-8 or not two columns.
    """
    _refuse_pipes(files)
    reader = pair_reader(files[0]) if len(files) == 1 else None
    if reader is not None:
        count, offsets = sum(1 for _ in reader(files[0], languages)), ()
    else:
        counts, offsets = zip(*(_line_offsets(path, every=size) for path in files), strict=True)
        count = counts[0]
        if count != counts[-1]:
            raise ValueError(_unequal(files[0], files[1]))
    starts = range(0, count, size)
    begins = zip(*offsets, strict=True) if offsets else itertools.repeat(())
    ranges = [
        PairRange(first, min(size, count - first), begin)
        for first, begin in zip(starts, begins, strict=False)
    ]
    return list(_not_empty(ranges, files=files))


def _line_offsets(path: Path, *, every: int) -> tuple[int, list[int]]:
    """Count the lines of a file, and return where every n-th begins in its decompressed bytes."""
    lines, position, offsets = 0, 0, list[int]()
    for block in _raw_blocks(path):
        feeds = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
        starts = position + np.concatenate([[0], feeds + 1])
        offsets += starts[-lines % every :: every].tolist()
        lines, position = lines + len(starts), position + len(block) + 1
    return lines, offsets


def clean(
    pairs: Iterable[NumberedPair], *, max_ratio: float, counts: CleaningCounts, check: bool = True
) -> Iterator[NumberedPair]:
    """Normalise both sides of every pair, and drop pairs that cannot be translations.

    Args:
        pairs: as read, in any order.
        max_ratio: maximum (longer + 10) / (shorter + 10) in non-blank characters. Blanks do not
            count, as some scripts have none; the 10 tolerates short sentences.
        counts: updated as the pairs pass.
        check: call `counts.check` at the end; not for a part of a corpus.

    Raises:
        ValueError: at the end, if all pairs were dropped.
    """
    for numbered in pairs:
        line, pair = numbered
        source, target = tidy(pair.source), tidy(pair.target)
        normalised = source != pair.source or target != pair.target
        undecoded = normalised and any(STRAY_BYTE.search(side) for side in pair)
        fault = "not UTF-8" if undecoded else pair_fault(source, target, max_ratio=max_ratio)
        if pair is HEADER:
            fault = "header"
        if fault is not None:
            _count(counts, counts.dropped, reason=fault, line=line)
            continue
        counts.kept += 1
        if normalised:
            for change in _changes(pair):
                _count(counts, counts.changed, reason=change, line=line)
        yield NumberedPair(line, Pair(source, target)) if normalised else numbered
    if check:
        counts.check()


def tidy(text: str) -> str:
    """Normalise a sentence: forbidden characters become spaces, Unicode NFC, no blanks at the ends.

    Applied to training text by `clean`, and to every sentence to translate.

    >>> tidy(" cafe\\u0301\\u2028noir\\t")
    'café noir'
    """
    if text.isascii() and text.isprintable():  # fast path for most lines
        return text.strip()
    return unicodedata.normalize("NFC", one_line(text)).strip()


def one_line(text: str) -> str:
    """Replace every character that a line of text cannot hold by a space.

    >>> one_line("a\\nb")
    'a b'
    """
    if text.isprintable() and _RESERVED not in text:  # other forbidden characters are not printable
        return text
    return _FORBIDDEN.sub(" ", text)


def hold_out(
    lines: Sequence[int], *, sources: Sequence[int], count: int, seed: int
) -> frozenset[int]:
    """Choose the pairs held out for validation, by line number.

    All pairs of a source are on one side, so that no validation source is trained on.

    Args:
        lines: line numbers of the cleaned pairs.
        sources: of each line a hash of its folded source; only equality counts.
        count: number of pairs (`data.held_out`); limited to 5 % of the lines.
        seed: random seed; the choice depends on it, `lines` and which sources are equal.

    Raises:
        ValueError: if the corpus is too small to hold out a pair, or its sources repeat too often.
    """
    taken = held_out_size(len(lines), count)
    if count and not taken:
        raise ValueError(
            f"a corpus of {len(lines)} pairs is too small to hold out 5 % for validation: "
            f"name files in data.validation, or provide at least {_HELD_OUT_SHARE} pairs"
        )
    random = np.random.default_rng(seed)
    sampled = random.choice(len(lines), size=taken, replace=False)

    def candidates() -> Iterator[int]:
        yield from sampled
        yield from random.permutation(np.setdiff1d(np.arange(len(lines)), sampled))  # if need be

    hashes = np.asarray(sources)
    order = np.argsort(hashes)  # pairs of equal sources lie side by side
    ranked = hashes[order]
    chosen, remaining = dict[int, int](), taken
    for index in candidates() if taken else ():
        begin, end = (int(np.searchsorted(ranked, hashes[index], side)) for side in _SIDES)
        if end - begin <= remaining and begin not in chosen:
            chosen[begin] = end
            remaining -= end - begin
        if not remaining:
            break
    if taken and not chosen:
        raise ValueError(
            f"every source stands in more than 5 % of the {len(lines)} pairs, or in more than "
            f"data.held_out ({count}): name files in data.validation"
        )
    held = (order[begin:end].tolist() for begin, end in chosen.items())
    return frozenset(int(lines[index]) for index in itertools.chain.from_iterable(held))


def held_out_size(pairs: int, count: int) -> int:
    """Return how many pairs are held out: at most `count`, and at most 5 %."""
    return min(count, pairs // _HELD_OUT_SHARE)


def _count(counts: CleaningCounts, by_reason: dict[str, int], *, reason: str, line: int) -> None:
    by_reason[reason] = by_reason.get(reason, 0) + 1
    counts.examples.setdefault(reason, line)


def pair_fault(source: str, target: str, *, max_ratio: float) -> str | None:
    """Return why `clean` would drop a normalised pair; None if it would not."""
    if not source:
        return "empty source" if target else "empty on both sides"
    if not target:
        return "empty target"
    shorter, longer = sorted((_size(source), _size(target)))
    return "length ratio" if longer + 10 > max_ratio * (shorter + 10) else None


def _size(text: str) -> int:
    """Number of non-blank characters."""
    if text.isascii() or text.isprintable():  # in normalised text the only blank is the space
        return len(text) - text.count(" ")
    return len("".join(text.split()))


def _changes(pair: Pair) -> Iterator[str]:
    """Changes that `tidy` makes to a pair, apart from white space at the ends."""
    text = "\n".join(side.strip() for side in pair)
    if any(_CONTROL.search(side.strip()) for side in pair):
        yield "control or line-separator character"
    if _RESERVED in text:
        yield "reserved character U+2581"
    if not unicodedata.is_normalized("NFC", text):
        yield "not in NFC"


def _not_empty(pairs: Iterable[_Item], *, files: Sequence[Path]) -> Iterator[_Item]:
    empty = True
    for pair in pairs:
        empty = False
        yield pair
    if empty:
        names = " and ".join(str(path) for path in files)
        raise ValueError(f"{names}: no line to read; a corpus needs one pair a line")


def _refuse_pipes(files: Sequence[Path]) -> None:
    if pipe := next(filter(Path.is_fifo, files), None):
        raise ValueError(
            f"{pipe} is a pipe, and a corpus is read several times: name a file (it may be "
            "compressed)"
        )


def _mark_header(pairs: Iterator[NumberedPair]) -> Iterator[NumberedPair]:
    """Replace a first pair that names the columns."""
    for line, pair in itertools.islice(pairs, 1):
        columns = named_columns([*map(tidy, pair)], ("", ""))
        yield NumberedPair(line, HEADER if columns else pair)
    yield from pairs


def _columns(path: Path, texts: Iterator[str], first: int) -> Iterator[NumberedPair]:
    for number, text in enumerate(texts, start=first + 1):
        columns = text.split("\t") if text.strip(" ") else ["", ""]
        if len(columns) != 2:
            keep = f"; to keep two: cut -f 1,2 {path} > NEW" if len(columns) > 2 else ""
            raise ValueError(
                f"{path}, line {number}: {len(columns)} columns where there must be 2, source and "
                f"target with one tab between them{keep}"
            )
        yield NumberedPair(number, Pair(*columns))


def _sides(
    files: Sequence[Path], texts: Sequence[Iterator[str]], first: int
) -> Iterator[NumberedPair]:
    for number, sides in enumerate(itertools.zip_longest(*texts), start=first + 1):
        if sides[0] is None or sides[1] is None:
            raise ValueError(_unequal(files[0], files[1]))
        yield NumberedPair(number, Pair(*sides))


def _decoded(path: Path, *, strict: bool, first: int, offset: int) -> Iterator[Iterable[str]]:
    """The lines of a file in blocks, which is much faster than one by one.

    Bytes that are not UTF-8 raise or become lone surrogates. `offset` is where line `first` begins.
    """
    lines = first
    for block in _raw_blocks(path, offset):
        if not lines and (message := utf16_error(str(path), block)):
            raise ValueError(message)  # its bytes 0x0A are no line feeds: lines would be no lines
        block = block if lines else block.removeprefix(_BOM)
        try:
            text = block.decode(errors="strict" if strict else "surrogateescape")
        except UnicodeDecodeError:
            yield _decode_lines(path, block, after=lines)
            continue
        several = text.split("\n")
        yield [line.removesuffix("\r") for line in several] if "\r" in text else several
        lines += len(several)


def _decode_lines(path: Path, block: bytes, *, after: int) -> Iterator[str]:
    """Decode the lines of a block up to the first that is not UTF-8."""
    for number, line in enumerate(block.split(b"\n"), start=after + 1):
        try:
            yield line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            message = encoding_error(str(path), number, line, error)
            raise ValueError(
                f"{message}, or drop such pairs of data.train by data.not_utf8 = 'drop'"
            ) from error


def _raw_blocks(path: Path, offset: int = 0) -> Iterator[bytes]:
    """Complete lines of a file in blocks of bytes, without the last line feed of each block."""
    lines, partial = 0, b""
    try:
        with open_compressed(path) as handle:
            if offset:
                handle.seek(offset)
            while data := handle.read(_BLOCK):
                complete, feed, rest = data.rpartition(b"\n")
                if feed:
                    complete, partial = partial + complete, rest
                    yield complete
                    lines += complete.count(b"\n") + 1
                else:
                    partial += rest
                if len(partial) > _LONGEST:  # a file without line feeds would fill the memory
                    raise ValueError(
                        f"{path}, line {lines + 1}: more than {_LONGEST:,} bytes; a corpus has one "
                        f"sentence per line"
                    )
            if partial:
                yield partial
    except FileNotFoundError as error:
        raise ValueError(
            f"{path} does not exist; check its name (a recipe's files lie in data.folder)"
        ) from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error


def _unequal(source: Path, target: Path) -> str:
    """Error message with the number of lines of each side and where they seem to diverge."""
    paths = (source, target)
    counts = [sum(block.count(b"\n") + 1 for block in _raw_blocks(path)) for path in paths]
    message = (
        f"{source} has {counts[0]} lines but {target} has {counts[1]}; line n must translate line n"
    )
    if max(counts) > _MAX_LOCATED:
        return message
    sizes = [
        np.fromiter(
            (len(raw.strip()) for block in _raw_blocks(path) for raw in block.split(b"\n")),
            dtype=np.int64,
        )
        for path in paths
    ]
    shorter, longer = sorted(sizes, key=len)
    return f"{message}: look first near line {_first_shifted(shorter, longer=longer)}"


def _first_shifted(shorter: Int64[np.ndarray, " s"], *, longer: Int64[np.ndarray, " l"]) -> int:
    """Estimate the first unpaired line from the lines' lengths in bytes.

    Before a missing line, line i is paired with line i; after it, with line i + 1. Dynamic
    programming finds the shifts with the least total mismatch of paired lengths. If lengths are
    uninformative, the result is the line after the shorter side's last.
    """
    lines, missing = len(shorter), len(longer) - len(shorter)
    shifts = range(missing + 1) if missing <= _MAX_SHIFTS else (0, missing)
    usual = np.log((shorter.sum() + 10.0) / (longer.sum() + 10.0))
    positions = np.arange(lines + 1)
    cost, first = np.zeros(lines + 1), positions
    for shift in shifts:
        mismatch = np.log((shorter + 10.0) / (longer[shift : shift + lines] + 10.0)) - usual
        own = np.concatenate([[0.0], np.abs(mismatch).cumsum()])  # cost of this shift so far
        if shift == 0:
            cost = own
            continue
        excess = cost - own  # of having entered this shift at each line
        best = np.minimum.accumulate(excess)
        entered = np.maximum.accumulate(np.where(excess == best, positions, 0))
        cost, first = own + best, entered if shift == shifts[1] else first[entered]
    return int(first[-1]) + 1
