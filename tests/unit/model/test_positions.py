"""Sinusoids: a table that is computed, offset and grown. Learned positions: one that has an end."""

import pytest
import torch
from torch import Tensor, nn

from transduce.model import layers
from transduce.model.layers import LearnedPositions, Positions, sinusoids


def learned(rows: int) -> LearnedPositions:
    positions = LearnedPositions(6, rows=rows)
    nn.init.normal_(positions.weight, generator=torch.Generator().manual_seed(1))
    return positions


def test_the_table_grows_when_a_sentence_is_longer_than_its_room():
    positions = Positions(6, length=3)

    added = positions(torch.zeros(2, 11, 6))

    torch.testing.assert_close(added, sinusoids(11, 6).expand(2, 11, 6))


def test_a_position_further_on_gets_its_own_encoding():
    positions = Positions(6, length=13)

    added = positions(torch.zeros(1, 1, 6), first=7)

    assert torch.equal(added[0, 0], sinusoids(13, 6)[7])


def test_a_table_that_grew_holds_what_it_held_before():
    positions = Positions(6, length=3)
    before = positions(torch.zeros(1, 3, 6))
    positions(torch.zeros(1, 1, 6), first=40)

    after = positions(torch.zeros(1, 3, 6))

    assert torch.equal(before, after)


def test_a_table_that_grows_in_two_threads_stays_the_longer(monkeypatch: pytest.MonkeyPatch):
    positions = Positions(6, length=3)

    def interrupted(length: int, d_model: int) -> Tensor:
        """Another thread grows the table further in the meantime."""
        if length < 40:
            positions.rows(40)
        return sinusoids(length, d_model)

    monkeypatch.setattr(layers, "sinusoids", interrupted)

    assert torch.equal(positions.rows(5), sinusoids(5, 6))
    assert len(positions.table) == 80


def test_the_table_is_no_part_of_the_weights():
    assert not Positions(6).state_dict()


def test_a_table_that_grows_keeps_the_precision_of_the_model():
    positions = Positions(6, length=3).double()

    added = positions(torch.zeros(1, 5, 6, dtype=torch.float64))

    assert added.dtype == torch.float64


def test_far_positions_are_computed_in_full_precision():
    far = sinusoids(5_001, 4)[5_000, 2]

    exact = torch.tensor(5_000 / 100, dtype=torch.float64).sin().float()
    torch.testing.assert_close(far, exact, rtol=0, atol=1e-7)


def test_learned_positions_are_the_rows_of_a_table():
    positions = learned(rows=13)

    added = positions(torch.zeros(2, 11, 6))

    assert torch.equal(added, positions.weight[:11].expand(2, 11, 6))


def test_a_learned_position_further_on_gets_its_own_row():
    positions = learned(rows=13)

    added = positions(torch.zeros(1, 2, 6), first=7)

    assert torch.equal(added[0], positions.weight[7:9])


def test_every_row_of_the_learned_table_can_be_used():
    assert learned(rows=13)(torch.zeros(1, 13, 6)).shape == (1, 13, 6)


@pytest.mark.parametrize(("length", "first"), [(14, 0), (1, 13), (5, 9)])
def test_a_sentence_longer_than_the_learned_table_is_refused(length: int, first: int):
    with pytest.raises(
        ValueError, match=r"^a sentence of 14 positions, .*model\.max_positions 13: "
    ):
        learned(rows=13)(torch.zeros(1, length, 6), first=first)
