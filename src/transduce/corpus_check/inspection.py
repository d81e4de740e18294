"""Inspection of a corpus: from fingerprints of its pairs to findings, each with examples."""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from transduce.config import Recipe
from transduce.corpus_check.fingerprint import (
    BlockSample,
    CorpusProfile,
    Fingerprints,
    fingerprint_pairs,
    profile_corpus,
)
from transduce.corpus_check.language import mismatched_language
from transduce.data.corpus import HEADER, STRAY_BYTE, NumberedPair, Pair, held_out_size

DataSplit = Literal["training", "validation", "test"]
"""The part of the corpus that a finding is about."""

FindingKind = Literal[
    "language",
    "swapped",
    "shifted",
    "copy",
    "duplicate",
    "several targets",
    "leaked pair",
    "leaked source",
    "length ratio",
    "empty",
    "not UTF-8",
    "control character",
    "mojibake",
    "script",
    "unknown piece",
    "round trip",
    "over-long",
]

EXCHANGE = "exchange the two files"
"""The remedy where each side is in the other's language."""

_KINDS: Final = tomllib.loads(Path(__file__).with_name("findings.toml").read_text("utf-8"))
_REVERSED = "exchange the two files of data.{}, which are reversed compared with training"
_NUMBER = re.compile(r"{(.*)\|(.*)}")
_SEVERE_SHARE = 0.1
_EXAMPLE_WIDTH = 40  # characters of each side of an example


class PairExample(NamedTuple):
    """A pair that a finding is about."""

    line: int
    """Counted from 1."""
    source: str
    target: str

    def __str__(self) -> str:
        return f"line {self.line}: {_abbreviate(self.source)} | {_abbreviate(self.target)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Pairs of one part of the corpus with one kind of fault."""

    kind: FindingKind
    part: DataSplit
    count: int
    of: int
    """Pairs examined."""
    examples: tuple[PairExample, ...] = ()
    advice: str = ""
    """Remedy, unless obvious."""

    @property
    def severe(self) -> bool:
        """Whether it would degrade training or the scores."""
        return not _KINDS[self.kind].get("mild") and self.count > _SEVERE_SHARE * self.of

    def __str__(self) -> str:
        subject = _KINDS[self.kind].get("subject", "pairs")
        number = r"\1" if self.count == 1 else r"\2"
        predicate = _NUMBER.sub(number, _KINDS[self.kind]["predicate"])
        text = f"{self.part}: {self.count:,} of {self.of:,} {subject} {predicate}"
        advice = f"; {self.advice}" if self.advice else ""
        example = f", such as {self.examples[0]}" if self.examples else ""
        return f"{'WARNING: ' if self.severe else ''}{text}{advice}{example}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusReport:
    """The findings of a corpus check."""

    training_pairs: int
    validation_pairs: int
    test_pairs: int
    findings: tuple[Finding, ...]
    held_out_pairs: int = 0
    """Training pairs that `train` would hold out, if there are no validation files."""
    pieces_per_word: float = 0.0
    """Average pieces per word of the text used to probe the vocabulary; 0 if there was none."""
    size_warning: str = ""
    """One line if there are too few pairs to train on from random weights."""
    language_warning: str = ""
    """One line if a language of the corpus is unknown."""

    @property
    def severe(self) -> bool:
        """Whether a finding would degrade training or the scores."""
        return any(finding.severe for finding in self.findings)

    def __str__(self) -> str:
        validation = f"{self.validation_pairs:,} to validate"
        if self.held_out_pairs:
            validation = f"about {self.held_out_pairs:,} of them held out to validate"
        sizes = f"{self.training_pairs:,} pairs to train on, {validation}"
        pieces = f"; {self.pieces_per_word:.2f} pieces per word" if self.pieces_per_word else ""
        lines = [f"{sizes}, {self.test_pairs:,} to test{pieces}"]
        lines += [line for line in (self.size_warning, self.language_warning) if line]
        for finding in self.findings:
            lines.append(str(finding))
            lines += [f"    {example}" for example in finding.examples[1:]]
        count = len(self.findings)
        return "\n".join([*lines, f"{count or 'no'} finding{'s' * (count != 1)}"])


def _abbreviate(text: str) -> str:
    """Text on one line, bytes that are not UTF-8 escaped, and truncated."""
    escaped = STRAY_BYTE.sub(lambda match: rf"\x{ord(match[0]) - 0xDC00:02x}", text)
    shown = " ".join(escaped.encode(errors="backslashreplace").decode().split())
    return shown if len(shown) <= _EXAMPLE_WIDTH else f"{shown[: _EXAMPLE_WIDTH - 1]}…"


PairReader = Callable[[], Iterable[NumberedPair]]
"""Opens an iteration over pairs, which are read several times and never held in memory."""

LineReader = Callable[[Collection[int]], Iterable[NumberedPair]]
"""Reads the pairs with the given line numbers."""

_EXAMPLES = 3
_MAX_PAIRS = 1_000_000  # training pairs inspected, approximately
_MAX_DEVIATION = 6.0  # of the log length ratio from its median, in robust standard deviations
_MIN_DISTANCE = 0.9  # of an unusual log ratio from the median: a factor of two and a half
_BLOCK = 200  # pairs whose lengths are correlated with their neighbours'
_MIN_PAIRS = 50  # pairs for a statistic
_FEW_SENTENCES, _FEW_WORDS = 10_000, 1_000  # training pairs below which quality is poor
_WORD = 12  # characters: sources this short in the median are words, which need fewer pairs
_MIN_GAIN = 0.3  # by which the correlation with a neighbour must be higher

_Marks = dict[FindingKind, Bool[np.ndarray, " pairs"]]


class Inspection(NamedTuple):
    """A report and the training pairs it refers to."""

    report: CorpusReport
    fingerprints: Fingerprints
    """Of the inspected training pairs."""
    marks: Mapping[FindingKind, Bool[np.ndarray, " pairs"]]
    """For each kind of finding, which training pairs have it."""


def inspect_corpus(
    recipe: Recipe,
    train: PairReader,
    *,
    validation: Sequence[Pair] = (),
    test: Sequence[Pair] = (),
    pair_count: int = 0,
    profile: CorpusProfile | None = None,
    read_lines: LineReader | None = None,
    progress: Callable[[int], None] = lambda line: None,
) -> Inspection:
    """Inspect a corpus; reads the training pairs a few times without holding them in memory.

    Args:
        recipe: sets the languages and the maximum length ratio.
        train: opens an iteration over the training pairs.
        validation: held-out pairs; a line number is a position, counted from 1, and HEADER no pair.
        test: likewise.
        pair_count: number of training pairs. Above a million a sample of blocks is inspected, but
            leaks into validation or test are found in all pairs. 0 inspects all pairs.
        profile: typical properties of the training pairs; None computes them in another reading.
        read_lines: reads training pairs by line number, if that is faster than by `train`.
        progress: called with a training line number, now and then.
    """
    profile = profile_corpus(train()) if profile is None else profile
    held: dict[DataSplit, Sequence[Pair]] = {"validation": validation, "test": test}
    held_out: dict[DataSplit, Fingerprints] = {
        part: fingerprint_pairs(numbered(held_pairs), profile, progress=lambda line: None)
        for part, held_pairs in held.items()
    }
    sources = np.concatenate([prints.folded_source for prints in held_out.values()])
    blocks = BlockSample(every=max(1, -(-pair_count // _MAX_PAIRS)), held=sources.tolist())
    training = fingerprint_pairs(blocks.sample(train()), profile, progress=progress)
    max_ratio = recipe.data.max_ratio
    marks = _faults(training, max_ratio=max_ratio) | _repetitions(training)
    reader = read_lines or _line_reader(train)
    findings = list(_wrong_language(recipe, profile, pairs=len(training.line)))
    findings += _findings("training", marks, prints=training, read_lines=reader)
    for part, prints in held_out.items():
        part_marks = _faults(prints, max_ratio=max_ratio) | _leaks(prints, training, blocks)
        reader = _line_reader(lambda held_pairs=held[part]: numbered(held_pairs))
        findings += _findings(part, part_marks, prints=prints, read_lines=reader)
    leaked: _Marks = {"leaked source": np.isin(training.folded_source, sources)}
    report = CorpusReport(
        training_pairs=blocks.pairs,
        validation_pairs=len(held_out["validation"].line),
        test_pairs=len(held_out["test"].line),
        held_out_pairs=0 if validation else held_out_size(blocks.pairs, recipe.data.held_out),
        findings=tuple(findings),
        size_warning=_size_warning(blocks.pairs, training, script=profile.source_script.name),
        language_warning=_language_warning(recipe),
    )
    return Inspection(report, training, {**marks, **leaked})


def _size_warning(pairs: int, prints: Fingerprints, *, script: str) -> str:
    """A line if so few pairs rarely train a good model; benchmarks/results/sweep-r-drop-5000."""
    longest = _WORD // 3 if script.startswith("Chinese") else _WORD
    words = len(prints.line) > 0 and np.median(prints.source_length) <= longest
    threshold = _FEW_WORDS if words else _FEW_SENTENCES
    if pairs >= threshold:
        return ""
    expect = "" if words else " (5,000 simple sentences gave 25 BLEU, fewer give much less)"
    return (
        f"WARNING: {pairs:,} training pairs are few for random weights, below {threshold:,}: "
        f"expect poor translations{expect}; add pairs, or start from a trained model by "
        f"`transduce train --from MODEL`, after `transduce import` if another program made it"
    )


def _language_warning(recipe: Recipe) -> str:
    if not (missing := recipe.languages.missing):
        return ""
    options = " ".join(f"--{side}-lang CODE" for side in missing)
    return (
        f"WARNING: the language of {' and '.join(missing)} is unknown, but clients of `transduce "
        f"serve` ask by it: add {options}, or run `transduce relabel` later"
    )


def numbered(pairs: Sequence[Pair]) -> Iterator[NumberedPair]:
    """Number pairs from 1, without HEADER."""
    lines = enumerate(pairs, start=1)
    return (NumberedPair(line, pair) for line, pair in lines if pair is not HEADER)


def _wrong_language(recipe: Recipe, profile: CorpusProfile, *, pairs: int) -> Iterator[Finding]:
    """A finding about all pairs if a side does not look like the recipe's language."""
    languages = recipe.languages
    codes = (languages.source, languages.target)
    scripts = (profile.source_script, profile.target_script)
    actual, exchanged = (
        [
            mismatched_language(code, other, words=words, script=script)
            for code, other, words, script in zip(
                order, order[::-1], profile.sides.words, scripts, strict=True
            )
        ]
        for order in (codes, codes[::-1])
    )
    if pairs < _MIN_PAIRS or not any(actual):
        return
    wrong = [
        f"the {side} looks like {language}, not {code}"
        for side, language, code in zip(Pair._fields, actual, codes, strict=True)
        if language
    ]
    remedy = EXCHANGE if all(actual) and not any(exchanged) else "correct languages.* or the files"
    yield Finding(
        kind="language",
        part="training",
        count=pairs,
        of=pairs,
        advice=f"{' and '.join(wrong)}: {remedy}",
    )


def _faults(prints: Fingerprints, *, max_ratio: float) -> _Marks:
    return {
        "swapped": prints.swapped,
        "shifted": _shifted(prints),
        "copy": prints.copy,
        "length ratio": _unusual_ratio(prints, max_ratio=max_ratio),
        "empty": prints.empty,
        "not UTF-8": prints.undecoded,
        "control character": prints.control,
        "mojibake": prints.mojibake,
        "script": prints.foreign,
    }


def _repetitions(prints: Fingerprints) -> _Marks:
    """All but the first of equal pairs, and the first pair of each source with several targets."""
    complete = np.flatnonzero(~prints.empty)
    _, first = np.unique(prints.pair[complete], return_index=True)
    distinct = np.sort(complete[first])
    duplicate = ~prints.empty
    duplicate[distinct] = False
    _, first, targets = np.unique(prints.source[distinct], return_index=True, return_counts=True)
    several = np.zeros_like(duplicate)
    several[distinct[first[targets > 1]]] = True
    return {"duplicate": duplicate, "several targets": several}


def _leaks(prints: Fingerprints, training: Fingerprints, blocks: BlockSample) -> _Marks:
    """Pairs that also occur in training, inside or outside of the inspected sample."""
    pair, source = (
        (np.isin(held, sample) | np.isin(held, np.array(rest, dtype=np.int64))) & ~prints.empty
        for held, sample, rest in (
            (prints.folded_pair, training.folded_pair, blocks.folded_pairs),
            (prints.folded_source, training.folded_source, blocks.sources),
        )
    )
    return {"leaked pair": pair, "leaked source": source & ~pair}


def _unusual_ratio(prints: Fingerprints, *, max_ratio: float) -> Bool[np.ndarray, " pairs"]:
    """Complete pairs whose length ratio exceeds the recipe's limit or is an outlier."""
    complete = ~prints.empty
    if not complete.any():
        return ~complete
    # The 10 tolerates short sentences, as in `corpus.clean`.
    ratio = np.log((prints.source_length + 10.0) / (prints.target_length + 10.0))
    median = np.median(ratio[complete])
    # 1.4826 x the median absolute deviation estimates a normal distribution's standard deviation.
    spread = 1.4826 * np.median(np.abs(ratio[complete] - median))
    outlier = np.abs(ratio - median) > max(_MAX_DEVIATION * spread, _MIN_DISTANCE)
    return complete & (outlier | (np.abs(ratio) > np.log(max_ratio)))


def _shifted(prints: Fingerprints) -> Bool[np.ndarray, " pairs"]:
    """Pairs of blocks whose lengths correlate much better when shifted by one line."""
    shifted = np.zeros_like(prints.empty)
    source, target = np.log(prints.source_length + 1.0), np.log(prints.target_length + 1.0)
    for start in range(0, len(source), _BLOCK):
        block = slice(start, start + _BLOCK)
        s, t = source[block], target[block]
        if len(s) < _MIN_PAIRS:
            break
        neighbour = max(_correlation(s[1:], t[:-1]), _correlation(s[:-1], t[1:]))
        # 2 / sqrt(n) allows for the noise of a correlation of n pairs.
        shifted[block] = neighbour > _correlation(s, t) + _MIN_GAIN + 2.0 / len(s) ** 0.5
    return shifted


def _correlation(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> float:
    """Pearson correlation; 0 if a side is constant."""
    x, y = x - x.mean(), y - y.mean()
    norm = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / norm if norm > 1e-9 else 0.0


def _findings(
    part: DataSplit, marks: _Marks, *, prints: Fingerprints, read_lines: LineReader
) -> Iterator[Finding]:
    """A finding for every kind that occurs, with the text of its first lines."""
    first: dict[FindingKind, Int64[np.ndarray, " examples"]] = {
        kind: prints.line[np.flatnonzero(mark)[:_EXAMPLES]] for kind, mark in marks.items()
    }
    shown_lines = {int(line) for lines in first.values() for line in lines}
    text = dict(read_lines(shown_lines)) if shown_lines else {}
    for kind, mark in marks.items():
        count = int(mark.sum())
        if count:
            yield Finding(
                kind=kind,
                part=part,
                count=count,
                of=len(mark),
                examples=tuple(PairExample(line, *text[line]) for line in map(int, first[kind])),
                advice=_REVERSED.format(part)
                if kind == "swapped" and 2 * count > len(mark)
                else _KINDS[kind].get("advice", ""),
            )


def _line_reader(pairs: PairReader) -> LineReader:
    """Selects lines by reading up to the last of them."""

    def read_lines(lines: Collection[int]) -> Iterator[NumberedPair]:
        numbers, last = frozenset(lines), max(lines)
        for numbered in pairs():
            if numbered.line in numbers:
                yield numbered
            if numbered.line >= last:
                break

    return read_lines
