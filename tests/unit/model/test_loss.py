"""Losses that can be worked out by hand. The chunked way meets this one in tests/parity."""

import math

import pytest
import torch

from transduce.model.loss import chunk_size, chunked_cross_entropy, cross_entropy


def test_a_model_that_knows_nothing_pays_the_logarithm_of_the_pieces():
    logits = torch.zeros(1, 2, 8)  # 7 pieces and PAD

    sums = cross_entropy(logits, torch.tensor([[3, 0]]), smoothing=0.1)

    assert sums.plain.item() == pytest.approx(2 * math.log(7))
    assert sums.smoothed.item() == pytest.approx(2 * math.log(7))


def test_smoothing_asks_for_a_share_of_every_piece():
    logits = torch.tensor([[[2.0, 0.0, 1.0, 5.0]]])  # PAD, the last, plays no part

    sums = cross_entropy(logits, torch.tensor([[0]]), smoothing=0.3)

    log_z = math.log(math.exp(2) + 1 + math.e)
    by_hand = -(0.8 * (2 - log_z) + 0.1 * (0 - log_z) + 0.1 * (1 - log_z))
    assert sums.smoothed.item() == pytest.approx(by_hand, rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_padding_costs_nothing(smoothing: float):
    logits = torch.randn(2, 3, 11, generator=torch.Generator().manual_seed(0))
    target = torch.tensor([[4, 0, 10], [7, 10, 10]])

    padded = cross_entropy(logits, target, smoothing=smoothing)
    first = cross_entropy(logits[:1, :2], target[:1, :2], smoothing=smoothing)
    second = cross_entropy(logits[1:, :1], target[1:, :1], smoothing=smoothing)

    torch.testing.assert_close(padded.smoothed, first.smoothed + second.smoothed)
    torch.testing.assert_close(padded.plain, first.plain + second.plain)


def test_without_smoothing_the_two_sums_are_one():
    logits = torch.randn(2, 3, 11, generator=torch.Generator().manual_seed(0))

    sums = cross_entropy(logits, torch.tensor([[4, 0, 10], [7, 5, 0]]), smoothing=0.0)

    assert sums.smoothed.item() == sums.plain.item()


def test_only_the_smoothed_sum_carries_a_gradient():
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(2, 3, 5, generator=generator).requires_grad_()
    embedding = torch.randn(11, 5, generator=generator)

    sums = chunked_cross_entropy(
        hidden, embedding, torch.tensor([[4, 0, 10], [7, 5, 0]]), smoothing=0.1
    )

    assert (sums.smoothed.requires_grad, sums.plain.requires_grad) == (True, False)


def test_the_chunked_loss_can_be_asked_without_gradients():
    generator = torch.Generator().manual_seed(0)
    hidden, embedding = (torch.randn(*shape, generator=generator) for shape in [(2, 3, 5), (11, 5)])

    sums = chunked_cross_entropy(
        hidden, embedding, torch.tensor([[4, 0, 10], [7, 5, 0]]), smoothing=0.1
    )

    assert not sums.smoothed.requires_grad


def test_a_gpu_is_given_larger_chunks_than_a_cpu():
    assert chunk_size(torch.empty(37_000, 2)) == 512
    assert chunk_size(torch.empty(37_000, 2, device="meta")) == 2**26 // 37_000
    assert chunk_size(torch.empty(500_000, 2, device="meta")) == 512
