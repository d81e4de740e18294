"""Translations taken apart: where a system is good, where it is not, and how it fails.

One score hides whether it is the long sentences, the rare words or a few endless repetitions that
cost it. Here is text in and numbers out; `report` makes a page of them. A word is what `text.words`
says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from typing import Final, Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from transduce.data.words import count_words
from transduce.evaluation.tally import FREQUENCIES, LENGTHS, RATIOS, Faults, Tally

WORST: Final = 20
"""Sentences shown that score lowest."""
CHANGED: Final = 10
"""Sentences shown that gain most, and that lose most, against another system."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Length:
    """The lines of about one length. Tuples have a value for every system, here and below."""

    words: str
    """Such as "6–10"."""
    lines: int
    bleu: tuple[float, ...]
    """Of these lines alone."""
    chrf: tuple[float, ...]
    """The mean of the sentences' chrF2."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Frequency:
    """The words that stand about as often in the training text. Matches are counted by line."""

    times: str
    """Such as "2–4"."""
    words: int
    """Of the references, each as often as it stands there."""
    recall: tuple[float | None, ...]
    """Share of these words that the translations have; None where there are none."""
    f1: tuple[float | None, ...]
    """Its harmonic mean with the share of the translations' such words that the references have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentence:
    """A line of the test set as every system has it."""

    line: int
    """Counted from 1."""
    source: str | None
    reference: str
    hypotheses: tuple[str, ...]
    chrf: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Breakdown:
    """One system's translations taken apart, or two systems' side by side."""

    systems: tuple[str, ...]
    """Their names: the one in question, and the one it is held against if there is one."""
    lines: int
    measured: Literal["source", "reference"]
    """The side whose words make a line's length."""
    lengths: tuple[Length, ...]
    """Those that occur, shortest first."""
    frequencies: tuple[Frequency, ...]
    own_frequencies: bool
    """Whether no training text was known, so that the references stood in for it."""
    ratios: tuple[str, ...]
    """What the counts in `Faults.ratios` are of."""
    faults: tuple[Faults, ...]
    worst: tuple[Sentence, ...]
    """The first system's by sentence chrF2, lowest first."""
    gains: tuple[Sentence, ...]
    """Where the first system is most above the second."""
    losses: tuple[Sentence, ...]


def break_down(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    *,
    bleu: BLEU,
    chrf: CHRF,
    sources: Sequence[str] | None = None,
    training: Mapping[str, int] | None = None,
) -> Breakdown:
    """Take the translations of a system, or of two, apart.

    Args:
        systems: name and lines of the one in question, and of the one it is held against.
        references: what the lines should be.
        bleu: sacreBLEU's metric, set up for the language.
        chrf: sacreBLEU's metric for sentences.
        sources: what was translated; without it lengths are the references' and no copy is found.
        training: how often each word stands in the training text's target side.

    Raises:
        ValueError: for unequal numbers of lines or none.
    """
    assert len(systems) in (1, 2)
    check_lines(systems, references, sources=sources)
    known = count_words(references) if training is None else training
    tallies: list[Tally] = []
    for _, lines in systems:
        tally = Tally(bleu, chrf, known)
        for number, (line, reference) in enumerate(zip(lines, references, strict=True)):
            tally.add(line, reference, source=None if sources is None else sources[number])
        tallies.append(tally)
    show = partial(_sentences, systems, references, sources=sources, tallies=tallies)
    scores = tallies[0].chrf
    flawed = (number for number, score in enumerate(scores) if score < 100)
    gains, losses = _changes(scores, tallies[-1].chrf)
    return Breakdown(
        systems=tuple(name for name, _ in systems),
        lines=len(references),
        measured="reference" if sources is None else "source",
        lengths=_by_length(tallies),
        frequencies=_by_frequency(tallies),
        own_frequencies=training is None,
        ratios=RATIOS,
        faults=tuple(tally.faults(copies=sources is not None) for tally in tallies),
        worst=show(nsmallest(WORST, flawed, key=scores.__getitem__)),
        gains=show(gains),
        losses=show(losses),
    )


def check_lines(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    *,
    sources: Sequence[str] | None = None,
) -> None:
    """Refuse sides that cannot stand beside each other.

    Raises:
        ValueError: for unequal numbers of lines or none; the message has the numbers.
    """
    if not references:
        raise ValueError("there is nothing to report on: no line in the references")
    for name, lines in [*systems, *([] if sources is None else [("the source", sources)])]:
        if len(lines) != len(references):
            raise ValueError(
                f"{name} has {len(lines)} lines but there are {len(references)} references: "
                f"line n must translate line n"
            )


def _by_length(tallies: Sequence[Tally]) -> tuple[Length, ...]:
    found: list[Length] = []
    for place, name in enumerate(_named(0, LENGTHS)):
        if place in tallies[0].lengths:
            bins = [tally.lengths[place] for tally in tallies]
            one = Length(
                words=name,
                lines=bins[0].lines,
                bleu=tuple(float(some.bleu().score) for some in bins),
                chrf=tuple(some.chrf for some in bins),
            )
            found.append(one)
    return tuple(found)


def _by_frequency(tallies: Sequence[Tally]) -> tuple[Frequency, ...]:
    return tuple(
        Frequency(
            times=name,
            words=tallies[0].classes[place].theirs,
            recall=tuple(tally.classes[place].recall for tally in tallies),
            f1=tuple(tally.classes[place].f1 for tally in tallies),
        )
        for place, name in enumerate(_named(0, FREQUENCIES))
    )


def _named(first: int, lasts: Sequence[int]) -> list[str]:
    """Names of the stretches that end with these numbers, and of the open one above."""
    names: list[str] = []
    for last in lasts:
        names.append(f"{first}–{last}" if last > first else str(last))
        first = last + 1
    return [*names, f"{first}+"]


def _changes(ours: Sequence[float], theirs: Sequence[float]) -> tuple[list[int], list[int]]:
    """Lines with the largest gains and losses of sentence chrF."""
    gain = [mine - other for mine, other in zip(ours, theirs, strict=True)]
    up = nsmallest(CHANGED, (n for n, by in enumerate(gain) if by > 0), key=lambda n: -gain[n])
    down = nsmallest(CHANGED, (n for n, by in enumerate(gain) if by < 0), key=gain.__getitem__)
    return up, down


def _sentences(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    numbers: Sequence[int],
    *,
    sources: Sequence[str] | None,
    tallies: Sequence[Tally],
) -> tuple[Sentence, ...]:
    return tuple(
        Sentence(
            line=number + 1,
            source=None if sources is None else sources[number],
            reference=references[number],
            hypotheses=tuple(lines[number] for _, lines in systems),
            chrf=tuple(tally.chrf[number] for tally in tallies),
        )
        for number in numbers
    )
