"""What a layer costs: operations counted and given by formula, seconds measured, exponents fitted.

Operations are those of matrix products, two for each multiplication and its sum. Times are of
reading alone, without gradients, on one thread: the processor's time of that thread, which other
programs take nothing of, and the least of several rounds, in which all layers take turns, so that
a moment in which others fill the caches spoils no layer alone.
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
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from transduce.inference.engines.parallel import single_thread
from transduce.io.machine import processor_name
from transduce.model.local_attention import BLOCK
from transduce.paper.table1.layer_types import KINDS, PARTS, Kind, Part, Reach, Recurrent, layer
from transduce.paper.table1.paths import STACKS, Lengths, path_length, sequential
from transduce.paper.table1.recall import Recall, Recalled, learn_all

_LEAST = 0.004
"""Seconds that one measurement should take: what is quicker is done several times."""

_STILL = 0.02
"""A round that betters no time by more than this share finds them stable."""

_KERNEL = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def counted(kind: Kind, length: int, width: int, *, reach: Reach, part: Part) -> int:
    """Count the operations of one layer on one sentence while it runs."""
    made = layer(kind, width, reach, part=part)
    x = torch.zeros(1, length, width)
    gates = made.project(x) if isinstance(made, Recurrent) else x
    with (
        torch.no_grad(),
        FlopCounterMode(display=False, custom_mapping={_KERNEL: _of_kernel}) as seen,
    ):
        if not isinstance(made, Recurrent):
            made(x)
        elif part == "mixing":
            made.steps(gates)
        else:
            made.written_out(x)
    return seen.get_total_flops()


def _of_kernel(
    query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: object, **__: object
) -> int:
    """What torch counts for its attention elsewhere and forgets on a CPU."""
    return sdpa_flop_count(query, key, value)


def operations(kind: Kind, length: int, width: int, *, reach: Reach, part: Part) -> int:
    """The same by formula.

    Restricted self-attention is taken as it is in blocks: a query reads a window of three times the
    radius, where its neighbourhood has twice the radius and itself.
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


def job(
    kind: Kind, length: int, width: int, *, reach: Reach, part: Part, batch: int
) -> Callable[[], Tensor]:
    """A layer that is ready to read: what `seconds` measures."""
    made = layer(kind, width, reach, part=part).eval()
    x = torch.randn(batch, length, width)

    def read() -> Tensor:
        with torch.inference_mode():
            return made(x)

    return read


def seconds(jobs: Sequence[Callable[[], object]], *, rounds: int) -> list[float]:
    """Measure jobs in turns until no time falls any more, or for `rounds` rounds.

    Returns:
        the least seconds of the processor that each took.
    """
    warm = [_timed(job, times=1) for job in jobs]
    times = [max(1, round(_LEAST / max(_timed(job, times=1), 1e-9))) for job in jobs]
    best = warm
    still = 0
    for _ in range(rounds):
        found = [_timed(job, times=many) for job, many in zip(jobs, times, strict=True)]
        still = (
            0
            if any(new < (1 - _STILL) * old for new, old in zip(found, best, strict=True))
            else still + 1
        )
        best = [min(pair) for pair in zip(best, found, strict=True)]
        if still == 2:
            break
    return best


def _timed(job: Callable[[], object], *, times: int) -> float:
    started = time.thread_time()
    for _ in range(times):
        job()
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
    """The length from which on the first costs more; between two that were tried by interpolation.

    Returns:
        None if the first costs less at all of them; the least length if it nowhere does.

    >>> crossing([10, 100, 1000], [1, 10, 100], [5, 50, 50])
    500.0
    """
    gaps = [math.log(one / other) for one, other in zip(first, second, strict=True)]
    for at in range(len(gaps) - 1, -1, -1):
        if gaps[at] <= 0:
            break
    else:
        return float(lengths[0])
    if at == len(gaps) - 1:
        return None
    share = gaps[at] / (gaps[at] - gaps[at + 1])
    low, high = math.log(lengths[at]), math.log(lengths[at + 1])
    return round(math.exp(low + share * (high - low)), 6)


Tell = Callable[[str], None]
Along = Literal["n", "d"]

OURS: Kind = "self-attention"
RECURRENT: tuple[Kind, ...] = ("GRU", "LSTM")
"""What self-attention is held against."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What is measured, and how large."""

    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    width: int = 64
    """At which the lengths are tried."""
    widths: tuple[int, ...] = (256, 384, 512, 768, 1024)
    """No wider: what a recurrence reads at every step would outgrow the caches."""
    length: int = 256
    """At which the widths are tried."""
    batch: int = 4
    rounds: int = 7
    """At most; fewer where times are stable before."""
    reach: Reach = field(default_factory=Reach)
    path_lengths: tuple[int, ...] = (16, 64, 256)
    crossing_widths: tuple[int, ...] = (64, 128, 256, 512)
    crossing_lengths: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    """As multiples of the width; the longer ones until recurrence costs less."""
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
class Cost:
    """One layer read once."""

    kind: Kind
    part: Part
    n: int
    d: int
    seconds: float
    operations: int
    """Of one sentence; `seconds` are of a batch."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How a cost grows: fitted over all sizes that were tried."""

    kind: Kind
    part: Part
    along: Along
    seconds: float
    """The exponent of the time."""
    operations: float
    """The exponent of the operations."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """From which length on self-attention costs more than a recurrence of its width."""

    kind: Kind
    part: Part
    d: int
    seconds: float | None
    """None if not within the lengths that were tried."""
    operations: float
    lengths: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table1:
    """All that was found."""

    sizes: Sizes
    recall: Recall | None
    machine: str
    versions: dict[str, str]
    by_length: tuple[Cost, ...]
    by_width: tuple[Cost, ...]
    growths: tuple[Growth, ...]
    crossings: tuple[Crossing, ...]
    sequential: tuple[Lengths, ...]
    paths: tuple[Lengths, ...]
    learned: tuple[Recalled, ...]


def measure(sizes: Sizes, recall: Recall | None, *, tell: Tell) -> Table1:
    """Measure everything on this machine's processor.

    Args:
        sizes: of the layers.
        recall: the learning experiment; None leaves it out.
        tell: told a line now and then.
    """
    with single_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(sizes.seed)
        by_length = _costs(sizes.lengths, (sizes.width,), sizes, tell)
        by_width = _costs((sizes.length,), sizes.widths, sizes, tell)
        crossings = tuple(_crossings(sizes, tell))
        tell("following gradients")
        at, reach = sizes.path_lengths, sizes.reach
        chains = (Lengths(k, at, tuple(sequential(k, n, reach) for n in at)) for k in KINDS)
        paths = (Lengths(k, at, tuple(path_length(k, n, reach) for n in at)) for k in STACKS)
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
) -> tuple[Cost, ...]:
    """Every layer type and part at each size; the types take turns."""
    found: list[Cost] = []
    what: list[tuple[Kind, Part]] = [(kind, part) for kind in KINDS for part in PARTS]
    for n in lengths:
        for d in widths:
            tell(f"n {n}, d {d}")
            jobs = [_job(kind, n, d, part, sizes) for kind, part in what]
            for (kind, part), taken in zip(what, seconds(jobs, rounds=sizes.rounds), strict=True):
                counted = operations(kind, n, d, reach=sizes.reach, part=part)
                found.append(Cost(kind, part, n, d, taken, counted))
    return tuple(found)


def _job(kind: Kind, n: int, d: int, part: Part, sizes: Sizes) -> Callable[[], object]:
    return job(kind, n, d, reach=sizes.reach, part=part, batch=sizes.batch)


def _growths(costs: tuple[Cost, ...], along: Along) -> Iterator[Growth]:
    for kind in KINDS:
        for part in PARTS:
            some = [cost for cost in costs if (cost.kind, cost.part) == (kind, part)]
            at = [cost.n if along == "n" else cost.d for cost in some]
            yield Growth(
                kind,
                part,
                along,
                seconds=exponent(at, [cost.seconds for cost in some]),
                operations=exponent(at, [cost.operations for cost in some]),
            )


def _crossings(sizes: Sizes, tell: Tell) -> Iterator[Crossing]:
    for d in sizes.crossing_widths:
        for kind in RECURRENT:
            for part in PARTS:
                tell(f"self-attention against {kind}, d {d}, {part}")
                yield _crossing(kind, part, d, sizes)


def _crossing(kind: Kind, part: Part, d: int, sizes: Sizes) -> Crossing:
    lengths: list[int] = []
    ours: list[float] = []
    theirs: list[float] = []
    for multiple in sizes.crossing_lengths:
        n = round(multiple * d)
        jobs = [_job(one, n, d, part, sizes) for one in (OURS, kind)]
        mine, other = seconds(jobs, rounds=sizes.rounds)
        lengths.append(n)
        ours.append(mine)
        theirs.append(other)
        if mine > other:
            break
    return Crossing(
        kind,
        part,
        d,
        seconds=crossing(lengths, ours, theirs),
        operations=_equal_operations(kind, part, d, sizes.reach),
        lengths=tuple(lengths),
    )


def _equal_operations(kind: Kind, part: Part, d: int, reach: Reach) -> float:
    """Where operations are equal: a position costs self-attention more with n, others the same."""
    one, two = (operations(OURS, n, d, reach=reach, part=part) / n for n in (1, 2))
    level = operations(kind, 1, d, reach=reach, part=part)
    return 1 + (level - one) / (two - one)


def _machine() -> str:
    return f"{processor_name() or platform.machine()}, {os.cpu_count()} cores"


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("transduce", "torch", "numpy")}
    return {"python": platform.python_version(), **packages}
