"""The likeliest pieces, found by looking into the best blocks of a row alone."""

import math

import pytest
import torch
from torch.testing import assert_close

from transduce.search.candidates import argmax, masked_log_softmax, topk, topk_candidates


@pytest.mark.parametrize("vocab", [31, 640, 1000, 1283])
@pytest.mark.parametrize("count", [1, 2, 10])
def test_the_likeliest_are_those_of_topk(vocab: int, count: int):
    torch.manual_seed(vocab + count)
    log_probs = torch.randn(7, vocab).log_softmax(1)

    best, ids = topk(log_probs, count)

    expected, expected_ids = log_probs.topk(count)
    assert torch.equal(ids, expected_ids)
    assert torch.equal(best, expected)


@pytest.mark.parametrize("vocab", [31, 640, 1000, 1283])
@pytest.mark.parametrize("rows", [3, 64])
def test_the_likeliest_one_is_the_first_of_the_largest(vocab: int, rows: int):
    torch.manual_seed(vocab)
    logits = torch.randint(0, 60, (rows, vocab)).float()
    logits[:, -1] = -math.inf

    ids, best = argmax(logits.clone(), pad=vocab - 1)

    log_probs = logits.log_softmax(1)
    assert torch.equal(best, log_probs.amax(1))
    assert torch.equal(ids, log_probs.argmax(1))


def test_logits_that_are_no_numbers_are_worth_none():
    logits = torch.randn(64, 1283)
    logits[5, 900] = math.nan

    _, best = argmax(logits, pad=1282)

    assert best.isfinite().logical_not().nonzero().flatten().tolist() == [5]


@pytest.mark.parametrize("place", [0, 31, 32, 1279, 1280, 1282])
def test_a_piece_is_found_wherever_it_stands(place: int):
    log_probs = torch.full((3, 1283), -9.0)
    log_probs[1, place] = -1.0

    _, ids = topk(log_probs, 2)

    assert place in ids[1].tolist()


def test_several_of_the_likeliest_may_stand_in_one_block():
    log_probs = torch.full((1, 1283), -9.0)
    log_probs[0, 64:74] = -1.0

    _, ids = topk(log_probs, 10)

    assert sorted(ids[0].tolist()) == list(range(64, 74))


def test_pieces_that_are_barred_come_last():
    log_probs = torch.full((1, 1283), -math.inf)
    log_probs[0, 700] = 0.0

    best, _ = topk(log_probs, 2)

    assert best[0].tolist() == [0.0, -math.inf]


@pytest.mark.parametrize("vocab", [31, 640, 1283, 1952])
@pytest.mark.parametrize("beam", [2, 5])
def test_the_best_of_a_sentence_are_those_of_all_its_beams(vocab: int, beam: int):
    torch.manual_seed(vocab + beam)
    log_probs = torch.randn(7 * beam, vocab).log_softmax(1)
    totals = torch.randn(7, beam)
    totals[3, 1:] = -math.inf

    candidates = topk_candidates(log_probs, totals)

    every = (log_probs.view(7, beam, vocab) + totals[:, :, None]).flatten(1)
    worth, places = every.topk(2 * beam)
    assert_close(candidates.totals, worth)
    assert torch.equal(candidates.beams, places // vocab)
    assert torch.equal(candidates.ids, places % vocab)
    assert torch.equal(candidates.log_probs, log_probs.view(7, -1).gather(1, places))


def test_equals_stand_in_the_order_of_their_beams_and_ids():
    log_probs = torch.full((3, 1283), -9.0)
    for beam, id in ((0, 1281), (0, 70), (1, 5), (2, 800)):
        log_probs[beam, id] = -1.0
    log_probs[2, 3] = -0.5

    candidates = topk_candidates(log_probs, torch.zeros(1, 3))

    assert candidates.beams[0, :5].tolist() == [2, 0, 0, 1, 2]
    assert candidates.ids[0, :5].tolist() == [3, 70, 1281, 5, 800]


def test_pad_is_never_likely_and_takes_no_probability():
    torch.manual_seed(0)
    logits = torch.randn(5, 1283)
    logits[:, 1282] = 50.0

    log_probs = masked_log_softmax(logits.clone(), pad=1282)

    assert (log_probs[:, 1282] == -math.inf).all()
    assert_close(log_probs[:, :1282], logits[:, :1282].log_softmax(1))
    assert (topk_candidates(log_probs, torch.zeros(1, 5)).ids != 1282).all()
