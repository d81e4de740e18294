"""The chunked loss, with its gradient made by hand, is the loss written out from the logits."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.model.loss import LossSums, chunked_cross_entropy, cross_entropy

TARGET = torch.tensor([[4, 0, 10, 10, 10], [7, 5, 9, 0, 10], [2, 3, 3, 6, 0]])  # PAD is 10


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven pieces in chunks of 4: two full ones and a rest."""
    monkeypatch.setattr("transduce.model.loss.CHUNK", 4)


def drawn(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 5, 7, generator=generator, dtype=dtype).requires_grad_()
    embedding = torch.randn(11, 7, generator=generator, dtype=dtype).requires_grad_()
    return hidden, embedding


def written(hidden: Tensor, embedding: Tensor, smoothing: float) -> LossSums:
    return cross_entropy(hidden @ embedding.T, TARGET, smoothing=smoothing)


def chunked(hidden: Tensor, embedding: Tensor, smoothing: float) -> LossSums:
    return chunked_cross_entropy(hidden, embedding, TARGET, smoothing=smoothing)


def gradients(loss: Callable[[Tensor, Tensor, float], LossSums], smoothing: float) -> list[Tensor]:
    hidden, embedding = drawn()
    (3.0 * loss(hidden, embedding, smoothing).smoothed).backward()
    return [tensor.grad for tensor in (hidden, embedding) if tensor.grad is not None]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("trained", [False, True])
def test_both_sums_are_equal(smoothing: float, trained: bool):
    hidden, embedding = (tensor.detach().requires_grad_(trained) for tensor in drawn())

    result, by_hand = chunked(hidden, embedding, smoothing), written(hidden, embedding, smoothing)

    torch.testing.assert_close(result.smoothed, by_hand.smoothed, rtol=1e-12, atol=0)
    torch.testing.assert_close(result.plain, by_hand.plain, rtol=1e-12, atol=0)
    assert result.correct.isnan() if trained else result.correct == by_hand.correct


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_excluded_piece_costs_no_infinity(dtype: torch.dtype):
    hidden, embedding = (1e3 * tensor.detach().to(dtype).requires_grad_() for tensor in drawn())

    loss = chunked(hidden, embedding, 0.1).smoothed

    assert loss.isfinite()
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(loss, (hidden, embedding)))


def test_pieces_with_the_highest_probability_are_counted():
    hidden, embedding = (tensor.detach() for tensor in drawn())
    best = (hidden @ embedding.T)[..., :-1].argmax(-1)
    target = best.masked_fill(len(embedding) - 1 == TARGET, len(embedding) - 1)
    target[0, 0] = (best[0, 0] + 1) % 10

    sums = chunked_cross_entropy(hidden, embedding, target, smoothing=0.1)

    assert sums.correct == (len(embedding) - 1 != TARGET).sum() - 1


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_both_gradients_are_equal(smoothing: float):
    for result, by_hand in zip(
        gradients(chunked, smoothing), gradients(written, smoothing), strict=True
    ):
        torch.testing.assert_close(result, by_hand, rtol=0, atol=1e-12)


def test_the_gradient_is_the_slope():
    hidden, embedding = drawn()

    assert torch.autograd.gradcheck(lambda *both: chunked(*both, 0.1).smoothed, (hidden, embedding))


def test_in_single_precision_they_agree_as_far_as_it_goes():
    hidden, embedding = drawn(torch.float32)

    result, by_hand = chunked(hidden, embedding, 0.1), written(hidden, embedding, 0.1)

    torch.testing.assert_close(result.smoothed, by_hand.smoothed)


@pytest.mark.parametrize("chunk", [1, 3, 11, 512])
def test_the_size_of_a_chunk_changes_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch):
    before = gradients(chunked, 0.1)
    monkeypatch.setattr("transduce.model.loss.CHUNK", chunk)

    for gradient, expected in zip(before, gradients(chunked, 0.1), strict=True):
        torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_it_is_torchs_cross_entropy_over_the_pieces_without_pad(smoothing: float):
    hidden, embedding = drawn()
    real = TARGET != 10

    result = chunked(hidden, embedding, smoothing)

    torchs = F.cross_entropy(
        (hidden @ embedding.T)[real][:, :10],
        TARGET[real],
        label_smoothing=smoothing,
        reduction="sum",
    )
    torch.testing.assert_close(result.smoothed, torchs, rtol=1e-12, atol=0)


def test_padding_and_its_row_get_no_gradient():
    hidden, embedding = gradients(chunked, 0.1)

    assert (hidden[TARGET == 10] == 0).all()
    assert (embedding[10] == 0).all()


def test_only_the_embedding_may_learn():
    hidden, embedding = drawn()
    chunked(hidden.detach(), embedding, 0.1).smoothed.backward()

    assert embedding.grad is not None
    torch.testing.assert_close(3.0 * embedding.grad, gradients(written, 0.1)[1])
