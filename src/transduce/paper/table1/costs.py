"""What a layer costs: operations counted and given by formula, seconds measured, exponents fitted.

Operations are those of matrix products, two for each multiplication and its sum. Times are of
reading alone, without gradients, on one thread: the processor's time of that thread, which other
programs take nothing of, and the least of several rounds, in which all layers take turns, so that
a moment in which others fill the caches spoils no layer alone.
"""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from transduce.model.local_attention import BLOCK
from transduce.paper.table1.layer_types import Kind, Part, Reach, Recurrent, layer

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
