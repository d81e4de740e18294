"""The softmax of short rows is torch's: in float32 to the last bits, in bfloat16 rounded once."""

import math

import pytest
import torch
from torch import Tensor

from transduce.model.kernels import LANES, MIN_SCORES, softmax

LENGTHS = (1, 2, LANES - 1, LANES, LANES + 1, 2 * LANES - 1, 2 * LANES, 40)
ROWS = MIN_SCORES + 1
"""More than are left to torch, however short they are."""


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("length", LENGTHS)
def test_it_is_torchs(length: int):
    scores = draw(ROWS, 1, length).requires_grad_()
    scores_copy = scores.detach().clone().requires_grad_()
    slope = draw(ROWS, 1, length)

    result, expected = softmax(scores), scores_copy.softmax(-1)
    result.backward(slope)
    expected.backward(slope)

    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(scores.grad, scores_copy.grad)


@pytest.mark.parametrize("length", LENGTHS)
def test_what_is_masked_gets_nothing_and_its_slope_is_zero(length: int):
    scores = draw(ROWS, length + 1)
    scores[:, -1] = -math.inf
    scores.requires_grad_()

    result = softmax(scores)
    result.square().sum().backward()

    assert (result[:, -1] == 0).all()
    torch.testing.assert_close(result[:, :-1], scores[:, :-1].softmax(-1))
    assert scores.grad is not None
    assert (scores.grad[:, -1] == 0).all()


@pytest.mark.parametrize("length", LENGTHS)
def test_scores_in_bfloat16_are_rounded_once_and_those_in_float64_not_at_all(length: int):
    scores = 3 * draw(ROWS, length)
    short = scores.bfloat16()

    exact = short.float().softmax(-1)
    torch.testing.assert_close(softmax(short).float(), exact, rtol=2**-8, atol=0)
    torch.testing.assert_close(softmax(scores.double()), scores.double().softmax(-1))


def test_few_are_torchs_own():
    scores = draw(5, 7)

    assert softmax(scores).equal(scores.softmax(-1))
