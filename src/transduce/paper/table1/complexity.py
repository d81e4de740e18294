"""Table 1's columns: operations and time of a layer, operations in sequence, and path lengths.

Operations are the FLOPs of matrix products, two per multiply-add. Times are CPU time of one thread
for a forward pass without gradients: the minimum over rounds in which the layers alternate, so that
interference from other programs does not affect one layer alone. What a second thread gains is wall
time, measured the same way.

The last two columns are read off the graph that torch keeps for gradients. *Sequential operations*
are the longest chain in it of matrix products that each need the one before. A *path* is as long as
the number of hops after which the gradient of the last position's output with respect to the first
position's input is not zero: a hop is a layer, or for a recurrence one step, which all positions
take at once.
"""

import os
import platform
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice, product
from time import perf_counter, thread_time
from timeit import timeit
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.nn import functional as F

from transduce.inference.engines.parallel import single_thread
from transduce.io.machine import processor_name
from transduce.model.local_attention import BLOCK
from transduce.paper.report import versions
from transduce.paper.table1.layers import (
    KINDS,
    PARTS,
    Convolution,
    Kind,
    Part,
    Reach,
    Recall,
    Recalled,
    Recurrent,
    States,
    layer,
    learn_all,
)

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
    mixing, projections = {
        "self-attention": (4 * n * n * d, 8 * n * d * d),
        "restricted": (4 * blocks * (block + 2 * reach.radius) * d, 8 * n * d * d),
        "GRU": (6 * n * d * d, 6 * n * d * d),
        "LSTM": (8 * n * d * d, 8 * n * d * d),
        "convolution": (2 * reach.kernel * n * d * d, 0),
    }[kind]
    return mixing if part == "mixing" else mixing + projections


def measure_seconds(
    jobs: Sequence[Callable[[], object]], *, rounds: int, timer: Callable[[], float] = thread_time
) -> list[float]:
    """Return the least time of each call in seconds, measured in alternation until it is stable.

    Args:
        jobs: the calls.
        rounds: of all calls, at most.
        timer: CPU time of this thread, or for several threads the wall clock.
    """

    def seconds(call: Callable[[], object], times: int) -> float:
        return timeit(call, timer=timer, number=times) / times

    best = [seconds(call, 1) for call in jobs]  # and warm up
    times = [max(1, round(_MIN_SECONDS / max(seconds(call, 1), 1e-9))) for call in jobs]
    still = 0
    for _ in range(rounds):
        elapsed = [seconds(call, n) for call, n in zip(jobs, times, strict=True)]
        pairs = list(zip(elapsed, best, strict=True))
        still = 0 if any(new < (1 - _STABLE) * old for new, old in pairs) else still + 1
        best = [min(pair) for pair in pairs]
        if still == 2:
            break
    return best


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
    gaps, logs = np.log(first) - np.log(second), np.log(lengths)
    lower = np.flatnonzero(gaps <= 0)
    if not len(lower):
        return float(lengths[0])
    last = lower[-1]
    if last == len(gaps) - 1:
        return None
    return round(float(np.exp(np.interp(0.0, gaps[last : last + 2], logs[last : last + 2]))), 6)


Tell = Callable[[str], None]
Along = Literal["n", "d"]

RECURRENT: tuple[Kind, ...] = ("GRU", "LSTM")
"""Layer types whose costs cross those of self-attention."""


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
    threaded: tuple[tuple[int, int], ...] = ((256, 512), (1024, 512), (256, 1024))
    """Lengths and widths of the layers that are timed with one thread and with two."""
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
    threaded=((96, 64),),
)
QUICK_RECALL = Recall(distances=(4, 8), seeds=1, updates=3, batch=4, tested=16)


@dataclass(frozen=True, slots=True)
class LayerCost:
    """Cost of one forward pass of a layer."""

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
    operations: float


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


THREADED: tuple[Kind, ...] = ("self-attention", "LSTM", "convolution")
"""Layer types that are timed with one thread and with two."""


@dataclass(frozen=True, slots=True)
class ThreadedCost:
    """Wall time of one forward pass of a whole layer, in seconds per batch."""

    kind: Kind
    n: int
    d: int
    with_1: float
    with_2: float


Stack = Literal["self-attention", "restricted", "GRU", "LSTM", "convolution", "dilated"]
STACKS: tuple[Stack, ...] = (*KINDS, "dilated")
"""Convolutions come twice: contiguous, and dilated by k more from layer to layer."""

WIDTH = 6
"""Of the layers here: neither a chain nor a path depends on it."""

PRODUCTS = {
    "AddmmBackward0": 1,
    "MmBackward0": 1,
    "BmmBackward0": 1,
    "ConvolutionBackward0": 1,
    "ScaledDotProductFlashAttentionForCpuBackward0": 2,
}
"""How many products, one after the other, a node of the graph stands for."""


@dataclass(frozen=True, slots=True)
class PathLengths:
    """One value per sentence length."""

    kind: Stack
    lengths: tuple[int, ...]
    values: tuple[int, ...]


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
    threaded: tuple[ThreadedCost, ...]
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
        crossings = tuple(
            _crossing(kind, part, d, sizes=sizes, tell=tell)
            for d, kind, part in product(sizes.crossing_widths, RECURRENT, PARTS)
        )
        threaded = _threaded_costs(sizes, tell)
        tell("following gradients")
        lengths, reach = sizes.path_lengths, sizes.reach
        return Table1(
            sizes=sizes,
            recall=recall,
            machine=f"{processor_name() or platform.machine()}, {os.cpu_count()} cores",
            versions=versions("torch", "numpy"),
            by_length=by_length,
            by_width=by_width,
            growths=(*_growths(by_length, "n"), *_growths(by_width, "d")),
            crossings=crossings,
            threaded=threaded,
            sequential=tuple(
                PathLengths(k, lengths, tuple(sequential_operations(k, n, reach) for n in lengths))
                for k in KINDS
            ),
            paths=tuple(
                PathLengths(k, lengths, tuple(path_length(k, n, reach) for n in lengths))
                for k in STACKS
            ),
            learned=tuple(learn_all(recall, tell)) if recall else (),
        )


def _costs(
    lengths: tuple[int, ...], widths: tuple[int, ...], sizes: Sizes, tell: Tell
) -> tuple[LayerCost, ...]:
    """Measure each layer type and part at each size, alternating between types."""
    costs: list[LayerCost] = []
    layers: list[tuple[Kind, Part]] = list(product(KINDS, PARTS))
    for n, d in product(lengths, widths):
        tell(f"n {n}, d {d}")
        jobs = [_forward(kind, n, d, part, sizes) for kind, part in layers]
        times = measure_seconds(jobs, rounds=sizes.rounds)
        for (kind, part), seconds in zip(layers, times, strict=True):
            flops = operations(kind, n, d, reach=sizes.reach, part=part)
            costs.append(LayerCost(kind, part, n, d, seconds, flops))
    return tuple(costs)


def _forward(kind: Kind, n: int, d: int, part: Part, sizes: Sizes) -> Callable[[], Tensor]:
    """Return a callable that runs one forward pass of a new layer on random states."""
    module = layer(kind, d, sizes.reach, part=part).eval()
    x = torch.randn(sizes.batch, n, d)

    def forward() -> Tensor:
        with torch.inference_mode():
            return module(x)

    return forward


def _growths(costs: tuple[LayerCost, ...], along: Along) -> Iterator[Growth]:
    for kind, part in product(KINDS, PARTS):
        selected = [cost for cost in costs if (cost.kind, cost.part) == (kind, part)]
        scale = [cost.n if along == "n" else cost.d for cost in selected]
        yield Growth(
            kind,
            part,
            along,
            seconds=exponent(scale, [cost.seconds for cost in selected]),
            operations=exponent(scale, [cost.operations for cost in selected]),
        )


def _crossing(kind: Kind, part: Part, d: int, *, sizes: Sizes, tell: Tell) -> Crossing:
    tell(f"self-attention against {kind}, d {d}, {part}")
    lengths: list[int] = []
    costs: list[list[float]] = []
    for multiple in sizes.crossing_lengths:
        lengths.append(round(multiple * d))
        jobs = [_forward(other, lengths[-1], d, part, sizes) for other in ("self-attention", kind)]
        costs.append(measure_seconds(jobs, rounds=sizes.rounds))
        if costs[-1][0] > costs[-1][1]:
            break
    attention, recurrence = zip(*costs, strict=True)
    return Crossing(
        kind,
        part,
        d,
        seconds=crossing(lengths, attention, recurrence),
        operations=_equal_operations(kind, part, d, sizes.reach),
        lengths=tuple(lengths),
    )


def _threaded_costs(sizes: Sizes, tell: Tell) -> tuple[ThreadedCost, ...]:
    """Time whole layers with one thread and with two; the number of threads stays at one."""
    costs: list[ThreadedCost] = []
    for n, d in sizes.threaded:
        tell(f"n {n}, d {d}, 1 thread and 2")
        jobs = [_forward(kind, n, d, "whole", sizes) for kind in THREADED]
        times: list[list[float]] = []
        for threads in (2, 1):
            torch.set_num_threads(threads)
            times.append(measure_seconds(jobs, rounds=sizes.rounds, timer=perf_counter))
        rows = zip(THREADED, *reversed(times), strict=True)
        costs += [ThreadedCost(kind, n, d, *seconds) for kind, *seconds in rows]
    return tuple(costs)


def _equal_operations(kind: Kind, part: Part, d: int, reach: Reach) -> float:
    """Where FLOPs are equal: per position, only those of self-attention grow with n."""
    first, second = (operations("self-attention", n, d, reach=reach, part=part) / n for n in (1, 2))
    level = operations(kind, 1, d, reach=reach, part=part)
    return 1 + (level - first) / (second - first)


def sequential_operations(kind: Kind, length: int, reach: Reach) -> int:
    """Count the matrix products of one layer that depend on each other in sequence.

    Args: those of `operations`.
    """
    module = layer(kind, WIDTH, reach, heads=1)
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    y = module.written_out(x) if isinstance(module, Recurrent) else module(x)
    assert y.grad_fn is not None
    return longest_chain(y.grad_fn)


def longest_chain(last: Node) -> int:
    """The largest number of products on a path through the graph that ends in `last`."""
    chains: dict[Node, int] = {}
    pending = [last]
    while pending:  # no recursion: the chains here are longer than Python's stack
        node = pending[-1]
        before = [parent for parent, _ in node.next_functions if parent is not None]
        unknown = [parent for parent in before if parent not in chains]
        if unknown:
            pending += unknown
            continue
        chains[node] = PRODUCTS.get(node.name(), 0) + max(
            (chains[parent] for parent in before), default=0
        )
        pending.pop()
    return chains[last]


def path_length(kind: Stack, length: int, reach: Reach) -> int:
    """Count the hops from the first position to the last. Args: those of `operations`."""
    x = torch.randn(1, length, WIDTH, dtype=torch.float64, requires_grad=True)
    if kind == "GRU" or kind == "LSTM":
        return _first_to_arrive(x, in_parallel(Recurrent(kind, WIDTH).double(), x))
    return _first_to_arrive(x, _stacked(kind, x, reach))


def _stacked(kind: Stack, x: Tensor, reach: Reach) -> Iterator[Tensor]:
    """Yield the states after one layer, two layers, and so on."""
    for number in count():
        if kind == "dilated":
            dilation = reach.kernel**number
            module = Convolution(WIDTH, kernel=reach.kernel, dilation=dilation)
        else:
            module = layer(kind, WIDTH, reach, heads=1)
        x = module.double()(x)
        yield x


def in_parallel(recurrent: Recurrent, x: States) -> Iterator[States]:
    """Update all positions at once from their predecessors' states, repeatedly.

    After n steps, n positions hold the states of the sequential recurrence.
    """
    state = x.new_zeros(2, *x.shape)
    while True:
        before = F.pad(state[:, :, :-1], (0, 0, 1, 0))
        state = recurrent.step(x.flatten(0, 1), before.flatten(1, 2)).view_as(state)
        yield state[0]


def _first_to_arrive(x: Tensor, hops: Iterator[Tensor]) -> int:
    """Double the hops until the signal arrives, then halve the gap."""
    states: list[Tensor] = []

    def arrives(number: int) -> bool:
        states.extend(islice(hops, max(0, number - len(states))))
        last = states[number - 1][:, -1]
        (gradient,) = torch.autograd.grad(last.sum(), x, retain_graph=True)
        return bool(gradient[:, 0].any())

    upper = 1
    while not arrives(upper):
        upper *= 2
    between = range(upper // 2 + 1, upper)
    return upper // 2 + 1 + bisect_left(between, True, key=arrives)
