"""The likeliest pieces, found by looking into the best blocks of a row alone."""

import math

import pytest
import torch
from torch.testing import assert_close

from transduce.search.candidates import likeliest, likeliest_of


@pytest.mark.parametrize("vocab", [31, 640, 1000, 1283])
@pytest.mark.parametrize("count", [1, 2, 10])
def test_the_likeliest_are_those_of_topk(vocab: int, count: int):
    torch.manual_seed(vocab + count)
    log_probs = torch.randn(7, vocab).log_softmax(1)

    found = likeliest_of(log_probs, count)

    best, ids = log_probs.topk(count)
    order = ids.argsort(1)
    assert torch.equal(found.ids, ids.gather(1, order))
    assert torch.equal(found.log_probs, best.gather(1, order))


@pytest.mark.parametrize("place", [0, 31, 32, 1279, 1280, 1282])
def test_a_piece_is_found_wherever_it_stands(place: int):
    log_probs = torch.full((3, 1283), -9.0)
    log_probs[1, place] = -1.0

    found = likeliest_of(log_probs, 2)

    assert place in found.ids[1].tolist()


def test_several_of_the_likeliest_may_stand_in_one_block():
    log_probs = torch.full((1, 1283), -9.0)
    log_probs[0, 64:74] = -1.0

    found = likeliest_of(log_probs, 10)

    assert found.ids[0].tolist() == list(range(64, 74))


def test_pieces_that_are_barred_come_last():
    log_probs = torch.full((1, 1283), -math.inf)
    log_probs[0, 700] = 0.0

    found = likeliest_of(log_probs, 2)

    assert found.log_probs[0].max() == 0.0
    assert found.log_probs[0].min() == -math.inf


def test_pad_is_never_likely_and_takes_no_probability():
    torch.manual_seed(0)
    logits = torch.randn(5, 1283)
    logits[:, 1282] = 50.0

    found = likeliest(logits.clone(), 3, pad=1282)

    assert (found.ids != 1282).all()
    best = logits[:, :1282].log_softmax(1).topk(3).values
    assert_close(found.log_probs.sort(1, descending=True).values, best)
