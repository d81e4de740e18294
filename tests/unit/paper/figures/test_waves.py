"""Sinusoids: products by distance, and shifts that are rotations."""

import pytest
import torch

from transduce.model.layers import sinusoids
from transduce.paper.figures.formulas import measure_waves, shift_matrix


@pytest.mark.parametrize("k", [1, 5, 23])
def test_a_shift_moves_every_place_by_the_same_matrix(k: int):
    table = sinusoids(67, 14).double()

    moved = table[:-k] @ shift_matrix(k, 14).T

    torch.testing.assert_close(moved, table[k:], rtol=0, atol=1e-5)


def test_two_shifts_are_one():
    torch.testing.assert_close(shift_matrix(3, 14) @ shift_matrix(4, 14), shift_matrix(7, 14))


def test_products_depend_on_the_distance_alone():
    result = measure_waves(64, d_model=14)

    assert result.spread < 1e-5
    assert result.products[0][result.distances.index(0)] == pytest.approx(1)
    assert result.not_orthogonal < 1e-12
