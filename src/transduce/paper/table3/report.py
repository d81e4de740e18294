"""Table3Report of Table 3: measured and published scores, and their rank correlation.

Corpus, size and tokenization differ from the paper's, so only ranks and the sign of the difference
from the base row are compared.
"""

import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from transduce.evaluation.significance import System, compare_systems
from transduce.io.atomic_folder import atomic_file
from transduce.io.machine import VERSION, commit
from transduce.paper.plot import MARKERS, Draw, Ink, save_plot
from transduce.paper.table3.rows import RankCorrelation, compare
from transduce.paper.table3.run import Outcome, ScoredRow, Settings, perplexity_of
from transduce.recipes import table3

Side = Literal["better", "worse", "unclear", "equal", "base"]

GROUPS: Final = ("all", "A", "B", "C", "D", "E")
"""Each with the base row, which stands in every series of the table."""

_SAMPLES: Final = 1000
_T: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Student's t at 95 %, for 2 seeds, 3 seeds and so on."""


class Estimate(NamedTuple):
    """A value with its margin of error."""

    value: float
    margin: float
    """Half the width of the 95 % interval: over seeds where there are several, else over lines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A row on one set."""

    perplexity: Estimate
    bleu: Estimate
    perplexity_side: Side
    """Of the base row's perplexity; "unclear" if the difference is not significant."""
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
    """Rank agreement of a group between the validation set and the paper."""

    group: str
    rows: tuple[str, ...]
    perplexity: RankCorrelation
    bleu: RankCorrelation
    perplexity_against: tuple[str, ...]
    """Pairs ordered differently from the paper, beyond their margins: "C3 above base"."""
    bleu_against: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table3Report:
    """Table 3, measured in small."""

    settings: Settings
    signature: str
    """sacreBLEU's."""
    lines: tuple[Line, ...]
    agreements: tuple[Agreement, ...]


def report(
    outcomes: Sequence[Outcome], *, references: Mapping[str, Sequence[str]], settings: Settings
) -> Table3Report:
    """Summarize the outcomes.

    Args:
        outcomes: of all rows and seeds; every row with the same seeds.
        references: of "validation" and "test".
        settings: what all rows shared.
    """
    rows: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.row, []).append(outcome)
    validation = _measured(
        {name: [outcome.validation for outcome in some] for name, some in rows.items()},
        references["validation"],
    )
    tests = {
        name: [outcome.test for outcome in some if outcome.test] for name, some in rows.items()
    }
    test = _measured(tests, references["test"]) if all(tests.values()) else {}
    lines = tuple(
        _line(table3.find(name), some, validation=validation[name], test=test.get(name))
        for name, some in rows.items()
    )
    return Table3Report(
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
        seconds=statistics.mean(outcome.seconds for outcome in some),
        published_perplexity=row.perplexity,
        published_bleu=row.bleu,
        published_millions=row.millions,
        validation=validation,
        test=test,
    )


def _measured(
    rows: Mapping[str, Sequence[ScoredRow]], references: Sequence[str]
) -> dict[str, Measured]:
    """Scores of every row on one set, compared with the base row if present."""
    several = all(len(some) > 1 for some in rows.values())
    perplexities = _over_seeds(rows, perplexity_of) if several else _over_lines(rows)
    bleus = (
        _over_seeds(rows, lambda score: score.bleu, more_is_better=True)
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


_Estimates = dict[str, tuple[Estimate, Side]]


def _over_seeds(
    rows: Mapping[str, Sequence[ScoredRow]],
    measure: Callable[[ScoredRow], float],
    *,
    more_is_better: bool = False,
) -> _Estimates:
    """Means over seeds; a row differs from the base row if it does so seed by seed."""
    values = {name: [measure(score) for score in some] for name, some in rows.items()}
    results: _Estimates = {}
    for name, some in values.items():
        side: Side = "base" if name == "base" else "unclear"
        base = values.get("base", [])
        if side != "base" and len(base) == len(some):
            difference = _mean([value - other for value, other in zip(some, base, strict=True)])
            side = _side(difference, more_is_better=more_is_better)
        results[name] = (_mean(some), side)
    return results


def _over_lines(rows: Mapping[str, Sequence[ScoredRow]]) -> _Estimates:
    """Perplexities with bootstrap margins over lines."""
    first = {name: some[0] for name, some in rows.items()}
    lines = len(next(iter(first.values())).nats)
    drawn = np.random.default_rng(12345).integers(lines, size=(_SAMPLES, lines))
    tried = {
        name: np.exp(
            np.array(score.nats)[drawn].sum(axis=1) / np.array(score.pieces)[drawn].sum(axis=1)
        )
        for name, score in first.items()
    }
    results: _Estimates = {}
    for name, samples in tried.items():
        side: Side = "base" if name == "base" else "unclear"
        if side != "base" and "base" in tried:
            difference = samples - tried["base"]
            value = perplexity_of(first[name]) - perplexity_of(first["base"])
            estimate = Estimate(value, 1.96 * float(difference.std()))
            side = _side(estimate, more_is_better=False)
        results[name] = (Estimate(perplexity_of(first[name]), 1.96 * float(samples.std())), side)
    return results


def _bleu_over_lines(
    rows: Mapping[str, Sequence[ScoredRow]], references: Sequence[str]
) -> _Estimates:
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
    results: _Estimates = {}
    for standing in compared.metrics[0].systems[: len(systems)]:
        side: Side = "unclear"
        if standing.system == "base":
            side = "base"
        elif names[0] == "base" and standing.verdict != "baseline":
            side = standing.verdict
        results[standing.system] = (Estimate(standing.value, standing.margin), side)
    return results


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
    results: list[Agreement] = []
    for group in GROUPS:
        some = [
            line for line in lines if group == "all" or line.row == "base" or line.row[0] == group
        ]
        if len(some) < 2 or all(line.row == "base" for line in some):
            continue
        published = [line.published_perplexity for line in some]
        results.append(
            Agreement(
                group=group,
                rows=tuple(line.row for line in some),
                perplexity=compare([line.validation.perplexity.value for line in some], published),
                bleu=compare(
                    [line.validation.bleu.value for line in some],
                    [line.published_bleu for line in some],
                ),
                perplexity_against=tuple(_against(some, "perplexity")),
                bleu_against=tuple(_against(some, "bleu")),
            )
        )
    return results


def _against(lines: Sequence[Line], metric: Literal["perplexity", "bleu"]) -> list[str]:
    """Pairs ordered differently from the paper, beyond their margins."""
    results: list[str] = []
    for first in lines:
        for second in lines:
            if metric == "bleu":
                a, b = first.validation.bleu, second.validation.bleu
                published = first.published_bleu - second.published_bleu
            else:
                a, b = first.validation.perplexity, second.validation.perplexity
                published = first.published_perplexity - second.published_perplexity
            apart = a.value - b.value > a.margin + b.margin
            if apart and published < 0:
                results.append(f"{first.row} above {second.row}")
    return results


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS: dict[Side, str] = {"better": " ▲", "worse": " ▼", "unclear": "", "equal": "", "base": ""}
_GROUPS = ("base", "A", "B", "C", "D", "E", "big")
_LEGEND = ("base", "A: heads", "B: d_k", "C: size", "D: dropout, smoothing", "E: positions", "big")


def markdown(report: Table3Report) -> str:
    """Write the report as Markdown: the rows, the ranks, and what they disagree on."""
    shared = report.settings
    seeds = report.lines[0].seeds
    over = f"over {seeds} seeds" if seeds > 1 else "over the lines of the set, of one seed"
    return "\n".join(
        [
            "# Table 3, scaled down",
            "",
            f"Widths divided by {shared.width_divisor}, depths by {shared.depth_divisor}; "
            f"{shared.vocab_size:,} pieces, {shared.updates:,} updates of {shared.tokens:,} target "
            f"tokens, warmup {shared.warmup:,}. No checkpoint is averaged; beam 4, α 0.6. "
            f"± is a 95 % interval {over}. ▲ better and ▼ worse than the base row by more than "
            "chance. Published figures are of newstest2013 and of the paper's sizes: only the "
            "order can be compared.",
            "",
            *_table(report),
            "",
            f"BLEU: `{report.signature}`. Perplexity: per piece, without label smoothing.",
            "",
            "## Rank agreement",
            "",
            "Pairs of rows in the paper's order, in the other one, and tied in one of the two; "
            "rank correlations with the published figures (validation set). Every group is taken "
            "with the base row.",
            "",
            *_ranks(report.agreements),
            "",
            *_disagreements(report.agreements),
            "",
        ]
    )


def _table(report: Table3Report) -> list[str]:
    lines = [
        "| row | differs | PPL published | PPL measured | BLEU published | BLEU measured "
        "| test PPL | test BLEU | 10⁶ parameters published | parameters | minutes |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for line in report.lines:
        validation, test = line.validation, line.test
        cells = [
            line.row,
            line.differs,
            f"{line.published_perplexity:.2f}",
            f"{_interval(validation.perplexity)}{_MARKS[validation.perplexity_side]}",
            f"{line.published_bleu:.1f}",
            f"{_interval(validation.bleu)}{_MARKS[validation.bleu_side]}",
            _interval(test.perplexity) if test else "",
            _interval(test.bleu) if test else "",
            str(line.published_millions or ""),
            f"{line.parameters:,}",
            f"{line.seconds / 60:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _ranks(agreements: Sequence[Agreement]) -> list[str]:
    lines = [
        "| group | rows | PPL: same, other, tied | Spearman | Kendall τ "
        "| BLEU: same, other, tied | Spearman | Kendall τ |",
        "|---|--:|---|--:|--:|---|--:|--:|",
    ]
    for agreement in agreements:
        cells = [agreement.group, str(len(agreement.rows))]
        for order in (agreement.perplexity, agreement.bleu):
            cells.append(f"{order.agree}, {order.disagree}, {order.tied}")
            cells += [
                "–" if value is None else f"{value:+.2f}"
                for value in (order.spearman, order.kendall)
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _disagreements(agreements: Sequence[Agreement]) -> list[str]:
    """List pairs ordered differently from the paper, per group."""
    lines: list[str] = []
    for agreement in agreements:
        if agreement.group == "all":
            continue
        for name, against in (
            ("PPL", agreement.perplexity_against),
            ("BLEU", agreement.bleu_against),
        ):
            what = ", ".join(against) or "nothing"
            lines.append(
                f"- {agreement.group}, {name}: against the paper beyond the margins: {what}."
            )
    return lines


def _interval(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ± {estimate.margin:.2f}"


def write(report: Table3Report, out: Path) -> None:
    """Write table3.json, table3.md and the plot into a folder.

    Raises:
        ValueError: if matplotlib is not installed.
    """
    facts = {
        "versions": {"transduce": VERSION, "torch": version("torch")},
        "commit": commit(),
        **asdict(report),
    }
    for name, text in (
        ("table3.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n"),
        ("table3.md", markdown(report)),
    ):
        with atomic_file(out / name) as stream:
            stream.write(text.encode())
    save_plot(out, "table3", plot(report), height=5.6)


def plot(report: Table3Report) -> Draw:
    """Plot the measured scores, with rows in the published order."""

    def draw(figure: "Figure", ink: Ink) -> None:
        left, right = figure.subplots(1, 2)
        for axes, name, best_first in ((left, "perplexity", 1), (right, "BLEU", -1)):
            places = [_place(line, name) for line in report.lines]
            order = sorted(range(len(places)), key=lambda i: best_first * places[i].published)
            _panel(axes, [places[i] for i in order], ink)
            axes.set_xlabel(f"measured {name} (validation)")
            axes.set_ylabel(f"row, and its published {name}; the best on top")
        handles, names = left.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=3)

    return draw


class _Place(NamedTuple):
    """A row in one panel."""

    row: str
    published: float
    estimate: Estimate
    digits: int


def _place(line: Line, name: str) -> _Place:
    if name == "BLEU":
        return _Place(line.row, line.published_bleu, line.validation.bleu, 1)
    return _Place(line.row, line.published_perplexity, line.validation.perplexity, 2)


def _panel(axes: "Axes", places: Sequence[_Place], ink: Ink) -> None:
    """A row a line, with its margin, a marker and a colour a group."""
    for number, group in enumerate(_GROUPS):
        own = [i for i, place in enumerate(places) if group in (place.row, place.row[0])]
        if own:
            axes.errorbar(
                [places[i].estimate.value for i in own],
                own,
                xerr=[places[i].estimate.margin for i in own],
                linestyle="none",
                marker=(*MARKERS, "X")[number],
                color=ink.text if group == "base" else ink.lines[number - 1],
                label=_LEGEND[number],
                elinewidth=1.2,
                markersize=6,
            )
    base = [place.estimate.value for place in places if place.row == "base"]
    if base:
        axes.axvline(base[0], color=ink.text, linewidth=0.8, linestyle=":")
    axes.set_yticks(
        range(len(places)), [f"{place.row}  {place.published:.{place.digits}f}" for place in places]
    )
    axes.invert_yaxis()
