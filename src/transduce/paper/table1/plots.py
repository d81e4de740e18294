"""Table 1 drawn: time against n and against d, paths against n, what was learned at a distance."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from transduce.paper.plot import MARKERS, Ink, save_plot
from transduce.paper.table1.layer_types import KINDS, PARTS, Kind
from transduce.paper.table1.measure import Along, Cost, Table1
from transduce.paper.table1.page import reached
from transduce.paper.table1.paths import STACKS, Stack
from transduce.paper.table1.recall import LEARNERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PLACE: dict[Stack, int] = {kind: place for place, kind in enumerate(STACKS)}


def draw_all(found: Table1, out: Path) -> list[Path]:
    """Write every plot.

    Raises:
        ValueError: if matplotlib is not installed.
    """
    drawn = [
        *_draw_costs(found.by_length, "n", f"d = {found.sizes.width}", out),
        *_draw_costs(found.by_width, "d", f"n = {found.sizes.length}", out),
        *_draw_paths(found, out),
    ]
    return drawn + (_draw_learned(found, out) if found.recall else [])


def _draw_costs(costs: Sequence[Cost], along: Along, fixed: str, out: Path) -> list[Path]:
    def draw(figure: "Figure", ink: Ink) -> None:
        whole = "the whole layer"
        panels = figure.subplots(1, 2, sharey=True)
        for axes, part in zip(panels, PARTS, strict=True):
            for kind in KINDS:
                some = [cost for cost in costs if (cost.kind, cost.part) == (kind, part)]
                at = [cost.n if along == "n" else cost.d for cost in some]
                _line(axes, kind, at, [1000 * cost.seconds for cost in some], ink)
            _logarithmic(axes, sorted({cost.n if along == "n" else cost.d for cost in costs}))
            axes.set_title(f"{whole if part == 'whole' else 'the mixing'}, {fixed}")
            axes.set_xlabel("length n" if along == "n" else "width d")
        panels[0].set_ylabel("milliseconds a batch")
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(KINDS)
        )

    name = "length" if along == "n" else "width"
    return save_plot(out, f"table1-{name}", draw)


def _draw_paths(found: Table1, out: Path) -> list[Path]:
    def draw(figure: "Figure", ink: Ink) -> None:
        axes = figure.subplots()
        for one in found.paths:
            if one.kind != "LSTM":
                label = "GRU, LSTM" if one.kind == "GRU" else None
                _line(axes, one.kind, one.at, one.found, ink, label=label)
        reach = found.sizes.reach
        _logarithmic(axes, found.sizes.path_lengths)
        axes.set_xlabel("length n")
        axes.set_ylabel("hops from the first position to the last")
        axes.legend(title=f"k = {reach.kernel}, r = {reach.radius}")

    return save_plot(out, "table1-paths", draw)


def _draw_learned(found: Table1, out: Path) -> list[Path]:
    recall = found.recall
    assert recall is not None

    def draw(figure: "Figure", ink: Ink) -> None:
        axes = figure.subplots()
        for kind in LEARNERS:
            means = [
                fmean(
                    100 * one.accuracy
                    for one in found.learned
                    if (one.kind, one.distance) == (kind, distance)
                )
                for distance in recall.distances
            ]
            far = reached(kind, recall)
            label = kind if far is None else f"{kind} (sees {far} far)"
            _line(axes, kind, recall.distances, means, ink, label=label)
            # Each thinner than those before: many lines lie at all right, or at chance.
            axes.lines[-1].set(linewidth=5.0 - len(axes.lines), markersize=11 - 2 * len(axes.lines))
        axes.axhline(100 / recall.symbols, color=ink.text, linewidth=1.0, linestyle=":")
        axes.annotate(
            "chance",
            (recall.distances[0], 100 / recall.symbols),
            (0, -11),
            textcoords="offset points",
            fontsize=9,
        )
        axes.set_xscale("log", base=2)
        axes.set_xticks(recall.distances, [str(one) for one in recall.distances])
        axes.set_ylim(0, 104)
        axes.set_xlabel("distance of what is asked for, in positions")
        axes.set_ylabel("right answers, %")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)

    return save_plot(out, "table1-recall", draw)


def _line(
    axes: "Axes",
    kind: Stack | Kind,
    at: Sequence[int],
    values: Sequence[int | float],
    ink: Ink,
    *,
    label: str | None = None,
) -> None:
    """One type has one colour and one marker in all plots."""
    place = _PLACE[kind]
    color, marker = ink.lines[place], MARKERS[place]
    axes.plot(at, values, color=color, marker=marker, label=label or kind)


def _logarithmic(axes: "Axes", at: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(at, [str(one) for one in at])
    axes.minorticks_off()
