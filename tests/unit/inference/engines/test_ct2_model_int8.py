"""What is rounded to 8 bits fits into the 16 that two products have, and is near what it was."""

import pytest
import torch
from torch import Tensor

from transduce.inference.engines.ct2_model import quantize_int8


def drawn(rows: int = 101, columns: int = 31) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(7))


def side_by_side(weight: Tensor) -> Tensor:
    """The most that two neighbours of one sign come to, in each row."""
    first, second = weight[:, :-1:2].int(), weight[:, 1::2].int()
    alike = (first + second).abs() * (first * second > 0)
    return torch.maximum(alike.amax(1), weight.int().abs().amax(1))


@pytest.mark.parametrize("columns", [2, 30, 31])
def test_two_products_fit_into_sixteen_bits(columns: int):
    weight = quantize_int8(drawn(columns=columns)).weight

    assert 255 * int(side_by_side(weight).max()) <= 32_767


def test_numbers_that_are_both_rounded_up_fit_as_well():
    even = torch.full((1, 2), 3.0)  # 63.5 each

    weight = quantize_int8(even).weight

    assert weight.tolist() == [[64, 64]]


def test_each_row_uses_the_room_that_there_is():
    weight = quantize_int8(drawn()).weight

    assert int(side_by_side(weight).min()) >= 126


def test_neighbours_of_two_signs_need_no_room_for_each_other():
    weight = quantize_int8(torch.tensor([[5.0, -5.0, 5.0]])).weight

    assert weight.tolist() == [[127, -127, 127]]


def test_what_is_read_back_is_half_a_step_away_at_most():
    weight = drawn()

    rounded, scale = quantize_int8(weight)

    away = (rounded / scale[:, None] - weight).abs() * scale[:, None]
    assert float(away.max()) <= 0.5001


@pytest.mark.parametrize("number", [0.0, 1e-30])
def test_a_row_of_nothing_stays_nothing(number: float):
    weight, scale = quantize_int8(torch.full((2, 3), number))

    assert not weight.any()
    assert scale.tolist() == [1.0, 1.0]


def test_what_is_no_number_does_not_become_one():
    scale = quantize_int8(torch.tensor([[1.0, float("nan")], [1.0, 2.0]])).scale

    assert scale.isnan().tolist() == [True, False]
