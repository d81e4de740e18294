"""The cost of a layer: operations by formula, measured time and fitted exponents.

Operations are the FLOPs of matrix products, two per multiply-add. Times are CPU time of one thread
for a forward pass without gradients: the minimum over rounds in which the layers alternate, so that
interference from other programs does not affect one layer alone.
"""

import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from transduce.inference.engines.parallel import single_thread
from transduce.io.machine import processor_name
from transduce.model.local_attention import BLOCK
from transduce.paper.table1.layer_types import KINDS, PARTS, Kind, Part, Reach, layer
from transduce.paper.table1.paths import STACKS, PathLengths, path_length, sequential_operations
from transduce.paper.table1.recall import Recall, Recalled, learn_all

_MIN_SECONDS = 0.004
"""Minimum duration of a measurement in seconds; faster calls are repeated."""

_STABLE = 0.02
"""Times are stable when a round improves none by more than this share."""


def operations(kind: Kind, length: int, width: int, *, reach: Reach, part: Part) -> int:
    """Return the FLOPs of one layer's forward pass on one sentence.

    Restricted self-attention is computed in blocks: a query reads a window of three radii, although
    its neighbourhood is two radii and itself.

    Args:
        kind: type of the layer.
        length: n, positions of the sentence.
        width: d.
        reach: r and k.
        part: "mixing" leaves the projections out.
    """
    n, d = length, width
    block = max(reach.radius, BLOCK)
    blocks = -(-n // block) * block
    mixing = {
        "self-attention": 4 * n * n * d,
        "restricted": 4 * blocks * (block + 2 * reach.radius) * d,
        "GRU": 6 * n * d * d,
        "LSTM": 8 * n * d * d,
        "convolution": 2 * reach.kernel * n * d * d,
    }[kind]
    if part == "mixing":
        return mixing
    return (
        mixing
        + {
            "self-attention": 8 * n * d * d,
            "restricted": 8 * n * d * d,
            "GRU": 6 * n * d * d,
            "LSTM": 8 * n * d * d,
            "convolution": 0,
        }[kind]
    )


def make_forward(
    kind: Kind, length: int, width: int, *, reach: Reach, part: Part, batch: int
) -> Callable[[], Tensor]:
    """Return a callable that runs one forward pass of a new layer on random states.

    Args:
        kind: type of the layer.
        length: n, positions of a sentence.
        width: d.
        reach: r and k.
        part: "mixing" leaves the projections out.
        batch: sentences.
    """
    module = layer(kind, width, reach, part=part).eval()
    x = torch.randn(batch, length, width)

    def read() -> Tensor:
        with torch.inference_mode():
            return module(x)

    return read


def measure_seconds(jobs: Sequence[Callable[[], object]], *, rounds: int) -> list[float]:
    """Time calls in alternation until the times are stable, or for `rounds` rounds.

    Returns:
        the minimum CPU time of each, in seconds.
    """
    warm = [_time_per_call(call, times=1) for call in jobs]
    times = [
        max(1, round(_MIN_SECONDS / max(_time_per_call(call, times=1), 1e-9))) for call in jobs
    ]
    best = warm
    still = 0
    for _ in range(rounds):
        elapsed = [_time_per_call(call, times=n) for call, n in zip(jobs, times, strict=True)]
        still = (
            0
            if any(new < (1 - _STABLE) * old for new, old in zip(elapsed, best, strict=True))
            else still + 1
        )
        best = [min(pair) for pair in zip(best, elapsed, strict=True)]
        if still == 2:
            break
    return best


def _time_per_call(call: Callable[[], object], *, times: int) -> float:
    started = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - started) / times


def exponent(sizes: Sequence[int | float], values: Sequence[int | float]) -> float:
    """Fit value = c · size^e by least squares on the logarithms, and return e.

    >>> round(exponent([2, 4, 8], [12, 48, 192]), 3)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def crossing(
    lengths: Sequence[int], first: Sequence[int | float], second: Sequence[int | float]
) -> float | None:
    """The length above which the first cost is higher, interpolated on logarithms.

    Args:
        lengths: in increasing order.
        first: costs at these lengths.
        second: costs to compare with.

    Returns:
        None if the first is lower at every length; the smallest length if it is nowhere lower.

    >>> crossing([10, 100, 1000], [1, 10, 100], [5, 50, 50])
    500.0
    """
    gaps = [math.log(a / b) for a, b in zip(first, second, strict=True)]
    for last in range(len(gaps) - 1, -1, -1):
        if gaps[last] <= 0:
            break
    else:
        return float(lengths[0])
    if last == len(gaps) - 1:
        return None
    share = gaps[last] / (gaps[last] - gaps[last + 1])
    low, high = math.log(lengths[last]), math.log(lengths[last + 1])
    return round(math.exp(low + share * (high - low)), 6)


Tell = Callable[[str], None]
Along = Literal["n", "d"]

SELF_ATTENTION: Kind = "self-attention"
RECURRENT: tuple[Kind, ...] = ("GRU", "LSTM")
"""Layer types compared with self-attention."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Sizes of the measurements."""

    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    width: int = 64
    """Used with `lengths`."""
    widths: tuple[int, ...] = (256, 384, 512, 768, 1024)
    """The weights of a wider recurrence would not fit the caches."""
    length: int = 256
    """Used with `widths`."""
    batch: int = 4
    rounds: int = 7
    """Maximum; fewer where times are stable earlier."""
    reach: Reach = field(default_factory=Reach)
    path_lengths: tuple[int, ...] = (16, 64, 256)
    crossing_widths: tuple[int, ...] = (64, 128, 256, 512)
    crossing_lengths: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    """Multiples of the width, tried in order until recurrence costs less."""
    seed: int = 0


QUICK = Sizes(
    lengths=(96, 192),
    widths=(64, 128),
    length=96,
    batch=1,
    rounds=1,
    reach=Reach(radius=2),
    path_lengths=(8, 16),
    crossing_widths=(64,),
    crossing_lengths=(0.5, 2.0),
)
QUICK_RECALL = Recall(distances=(4, 8), seeds=1, updates=3, batch=4, tested=16)


@dataclass(frozen=True, slots=True)
class LayerCost:
    """LayerCost of one forward pass of a layer."""

    kind: Kind
    part: Part
    n: int
    d: int
    seconds: float
    operations: int
    """Per sentence; `seconds` are per batch."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Fitted growth exponents of a cost."""

    kind: Kind
    part: Part
    along: Along
    seconds: float
    """The exponent of the time."""
    operations: float
    """The exponent of the operations."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """The length above which self-attention costs more than a recurrence of its width."""

    kind: Kind
    part: Part
    d: int
    seconds: float | None
    """None if beyond the measured lengths."""
    operations: float
    lengths: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table1:
    """All results."""

    sizes: Sizes
    recall: Recall | None
    machine: str
    versions: dict[str, str]
    by_length: tuple[LayerCost, ...]
    by_width: tuple[LayerCost, ...]
    growths: tuple[Growth, ...]
    crossings: tuple[Crossing, ...]
    sequential: tuple[PathLengths, ...]
    paths: tuple[PathLengths, ...]
    learned: tuple[Recalled, ...]


def measure(sizes: Sizes, recall: Recall | None, *, tell: Tell) -> Table1:
    """Run all measurements on this machine's CPU.

    Args:
        sizes: of the layers.
        recall: settings of the recall experiment; None skips it.
        tell: called with lines of progress.
    """
    with single_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(sizes.seed)
        by_length = _costs(sizes.lengths, (sizes.width,), sizes, tell)
        by_width = _costs((sizes.length,), sizes.widths, sizes, tell)
        crossings = tuple(_crossings(sizes, tell))
        tell("following gradients")
        lengths, reach = sizes.path_lengths, sizes.reach
        chains = (
            PathLengths(k, lengths, tuple(sequential_operations(k, n, reach) for n in lengths))
            for k in KINDS
        )
        paths = (
            PathLengths(k, lengths, tuple(path_length(k, n, reach) for n in lengths))
            for k in STACKS
        )
        return Table1(
            sizes=sizes,
            recall=recall,
            machine=_machine(),
            versions=_versions(),
            by_length=by_length,
            by_width=by_width,
            growths=(*_growths(by_length, "n"), *_growths(by_width, "d")),
            crossings=crossings,
            sequential=tuple(chains),
            paths=tuple(paths),
            learned=tuple(learn_all(recall, tell)) if recall else (),
        )


def _costs(
    lengths: tuple[int, ...], widths: tuple[int, ...], sizes: Sizes, tell: Tell
) -> tuple[LayerCost, ...]:
    """Measure each layer type and part at each size, alternating between types."""
    costs: list[LayerCost] = []
    layers: list[tuple[Kind, Part]] = [(kind, part) for kind in KINDS for part in PARTS]
    for n in lengths:
        for d in widths:
            tell(f"n {n}, d {d}")
            jobs = [_forward(kind, n, d, part, sizes) for kind, part in layers]
            for (kind, part), taken in zip(
                layers, measure_seconds(jobs, rounds=sizes.rounds), strict=True
            ):
                flops = operations(kind, n, d, reach=sizes.reach, part=part)
                costs.append(LayerCost(kind, part, n, d, taken, flops))
    return tuple(costs)


def _forward(kind: Kind, n: int, d: int, part: Part, sizes: Sizes) -> Callable[[], object]:
    return make_forward(kind, n, d, reach=sizes.reach, part=part, batch=sizes.batch)


def _growths(costs: tuple[LayerCost, ...], along: Along) -> Iterator[Growth]:
    for kind in KINDS:
        for part in PARTS:
            some = [cost for cost in costs if (cost.kind, cost.part) == (kind, part)]
            scale = [cost.n if along == "n" else cost.d for cost in some]
            yield Growth(
                kind,
                part,
                along,
                seconds=exponent(scale, [cost.seconds for cost in some]),
                operations=exponent(scale, [cost.operations for cost in some]),
            )


def _crossings(sizes: Sizes, tell: Tell) -> Iterator[Crossing]:
    for d in sizes.crossing_widths:
        for kind in RECURRENT:
            for part in PARTS:
                tell(f"self-attention against {kind}, d {d}, {part}")
                yield _crossing(kind, part, d, sizes)


def _crossing(kind: Kind, part: Part, d: int, sizes: Sizes) -> Crossing:
    lengths: list[int] = []
    attention_seconds: list[float] = []
    other_seconds: list[float] = []
    for multiple in sizes.crossing_lengths:
        n = round(multiple * d)
        jobs = [_forward(layer_kind, n, d, part, sizes) for layer_kind in (SELF_ATTENTION, kind)]
        attention, other = measure_seconds(jobs, rounds=sizes.rounds)
        lengths.append(n)
        attention_seconds.append(attention)
        other_seconds.append(other)
        if attention > other:
            break
    return Crossing(
        kind,
        part,
        d,
        seconds=crossing(lengths, attention_seconds, other_seconds),
        operations=_equal_operations(kind, part, d, sizes.reach),
        lengths=tuple(lengths),
    )


def _equal_operations(kind: Kind, part: Part, d: int, reach: Reach) -> float:
    """Where FLOPs are equal: per position, only those of self-attention grow with n."""
    first, second = (operations(SELF_ATTENTION, n, d, reach=reach, part=part) / n for n in (1, 2))
    level = operations(kind, 1, d, reach=reach, part=part)
    return 1 + (level - first) / (second - first)


def _machine() -> str:
    return f"{processor_name() or platform.machine()}, {os.cpu_count()} cores"


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("transduce", "torch", "numpy")}
    return {"python": platform.python_version(), **packages}
