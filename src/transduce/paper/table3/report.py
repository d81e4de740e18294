"""Report of Table 3: measured and published scores, and how far their rankings agree.

Corpus, size and tokenization differ from the paper's, so only ranks and the sign of the difference
from the base row are compared.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pydantic import TypeAdapter

from transduce.paper.plot import MARKERS, Draw, Ink, save_plot
from transduce.paper.report import json_text, provenance, render_page, write_files
from transduce.paper.table3.run import Outcome, ScoredRow, Settings
from transduce.paper.table3.significance import differing_rows, student_t
from transduce.recipes import table3

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Side = Literal["better", "worse", "unclear", "base"]

LEAST_SEEDS: Final = 3
"""Seeds below which no row is called better or worse than another."""
_METRICS: Final = (("perplexity", "PPL", -1, 0.02), ("bleu", "BLEU", 1, 0.15))
"""Member of a record, name, the sign of an improvement, and the published difference from the base
row below which the paper has the two alike."""
_CLAIMS: Final = (
    (("A",), "A: a single head is worse than the best setting, and so are too many"),
    (("B",), "B: smaller keys hurt the quality"),
    (("C", "big"), "C: bigger models are better"),
    (("D1", "D2"), "D: dropout is very helpful in avoiding overfitting"),
    (("D3", "D4"), "D: label smoothing hurts perplexity, but improves BLEU"),
    (("E",), "E: learned positions have nearly identical results"),
)
"""What the paper says of its rows (sections 5.4 and 6.2), with the beginnings of their names."""
_SMOOTHING: Final = {
    "D3": "without label smoothing perplexity is better and BLEU worse",
    "D4": "with twice as much, perplexity is worse and BLEU about the same",
}
_GROUPS: Final = {
    "base": "base",
    "A": "A: heads",
    "B": "B: d_k",
    "C": "C: size",
    "D": "D: dropout, smoothing",
    "E": "E: positions",
    "big": "big",
}
"""Groups of rows with their labels in the plot."""


class Estimate(NamedTuple):
    """A value with its margin of error."""

    value: float
    margin: float | None
    """Half the width of the 95 % interval over seeds; None with one seed, which has no spread."""
    values: tuple[float, ...]
    """Of each seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Scores of a row on one set."""

    perplexity: Estimate
    bleu: Estimate
    perplexity_side: Side
    """Compared with the base row (`differing_rows`): by the loss."""
    bleu_side: Side


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A row of the report."""

    row: str
    differs: str
    seeds: int
    parameters: int
    seconds: float
    """Training time, averaged over seeds."""
    best_updates: tuple[int, ...]
    """Of each seed: the update whose weights are scored."""
    limited: bool
    """Whether a seed reached the limit of updates before its validation loss stopped falling."""
    published_perplexity: float
    published_bleu: float
    published_millions: int | None
    validation: Measured
    test: Measured | None


class RankCorrelation(NamedTuple):
    """Rank agreement of two sequences."""

    agree: int
    """Pairs in the same order in both."""
    disagree: int
    tied: int
    """Pairs equal in at least one sequence."""
    spearman: float | None
    """None if a sequence is constant."""
    kendall: float | None
    """τ-b, which allows for ties."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """Rank agreement of a group between the validation set and the paper."""

    group: str
    rows: tuple[str, ...]
    perplexity: RankCorrelation
    bleu: RankCorrelation
    perplexity_kendall: Estimate | None
    """Kendall's τ of the seeds one by one; None if it is undefined for one of them."""
    bleu_kendall: Estimate | None
    perplexity_against: tuple[str, ...]
    """Pairs whose order contradicts the paper beyond their margins: "C3 above base"."""
    bleu_against: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table3Report:
    """Table 3, scaled down."""

    settings: Settings
    signature: str
    """sacreBLEU's."""
    lines: tuple[Line, ...]
    agreements: tuple[Agreement, ...]


def report(outcomes: Sequence[Outcome], *, settings: Settings) -> Table3Report:
    """Summarize the outcomes of all rows, every one of them with the same seeds."""
    rows: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.row, []).append(outcome)
    validation = _measured(
        {name: [outcome.validation for outcome in seeds] for name, seeds in rows.items()}
    )
    tests = {
        name: [outcome.test for outcome in seeds if outcome.test] for name, seeds in rows.items()
    }
    test = _measured(tests) if all(tests.values()) else {}
    lines = tuple(
        Line(
            row=row.name,
            differs=row.differs,
            seeds=len(rows[row.name]),
            parameters=rows[row.name][0].parameters,
            seconds=statistics.mean(outcome.seconds for outcome in rows[row.name]),
            best_updates=tuple(outcome.best_update for outcome in rows[row.name]),
            limited=any(outcome.updates >= settings.updates for outcome in rows[row.name]),
            published_perplexity=row.perplexity,
            published_bleu=row.bleu,
            published_millions=row.millions,
            validation=validation[row.name],
            test=test.get(row.name),
        )
        for row in map(table3.find, rows)
    )
    return Table3Report(
        settings=settings,
        signature=outcomes[0].validation.signature,
        lines=lines,
        agreements=_agreements(lines),
    )


def _measured(rows: Mapping[str, Sequence[ScoredRow]]) -> dict[str, Measured]:
    """Scores of every row on one set, compared with the base row if present."""
    perplexities = {name: [score.perplexity for score in seeds] for name, seeds in rows.items()}
    bleus = {name: [score.bleu for score in seeds] for name, seeds in rows.items()}
    # Rows are compared by the loss: its spread hardly depends on its size, a perplexity's does.
    log_probs = {name: [-math.log(value) for value in row] for name, row in perplexities.items()}
    perplexity_sides, bleu_sides = _sides(log_probs), _sides(bleus)
    return {
        name: Measured(
            perplexity=_mean(perplexities[name]),
            bleu=_mean(bleus[name]),
            perplexity_side=perplexity_sides[name],
            bleu_side=bleu_sides[name],
        )
        for name in rows
    }


def _sides(values: Mapping[str, Sequence[float]]) -> dict[str, Side]:
    """The side of the base row that each row is on; higher values are better."""
    sides: dict[str, Side] = {name: "base" if name == "base" else "unclear" for name in values}
    if len(values.get("base", [])) >= LEAST_SEEDS:
        for name, gain in differing_rows(values, than="base").items():
            sides[name] = "better" if gain > 0 else "worse"
    return sides


def _mean(values: Sequence[float]) -> Estimate:
    """The mean over seeds and its 95 % margin, by Student's t; lines of a set tell no margin."""
    if len(values) == 1:
        return Estimate(values[0], None, tuple(values))
    t = student_t(freedom=len(values) - 1)
    margin = t * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(statistics.mean(values), margin, tuple(values))


class _Point(NamedTuple):
    """A row's measured and published score by one metric."""

    row: str
    measured: Estimate
    published: float


def _points(lines: Sequence[Line], metric: str) -> list[_Point]:
    """The scores on the validation set by "perplexity" or "bleu"."""
    return [
        _Point(line.row, getattr(line.validation, metric), getattr(line, f"published_{metric}"))
        for line in lines
    ]


def _agreements(lines: Sequence[Line]) -> tuple[Agreement, ...]:
    """Every group of which a row was measured besides the base row, taken with the base row.

    None with too few seeds: their order is not that of the rows.
    """
    results: list[Agreement] = []
    if any(line.seeds < LEAST_SEEDS for line in lines):
        return ()
    for group in ("all", "A", "B", "C", "D", "E"):
        members = [line for line in lines if group in ("all", line.row[0]) or line.row == "base"]
        if len(members) < 2:
            continue
        perplexities, bleus = _points(members, "perplexity"), _points(members, "bleu")
        agreement = Agreement(
            group=group,
            rows=tuple(line.row for line in members),
            perplexity=_correlation(perplexities),
            bleu=_correlation(bleus),
            perplexity_kendall=_kendall_of_seeds(perplexities),
            bleu_kendall=_kendall_of_seeds(bleus),
            perplexity_against=_contradictions(perplexities),
            bleu_against=_contradictions(bleus),
        )
        results.append(agreement)
    return tuple(results)


def _correlation(points: Sequence[_Point]) -> RankCorrelation:
    return compare([point.measured.value for point in points], [p.published for p in points])


def _kendall_of_seeds(points: Sequence[_Point]) -> Estimate | None:
    published = [point.published for point in points]
    seeds = zip(*(point.measured.values for point in points), strict=True)
    taus = [tau for row in seeds if (tau := compare(row, published).kendall) is not None]
    return _mean(taus) if len(taus) == len(points[0].measured.values) else None


def _contradictions(points: Sequence[_Point]) -> tuple[str, ...]:
    """Pairs whose order contradicts the paper beyond their margins."""
    return tuple(
        f"{a.row} above {b.row}"
        for a, b in itertools.permutations(points, 2)
        if a.measured.value - b.measured.value > (a.measured.margin or 0) + (b.measured.margin or 0)
        and a.published < b.published
    )


def compare(first: Sequence[float], second: Sequence[float]) -> RankCorrelation:
    """Correlate the ranks of two sequences of equal length.

    >>> compare([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 40.0, 30.0])
    RankCorrelation(agree=5, disagree=1, tied=0, spearman=0.8, kendall=0.6666666666666666)
    """
    differences = [
        (a[0] - b[0], a[1] - b[1])
        for a, b in itertools.combinations(zip(first, second, strict=True), 2)
    ]
    agree = sum(a * b > 0 for a, b in differences)
    disagree = sum(a * b < 0 for a, b in differences)
    untied = math.sqrt(math.prod(sum(map(bool, side)) for side in zip(*differences, strict=True)))
    return RankCorrelation(
        agree=agree,
        disagree=disagree,
        tied=len(differences) - agree - disagree,
        spearman=statistics.correlation(ranks(first), ranks(second)) if untied else None,
        kendall=(agree - disagree) / untied if untied else None,
    )


def ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1 for the least; ties share their mean rank.

    >>> ranks([7.0, 5.0, 7.0, 9.0])
    [2.5, 1.0, 2.5, 4.0]
    """
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


def record_of(report: Table3Report) -> dict[str, object]:
    """Return what table3.json holds."""
    return {**provenance(), **asdict(report)}


def page(record: Mapping[str, Any]) -> str:
    """Format the page of a record: rows, the paper's claims, ranks and contradictions."""
    lines = record["lines"]
    names = [line["row"] for line in lines]
    bases = [line for line in lines if line["row"] == "base"]
    return render_page(
        "table3",
        record,
        least_seeds=LEAST_SEEDS,
        left_out=[row.name for row in table3.ROWS if row.name not in names],
        claims=[
            _claim(text, [line for line in lines if line["row"].startswith(starts)], bases[0])
            for starts, text in _CLAIMS
        ]
        if bases
        else [],
        smoothing=_SMOOTHING,
        base=bases[0]["validation"] if bases else None,
    )


def _claim(
    text: str, lines: Sequence[Mapping[str, Any]], base: Mapping[str, Any]
) -> dict[str, Any]:
    """Whether rows are on the paper's side of the base row, by perplexity and by BLEU."""
    kinds = ("holds", "contradicted", "unclear", "untestable")
    claim: dict[str, Any] = {"text": text, **{kind: [] for kind in kinds}}
    for line, (metric, name, sign, alike) in itertools.product(lines, _METRICS):
        gain = sign * (line[f"published_{metric}"] - base[f"published_{metric}"])
        side = line["validation"][f"{metric}_side"]
        if abs(gain) < alike:  # a test for a difference never shows that there is none
            published, kind = "alike", "untestable"
        else:
            published = "better" if gain > 0 else "worse"
            kind = {"unclear": "unclear", published: "holds"}.get(side, "contradicted")
        claim[kind].append(f"{line['row']} {name} {published}")
    return claim


def plots(record: Mapping[str, Any]) -> dict[str, tuple[Draw, float]]:
    """Return what draws the plot of a record, and its height in inches."""
    lines = TypeAdapter(tuple[Line, ...]).validate_python(record["lines"])
    return {"table3": (partial(_draw, lines=lines), 5.6)}


def write(report: Table3Report, out: Path) -> str:
    """Write table3.json, table3.md and the plot into a folder, and return the page.

    Raises:
        ValueError: if matplotlib is not installed.
    """
    record = record_of(report)
    text = page(record)
    write_files(out, {"table3.json": json_text(record), "table3.md": text})
    for name, (draw, height) in plots(record).items():
        save_plot(out, name, draw, height=height)
    return text


def _draw(figure: "Figure", ink: Ink, *, lines: Sequence[Line]) -> None:
    """Plot the measured scores, with rows in the published order; one seed has no margin."""
    panels = figure.subplots(1, 2)
    for axes, (metric, short, sign, _), decimals in zip(panels, _METRICS, (2, 1), strict=True):
        name = "perplexity" if metric == "perplexity" else short
        points = sorted(_points(lines, metric), key=lambda point: -sign * point.published)
        _panel(axes, points, ink)
        labels = [f"{point.row}  {point.published:.{decimals}f}" for point in points]
        axes.set_yticks(range(len(points)), labels)
        axes.invert_yaxis()
        axes.set_xlabel(f"measured {name} (validation)")
        axes.set_ylabel(f"row, and its published {name}; the best on top")
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3)


def _panel(axes: "Axes", points: Sequence[_Point], ink: Ink) -> None:
    """One line per row with its margin; a marker and a colour per group."""
    colours, markers = (ink.text, *ink.lines), (*MARKERS, "X")
    for (group, label), colour, marker in zip(_GROUPS.items(), colours, markers, strict=True):
        members = [i for i, point in enumerate(points) if group in (point.row, point.row[0])]
        if members:
            axes.errorbar(
                [points[i].measured.value for i in members],
                members,
                xerr=[points[i].measured.margin or 0 for i in members],
                linestyle="none",
                marker=marker,
                color=colour,
                label=label,
                elinewidth=1.2,
                markersize=6,
            )
    for point in points:
        if point.row == "base":
            axes.axvline(point.measured.value, color=ink.text, linewidth=0.8, linestyle=":")
