"""The corpus check of `transduce check`: inspection, a vocabulary probe, a cleaned copy."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transduce.config import Recipe
from transduce.corpus_check.inspection import (
    CorpusReport,
    DataSplit,
    Finding,
    FindingKind,
    Inspection,
    PairExample,
    PairReader,
    inspect_corpus,
)
from transduce.data.corpus import CleaningCounts, NumberedPair, Pair, clean, read_pairs, tidy
from transduce.data.tokenizer import UNK, Tokenizer
from transduce.io.atomic_folder import atomic_folder
from transduce.io.streams import open_compressed

_TOKENIZER_SAMPLE = 100_000  # pairs; more hardly change the vocabulary
_PROBE_SAMPLE = 5_000  # pairs
_EXAMPLES = 3
_REMOVED: tuple[FindingKind, ...] = (
    "not UTF-8",
    "empty",
    "copy",
    "leaked source",
    "duplicate",
    "length ratio",
)
"""Reasons to remove a pair; the first that applies counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanedCorpus:
    """Counts of a cleaned copy of a corpus."""

    files: tuple[str, ...]
    kept: int
    """Pairs written, including those with exchanged sides."""
    exchanged: int
    """Swapped pairs whose sides were exchanged."""
    removed: dict[str, int] = field(default_factory=dict[str, int])
    """Pairs removed, by reason; a pair counts once."""

    def __str__(self) -> str:
        listed = "; ".join(f"{reason}: {count:,}" for reason, count in self.removed.items())
        removed = f", removed {sum(self.removed.values()):,}" + (f" ({listed})" if listed else "")
        return f"kept {self.kept:,} pairs, exchanged the sides of {self.exchanged:,}{removed}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """Result of `check_corpus`."""

    report: CorpusReport
    cleaned: CleanedCorpus | None = None
    """None if no cleaned copy was requested."""

    def __str__(self) -> str:
        return "\n".join(str(part) for part in (self.report, self.cleaned) if part)


class VocabularyProbe(NamedTuple):
    """How well a tokenizer covers some pairs."""

    findings: tuple[Finding, ...]
    words: int
    """Space-separated words of both sides."""
    pieces: int


def check_corpus(
    recipe: Recipe, *, write: Path | None = None, progress: Callable[[int], None] = lambda _: None
) -> CheckResult:
    """Check the corpus of a recipe, before any cleaning.

    Args:
        recipe: names the corpus, its languages and the vocabulary to probe.
        write: a new or empty folder for a cleaned copy of the training pairs.
        progress: called with a training line number, now and then.

    Raises:
        ValueError: if the corpus cannot be read, or `write` is not empty.
    """
    data = recipe.data
    if not data.train:
        raise ValueError(
            "there is no corpus: name two files, --source FILE --target FILE, or data.train"
        )
    if write is not None:
        check_output_folder(write)
    train = partial(
        read_pairs, data.paths(data.train), not_utf8="drop", languages=recipe.languages.codes
    )
    held = [_read(recipe, names) for names in (data.validation, data.test)]
    inspection = inspect_corpus(recipe, train, validation=held[0], test=held[1], progress=progress)
    report = _add_vocabulary_probe(recipe, inspection.report, pairs=train(), held=held)
    if write is None:
        return CheckResult(report=report)
    inspection = inspection._replace(report=report)
    cleaned = write_cleaned(recipe, inspection, pairs=train, folder=write)
    return CheckResult(report=report, cleaned=cleaned)


def probe_vocabulary(
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    *,
    part: DataSplit,
    max_pieces: int,
    lines: Sequence[int] = (),
) -> VocabularyProbe:
    """Encode and decode pairs that the tokenizer was not trained on.

    Args:
        tokenizer: the trained tokenizer.
        pairs: sample pairs.
        part: part of the corpus that they belong to.
        max_pieces: maximum pieces of a side of a training pair.
        lines: their line numbers, if not 1, 2, and so on.
    """
    marks: dict[FindingKind, list[PairExample]] = {
        "unknown piece": [],
        "round trip": [],
        "over-long": [],
    }
    texts = [tidy(side) for pair in pairs for side in pair]
    sources = tokenizer.encode_all(texts[::2])
    targets = tokenizer.target.encode_all(texts[1::2])
    encoded = [ids for pair_ids in zip(sources, targets, strict=True) for ids in pair_ids]
    for index, pair in enumerate(pairs):
        example = PairExample(lines[index] if lines else index + 1, *pair)
        sides = slice(2 * index, 2 * index + 2)
        pair_ids = encoded[sides]
        if any(UNK in ids for ids in pair_ids):
            marks["unknown piece"].append(example)
        elif [tokenizer.decode(pair_ids[0]), tokenizer.target.decode(pair_ids[1])] != [
            tokenizer.surface(text) for text in texts[sides]
        ]:
            marks["round trip"].append(example)
        if max(map(len, pair_ids)) > max_pieces:
            marks["over-long"].append(example)
    pieces, unknown = sum(map(len, encoded)), sum(ids.count(UNK) for ids in encoded)
    advice = {"unknown piece": f"{unknown:,} of {pieces:,} pieces are unknown"}
    findings = [
        Finding(
            kind=kind,
            part=part,
            count=len(examples),
            of=len(pairs),
            examples=tuple(examples[:_EXAMPLES]),
            advice=advice.get(kind, ""),
        )
        for kind, examples in marks.items()
        if examples
    ]
    return VocabularyProbe(tuple(findings), sum(len(text.split()) for text in texts), pieces)


def check_output_folder(folder: Path) -> None:
    """Check that a cleaned corpus can be written to a folder.

    Raises:
        ValueError: if it is a file or not empty.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a folder by --write")
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: name another folder by --write")


def write_cleaned(
    recipe: Recipe, inspection: Inspection, *, pairs: PairReader, folder: Path
) -> CleanedCorpus:
    """Write a cleaned, normalised copy of the training pairs, under their file names.

    Exchanges the sides of swapped pairs, and removes copies, duplicates but for the first, pairs
    whose source validation or test has too, unusual length ratios, empty sides and lines that are
    not UTF-8. The original files do not change.

    Args:
        recipe: names the training files.
        inspection: of the training pairs.
        pairs: opens an iteration over them.
        folder: new or empty.

    Raises:
        ValueError: if `folder` is not empty.
    """
    check_output_folder(folder)
    reason = np.zeros(len(inspection.fingerprints.line), dtype=np.int8)  # 0: kept
    for number, kind in reversed(list(enumerate(_REMOVED, start=1))):  # the first overwrites
        reason[inspection.marks[kind]] = number
    names = _file_names(recipe)
    with atomic_folder(folder) as fresh:
        with ExitStack() as stack:
            files = [stack.enter_context(open_compressed(fresh / name, "wb")) for name in names]
            for pair in _kept_pairs(inspection, reason=reason, pairs=pairs):
                sides = [f"{pair.source}\t{pair.target}"] if len(files) == 1 else pair
                for file, text in zip(files, sides, strict=True):
                    file.write(f"{text}\n".encode())
        counts = np.bincount(reason, minlength=len(_REMOVED) + 1).tolist()
        cleaned = CleanedCorpus(
            files=tuple(names),
            kept=counts[0],
            exchanged=int((inspection.fingerprints.swapped & (reason == 0)).sum()),
            removed={
                kind: count for kind, count in zip(_REMOVED, counts[1:], strict=True) if count
            },
        )
        summary = {"cleaned": asdict(cleaned), "found": asdict(inspection.report)}
        text = json.dumps(summary, indent=2, ensure_ascii=False)
        # Examples that are not UTF-8 contain lone surrogates, which cannot be written.
        (fresh / "cleaned.json").write_bytes(f"{text}\n".encode(errors="replace"))
    return cleaned


def _add_vocabulary_probe(
    recipe: Recipe,
    report: CorpusReport,
    *,
    pairs: Iterable[NumberedPair],
    held: Sequence[Sequence[Pair]],
) -> CorpusReport:
    """Add the findings of a tokenizer trained for the check."""
    stride = -(-report.training_pairs // _TOKENIZER_SAMPLE)
    cleaned = clean(pairs, max_ratio=recipe.data.max_ratio, counts=CleaningCounts())
    some = list(itertools.islice(cleaned, 0, None, stride))
    texts = (text for numbered in some for text in numbered.pair)
    tokenizer = Tokenizer.train(texts, recipe.tokenizer)
    sample = some[:: -(-len(some) // _PROBE_SAMPLE)]
    lines, training = [line for line, _ in sample], [pair for _, pair in sample]
    probe = partial(probe_vocabulary, tokenizer, max_pieces=recipe.data.max_pieces)
    probes = [
        probe(training, part="training", lines=lines),
        probe(held[0], part="validation"),
        probe(held[1], part="test"),
    ]
    words = max(1, sum(probe.words for probe in probes))
    return replace(
        report,
        findings=(*report.findings, *(f for probe in probes for f in probe.findings)),
        pieces_per_word=sum(probe.pieces for probe in probes) / words,
    )


def _read(recipe: Recipe, names: Sequence[str]) -> tuple[Pair, ...]:
    if not names:
        return ()
    numbered = read_pairs(recipe.data.paths(names), languages=recipe.languages.codes)
    return tuple(pair for _, pair in numbered)


def _kept_pairs(inspection: Inspection, *, reason: np.ndarray, pairs: PairReader) -> Iterator[Pair]:
    """The remaining pairs, with the sides of swapped ones exchanged."""
    swapped = inspection.fingerprints.swapped
    for (_, pair), removed, is_swapped in zip(pairs(), reason, swapped, strict=True):
        if not removed:
            source, target = tidy(pair.source), tidy(pair.target)
            yield Pair(target, source) if is_swapped else Pair(source, target)


def _file_names(recipe: Recipe) -> list[str]:
    names = [Path(name).name for name in recipe.data.train]
    if len(set(names)) < len(names):  # equal names in two folders
        names = [f"{side}.{name}" for side, name in zip(Pair._fields, names, strict=True)]
    return names
