"""Break translations down by length, word frequency and type of error.

One score hides whether long sentences, rare words or a few endless repetitions cost it. Text in,
numbers out; `report` renders them. Words are those of `data.segmentation`.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from itertools import islice, repeat
from random import Random
from typing import Final, Literal

from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF

from transduce.data.protection import BUILT_IN, copied_spans
from transduce.data.segmentation import count_words, find_repetition, words

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
    """Lines with a `data.segmentation.find_repetition`."""
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


class LineStatistics:
    """Sufficient statistics of a set of lines, from which BLEU and chrF are computed."""

    def __init__(self) -> None:
        self.lines = 0
        self._chrf = 0.0
        # BLEU's: hypothesis length, reference length, 4 match counts, 4 n-gram counts.
        self._counts = [0] * 10

    def add(self, score: BLEUScore, chrf: float) -> None:
        """Add one line."""
        self.lines += 1
        self._chrf += chrf
        for index, count in enumerate((score.sys_len, score.ref_len, *score.counts, *score.totals)):
            self._counts[index] += count

    def bleu(self) -> BLEUScore:
        """BLEU of these lines, equal to sacreBLEU's."""
        system_length, reference_length, *counts = self._counts
        return BLEU.compute_bleu(
            counts[:4], counts[4:], system_length, reference_length, smooth_method="exp"
        )

    @property
    def chrf(self) -> float:
        """Mean sentence chrF2."""
        return self._chrf / self.lines


@dataclass(slots=True)
class WordMatches:
    """Counts of the words in one frequency bucket."""

    reference_words: int = 0
    hypothesis_words: int = 0
    matched_words: int = 0

    @property
    def recall(self) -> float | None:
        """Share of the reference words that were matched; None without any."""
        return self.matched_words / self.reference_words if self.reference_words else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of recall and precision; None without reference words."""
        if not self.reference_words:
            return None
        return 2 * self.matched_words / (self.reference_words + self.hypothesis_words)


class SystemStatistics:
    """Counts of one system, accumulated line by line, so that memory stays small."""

    def __init__(self, bleu: BLEU, training_counts: Mapping[str, int]) -> None:
        self._bleu, self._chrf, self._training_counts = bleu, CHRF(), training_counts
        self.chrf: list[float] = []
        self.all = LineStatistics()
        self.lengths: dict[int, LineStatistics] = {}
        self.origins: dict[str, LineStatistics] = {}
        self.copies, self.lost = Counter[str](), Counter[str]()
        self._lost: list[LostText] = []
        self.frequency_classes = [WordMatches() for _ in range(len(FREQUENCY_BOUNDS) + 1)]
        self._copied: Counter[str] = Counter()
        self._repetitions: list[RepetitionExample] = []
        self._words = self._reference_words = 0
        self._empty = self._copied_lines = self._repeated = 0
        self._ratios = [0] * len(RATIO_LABELS)

    def add(self, line: str, reference: str, *, source: str | None, origin: str = "") -> None:
        """Count one line.

        Args:
            line: the translation.
            reference: the reference translation.
            source: the source line; without it copies are not counted.
            origin: where the line is from.
        """
        line_words, reference_words = words(line), words(reference)
        source_words = reference_words if source is None else words(source)
        self._score(line, reference, length=len(source_words), origin=origin)
        self._count_lost(line, reference, reference if source is None else source)
        self._count_lengths(len(line_words), len(reference_words))
        if repeated := find_repetition(line_words, reference_words):
            self._repeated += 1
            if len(self._repetitions) < _EXAMPLES:
                example = RepetitionExample(
                    line=len(self.chrf), piece=" ".join(repeated), hypothesis=line
                )
                self._repetitions.append(example)
        counts, reference_counts = Counter(line_words), Counter(reference_words)
        self._match(counts, reference_counts)
        if source is not None:
            self._copied_lines += bool(line_words) and line_words == source_words != reference_words
            alphanumeric = Counter(word for word in source_words if word[0].isalnum())
            self._copied += (counts - reference_counts) & (alphanumeric - reference_counts)

    def errors(self, *, copies: bool) -> ErrorCounts:
        """Return the error counts; `copies` tells whether sources were given."""
        return ErrorCounts(
            words=self._words,
            empty=self._empty,
            copied_lines=self._copied_lines if copies else None,
            copied_words=self._copied.total() if copies else None,
            most_copied=tuple(
                CopiedWord(word=word, times=times)
                for word, times in self._copied.most_common(_EXAMPLES)
            ),
            repeated=self._repeated,
            repetitions=tuple(self._repetitions),
            ratio=self._words / self._reference_words if self._reference_words else 1.0,
            brevity=self.all.bleu().bp,
            lost=tuple(self._lost),
            ratios=tuple(self._ratios),
        )

    def _count_lost(self, line: str, reference: str, source: str) -> None:
        for kind in BUILT_IN:
            expected, lost = copied_spans(kind, source, hypothesis=line, reference=reference)
            self.copies[kind] += expected.total()
            self.lost[kind] += lost.total()
            free = _LOST_EXAMPLES - len(self._lost)
            examples = (LostText(line=len(self.chrf), text=text, hypothesis=line) for text in lost)
            self._lost += islice(examples, free)

    def _score(self, line: str, reference: str, *, length: int, origin: str) -> None:
        # Identical lines score 100 even when both are empty, which chrF would score 0.
        identical = line == reference
        chrf = 100.0 if identical else float(self._chrf.sentence_score(line, [reference]).score)
        bleu = self._bleu.corpus_score([line], [[reference]])
        self.chrf.append(chrf)
        bucket = self.lengths.setdefault(bisect_left(LENGTH_BOUNDS, length), LineStatistics())
        for statistics in (self.all, bucket, self.origins.setdefault(origin, LineStatistics())):
            statistics.add(bleu, chrf)

    def _count_lengths(self, line_words: int, reference_words: int) -> None:
        self._words += line_words
        self._reference_words += reference_words
        self._empty += bool(reference_words and not line_words)
        if reference_words:
            ratio = line_words / reference_words
            self._ratios[bisect_right(_SHORT, ratio) + bisect_left(_LONG, ratio)] += 1

    def _match(self, counts: Mapping[str, int], reference_counts: Mapping[str, int]) -> None:
        for word, count in reference_counts.items():
            matches = self._frequency_class(word)
            matches.reference_words += count
            matches.matched_words += min(count, counts.get(word, 0))
        for word, count in counts.items():
            self._frequency_class(word).hypothesis_words += count

    def _frequency_class(self, word: str) -> WordMatches:
        frequency = self._training_counts.get(word, 0)
        return self.frequency_classes[bisect_left(FREQUENCY_BOUNDS, frequency)]


def break_down(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    *,
    bleu: BLEU,
    sources: Sequence[str] | None = None,
    training: Mapping[str, int] | None = None,
    origins: Sequence[str] | None = None,
) -> Breakdown:
    """Break down the translations of one or two systems.

    Args:
        systems: name and lines of the evaluated system, and of the one it is compared with.
        references: reference translations, line by line.
        bleu: sacreBLEU's metric, set up for the language.
        sources: source lines; without them length is the references' and copies are not counted.
        training: word counts of the training text's target side.
        origins: where each line is from, such as its document or domain.

    Raises:
        ValueError: for unequal numbers of lines or none.
    """
    assert len(systems) in (1, 2)
    check_line_counts(systems, references, sources=sources, origins=origins)
    training_counts = count_words(references) if training is None else training
    statistics: list[SystemStatistics] = []
    for _, lines in systems:
        system = SystemStatistics(bleu, training_counts)
        of_lines = sources or repeat(None, len(references)), origins or repeat("", len(references))
        for line, reference, source, origin in zip(lines, references, *of_lines, strict=True):
            system.add(line, reference, source=source, origin=origin)
        statistics.append(system)
    sentences = partial(
        _sentences, systems=systems, references=references, sources=sources, statistics=statistics
    )
    scores = statistics[0].chrf
    ranked = sorted(range(len(scores)), key=scores.__getitem__)
    middle = max(0, len(scores) // 2 - EXAMPLE_SENTENCES // 2)
    drawn = Random(1).sample(range(len(scores)), min(EXAMPLE_SENTENCES, len(scores)))
    imperfect = (number for number, score in enumerate(scores) if score < 100)
    gains, losses = _changes(scores, statistics[-1].chrf)
    return Breakdown(
        systems=tuple(name for name, _ in systems),
        lines=len(references),
        measured="reference" if sources is None else "source",
        lengths=_by_length(statistics),
        frequencies=_by_frequency(statistics),
        own_frequencies=training is None,
        ratios=RATIO_LABELS,
        faults=tuple(system.errors(copies=sources is not None) for system in statistics),
        copies=_copies(statistics),
        origins=_by_origin(statistics) if origins else (),
        median=sentences(ranked[middle : middle + EXAMPLE_SENTENCES]),
        random=sentences(sorted(drawn)),
        worst=sentences(nsmallest(WORST_SENTENCES, imperfect, key=scores.__getitem__)),
        gains=sentences(gains),
        losses=sentences(losses),
    )


def check_line_counts(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    *,
    sources: Sequence[str] | None = None,
    origins: Sequence[str] | None = None,
    purpose: str = "report on",
) -> None:
    """Check that all texts have the same number of lines.

    Args:
        systems: name and lines of each system.
        references: reference translations.
        sources: source lines, if known.
        origins: origins of the lines, if known.
        purpose: what the lines are needed for, in the error message.

    Raises:
        ValueError: for unequal numbers of lines or none; the message has the numbers.
    """
    if not references:
        raise ValueError(f"there is nothing to {purpose}: the references have no lines")
    for name, lines in [*systems, ("the source", sources), ("the file of origins", origins)]:
        if lines is not None and len(lines) != len(references):
            raise ValueError(
                f"{name} has {len(lines)} lines but there are {len(references)} references: "
                f"line n must translate line n"
            )


def _by_length(statistics: Sequence[SystemStatistics]) -> tuple[LengthBucket, ...]:
    return tuple(
        LengthBucket(
            words=label,
            lines=statistics[0].lengths[index].lines,
            bleu=tuple(float(system.lengths[index].bleu().score) for system in statistics),
            chrf=tuple(system.lengths[index].chrf for system in statistics),
        )
        for index, label in enumerate(_range_labels(0, LENGTH_BOUNDS))
        if index in statistics[0].lengths
    )


def _sentences(
    indices: Iterable[int],
    *,
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    sources: Sequence[str] | None,
    statistics: Sequence[SystemStatistics],
) -> tuple[ScoredSentence, ...]:
    return tuple(
        ScoredSentence(
            line=index + 1,
            source=None if sources is None else sources[index],
            reference=references[index],
            hypotheses=tuple(lines[index] for _, lines in systems),
            chrf=tuple(system.chrf[index] for system in statistics),
        )
        for index in indices
    )


def _copies(statistics: Sequence[SystemStatistics]) -> tuple[CopyLosses, ...]:
    times = statistics[0].copies
    return tuple(
        CopyLosses(
            kind=kind, times=times[kind], lost=tuple(system.lost[kind] for system in statistics)
        )
        for kind in BUILT_IN
        if times[kind]
    )


def _by_origin(statistics: Sequence[SystemStatistics]) -> tuple[OriginScores, ...]:
    return tuple(
        OriginScores(
            origin=origin,
            lines=lines.lines,
            bleu=tuple(float(system.origins[origin].bleu().score) for system in statistics),
            chrf=tuple(system.origins[origin].chrf for system in statistics),
        )
        for origin, lines in statistics[0].origins.items()
    )


def _by_frequency(statistics: Sequence[SystemStatistics]) -> tuple[FrequencyBucket, ...]:
    return tuple(
        FrequencyBucket(
            times=label,
            words=statistics[0].frequency_classes[index].reference_words,
            recall=tuple(system.frequency_classes[index].recall for system in statistics),
            f1=tuple(system.frequency_classes[index].f1 for system in statistics),
        )
        for index, label in enumerate(_range_labels(0, FREQUENCY_BOUNDS))
    )


def _range_labels(first: int, bounds: Sequence[int]) -> list[str]:
    """Labels of the ranges with these upper bounds, and of the open one above them."""
    labels: list[str] = []
    for last in bounds:
        labels.append(f"{first}–{last}" if last > first else str(last))
        first = last + 1
    return [*labels, f"{first}+"]


def _changes(scores: Sequence[float], baseline: Sequence[float]) -> tuple[list[int], list[int]]:
    """Line indices of the largest gains and losses in sentence chrF."""
    gain = [score - base for score, base in zip(scores, baseline, strict=True)]
    count = CHANGED_SENTENCES
    up = nsmallest(count, (n for n, by in enumerate(gain) if by > 0), key=lambda n: -gain[n])
    down = nsmallest(count, (n for n, by in enumerate(gain) if by < 0), key=gain.__getitem__)
    return up, down
