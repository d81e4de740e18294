"""Muon's iteration: a batch as one by one, and what it does to singular values."""

import torch
from torch import Tensor

from transduce.train.optimizer import BOUND_MARGIN, QUINTICS, orthogonalise


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_a_batch_is_its_matrices_one_by_one():
    matrices = draw(5, 13, 7)

    together = orthogonalise(matrices)

    for batched, alone in zip(together, matrices, strict=True):
        torch.testing.assert_close(batched, orthogonalise(alone[None])[0], rtol=0, atol=1e-12)


def test_the_iteration_is_the_quintics_on_every_singular_value():
    matrix = draw(7, 11)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)

    result = orthogonalise(matrix[None])[0]

    values = composed(values / (BOUND_MARGIN * values.pow(4).sum() ** 0.25))
    torch.testing.assert_close(result, left @ values.diag() @ right, rtol=0, atol=1e-5)


def test_from_a_hundredth_of_the_bound_on_all_come_near_one():
    values = composed(torch.linspace(0.01, 1.0, 10_007, dtype=torch.float64))

    assert 0.73 < values.min() < 0.74
    assert 1.26 < values.max() < 1.27


def test_smaller_ones_grow_as_much_as_the_slopes_say():
    values = torch.tensor([0.0, 1e-6], dtype=torch.float64)

    small = composed(values)[1] / values[1]

    assert abs(small - 78.3) < 0.1


def composed(values: Tensor) -> Tensor:
    """The polynomials, one after the other, on numbers."""
    for a, b, c in QUINTICS:
        values = a * values + b * values**3 + c * values**5
    return values


def test_a_tall_matrix_is_a_wide_one_on_its_side():
    matrix = draw(1, 11, 7)

    torch.testing.assert_close(orthogonalise(matrix), orthogonalise(matrix.mT).mT)


def test_single_precision_is_enough():
    matrices = draw(3, 41, 29)

    torch.testing.assert_close(
        orthogonalise(matrices.float()).double(), orthogonalise(matrices), rtol=0, atol=1e-4
    )
