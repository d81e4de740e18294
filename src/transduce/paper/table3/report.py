"""What the rows of Table 3 came to: measured beside published, and whether the orders agree.

The paper's numbers are of another corpus, another language pair's size and another way of cutting
pieces, so nothing is compared but ranks, and the side of the base row that a row is on.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from transduce.evaluation.significance import System, compare_systems
from transduce.paper.table3.ranks import Order, compare
from transduce.paper.table3.run import Outcome, Scored, Settings, foreseen
from transduce.recipes import table3

Side = Literal["better", "worse", "unclear", "equal", "base"]

GROUPS: Final = ("all", "A", "B", "C", "D", "E")
"""Each with the base row, which stands in every series of the table."""

_SAMPLES: Final = 1000
_T: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t at 95 %, for 2 seeds, 3 seeds and so on."""


class Estimate(NamedTuple):
    """A number, and how far off it may be."""

    value: float
    margin: float
    """Half the width of the 95 % interval: over seeds where there are several, else over lines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A row on one set."""

    perplexity: Estimate
    bleu: Estimate
    perplexity_side: Side
    """Of the base row's perplexity; "unclear" where chance may have made the difference."""
    bleu_side: Side


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A row of the report."""

    row: str
    differs: str
    seeds: int
    parameters: int
    seconds: float
    """Of training, on average over the seeds."""
    published_perplexity: float
    published_bleu: float
    published_millions: int | None
    validation: Measured
    test: Measured | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """How the rows of a group are ordered on the validation set and in the paper."""

    group: str
    rows: tuple[str, ...]
    perplexity: Order
    bleu: Order
    perplexity_against: tuple[str, ...]
    """Pairs in another order than the paper's, beyond their margins: "C3 above base"."""
    bleu_against: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Table 3, measured in small."""

    settings: Settings
    signature: str
    """sacreBLEU's."""
    lines: tuple[Line, ...]
    agreements: tuple[Agreement, ...]


def report(
    outcomes: Sequence[Outcome], *, references: Mapping[str, Sequence[str]], settings: Settings
) -> Report:
    """Sum the outcomes up.

    Args:
        outcomes: of all rows and seeds; every row with the same seeds.
        references: of "validation" and "test".
        settings: what all rows shared.
    """
    rows: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.row, []).append(outcome)
    validation = _measured(
        {name: [one.validation for one in some] for name, some in rows.items()},
        references["validation"],
    )
    tests = {name: [one.test for one in some if one.test] for name, some in rows.items()}
    test = _measured(tests, references["test"]) if all(tests.values()) else {}
    lines = tuple(
        _line(table3.find(name), some, validation=validation[name], test=test.get(name))
        for name, some in rows.items()
    )
    return Report(
        settings=settings,
        signature=outcomes[0].validation.signature,
        lines=lines,
        agreements=tuple(_agreements(lines)),
    )


def _line(
    row: table3.Row, some: Sequence[Outcome], *, validation: Measured, test: Measured | None
) -> Line:
    return Line(
        row=row.name,
        differs=row.differs,
        seeds=len(some),
        parameters=some[0].parameters,
        seconds=statistics.mean(one.seconds for one in some),
        published_perplexity=row.perplexity,
        published_bleu=row.bleu,
        published_millions=row.millions,
        validation=validation,
        test=test,
    )


def _measured(
    rows: Mapping[str, Sequence[Scored]], references: Sequence[str]
) -> dict[str, Measured]:
    """Every row on one set, beside the base row where that is there."""
    several = all(len(some) > 1 for some in rows.values())
    perplexities = _over_seeds(rows, foreseen) if several else _over_lines(rows)
    bleus = (
        _over_seeds(rows, lambda one: one.bleu, more_is_better=True)
        if several
        else _bleu_over_lines(rows, references)
    )
    return {
        name: Measured(
            perplexity=perplexities[name][0],
            bleu=bleus[name][0],
            perplexity_side=perplexities[name][1],
            bleu_side=bleus[name][1],
        )
        for name in rows
    }


_Found = dict[str, tuple[Estimate, Side]]


def _over_seeds(
    rows: Mapping[str, Sequence[Scored]],
    measure: Callable[[Scored], float],
    *,
    more_is_better: bool = False,
) -> _Found:
    """Means over seeds; a row differs from the base row if it does so seed by seed."""
    values = {name: [measure(one) for one in some] for name, some in rows.items()}
    found: _Found = {}
    for name, some in values.items():
        side: Side = "base" if name == "base" else "unclear"
        base = values.get("base", [])
        if side != "base" and len(base) == len(some):
            difference = _mean([ours - theirs for ours, theirs in zip(some, base, strict=True)])
            side = _side(difference, more_is_better=more_is_better)
        found[name] = (_mean(some), side)
    return found


def _over_lines(rows: Mapping[str, Sequence[Scored]]) -> _Found:
    """Perplexities with the margin that other lines of the kind would have made."""
    first = {name: some[0] for name, some in rows.items()}
    lines = len(next(iter(first.values())).nats)
    drawn = np.random.default_rng(12345).integers(lines, size=(_SAMPLES, lines))
    tried = {
        name: np.exp(
            np.array(one.nats)[drawn].sum(axis=1) / np.array(one.pieces)[drawn].sum(axis=1)
        )
        for name, one in first.items()
    }
    found: _Found = {}
    for name, samples in tried.items():
        side: Side = "base" if name == "base" else "unclear"
        if side != "base" and "base" in tried:
            difference = samples - tried["base"]
            value = foreseen(first[name]) - foreseen(first["base"])
            estimate = Estimate(value, 1.96 * float(difference.std()))
            side = _side(estimate, more_is_better=False)
        found[name] = (Estimate(foreseen(first[name]), 1.96 * float(samples.std())), side)
    return found


def _bleu_over_lines(rows: Mapping[str, Sequence[Scored]], references: Sequence[str]) -> _Found:
    """BLEU with sacreBLEU's margin, and its paired bootstrap against the base row."""
    names = sorted(rows, key=lambda name: name != "base")
    systems = [System(name, rows[name][0].hypotheses) for name in names]
    alone = len(systems) == 1
    compared = compare_systems(
        systems * 2 if alone else systems,
        references,
        metrics=["bleu"],
        tokenize=_tokenizer(next(iter(rows.values()))[0].signature),
        samples=_SAMPLES,
    )
    found: _Found = {}
    for standing in compared.metrics[0].systems[: len(systems)]:
        side: Side = "unclear"
        if standing.system == "base":
            side = "base"
        elif names[0] == "base" and standing.verdict != "baseline":
            side = standing.verdict
        found[standing.system] = (Estimate(standing.value, standing.margin), side)
    return found


def _tokenizer(signature: str) -> str:
    """The tokeniser that a signature names."""
    return next(part[4:] for part in signature.split("|") if part.startswith("tok:"))


def _mean(values: Sequence[float]) -> Estimate:
    """The mean of some seeds and its 95 % margin, by Student's t."""
    assert len(values) > 1, "one seed has no spread"
    t = _T[len(values) - 2] if len(values) - 2 < len(_T) else 1.96
    return Estimate(statistics.mean(values), t * statistics.stdev(values) / math.sqrt(len(values)))


def _side(difference: Estimate, *, more_is_better: bool) -> Side:
    if not abs(difference.value) > difference.margin:
        return "unclear"
    return "better" if (difference.value > 0) == more_is_better else "worse"


def _agreements(lines: Sequence[Line]) -> list[Agreement]:
    """Every group of which two rows were measured."""
    found: list[Agreement] = []
    for group in GROUPS:
        some = [
            line for line in lines if group == "all" or line.row == "base" or line.row[0] == group
        ]
        if len(some) < 2 or all(line.row == "base" for line in some):
            continue
        published = [line.published_perplexity for line in some]
        found.append(
            Agreement(
                group=group,
                rows=tuple(line.row for line in some),
                perplexity=compare([one.validation.perplexity.value for one in some], published),
                bleu=compare(
                    [one.validation.bleu.value for one in some],
                    [one.published_bleu for one in some],
                ),
                perplexity_against=tuple(_against(some, "perplexity")),
                bleu_against=tuple(_against(some, "bleu")),
            )
        )
    return found


def _against(lines: Sequence[Line], metric: Literal["perplexity", "bleu"]) -> list[str]:
    """Pairs that stand the other way round than in the paper, their margins apart."""
    found: list[str] = []
    for first in lines:
        for second in lines:
            if metric == "bleu":
                here, there = first.validation.bleu, second.validation.bleu
                published = first.published_bleu - second.published_bleu
            else:
                here, there = first.validation.perplexity, second.validation.perplexity
                published = first.published_perplexity - second.published_perplexity
            apart = here.value - there.value > here.margin + there.margin
            if apart and published < 0:
                found.append(f"{first.row} above {second.row}")
    return found
