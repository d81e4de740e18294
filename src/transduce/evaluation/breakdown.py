"""Break translations down by length, word frequency and type of error.

One score hides whether long sentences, rare words or a few endless repetitions cost it. Text in,
numbers out; `report` renders them. Words are those of `data.segmentation`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import and_
from random import Random
from typing import Any, Final, Literal, TypeVar

import numpy as np
from jaxtyping import Float, Int
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF

from transduce.data.protection import count_copies
from transduce.data.segmentation import count_words, words
from transduce.evaluation.metrics import check_lines
from transduce.inference.repetition import detect_repetition

WORST_SENTENCES: Final = 20
"""Number of lowest-scoring sentences shown."""
EXAMPLE_SENTENCES: Final = 10
"""Number of random sentences, and of those around the median, shown."""
CHANGED_SENTENCES: Final = 10
"""Number of largest gains, and of largest losses, against another system shown."""
LENGTH_BOUNDS: Final = (5, 10, 15, 20, 30, 40, 60)
"""Upper bounds in words of the length buckets; the last bucket is open."""
FREQUENCY_BOUNDS: Final = (0, 1, 4, 9, 99)
"""Upper bounds in training occurrences of the frequency buckets; the last bucket is open."""
RATIO_LABELS: Final = ("under 0.5", "0.5 to 0.8", "0.8 to 1.25", "1.25 to 2", "over 2")
"""Length ratio (hypothesis words / reference words) of each entry of `ErrorCounts.ratios`."""

_SHORT, _LONG = (0.5, 0.8), (1.25, 2.0)
_EXAMPLES: Final = 5
_LOST_EXAMPLES: Final = 20
_Key = TypeVar("_Key", int, str)


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthBucket:
    """Lines of similar length. Tuples hold one value per system, here and below."""

    words: str
    """Range in words, such as "6–10"."""
    lines: int
    bleu: tuple[float, ...]
    """Corpus BLEU of these lines."""
    chrf: tuple[float, ...]
    """Mean sentence chrF2."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OriginScores:
    """Scores of the lines of one origin."""

    origin: str
    lines: int
    bleu: tuple[float, ...]
    chrf: tuple[float, ...]
    """Mean sentence chrF2."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyLosses:
    """Text of one kind that source and reference share and the translation should keep."""

    kind: str
    """Name of a built-in pattern of `data.protection`."""
    times: int
    lost: tuple[int, ...]
    """How many of them each system's translations lack."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LostText:
    """An example of text that a translation should have copied."""

    line: int
    """Counted from 1."""
    text: str
    hypothesis: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FrequencyBucket:
    """Words of similar frequency in the training text. Matches are counted per line."""

    times: str
    """Range in occurrences, such as "2–4"."""
    words: int
    """Number of such words in the references."""
    recall: tuple[float | None, ...]
    """Share of these words found in the translations; None without any."""
    f1: tuple[float | None, ...]
    """Harmonic mean of recall and precision."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredSentence:
    """A line of the test set with every system's translation."""

    line: int
    """Counted from 1."""
    source: str | None
    reference: str
    hypotheses: tuple[str, ...]
    chrf: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RepetitionExample:
    """A line with a repetition that its reference does not have."""

    line: int
    """Counted from 1."""
    piece: str
    hypothesis: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CopiedWord:
    """A source word copied into translations whose references do not have it."""

    word: str
    times: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorCounts:
    """Typical errors in one system's translations."""

    words: int
    """Words in all translations."""
    empty: int
    """Empty lines whose reference is not empty."""
    copied_lines: int | None
    """Lines identical to the source but not to the reference; None without sources."""
    copied_words: int | None
    """Source words absent from the reference, punctuation excluded; None without sources."""
    most_copied: tuple[CopiedWord, ...]
    repeated: int
    """Lines with a loop, by `inference.repetition`, that their references do not have."""
    repetitions: tuple[RepetitionExample, ...]
    """The first of them."""
    ratio: float
    """Length ratio: hypothesis words / reference words."""
    brevity: float
    """BLEU's brevity penalty; 1 means none."""
    lost: tuple[LostText, ...]
    """The first examples of text that was not copied."""
    ratios: tuple[int, ...]
    """Lines by length ratio, one count per `RATIO_LABELS`; empty references are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Breakdown:
    """The breakdown of one system's translations, or of two systems' side by side."""

    systems: tuple[str, ...]
    """Names of the evaluated system and, if given, of the system it is compared with."""
    lines: int
    measured: Literal["source", "reference"]
    """The side whose words define a line's length."""
    lengths: tuple[LengthBucket, ...]
    """Non-empty buckets, shortest first."""
    frequencies: tuple[FrequencyBucket, ...]
    own_frequencies: bool
    """Whether frequencies were counted in the references, for lack of a training text."""
    ratios: tuple[str, ...]
    """Labels of the counts in `ErrorCounts.ratios`."""
    faults: tuple[ErrorCounts, ...]
    copies: tuple[CopyLosses, ...]
    """By kind, for kinds that occur."""
    origins: tuple[OriginScores, ...]
    """In order of appearance; empty if origins are unknown."""
    worst: tuple[ScoredSentence, ...]
    """The first system's sentences by chrF2, lowest first."""
    median: tuple[ScoredSentence, ...]
    """Those in the middle."""
    random: tuple[ScoredSentence, ...]
    """Drawn from all, in order; the same for every system."""
    gains: tuple[ScoredSentence, ...]
    """Where the first system is furthest above the second."""
    losses: tuple[ScoredSentence, ...]


@dataclass(frozen=True, slots=True)
class _LineScores:
    """Of every line of a system."""

    chrf: Float[np.ndarray, " lines"]
    """Sentence chrF2."""
    counts: Int[np.ndarray, "lines 10"]
    """BLEU's: hypothesis length, reference length, 4 match counts, 4 n-gram counts."""

    def bleu(self, lines: Sequence[int] | slice = slice(None)) -> BLEUScore:
        """BLEU of some lines, equal to sacreBLEU's."""
        system_length, reference_length, *counts = self.counts[lines].sum(axis=0).tolist()
        return BLEU.compute_bleu(
            counts[:4], counts[4:], system_length, reference_length, smooth_method="exp"
        )


def _score_lines(lines: Sequence[str], references: Sequence[str], bleu: BLEU) -> _LineScores:
    metric, chrf, counts = CHRF(), list[float](), list[tuple[int, ...]]()
    for line, reference in zip(lines, references, strict=True):
        # Identical lines score 100 even when both are empty, which chrF would score 0.
        identical = line == reference
        chrf.append(100.0 if identical else metric.sentence_score(line, [reference]).score)
        score = bleu.corpus_score([line], [[reference]])
        counts.append((score.sys_len, score.ref_len, *score.counts, *score.totals))
    return _LineScores(np.array(chrf), np.array(counts))


def break_down(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    *,
    bleu: BLEU,
    sources: Sequence[str] | None = None,
    training: Mapping[str, int] | None = None,
    origins: Sequence[str] | None = None,
    lower_case: bool = False,
) -> Breakdown:
    """Break down the translations of one or two systems.

    Args:
        systems: name and lines of the evaluated system, and of the one it is compared with.
        references: reference translations, line by line.
        bleu: sacreBLEU's metric, set up for the language.
        sources: source lines; without them length is the references' and copies are not counted.
        training: word counts of the training text's target side.
        origins: where each line is from, such as its document or domain.
        lower_case: lower-case all text first, also that of the sentences shown, as for a model that
            lower-cases.

    Raises:
        ValueError: for unequal numbers of lines or none.
    """
    assert len(systems) in (1, 2)
    check_line_counts(systems, references, sources=sources, origins=origins)
    if lower_case:
        systems = [(name, _lower_case(lines)) for name, lines in systems]
        references, sources = _lower_case(references), sources and _lower_case(sources)
        training = training and _lower_case_counts(training)
    training_counts = count_words(references) if training is None else training
    scores = [_score_lines(lines, references, bleu) for _, lines in systems]
    copies = [count_copies(sources or references, lines, references) for _, lines in systems]
    sentences = partial(
        _sentences, systems=systems, references=references, sources=sources, scores=scores
    )
    chrf = scores[0].chrf.tolist()
    ranked = sorted(range(len(chrf)), key=chrf.__getitem__)
    middle = max(0, len(chrf) // 2 - EXAMPLE_SENTENCES // 2)
    sampled = Random(1).sample(range(len(chrf)), min(EXAMPLE_SENTENCES, len(chrf)))
    gain = (scores[0].chrf - scores[-1].chrf).tolist()
    by_gain = sorted(range(len(gain)), key=gain.__getitem__)
    # Sorted twice, so that of equal gains the first lines are shown.
    best = sorted(range(len(gain)), key=lambda line: -gain[line])
    return Breakdown(
        systems=tuple(name for name, _ in systems),
        lines=len(references),
        measured="reference" if sources is None else "source",
        lengths=_by_length(scores, sources or references),
        frequencies=_by_frequency(systems, references, training_counts),
        own_frequencies=training is None,
        ratios=RATIO_LABELS,
        faults=tuple(
            _count_errors(
                lines,
                references,
                sources=sources,
                brevity=score.bleu().bp,
                lost=copied.missing[:_LOST_EXAMPLES],
            )
            for (_, lines), score, copied in zip(systems, scores, copies, strict=True)
        ),
        copies=tuple(
            CopyLosses(kind=kind, times=times, lost=tuple(copied.lost[kind] for copied in copies))
            for kind, times in copies[0].times.items()
            if times
        ),
        origins=_by_origin(scores, origins or ()),
        median=sentences(ranked[middle : middle + EXAMPLE_SENTENCES]),
        random=sentences(sorted(sampled)),
        worst=sentences([line for line in ranked if chrf[line] < 100][:WORST_SENTENCES]),
        gains=sentences([line for line in best if gain[line] > 0][:CHANGED_SENTENCES]),
        losses=sentences([line for line in by_gain if gain[line] < 0][:CHANGED_SENTENCES]),
    )


def _lower_case(lines: Sequence[str]) -> list[str]:
    return [line.lower() for line in lines]


def _lower_case_counts(counts: Mapping[str, int]) -> Counter[str]:
    total = Counter[str]()
    for word, count in counts.items():
        total[word.lower()] += count
    return total


def check_line_counts(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    *,
    sources: Sequence[str] | None = None,
    origins: Sequence[str] | None = None,
) -> None:
    """Check that all texts have the same number of lines.

    Args: those of `break_down`.

    Raises:
        ValueError: for unequal numbers of lines or none; the message has the numbers.
    """
    for name, lines in [*systems, ("the source", sources), ("the file of origins", origins)]:
        if lines is not None:
            check_lines(lines, references, name=name)


def _describe_loop(line: Sequence[str], reference: Sequence[str]) -> str:
    """Describe a loop of words that the reference does not have; "" if there is none."""
    flag = detect_repetition(*([f" {word}" for word in side] for side in (reference, line)))
    kind, _, words = flag.partition(" (")
    return words.removesuffix(")") if kind == "repetition" else ""  # too long is another error


def _count_errors(
    lines: Sequence[str],
    references: Sequence[str],
    *,
    sources: Sequence[str] | None,
    brevity: float,
    lost: Sequence[tuple[int, str]],
) -> ErrorCounts:
    tokens = [
        (words(line), words(reference)) for line, reference in zip(lines, references, strict=True)
    ]
    lengths, expected = np.array([[len(line), len(reference)] for line, reference in tokens]).T
    ratios = lengths[expected > 0] / expected[expected > 0]
    bins = np.searchsorted(_SHORT, ratios, side="right") + np.searchsorted(_LONG, ratios)
    repetitions = [
        RepetitionExample(line=number, piece=loop, hypothesis=line)
        for number, (line, pair) in enumerate(zip(lines, tokens, strict=True), start=1)
        if (loop := _describe_loop(*pair))
    ]
    copied_lines, copied_words = 0, Counter[str]()
    for source, (in_line, in_reference) in zip(sources or (), tokens, strict=sources is not None):
        in_source = words(source)
        copied_lines += bool(in_line) and in_line == in_source != in_reference
        alphanumeric = Counter(word for word in in_source if word[0].isalnum())
        wrong = Counter(in_line) - Counter(in_reference)
        copied_words.update(wrong & (alphanumeric - Counter(in_reference)))
    return ErrorCounts(
        words=int(lengths.sum()),
        empty=int(((lengths == 0) & (expected > 0)).sum()),
        copied_lines=None if sources is None else copied_lines,
        copied_words=None if sources is None else copied_words.total(),
        most_copied=tuple(
            CopiedWord(word=word, times=times)
            for word, times in copied_words.most_common(_EXAMPLES)
        ),
        repeated=len(repetitions),
        repetitions=tuple(repetitions[:_EXAMPLES]),
        ratio=float(lengths.sum() / expected.sum()) if expected.any() else 1.0,
        brevity=brevity,
        lost=tuple(
            LostText(line=index + 1, text=text, hypothesis=lines[index]) for index, text in lost
        ),
        ratios=tuple(np.bincount(bins, minlength=len(RATIO_LABELS)).tolist()),
    )


def _by_length(scores: Sequence[_LineScores], texts: Sequence[str]) -> tuple[LengthBucket, ...]:
    labels = _range_labels(0, LENGTH_BOUNDS)
    groups = _groups(scores, [bisect_left(LENGTH_BOUNDS, len(words(text))) for text in texts])
    return tuple(LengthBucket(words=labels[index], **groups[index]) for index in sorted(groups))


def _by_origin(scores: Sequence[_LineScores], origins: Sequence[str]) -> tuple[OriginScores, ...]:
    groups = _groups(scores, origins)
    return tuple(OriginScores(origin=origin, **values) for origin, values in groups.items())


def _groups(scores: Sequence[_LineScores], keys: Sequence[_Key]) -> dict[_Key, dict[str, Any]]:
    """Number and scores of the lines of each key, by name of the field, in order of appearance."""
    groups: dict[_Key, list[int]] = {}
    for line, key in enumerate(keys):
        groups.setdefault(key, []).append(line)
    return {
        key: {
            "lines": len(lines),
            "bleu": tuple(float(system.bleu(lines).score) for system in scores),
            "chrf": tuple(float(system.chrf[lines].mean()) for system in scores),
        }
        for key, lines in groups.items()
    }


def _sentences(
    indices: Iterable[int],
    *,
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    sources: Sequence[str] | None,
    scores: Sequence[_LineScores],
) -> tuple[ScoredSentence, ...]:
    return tuple(
        ScoredSentence(
            line=index + 1,
            source=None if sources is None else sources[index],
            reference=references[index],
            hypotheses=tuple(lines[index] for _, lines in systems),
            chrf=tuple(float(system.chrf[index]) for system in scores),
        )
        for index in indices
    )


def _by_frequency(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    training: Mapping[str, int],
) -> tuple[FrequencyBucket, ...]:
    def by_bucket(counts: Iterable[Counter[str]]) -> list[int]:
        totals = [0] * (len(FREQUENCY_BOUNDS) + 1)
        for word, count in chain.from_iterable(line.items() for line in counts):
            totals[bisect_left(FREQUENCY_BOUNDS, training.get(word, 0))] += count
        return totals

    def counted(lines: Sequence[str]) -> Iterator[Counter[str]]:
        return (Counter(words(line)) for line in lines)

    expected = by_bucket(counted(references))
    tables = [by_bucket(counted(lines)) for _, lines in systems]
    matched = [by_bucket(map(and_, counted(lines), counted(references))) for _, lines in systems]
    return tuple(
        FrequencyBucket(
            times=label,
            words=total,
            recall=tuple(right[index] / total if total else None for right in matched),
            f1=tuple(
                2 * right[index] / (total + used[index]) if total else None
                for right, used in zip(matched, tables, strict=True)
            ),
        )
        for index, (label, total) in enumerate(
            zip(_range_labels(0, FREQUENCY_BOUNDS), expected, strict=True)
        )
    )


def _range_labels(first: int, bounds: Sequence[int]) -> list[str]:
    """Labels of the ranges with these upper bounds, and of the open one above them."""
    labels: list[str] = []
    for last in bounds:
        labels.append(f"{first}–{last}" if last > first else str(last))
        first = last + 1
    return [*labels, f"{first}+"]
