"""Table 1 as Markdown: what was measured beside what the paper says."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from transduce.paper.plot import Draw, Ink, line_style, log_axis, require_matplotlib, save_plot
from transduce.paper.report import json_text, render_page, write_files
from transduce.paper.table1.complexity import (
    RECURRENT,
    STACKS,
    THREADED,
    Along,
    LayerCost,
    Sizes,
    Stack,
    Table1,
    Tell,
    measure,
)
from transduce.paper.table1.layers import KINDS, LEARNERS, PARTS, Kind, Recall, Recalled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEAR = 0.15
"""How far a fitted exponent of time may be from the paper's."""


def page(record: Mapping[str, Any]) -> str:
    """Format the page of a record."""
    recall = TypeAdapter(Recall | None).validate_python(record["recall"])
    return render_page(
        "table1",
        record,
        near=NEAR,
        learners=LEARNERS,
        reached={kind: reached(kind, recall) for kind in LEARNERS} if recall else {},
        against_recurrence=[_convolution_against(record, kind) for kind in RECURRENT],
        gains={kind: _gain(record, kind) for kind in THREADED},
    )


def plots(record: Mapping[str, Any]) -> dict[str, tuple[Draw, float]]:
    """Return what draws each plot of a record, and its height in inches."""
    renamed = {
        name: [{"kind": row["kind"], "lengths": row["at"], "values": row["found"]} for row in rows]
        for name, rows in record.items()
        if name in ("sequential", "paths")
    }
    result = TypeAdapter(Table1).validate_python({**record, **renamed})
    draws: dict[str, Draw] = {
        "length": partial(
            _draw_costs, costs=result.by_length, along="n", fixed=f"d = {result.sizes.width}"
        ),
        "width": partial(
            _draw_costs, costs=result.by_width, along="d", fixed=f"n = {result.sizes.length}"
        ),
        "paths": partial(_draw_paths, result=result),
    }
    if recall := result.recall:
        draws["recall"] = partial(_draw_recall, learned=result.learned, recall=recall)
    return {f"table1-{name}": (draw, 4.2) for name, draw in draws.items()}


def _convolution_against(record: Mapping[str, Any], kind: Kind) -> tuple[Kind, int, int, float]:
    """At how many of all sizes a convolution took less time than a recurrence, and the median."""
    costs = [*record["by_length"], *record["by_width"]]
    times = {
        name: [cost["seconds"] for cost in costs if (cost["kind"], cost["part"]) == (name, "whole")]
        for name in ("convolution", kind)
    }
    ratios = [a / b for a, b in zip(times["convolution"], times[kind], strict=True)]
    return kind, sum(ratio < 1 for ratio in ratios), len(ratios), median(ratios)


def _gain(record: Mapping[str, Any], kind: Kind) -> float:
    """How many times as fast a second thread makes a layer: the geometric mean over its sizes."""
    costs = [cost for cost in record["threaded"] if cost["kind"] == kind]
    return geometric_mean(cost["with_1"] / cost["with_2"] for cost in costs)


def reached(kind: Kind, recall: Recall) -> int | None:
    """Receptive field of a network of the recall experiment; None if unlimited."""
    if kind == "restricted":
        return recall.layers * recall.radius
    return recall.kernel**recall.layers - 1 if kind == "convolution" else None


def _draw_costs(
    figure: "Figure", ink: Ink, *, costs: Sequence[LayerCost], along: Along, fixed: str
) -> None:
    name = "length" if along == "n" else "width"
    panels = figure.subplots(1, 2, sharey=True)
    for axes, part in zip(panels, PARTS, strict=True):
        for kind in KINDS:
            selected = [cost for cost in costs if (cost.kind, cost.part) == (kind, part)]
            scale = [cost.n if along == "n" else cost.d for cost in selected]
            _line(axes, kind, scale, [1000 * cost.seconds for cost in selected], ink)
        _logarithmic(axes, sorted({cost.n if along == "n" else cost.d for cost in costs}))
        measured_part = "the whole layer" if part == "whole" else "the mixing"
        axes.set(title=f"{measured_part}, {fixed}", xlabel=f"{name} {along}")
    panels[0].set_ylabel("milliseconds a batch")
    lines = panels[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center", ncols=len(KINDS))


def _draw_paths(figure: "Figure", ink: Ink, *, result: Table1) -> None:
    axes = figure.subplots()
    for path in result.paths:
        if path.kind != "LSTM":
            label = "GRU, LSTM" if path.kind == "GRU" else None
            _line(axes, path.kind, path.lengths, path.values, ink, label=label)
    reach = result.sizes.reach
    _logarithmic(axes, result.sizes.path_lengths)
    axes.set(xlabel="length n", ylabel="hops from the first position to the last")
    axes.legend(title=f"k = {reach.kernel}, r = {reach.radius}")


def _draw_recall(
    figure: "Figure", ink: Ink, *, learned: Sequence[Recalled], recall: Recall
) -> None:
    axes = figure.subplots()
    for kind in LEARNERS:
        right: defaultdict[int, list[float]] = defaultdict(list)
        for network in learned:
            if network.kind == kind:
                right[network.distance].append(100 * network.accuracy)
        means = [fmean(right[distance]) for distance in recall.distances]
        far = reached(kind, recall)
        label = kind if far is None else f"{kind} (sees {far} far)"
        _line(axes, kind, recall.distances, means, ink, label=label)
        # Each thinner than those before: many lines lie at all right, or at chance.
        axes.lines[-1].set(linewidth=5.0 - len(axes.lines), markersize=11 - 2 * len(axes.lines))
    axes.axhline(100 / recall.symbols, color=ink.text, linewidth=1.0, linestyle=":")
    below, point = (0, -11), (recall.distances[0], 100 / recall.symbols)
    axes.annotate("chance", point, below, textcoords="offset points", fontsize=9)
    log_axis(axes, recall.distances)
    axes.set(xlabel="distance of what is asked for, in positions", ylabel="right answers, %")
    axes.set_ylim(0, 104)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _line(
    axes: "Axes",
    kind: Stack | Kind,
    sizes: Sequence[int],
    values: Sequence[int | float],
    ink: Ink,
    *,
    label: str | None = None,
) -> None:
    """One type has one colour and one marker in all plots."""
    axes.plot(sizes, values, label=label or kind, **line_style(STACKS.index(kind), ink))


def _logarithmic(axes: "Axes", ticks: Sequence[int]) -> None:
    log_axis(axes, ticks)
    axes.set_yscale("log")
    axes.minorticks_off()


def table1(out: Path, sizes: Sizes, recall: Recall | None, *, tell: Tell) -> str:
    """Run the measurements, write their report, data and plots, and return the report.

    Args:
        out: output folder; earlier files are replaced.
        sizes: of the measurements.
        recall: settings of the recall experiment; None skips it.
        tell: called with lines of progress.

    Raises:
        ValueError: if matplotlib is not installed.
        OSError: if a file cannot be written.
    """
    require_matplotlib()
    out.mkdir(parents=True, exist_ok=True)  # before ten minutes of work
    result = measure(sizes, recall, tell=tell)
    record = asdict(result)
    for name in ("sequential", "paths"):  # the record keeps its keys
        record[name] = [
            {"kind": row["kind"], "at": row["lengths"], "found": row["values"]}
            for row in record[name]
        ]
    text = page(record)
    write_files(out, {"table1.json": json_text(record, indent=1), "table1.md": text})
    for name, (draw, height) in plots(record).items():
        save_plot(out, name, draw, height=height)
    return text
