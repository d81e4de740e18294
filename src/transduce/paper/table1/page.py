"""Table 1 as Markdown: what was measured beside what the paper says."""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, log
from statistics import fmean

from transduce.paper.table1.layer_types import KINDS, Kind, Reach
from transduce.paper.table1.measure import Along, Growth, Table1
from transduce.paper.table1.paths import Stack
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
