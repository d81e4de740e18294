"""When memory runs out, rows are halved, and nothing else is swallowed."""

import pytest
import torch

from transduce.data.batch import Batch, collate
from transduce.train.step import halve_limit, positions, split_batch

SOURCES = [[1] * length for length in (2, 3, 5, 1, 1)]
TARGETS = [[2] * length for length in (1, 6, 2, 2, 1)]


@pytest.fixture
def batch() -> Batch:
    return collate(SOURCES, TARGETS, pad=9, eos=0)


def test_positions_are_rows_times_the_longer_side(batch: Batch):
    assert positions(batch) == 5 * 7


def test_the_larger_half_decides_how_much_a_half_may_hold(batch: Batch):
    assert halve_limit(batch) == 3 * 7


def test_one_row_that_is_too_large_is_refused_in_one_line(batch: Batch):
    row = list(split_batch([batch], most=7, pad=9))[1]

    with pytest.raises(MemoryError, match=r"^memory .* single pair of 7 positions: lower .* 6 "):
        halve_limit(row)


def test_what_fits_is_left_as_it_is(batch: Batch):
    assert list(split_batch([batch], most=35, pad=9)) == [batch]
    assert list(split_batch([batch], most=0, pad=9)) == [batch]


@pytest.mark.parametrize("most", [1, 7, 13, 21, 34])
def test_the_parts_are_the_rows_in_their_order_within_the_limit_or_alone(batch: Batch, most: int):
    parts = list(split_batch([batch, batch], most=most, pad=9))

    rows = [row[: row.index(0)] for part in parts for row in part.target_out.tolist()]
    assert rows == 2 * TARGETS
    assert all(positions(part) <= most or len(part.source) == 1 for part in parts)


@pytest.mark.parametrize("most", [1, 13, 21])
def test_a_part_is_what_would_have_been_collated(batch: Batch, most: int):
    done = 0
    for part in split_batch([batch], most=most, pad=9):
        rows = slice(done, done := done + len(part.source))
        fresh = collate(SOURCES[rows], TARGETS[rows], pad=9, eos=0)

        for part_tensor, fresh_tensor in zip(part, fresh, strict=True):
            if isinstance(part_tensor, torch.Tensor):
                assert torch.equal(part_tensor, fresh_tensor)
            else:
                assert part_tensor == fresh_tensor
