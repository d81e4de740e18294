"""Table 1 as Markdown: what was measured beside what the paper says."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from math import ceil, log
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from transduce.io.atomic_folder import atomic_file
from transduce.paper.plot import MARKERS, Ink, save_plot
from transduce.paper.table1.complexity import Along, Cost, Growth, Sizes, Table1, Tell, measure
from transduce.paper.table1.layer_types import KINDS, PARTS, Kind, Reach
from transduce.paper.table1.paths import STACKS, Stack
from transduce.paper.table1.recall import LEARNERS, Recall, Recalled

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


def markdown(found: Table1) -> str:
    """Write the page."""
    parts = [_head(found), _mixing(found), _whole(found), _crossings(found), _counted(found)]
    if found.recall:
        parts.append(_learned(found.learned, found.recall))
    return "\n\n".join(parts) + "\n"


def expected_path(kind: Stack, n: int, reach: Reach) -> int:
    """The hops from the first of n positions to the last, by formula."""
    return {
        "self-attention": 1,
        "restricted": ceil((n - 1) / reach.radius),
        "GRU": n,
        "LSTM": n,
        "convolution": ceil((n - 1) / (reach.kernel - 1)),
        "dilated": ceil(round(log(n, reach.kernel), 9)),
    }[kind]


def reached(kind: Kind, recall: Recall) -> int | None:
    """How far a network of the learning experiment can see at all; None has no end."""
    if kind == "restricted":
        return recall.layers * recall.radius
    return recall.kernel**recall.layers - 1 if kind == "convolution" else None


def _head(found: Table1) -> str:
    sizes = found.sizes
    versions = ", ".join(f"{name} {one}" for name, one in found.versions.items())
    return (
        "# Table 1, measured\n\n"
        f"{found.machine}; 1 thread, float32, a batch of {sizes.batch}, reading "
        f"without gradients; {versions}. k = {sizes.reach.kernel}, r = {sizes.reach.radius}; heads "
        "are 64 wide. A time is the processor's for that thread, the least of several rounds in "
        "which all layers take turns. "
        f"Exponents of n are fitted over n = {_list(sizes.lengths)} at d = {sizes.width}, those of "
        f"d over d = {_list(sizes.widths)} at n = {sizes.length}."
    )


def _mixing(found: Table1) -> str:
    rows: list[Sequence[str]] = []
    for kind in KINDS:
        said, n, d = COMPLEXITY[kind]
        along_n, along_d = (_growth(found, kind, "mixing", along) for along in ("n", "d"))
        rows.append(
            (
                *(kind, said, f"n^{along_n.operations:.2f} d^{along_d.operations:.2f}"),
                *(_fitted(along_n.seconds, n), _fitted(along_d.seconds, d)),
            )
        )
    head = ("layer", "the paper's", "operations", "time: exponent of n", "time: exponent of d")
    return (
        "## The mixing: what carries something from one position to another\n\n"
        + _table(head, rows)
        + f"\n\n(!) is further than {NEAR} from the paper's."
    )


def _whole(found: Table1) -> str:
    growths = {
        kind: [_growth(found, kind, "whole", along) for along in ("n", "d")] for kind in KINDS
    }
    rows = [
        (
            *(kind, f"n^{n.operations:.2f} d^{d.operations:.2f}"),
            *(f"{n.seconds:.2f}", f"{d.seconds:.2f}"),
        )
        for kind, (n, d) in growths.items()
    ]
    head = ("layer", "operations", "time: exponent of n", "time: exponent of d")
    return (
        "## Whole layers, projections included\n\n"
        "Self-attention is O(n·d² + n²·d), restricted O(n·d² + r·n·d), the others as above.\n\n"
        + _table(head, rows)
    )


def _crossings(found: Table1) -> str:
    rows: list[Sequence[str]] = []
    for one in found.crossings:
        tried = f"more than {one.lengths[-1]}"
        by_time = (
            tried if one.seconds is None else f"{one.seconds:.0f} ({one.seconds / one.d:.1f} d)"
        )
        by_count = f"{one.operations:.0f} ({one.operations / one.d:.1f} d)"
        rows.append((one.kind, one.part, str(one.d), by_count, by_time))
    head = ("against", "what", "d", "n* by operations", "n* by time")
    return (
        "## The crossing: self-attention costs more from n* on\n\n"
        "The paper: self-attention is faster when n < d.\n\n" + _table(head, rows)
    )


def _counted(found: Table1) -> str:
    at = found.sizes.path_lengths
    chains = {one.kind: one.found for one in found.sequential}
    chains["dilated"] = chains["convolution"]
    rows: list[Sequence[str]] = []
    for one in found.paths:
        order = "O(n)" if one.kind in ("GRU", "LSTM") else "O(1)"
        row = (one.kind, order, _list(chains[one.kind]), PATHS[one.kind], _list(one.found))
        rows.append(row)
    head = (
        *("layer", "sequential operations: the paper's", f"counted at n = {_list(at)}"),
        *("longest path: the paper's", f"followed at n = {_list(at)}"),
    )
    return (
        "## Sequential operations and path lengths\n\n"
        "Matrix products of a layer that each need the one before; hops after which the gradient "
        "of the last output with respect to the first input is not zero.\n\n" + _table(head, rows)
    )


def _learned(learned: Iterable[Recalled], recall: Recall) -> str:
    rows: list[Sequence[str]] = []
    for kind in LEARNERS:
        some = [one for one in learned if one.kind == kind]
        far = reached(kind, recall)
        cells = (accuracy(some, distance) for distance in recall.distances)
        size = f"{some[0].parameters:,}".replace(",", " ")
        rows.append((kind, size, "all" if far is None else str(far), *cells))
    head = ("layer", "parameters", "sees as far as", *(str(one) for one in recall.distances))
    return (
        "## Long-range dependencies: is what stood at the beginning learned?\n\n"
        f"Right answers in % against the distance, mean (least to most) of {recall.seeds} seeds; "
        f"chance is {1 / recall.symbols:.1%}. {recall.layers} layers, {recall.updates} updates of "
        f"{recall.batch} sequences, Adam with rate {recall.rate}; k = {recall.kernel}, "
        f"dilated, r = {recall.radius}.\n\n" + _table(head, rows)
    )


def accuracy(some: Iterable[Recalled], distance: int) -> str:
    """What the seeds have at one distance."""
    right = [100 * one.accuracy for one in some if one.distance == distance]
    if len(right) == 1:
        return f"{right[0]:.0f}"
    return f"{fmean(right):.0f} ({min(right):.0f}–{max(right):.0f})"


def _growth(found: Table1, kind: Kind, part: str, along: Along) -> Growth:
    wanted = (kind, part, along)
    return next(one for one in found.growths if (one.kind, one.part, one.along) == wanted)


def _fitted(exponent: float, paper: int) -> str:
    return f"{exponent:.2f}" + (" (!)" if abs(exponent - paper) > NEAR else "")


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(str(one) for one in numbers)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def lines() -> Iterator[str]:
        for row in (head, ["---"] * len(head), *rows):
            yield f"| {' | '.join(row)} |"

    return "\n".join(lines())


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


def table1(out: Path, sizes: Sizes, recall: Recall | None, *, tell: Tell) -> str:
    """Measure, draw, and write all of it.

    Args:
        out: gets the files; those of before are replaced.
        sizes: what is measured.
        recall: the learning experiment; None leaves it out.
        tell: told a line now and then.

    Returns:
        the page.

    Raises:
        ValueError: if matplotlib is not installed.
        OSError: if something cannot be written.
    """
    if find_spec("matplotlib") is None:  # to be told before ten minutes of work, not after
        raise ValueError("plots need matplotlib: pip install 'transduce[plot]'")
    out.mkdir(parents=True, exist_ok=True)
    found = measure(sizes, recall, tell=tell)
    page = markdown(found)
    numbers = json.dumps(asdict(found), indent=1)
    for name, text in (("table1.json", f"{numbers}\n"), ("table1.md", page)):
        with atomic_file(out / name) as stream:
            stream.write(text.encode())
    draw_all(found, out)
    return page
