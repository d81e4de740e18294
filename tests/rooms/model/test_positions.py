"""Sinusoids: a table that is computed, offset and grown."""

import torch

from transduce.model.positions import Positions, sinusoids


def test_the_table_grows_when_a_sentence_is_longer_than_its_room():
    positions = Positions(6, room=3)

    added = positions(torch.zeros(2, 11, 6))

    torch.testing.assert_close(added, sinusoids(11, 6).expand(2, 11, 6))


def test_a_position_further_on_gets_its_own_encoding():
    positions = Positions(6, room=13)

    added = positions(torch.zeros(1, 1, 6), first=7)

    assert torch.equal(added[0, 0], sinusoids(13, 6)[7])


def test_a_table_that_grew_holds_what_it_held_before():
    positions = Positions(6, room=3)
    before = positions(torch.zeros(1, 3, 6))
    positions(torch.zeros(1, 1, 6), first=40)

    after = positions(torch.zeros(1, 3, 6))

    assert torch.equal(before, after)


def test_the_table_is_no_part_of_the_weights():
    assert not Positions(6).state_dict()


def test_a_table_that_grows_keeps_the_precision_of_the_model():
    positions = Positions(6, room=3).double()

    added = positions(torch.zeros(1, 5, 6, dtype=torch.float64))

    assert added.dtype == torch.float64


def test_far_positions_are_computed_in_full_precision():
    far = sinusoids(5_001, 4)[5_000, 2]

    exact = torch.tensor(5_000 / 100, dtype=torch.float64).sin().float()
    torch.testing.assert_close(far, exact, rtol=0, atol=1e-7)
