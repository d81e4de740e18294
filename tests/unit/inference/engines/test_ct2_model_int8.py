"""What is rounded to 8 bits fits into the 16 that two products have, and is near what it was."""

import numpy as np
import pytest
from jaxtyping import Float, Int8

from transduce.inference.engines.ct2_model import quantize_int8


def drawn(rows: int = 101, columns: int = 31) -> Float[np.ndarray, "rows columns"]:
    return np.random.default_rng(7).standard_normal((rows, columns)).astype(np.float32)


def side_by_side(weight: Int8[np.ndarray, "rows columns"]) -> Float[np.ndarray, " rows"]:
    """The most that two neighbours of one sign come to, in each row."""
    wide = weight.astype(np.float32)
    first, second = wide[:, : wide.shape[1] // 2 * 2 : 2], wide[:, 1::2]
    alike = np.abs(first + second) * (first * second > 0)
    return np.maximum(alike.max(1), np.abs(wide).max(1))


@pytest.mark.parametrize("columns", [2, 30, 31])
def test_two_products_fit_into_sixteen_bits(columns: int):
    weight = quantize_int8(drawn(columns=columns)).weight

    assert 255 * int(side_by_side(weight).max()) <= 32_767


def test_numbers_that_are_both_rounded_up_fit_as_well():
    even = np.full((1, 2), 3.0, np.float32)  # 63.5 each

    weight = quantize_int8(even).weight

    assert weight.tolist() == [[64, 64]]


def test_each_row_uses_the_room_that_there_is():
    weight = quantize_int8(drawn()).weight

    assert int(side_by_side(weight).min()) >= 126


def test_neighbours_of_two_signs_need_no_room_for_each_other():
    weight = quantize_int8(np.array([[5.0, -5.0, 5.0]], np.float32)).weight

    assert weight.tolist() == [[127, -127, 127]]


def test_what_is_read_back_is_half_a_step_away_at_most():
    weight = drawn()

    rounded, scale = quantize_int8(weight)

    away = np.abs(rounded / scale[:, None] - weight) * scale[:, None]
    assert float(away.max()) <= 0.5001


@pytest.mark.parametrize("number", [0.0, 1e-30])
def test_a_row_of_nothing_stays_nothing(number: float):
    weight, scale = quantize_int8(np.full((2, 3), number, np.float32))

    assert not weight.any()
    assert scale.tolist() == [1.0, 1.0]


def test_what_is_no_number_does_not_become_one():
    scale = quantize_int8(np.array([[1.0, np.nan], [1.0, 2.0]], np.float32)).scale

    assert np.isnan(scale).tolist() == [True, False]
