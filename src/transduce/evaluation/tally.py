"""What is counted of one system while its lines pass: matches by length and by word, and faults.

Every line is looked at once and forgotten, so a large test set needs little memory.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF

from transduce.data.words import repetition, words

LENGTHS: Final = (5, 10, 15, 20, 30, 40, 60)
"""Most words of the lines that are counted together; the last are open."""
FREQUENCIES: Final = (0, 1, 4, 9, 99)
"""Most times that words counted together stand in the training text; the last are open."""
RATIOS: Final = ("under 0.5", "0.5 to 0.8", "0.8 to 1.25", "1.25 to 2", "over 2")
"""A line's words for each word of its reference; what `Faults.ratios` counts."""

_SHORT, _LONG = (0.5, 0.8), (1.25, 2.0)
_EXAMPLES: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Repetition:
    """A line that says something over and over, and its reference does not."""

    line: int
    """Counted from 1."""
    piece: str
    hypothesis: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Copied:
    """A word of the source in translations whose references do not have it."""

    word: str
    times: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Faults:
    """What goes wrong in one system's lines."""

    words: int
    """In all its lines."""
    empty: int
    """Lines without a word where the reference has one."""
    copied_lines: int | None
    """Lines that are the source again, where the reference is not; None without sources."""
    copied_words: int | None
    """Words of the source that the reference does not have; marks are no words here."""
    most_copied: tuple[Copied, ...]
    repeated: int
    """Lines with a `text.words.repetition`."""
    repetitions: tuple[Repetition, ...]
    """The first of them."""
    ratio: float
    """Words for each word of the references."""
    brevity: float
    """BLEU's brevity penalty of the whole: 1 is none."""
    ratios: tuple[int, ...]
    """Lines by their own ratio, as `RATIOS` says; an empty reference has none."""


class Bin:
    """Some lines of one system, with all that BLEU must know of them."""

    def __init__(self) -> None:
        self.lines = 0
        self._chrf = 0.0
        self._counts = [0] * 10  # BLEU's: words, the reference's, four times matched, four in all

    def add(self, score: BLEUScore, chrf: float) -> None:
        self.lines += 1
        self._chrf += chrf
        for place, count in enumerate((score.sys_len, score.ref_len, *score.counts, *score.totals)):
            self._counts[place] += count

    def bleu(self) -> BLEUScore:
        """BLEU of these lines, as sacreBLEU would say it of them."""
        ours, theirs, *counts = self._counts
        return BLEU.compute_bleu(counts[:4], counts[4:], ours, theirs, smooth_method="exp")

    @property
    def chrf(self) -> float:
        return self._chrf / self.lines


@dataclass(slots=True)
class Matches:
    """Words of one class of frequency: the references', a system's, and those in both."""

    theirs: int = 0
    ours: int = 0
    both: int = 0

    @property
    def recall(self) -> float | None:
        return self.both / self.theirs if self.theirs else None

    @property
    def f1(self) -> float | None:
        return 2 * self.both / (self.theirs + self.ours) if self.theirs else None


class Tally:
    """What is counted of one system while its lines pass."""

    def __init__(self, bleu: BLEU, chrf: CHRF, known: Mapping[str, int]) -> None:
        self._bleu, self._chrf, self._known = bleu, chrf, known
        self.chrf: list[float] = []
        self.all = Bin()
        self.lengths: dict[int, Bin] = {}
        self.classes = [Matches() for _ in range(len(FREQUENCIES) + 1)]
        self._copied: Counter[str] = Counter()
        self._repetitions: list[Repetition] = []
        self._words = self._wanted = self._empty = self._copied_lines = self._repeated = 0
        self._ratios = [0] * len(RATIOS)

    def add(self, line: str, reference: str, *, source: str | None) -> None:
        """Count one line."""
        ours, theirs = words(line), words(reference)
        given = theirs if source is None else words(source)
        self._score(line, reference, length=len(given))
        self._measure(len(ours), len(theirs))
        if piece := repetition(ours, theirs):
            self._repeated += 1
            if len(self._repetitions) < _EXAMPLES:
                self._repetitions.append(
                    Repetition(line=len(self.chrf), piece=" ".join(piece), hypothesis=line)
                )
        counts, wanted = Counter(ours), Counter(theirs)
        self._match(counts, wanted)
        if source is not None:
            self._copied_lines += bool(ours) and ours == given != theirs
            there = Counter(word for word in given if word[0].isalnum())
            self._copied += (counts - wanted) & (there - wanted)

    def faults(self, *, copies: bool) -> Faults:
        """What was found; of copies nothing where there was no source."""
        return Faults(
            words=self._words,
            empty=self._empty,
            copied_lines=self._copied_lines if copies else None,
            copied_words=self._copied.total() if copies else None,
            most_copied=tuple(
                Copied(word=word, times=times)
                for word, times in self._copied.most_common(_EXAMPLES)
            ),
            repeated=self._repeated,
            repetitions=tuple(self._repetitions),
            ratio=self._words / self._wanted if self._wanted else 1.0,
            brevity=self.all.bleu().bp,
            ratios=tuple(self._ratios),
        )

    def _score(self, line: str, reference: str, *, length: int) -> None:
        same = line == reference  # an empty one too, which chrF takes for a failure
        chrf = 100.0 if same else float(self._chrf.sentence_score(line, [reference]).score)
        bleu = self._bleu.corpus_score([line], [[reference]])
        self.chrf.append(chrf)
        for some in (self.all, self.lengths.setdefault(bisect_left(LENGTHS, length), Bin())):
            some.add(bleu, chrf)

    def _measure(self, ours: int, theirs: int) -> None:
        self._words += ours
        self._wanted += theirs
        self._empty += bool(theirs and not ours)
        if theirs:
            ratio = ours / theirs
            self._ratios[bisect_right(_SHORT, ratio) + bisect_left(_LONG, ratio)] += 1

    def _match(self, counts: Mapping[str, int], wanted: Mapping[str, int]) -> None:
        for word, count in wanted.items():
            some = self.classes[self._class_of(word)]
            some.theirs += count
            some.both += min(count, counts.get(word, 0))
        for word, count in counts.items():
            self.classes[self._class_of(word)].ours += count

    def _class_of(self, word: str) -> int:
        return bisect_left(FREQUENCIES, self._known.get(word, 0))
