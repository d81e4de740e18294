"""Table 1's last two columns, counted: operations one after the other, and how far signals travel.

Both are read off the graph that torch keeps for gradients. *Sequential operations* are the longest
chain in it of matrix products that each need the one before. A *path* is as long as the number of
hops after which the gradient of the last position's output with respect to the first position's
input is not zero: a hop is a layer, or for a recurrence one step, which all positions take at once.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.graph import Node

from transduce.paper.table1.layer_types import (
    KINDS,
    Convolution,
    Kind,
    Reach,
    Recurrent,
    layer,
)

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


def sequential_operations(kind: Kind, length: int, reach: Reach) -> int:
    """Count the matrix products of one layer that depend on each other in sequence.

    Args:
        kind: type of the layer.
        length: n.
        reach: r and k.
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
    """Count the hops from the first position to the last.

    Args:
        kind: type of the layers.
        length: n.
        reach: r and k.
    """
    x = torch.randn(1, length, WIDTH, dtype=torch.float64, requires_grad=True)
    return _first_to_arrive(x, _hops(kind, x, reach))


def _hops(kind: Stack, x: Tensor, reach: Reach) -> Iterator[Tensor]:
    """Yield the states after one hop, two hops, and so on."""
    if kind == "GRU" or kind == "LSTM":
        return in_parallel(Recurrent(kind, WIDTH).double(), x)
    return _stacked(kind, x, reach)


def _stacked(kind: Stack, x: Tensor, reach: Reach) -> Iterator[Tensor]:
    for number in count():
        if kind == "dilated":
            dilation = reach.kernel**number
            module = Convolution(WIDTH, kernel=reach.kernel, dilation=dilation)
        else:
            module = layer(kind, WIDTH, reach, heads=1)
        x = module.double()(x)
        yield x


def in_parallel(
    recurrent: Recurrent, x: Float[Tensor, "batch length width"]
) -> Iterator[Float[Tensor, "batch length width"]]:
    """Update all positions at once from their predecessors' states, repeatedly.

    After n steps, n positions hold the states of the sequential recurrence.
    """
    gates = recurrent.project(x)
    state = recurrent.start(gates)
    while True:
        before = torch.cat([recurrent.start(gates[:, :1]), state[:, :-1]], 1)
        state = recurrent.cell(gates, before)
        yield state[..., : recurrent.width]


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
