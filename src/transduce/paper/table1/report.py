"""Table 1 as Markdown: what was measured beside what the paper says."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from transduce.paper.plot import Draw, Ink, line_style, log_axis, save_plot
from transduce.paper.report import json_text, markdown_table, write_files
from transduce.paper.table1.complexity import (
    STACKS,
    Along,
    Growth,
    LayerCost,
    Sizes,
    Stack,
    Table1,
    Tell,
    measure,
)
from transduce.paper.table1.layers import KINDS, LEARNERS, PARTS, Kind, Part, Recall, Recalled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COMPLEXITY: dict[Kind, tuple[str, int, int]] = {
    "self-attention": ("O(n²·d)", 2, 1),
    "restricted": ("O(r·n·d)", 1, 1),
    "GRU": ("O(n·d²)", 1, 2),
    "LSTM": ("O(n·d²)", 1, 2),
    "convolution": ("O(k·n·d²)", 1, 2),
}
"""The paper's column, and its exponents of n and of d."""

PATHS: dict[Stack, str] = {
    "self-attention": "O(1)",
    "restricted": "O(n/r)",
    "GRU": "O(n)",
    "LSTM": "O(n)",
    "convolution": "O(n/k)",
    "dilated": "O(log_k(n))",
}
"""The paper's column; of contiguous convolutions its text."""

NEAR = 0.15
"""How far a fitted exponent of time may be from the paper's."""


def markdown(result: Table1) -> str:
    """Format the report."""
    parts = [
        _head(result),
        _mixing(result),
        _layers_section(result),
        _crossings(result),
        _counted(result),
    ]
    if result.recall:
        parts.append(_learned(result.learned, result.recall))
    return "\n\n".join(parts) + "\n"


def reached(kind: Kind, recall: Recall) -> int | None:
    """Receptive field of a network of the recall experiment; None if unlimited."""
    if kind == "restricted":
        return recall.layers * recall.radius
    return recall.kernel**recall.layers - 1 if kind == "convolution" else None


def _head(result: Table1) -> str:
    sizes = result.sizes
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    return (
        "# Table 1, measured\n\n"
        f"{result.machine}; 1 thread, float32, a batch of {sizes.batch}, reading "
        f"without gradients; {versions}. k = {sizes.reach.kernel}, r = {sizes.reach.radius}; heads "
        "are 64 wide. A time is the processor's for that thread, the least of several rounds in "
        "which all layers take turns. "
        f"Exponents of n are fitted over n = {_join(sizes.lengths)} at d = {sizes.width}, those of "
        f"d over d = {_join(sizes.widths)} at n = {sizes.length}."
    )


def _mixing(result: Table1) -> str:
    rows: list[Sequence[str]] = []
    for kind, (order, n, d) in COMPLEXITY.items():
        along_n, along_d = _growths(result, kind, "mixing")
        fitted = (_fitted(along_n.seconds, n), _fitted(along_d.seconds, d))
        rows.append((kind, order, _counted_growth(along_n, along_d), *fitted))
    head = ("layer", "the paper's", "operations", "time: exponent of n", "time: exponent of d")
    return (
        "## The mixing: transfer between positions\n\n"
        + markdown_table(head, rows)
        + f"\n\n(!) differs by more than {NEAR} from the paper's."
    )


def _layers_section(result: Table1) -> str:
    rows: list[Sequence[str]] = []
    for kind in KINDS:
        n, d = _growths(result, kind, "whole")
        rows.append((kind, _counted_growth(n, d), f"{n.seconds:.2f}", f"{d.seconds:.2f}"))
    head = ("layer", "operations", "time: exponent of n", "time: exponent of d")
    return (
        "## Whole layers, projections included\n\n"
        "Self-attention is O(n·d² + n²·d), restricted O(n·d² + r·n·d), the others as above.\n\n"
        + markdown_table(head, rows)
    )


def _crossings(result: Table1) -> str:
    rows: list[Sequence[str]] = []
    for crossing in result.crossings:
        by_count, by_time = (
            f"more than {crossing.lengths[-1]}"
            if n is None
            else f"{n:.0f} ({n / crossing.d:.1f} d)"
            for n in (crossing.operations, crossing.seconds)
        )
        rows.append((crossing.kind, crossing.part, str(crossing.d), by_count, by_time))
    head = ("against", "what", "d", "n* by operations", "n* by time")
    return (
        "## The crossing: self-attention costs more above n*\n\n"
        "The paper: self-attention is faster when n < d.\n\n" + markdown_table(head, rows)
    )


def _counted(result: Table1) -> str:
    lengths = result.sizes.path_lengths
    chains = {chain.kind: chain.values for chain in result.sequential}
    chains["dilated"] = chains["convolution"]
    rows: list[Sequence[str]] = []
    for path in result.paths:
        order = "O(n)" if path.kind in ("GRU", "LSTM") else "O(1)"
        row = (path.kind, order, _join(chains[path.kind]), PATHS[path.kind], _join(path.values))
        rows.append(row)
    head = (
        *("layer", "sequential operations: the paper's", f"counted at n = {_join(lengths)}"),
        *("longest path: the paper's", f"followed at n = {_join(lengths)}"),
    )
    return (
        "## Sequential operations and path lengths\n\n"
        "Matrix products of a layer that each need the one before; hops after which the gradient "
        "of the last output with respect to the first input is not zero.\n\n"
        + markdown_table(head, rows)
    )


def _learned(learned: Sequence[Recalled], recall: Recall) -> str:
    rows: list[Sequence[str]] = []
    for kind in LEARNERS:
        far = reached(kind, recall)
        cells = [_spread(_percents(learned, kind, distance)) for distance in recall.distances]
        size = next(f"{network.parameters:,}" for network in learned if network.kind == kind)
        sight = "all" if far is None else str(far)
        rows.append((kind, size.replace(",", " "), sight, *cells))
    head = ("layer", "parameters", "sees as far as", *map(str, recall.distances))
    return (
        "## Long-range dependencies: recall of the first symbol\n\n"
        f"Right answers in % against the distance, mean (least to most) of {recall.seeds} seeds; "
        f"chance is {1 / recall.symbols:.1%}. {recall.layers} layers, {recall.updates} updates of "
        f"{recall.batch} sequences, Adam with rate {recall.rate}; k = {recall.kernel}, "
        f"dilated, r = {recall.radius}.\n\n" + markdown_table(head, rows)
    )


def _percents(learned: Iterable[Recalled], kind: Kind, distance: int) -> list[float]:
    """Accuracies in percent, one per seed."""
    return [
        100 * network.accuracy
        for network in learned
        if (network.kind, network.distance) == (kind, distance)
    ]


def _spread(percents: Sequence[float]) -> str:
    """Format a mean with its range."""
    if len(percents) == 1:
        return f"{percents[0]:.0f}"
    return f"{fmean(percents):.0f} ({min(percents):.0f}–{max(percents):.0f})"


def _growths(result: Table1, kind: Kind, part: Part) -> list[Growth]:
    """How a layer's costs grow with n, then with d: the order in which they were fitted."""
    return [fit for fit in result.growths if (fit.kind, fit.part) == (kind, part)]


def _counted_growth(n: Growth, d: Growth) -> str:
    return f"n^{n.operations:.2f} d^{d.operations:.2f}"


def _fitted(exponent: float, paper: int) -> str:
    return f"{exponent:.2f}" + (" (!)" if abs(exponent - paper) > NEAR else "")


def _join(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _draw_costs(
    figure: "Figure", ink: Ink, *, costs: Sequence[LayerCost], along: Along, fixed: str
) -> None:
    name = "length" if along == "n" else "width"
    panels = figure.subplots(1, 2, sharey=True)
    for axes, part in zip(panels, PARTS, strict=True):
        for kind in KINDS:
            some = [cost for cost in costs if (cost.kind, cost.part) == (kind, part)]
            scale = [cost.n if along == "n" else cost.d for cost in some]
            _line(axes, kind, scale, [1000 * cost.seconds for cost in some], ink)
        _logarithmic(axes, sorted({cost.n if along == "n" else cost.d for cost in costs}))
        what = "the whole layer" if part == "whole" else "the mixing"
        axes.set(title=f"{what}, {fixed}", xlabel=f"{name} {along}")
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
        means = [fmean(_percents(learned, kind, n)) for n in recall.distances]
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
    """Run the measurements, and write the report, its data and the plots.

    Args:
        out: output folder; earlier files are replaced.
        sizes: of the measurements.
        recall: settings of the recall experiment; None skips it.
        tell: called with lines of progress.

    Returns:
        the report.

    Raises:
        ValueError: if matplotlib is not installed.
        OSError: if a file cannot be written.
    """
    if find_spec("matplotlib") is None:  # before ten minutes of work, as is the folder
        raise ValueError("plots need matplotlib: pip install 'transduce[plot]'")
    out.mkdir(parents=True, exist_ok=True)
    result = measure(sizes, recall, tell=tell)
    page = markdown(result)
    record = asdict(result)
    for name in ("sequential", "paths"):  # the record keeps its keys
        record[name] = [
            {"kind": row["kind"], "at": row["lengths"], "found": row["values"]}
            for row in record[name]
        ]
    write_files(out, {"table1.json": json_text(record, indent=1), "table1.md": page})
    plots: dict[str, Draw] = {
        "length": partial(
            _draw_costs, costs=result.by_length, along="n", fixed=f"d = {sizes.width}"
        ),
        "width": partial(
            _draw_costs, costs=result.by_width, along="d", fixed=f"n = {sizes.length}"
        ),
        "paths": partial(_draw_paths, result=result),
    }
    if recall:
        plots["recall"] = partial(_draw_recall, learned=result.learned, recall=recall)
    for name, draw in plots.items():
        save_plot(out, f"table1-{name}", draw)
    return page
