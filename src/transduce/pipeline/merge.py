"""One corpus from many files: merged, cleaned, split by document, with a record of its sources."""

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import accumulate, chain, compress, pairwise, product
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Int8, Int64

from transduce.cluster.formats import optional_module
from transduce.config import Recipe
from transduce.corpus_check.fingerprint import fold
from transduce.corpus_check.inspection import EXCHANGE, FindingKind, inspect_corpus
from transduce.data.config import check_file_names
from transduce.data.corpus import CleaningCounts, NumberedPair, Pair, clean, read_pairs
from transduce.data.pair_files import find_sides
from transduce.io.atomic_folder import atomic_folder, check_new_folder, sha256
from transduce.io.streams import read_lines

PARTS: Final = ("train", "validation", "test")
RECORD: Final = "corpus.json"
"""Where the pairs are from, their licences, and what was dropped."""

_BLOCK: Final = 20  # consecutive lines of a file without documents that stay together
_DROPPED: Final[tuple[FindingKind, ...]] = (
    *("copy", "duplicate", "length ratio", "mojibake", "script"),
)
_REASONS: Final = ("", *_DROPPED, "in validation or test", "near duplicate")
_LEAKED: Final = len(_DROPPED) + 1
_NEAR: Final = _LEAKED + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusSource:
    """Files of pairs with one licence."""

    files: tuple[Path, ...]
    """Source and target, or one of pairs: TSV, CSV, TMX, XLIFF, PO, JSON lines, Parquet, Arrow,
    or a folder of Parquet or Arrow files, as Hugging Face `datasets` writes it."""
    documents: Path | None = None
    """Names the document of each line; without it blocks of 20 lines are documents."""
    licence: str = ""

    @classmethod
    def parse(cls, text: str, licence: str = "") -> "CorpusSource":
        """Parse "FILE", "SOURCE,TARGET" or "SOURCE,TARGET,DOCUMENTS".

        Raises:
            ValueError: if a file's name is not UTF-8.
        """
        check_file_names(text)
        files = [Path(text)] if Path(text).exists() else [*map(Path, text.split(","))]
        documents = files.pop() if len(files) == 3 else None
        return cls(files=tuple(files), documents=documents, licence=licence)


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceCounts:
    """What a merged corpus has of a source."""

    files: dict[str, str]
    """SHA-256 by name."""
    licence: str
    read: int
    kept: dict[str, int]
    """Pairs by part."""
    dropped: dict[str, int]
    """Pairs by reason; a pair counts once."""

    def __str__(self) -> str:
        reasons = "; ".join(f"{reason}: {count:,}" for reason, count in self.dropped.items())
        parts = ", ".join(f"{part}: {count:,}" for part, count in self.kept.items())
        dropped = f", dropped ({reasons})" if reasons else ""
        return f"{', '.join(self.files)}: {self.read:,} pairs, kept ({parts}){dropped}"


def merge_corpus(
    recipe: Recipe,
    sources: Sequence[CorpusSource],
    folder: Path,
    *,
    validation: int,
    test: int,
    exclude: Sequence[CorpusSource] = (),
    near: float | None = None,
) -> list[SourceCounts]:
    """Merge sources into a folder: each part a file per language, and RECORD.

    Pairs are cleaned as for training; copies, duplicates, outliers in length, wrongly decoded text
    and other scripts are dropped, and swapped sides exchanged. A document is in one part. A
    training pair with a sentence of validation or test on either side is dropped, and so is a
    validation pair with one of test.

    Args:
        recipe: sets the languages, `data.max_ratio` and, by `train.seed`, the draw of documents.
        sources: the order decides which of equal pairs is kept: the first.
        folder: new or empty.
        validation: maximum pairs of validation.
        test: maximum pairs of test.
        exclude: pairs with a sentence of these, such as existing test sets, are dropped.
        near: drop pairs whose similarity to an earlier one is about this or more; None keeps them.

    Raises:
        ValueError: if a file cannot be read, the folder is not empty, both languages are equal
            or swapped, there are too few pairs, or the package for near duplicates is missing.
    """
    check_new_folder(folder)
    codes = recipe.languages.codes
    if codes[0] == codes[1]:
        raise ValueError(f"--source-lang and --target-lang must differ, not both be {codes[0]!r}")
    unique = None if near is None else near_filter(near)
    counts = [CleaningCounts() for _ in sources]
    documents = _documents(recipe, sources, counts)
    report, prints, marks = inspect_corpus(recipe, lambda: _all_pairs(recipe, sources))
    if any(f.kind == "language" and f.advice.endswith(EXCHANGE) for f in report.findings):
        raise ValueError(
            f"the languages of {'-'.join(codes)} are swapped: {EXCHANGE}, or --source-lang and "
            f"--target-lang"
        )
    reason = np.zeros(len(documents), dtype=np.int8)  # an index of _REASONS
    for number, kind in reversed(list(enumerate(_DROPPED, start=1))):  # the first overwrites
        reason[marks[kind]] = number
    if unique:
        rows = np.flatnonzero(reason == 0)
        pairs = (pair for _, pair in compress(_all_pairs(recipe, sources), reason == 0))
        reason[rows[~np.array(unique(pairs), dtype=bool)]] = _NEAR
    sizes = np.bincount(documents, weights=reason == 0).astype(np.int64)
    part = _draw(sizes, wanted=(validation, test), seed=recipe.train.seed)[documents]
    excluded = [[hash(fold(side)) for side in pair] for _, pair in _all_pairs(recipe, exclude)]
    sides = (prints.folded_source, prints.folded_target)
    hashes = np.array(excluded, dtype=np.int64).reshape(-1, 2).T
    for side, others in zip(sides, hashes, strict=True):
        reason[np.isin(side, others) & (reason == 0)] = _LEAKED
    for held, side in product((2, 1), sides):
        leaked = np.isin(side, side[(part == held) & (reason == 0)]) & (part < held)
        reason[leaked & (reason == 0)] = _LEAKED
    if reason[part == 0].all():
        raise ValueError(
            f"no training pair is left of {len(reason):,}: add sources, or exclude or hold out "
            f"less (--exclude, --validation, --test)"
        )
    bounds = pairwise(accumulate((count.kept for count in counts), initial=0))
    merged = [
        _counted(source, count, part=part[slice(*rows)], reason=reason[slice(*rows)])
        for source, count, rows in zip(sources, counts, bounds, strict=True)
    ]
    with atomic_folder(folder) as fresh, ExitStack() as stack:
        files = [
            [stack.enter_context((fresh / f"{name}.{code}").open("wb")) for code in codes]
            for name in PARTS
        ]
        rows = zip(_all_pairs(recipe, sources), part, reason, prints.swapped, strict=True)
        for (_, pair), number, dropped, exchange in rows:
            if not dropped:
                texts = pair[::-1] if exchange else pair
                for file, text in zip(files[number], texts, strict=True):
                    file.write(f"{text}\n".encode())
        record = {"languages": codes, "sources": [*map(asdict, merged)]}
        text = json.dumps(record, indent=2, ensure_ascii=False)
        (fresh / RECORD).write_text(f"{text}\n", encoding="utf-8")
    return merged


def near_filter(similarity: float) -> Callable[[Iterable[Pair]], list[bool]]:
    """Return a function that says which of several pairs are not nearly equal to an earlier one.

    The similarity is that of Jaccard, of the 4-grams of both sides without case, spaces and
    punctuation, as MinHash estimates it.

    Raises:
        ValueError: if it is out of range, or rensa is not installed.
    """
    if not 0 < similarity <= 1:
        raise ValueError(f"--near must be above 0 and at most 1, not {similarity}")
    try:
        rensa = import_module("rensa")
    except ModuleNotFoundError:
        raise ValueError("near duplicates need rensa: pip install 'transduce[near]'") from None
    # 16 bands of 4 hashes find a pair of similarity 0.8 with probability 0.9998.
    index = rensa.RMinHashDeduplicator(similarity, num_perm=64, use_lsh=True, num_bands=16, seed=1)

    def unique(pairs: Iterable[Pair]) -> list[bool]:
        texts = ("\t".join(map(fold, pair)) for pair in pairs)
        grams = ([text[i : i + 4] for i in range(max(1, len(text) - 3))] for text in texts)
        return index.add_pairs((str(number), gram) for number, gram in enumerate(grams))

    return unique


def _documents(
    recipe: Recipe, sources: Sequence[CorpusSource], counts: Sequence[CleaningCounts]
) -> Int64[np.ndarray, " pairs"]:
    """The number of each pair's document; fills the counts."""
    numbers: dict[tuple[int, str | int], int] = {}
    documents = array("q")
    for index, source in enumerate(sources):
        names = read_lines(source.documents) if source.documents else None
        for line, _ in _cleaned(recipe, source, counts[index]):
            if names is not None and line > len(names):
                raise ValueError(f"{source.documents} has {len(names):,} lines: it needs more")
            document = names[line - 1] if names else (line - 1) // _BLOCK
            documents.append(numbers.setdefault((index, document), len(numbers)))
    return np.array(documents, dtype=np.int64)


def _draw(
    sizes: Int64[np.ndarray, " documents"], *, wanted: tuple[int, int], seed: int
) -> Int8[np.ndarray, " documents"]:
    """The part of each document, as an index of PARTS."""
    if 2 * sum(wanted) > sizes.sum():
        raise ValueError(
            f"cleaning left {sizes.sum():,} pairs: too few for {wanted[0]:,} of validation and "
            f"{wanted[1]:,} of test (--validation, --test)"
        )
    part = np.zeros(len(sizes), dtype=np.int8)
    order = np.random.default_rng(seed).permutation(len(sizes)).tolist()
    for number, count in enumerate(wanted, start=1):
        remaining = count
        for document in order:
            if not part[document] and 0 < sizes[document] <= remaining:
                part[document] = number
                remaining -= int(sizes[document])
        if count and remaining == count:
            raise ValueError(f"every document has more than the {count:,} pairs of {PARTS[number]}")
    return part


def _counted(
    source: CorpusSource,
    counts: CleaningCounts,
    *,
    part: Int8[np.ndarray, " pairs"],
    reason: Int8[np.ndarray, " pairs"],
) -> SourceCounts:
    files = chain.from_iterable(map(_tables, source.files))
    kept = np.bincount(part[reason == 0], minlength=len(PARTS)).tolist()
    dropped = np.bincount(reason, minlength=len(_REASONS)).tolist()
    by_reason = dict(zip(_REASONS[1:], dropped[1:], strict=True))
    return SourceCounts(
        files={str(file): sha256(file) for file in files},
        licence=source.licence,
        read=counts.kept + sum(counts.dropped.values()),
        kept=dict(zip(PARTS, kept, strict=True)),
        dropped=counts.dropped | {name: count for name, count in by_reason.items() if count},
    )


def _all_pairs(recipe: Recipe, sources: Sequence[CorpusSource]) -> Iterator[NumberedPair]:
    """The cleaned pairs of all sources, counted through."""
    pairs = chain.from_iterable(_cleaned(recipe, source, CleaningCounts()) for source in sources)
    return (NumberedPair(number, pair) for number, (_, pair) in enumerate(pairs, start=1))


def _cleaned(
    recipe: Recipe, source: CorpusSource, counts: CleaningCounts
) -> Iterator[NumberedPair]:
    codes, path = recipe.languages.codes, source.files[0]
    if len(source.files) == 1 and (path.is_dir() or path.suffix in (".parquet", ".arrow")):
        pairs = _table_pairs(path, codes)
    else:
        pairs = read_pairs(source.files, not_utf8="drop", languages=codes)
    yield from clean(pairs, max_ratio=recipe.data.max_ratio, counts=counts, check=False)
    try:
        counts.check()
    except ValueError as error:
        raise ValueError(f"{' and '.join(map(str, source.files))}: {error}") from None


def _tables(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if files := sorted((*path.glob("*.arrow"), *path.glob("*.parquet"))):
        return files
    raise ValueError(f"{path} has no .arrow or .parquet files: name the folder of one split")


def _table_pairs(path: Path, codes: tuple[str, str]) -> Iterator[NumberedPair]:
    """The pairs of tables: two columns, or a column "translation" of both languages."""
    number = 0
    for file in _tables(path):
        with file.open("rb") as stream:
            if file.suffix == ".arrow":
                batches = optional_module("pyarrow.ipc", needed_by=file.name).open_stream(stream)
            else:
                parquet = optional_module("pyarrow.parquet", needed_by=file.name)
                batches = parquet.ParquetFile(stream).iter_batches()
            for row in chain.from_iterable(batch.to_pylist() for batch in batches):
                number += 1
                if not (pair := find_sides(row, codes)):
                    raise ValueError(
                        f"{path}, row {number}: expected texts {' and '.join(codes)}, or source "
                        f"and target, not {str(row)[:99]}"
                    )
                yield NumberedPair(number, Pair(*pair))
