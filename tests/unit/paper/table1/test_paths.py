"""Sequential operations and paths, counted on graphs, are those of Table 1 to the last one."""

from math import ceil, log

import pytest
import torch

from transduce.paper.table1.complexity import (
    STACKS,
    Stack,
    in_parallel,
    path_length,
    sequential_operations,
)
from transduce.paper.table1.layers import KINDS, Kind, Reach, Recurrent

REACH = Reach(radius=5, kernel=3)

CHAINS = {"self-attention": (4, 4), "restricted": (4, 4), "convolution": (1, 1)}
"""Of attention: a projection, the scores, the mixture, the output's projection."""


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


@pytest.mark.parametrize("kind", KINDS)
def test_products_in_a_row_grow_with_the_length_in_a_recurrence_alone(kind: Kind):
    result = tuple(sequential_operations(kind, n, REACH) for n in (7, 83))

    assert result == CHAINS.get(kind, (7, 83))


@pytest.mark.parametrize("kind", STACKS)
@pytest.mark.parametrize("length", [2, 3, 9, 10, 11, 28])
def test_signals_travel_as_far_as_the_formula_says(kind: Stack, length: int):
    torch.manual_seed(0)

    assert path_length(kind, length, REACH) == expected_path(kind, length, REACH)


@pytest.mark.parametrize(
    ("kind", "hops"),
    [
        ("self-attention", 1),
        ("restricted", 6),
        ("GRU", 28),
        ("LSTM", 28),
        ("convolution", 14),
        ("dilated", 4),
    ],
)
def test_paths_of_28_positions(kind: Stack, hops: int):
    assert expected_path(kind, 28, REACH) == hops


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_a_recurrence_needs_as_many_parallel_steps_as_positions(kind: str):
    torch.manual_seed(0)
    recurrent = Recurrent("GRU" if kind == "GRU" else "LSTM", 5)
    x = torch.randn(2, 7, 5)

    steps = in_parallel(recurrent, x)
    known = [next(steps) for _ in range(7)]

    torch.testing.assert_close(known[6], recurrent(x))
    assert not torch.allclose(known[5], recurrent(x))
