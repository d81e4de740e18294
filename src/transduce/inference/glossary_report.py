"""What became of a glossary: how often each term applied, and how often its translation kept it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from transduce.data.corpus import tidy
from transduce.data.segmentation import words
from transduce.inference.glossary import Term, readings, terms_in

_SHOWN = 20  # terms that a summary names


class TermCount(NamedTuple):
    """What became of one term in some translations."""

    term: Term

    applied: int = 0
    """Times that its source side was met."""

    honoured: int = 0
    """Times of these that its target side stands in the translation, as whole words."""

    longer: int = 0
    """Times of the others that the target is there but for a longer end: "Hunde" for "Hund"."""

    missed_line: int = 0
    """The first line on which it was not honoured; 0 if there is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Honoured:
    """What became of a glossary in some translations."""

    counts: tuple[TermCount, ...] = ()
    """The terms that applied, in the order they were met."""

    def __add__(self, later: "Honoured") -> "Honoured":
        """Count these lines and later ones as one."""
        return _merged((*self.counts, *later.counts))

    def summary(self) -> str:
        """Say in a line how much was honoured, and in one more for each term what was not."""
        if not self.counts:
            return "glossary: no term occurs in the source"
        applied = sum(one.applied for one in self.counts)
        honoured = sum(one.honoured for one in self.counts)
        missed = [one for one in self.counts if one.honoured < one.applied]
        lines = [f"glossary: {honoured} of {applied} occurrences of terms honoured"]
        for one in missed[:_SHOWN]:
            longer = f", {one.longer} more with a longer end" if one.longer else ""
            lines.append(
                f"  {one.term}: {one.honoured} of {one.applied}{longer}; look at line "
                f"{one.missed_line}"
            )
        if len(missed) > _SHOWN:
            lines.append(f"  and {len(missed) - _SHOWN} more terms")
        return "\n".join(lines)


def honoured(
    pairs: Iterable[tuple[str, str]], terms: tuple[Term, ...], *, first_line: int = 1
) -> Honoured:
    """Count what became of the terms. A target answers for one source, on its own line.

    Args:
        pairs: source and translation, line by line.
        terms: the glossary.
        first_line: the number of the first line.
    """
    counts: list[TermCount] = []
    for line, (source, translation) in enumerate(pairs, first_line):
        applied = terms_in(source, terms)
        if applied:
            counts += _counts(applied, words(tidy(translation)), line=line)
    return _merged(counts)


def _counts(applied: Sequence[Term], said: Sequence[str], *, line: int) -> list[TermCount]:
    runs = {term.target: words(tidy(term.target)) for term in applied}
    exact = {target: _times(run, said, longer=False) for target, run in runs.items()}
    longer = {target: _times(run, said, longer=True) for target, run in runs.items()}
    counts: list[TermCount] = []
    for term, times in Counter(applied).items():
        good = min(times, exact[term.target])
        near = min(times - good, longer[term.target])
        exact[term.target] -= good  # two terms may have one target
        longer[term.target] -= near
        counts.append(TermCount(term, times, good, near, 0 if good == times else line))
    return counts


def _times(run: Sequence[str], said: Sequence[str], *, longer: bool) -> int:
    """How often a run of words stands in a sentence; or, `longer`, with more letters at its end."""
    count = start = 0
    while start + len(run) <= len(said):
        if any(_fits(reading, run, longer) for reading in readings(said, start, len(run))):
            count, start = count + 1, start + len(run)
        else:
            start += 1
    return count


def _fits(reading: Sequence[str], run: Sequence[str], longer: bool) -> bool:
    *before, last = reading
    if before != list(run[:-1]) or not last.startswith(run[-1]):
        return False
    return (last != run[-1]) == longer


def _merged(counts: Iterable[TermCount]) -> Honoured:
    merged: dict[Term, TermCount] = {}
    for new in counts:
        old = merged.get(new.term, TermCount(new.term))
        merged[new.term] = TermCount(
            new.term,
            applied=old.applied + new.applied,
            honoured=old.honoured + new.honoured,
            longer=old.longer + new.longer,
            missed_line=old.missed_line or new.missed_line,
        )
    return Honoured(counts=tuple(merged.values()))
