"""Restricted self-attention: what a query of each side sees, and what it does not."""

from dataclasses import replace

import pytest
import torch
from tests.conftest import SHAPE, made, weights_of

from transduce.model.attention import Attention
from transduce.model.local_attention import neighbourhood
from transduce.model.trace import trace

LENGTHS = (11, 347)
"""One that is read with a mask, one that is read in blocks."""


def make(radius: int) -> Attention:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Attention(14, heads=3, d_k=5, d_v=7, radius=radius)


def draw(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def changed(attention: Attention, length: int, *, position: int, causal: bool) -> list[int]:
    """Which positions of the output a change of one position of the input reaches."""
    x = draw(1, length, 14)
    other = x.clone()
    other[:, position] += 1.0
    first, second = (attention(y, attention.project_kv(y), causal=causal) for y in (x, other))
    return (first != second).any(-1)[0].nonzero()[:, 0].tolist()


@pytest.mark.parametrize("length", LENGTHS)
def test_a_position_is_seen_by_those_near_it(length: int):
    assert changed(make(3), length, position=5, causal=False) == [2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("length", LENGTHS)
def test_in_the_decoder_a_position_is_seen_by_itself_and_those_soon_after(length: int):
    assert changed(make(3), length, position=5, causal=True) == [5, 6, 7, 8]


def test_a_radius_as_long_as_the_sentence_is_attention_to_all():
    near, unlimited, x = make(10), make(0), draw(2, 11, 14)

    read = near(x, near.project_kv(x))

    torch.testing.assert_close(read, unlimited(x, unlimited.project_kv(x)))


@pytest.mark.parametrize("length", LENGTHS)
def test_padding_beyond_reach_of_every_piece_is_no_nan(length: int):
    attention, x = make(2), draw(2, length, 14).requires_grad_()
    mask = (torch.arange(length) < torch.tensor([length, 3])[:, None])[:, None, None]

    read = attention(x, attention.project_kv(x), mask=mask)
    read.sum().backward()

    assert read.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("length", LENGTHS)
def test_padding_nearby_cannot_be_told_from_the_outside(length: int):
    attention, x = make(3), draw(2, length, 14)
    mask = (torch.arange(length) < torch.tensor([length, 7])[:, None])[:, None, None]
    other = x.clone()
    other[1, 7:] = 1e4

    first, second = (attention(y, attention.project_kv(y), mask=mask) for y in (x, other))

    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1, :7], second[1, :7])


def test_the_last_queries_of_a_memory_see_their_own_neighbourhoods():
    assert neighbourhood(1, 5, radius=2).tolist() == [[False, False, True, True, True]]


def test_what_is_shown_is_what_was_seen():
    model = made(replace(SHAPE, radius=1)).eval()

    traced = trace(model, (3, 5, 7, 11, 0), (2, 4, 6, 0))

    assert ((traced.encoder > 0) == neighbourhood(5, 5, radius=1).numpy()).all()
    assert ((traced.decoder > 0) == neighbourhood(4, 4, radius=1, causal=True).numpy()).all()
    assert (traced.cross > 0).all()


def test_the_shares_that_are_shown_are_those_that_were_mixed():
    attention, x = make(2), draw(2, 11, 14)
    past = attention.project_kv(x)

    weights = weights_of(attention, x, past, torch.ones(1, 1, 1, 11, dtype=torch.bool))

    mixed = (weights @ past.values).transpose(1, 2).flatten(2)
    torch.testing.assert_close(attention.out(mixed), attention(x, past))


def test_attention_to_the_source_is_never_restricted():
    model = made(replace(SHAPE, radius=1))

    assert {layer.cross_attention.radius for layer in model.decoder} == {0}
    assert {layer.self_attention.radius for layer in model.decoder} == {1}
