"""R-Drop's chunked loss, with its gradient made by hand, is the paper's equation written out."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from transduce.model.loss import chunked_cross_entropy, cross_entropy, r_drop_loss

TARGET = torch.tensor([[4, 0, 10, 10, 10], [7, 5, 9, 0, 10], [2, 3, 3, 6, 0]])  # PAD is 10


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.model.loss.CHUNK", 4)


def drawn() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 5, 7), (3, 5, 7), (11, 7)]
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    ]


def chunked(first: Tensor, second: Tensor, pieces: Tensor, *, alpha: float) -> Tensor:
    return r_drop_loss(first, second, pieces, target_out=TARGET, smoothing=0.1, alpha=alpha)


def written(first: Tensor, second: Tensor, pieces: Tensor, *, alpha: float) -> Tensor:
    logits = [hidden @ pieces.T for hidden in (first, second)]
    cross = [cross_entropy(pass_logits, TARGET, smoothing=0.1).smoothed for pass_logits in logits]
    p, q = (pass_logits[TARGET != 10][:, :10].log_softmax(-1) for pass_logits in logits)
    apart = F.kl_div(q, p, log_target=True, reduction="sum")
    apart = apart + F.kl_div(p, q, log_target=True, reduction="sum")
    return sum(cross, torch.zeros(())) / 2 + alpha / 4 * apart


@pytest.mark.parametrize("alpha", [0.5, 5.0])
def test_the_loss_is_the_equation(alpha: float):
    torch.testing.assert_close(
        chunked(*drawn(), alpha=alpha), written(*drawn(), alpha=alpha), rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("alpha", [0.5, 5.0])
def test_the_gradients_are_those_of_the_equation(alpha: float):
    grads: list[list[Tensor | None]] = []
    for loss in (chunked, written):
        inputs = drawn()
        (3.0 * loss(*inputs, alpha=alpha)).backward()
        grads.append([tensor.grad for tensor in inputs])

    for gradient, by_hand in zip(*grads, strict=True):
        torch.testing.assert_close(gradient, by_hand, rtol=0, atol=1e-12)


def test_equal_readings_cost_what_one_reading_costs():
    hidden, _, pieces = drawn()

    once = chunked_cross_entropy(hidden, pieces, TARGET, smoothing=0.1).smoothed

    torch.testing.assert_close(chunked(hidden, hidden, pieces, alpha=5.0), once)


def test_readings_that_differ_cost_more_the_larger_alpha_is():
    assert chunked(*drawn(), alpha=1.0) < chunked(*drawn(), alpha=2.0)
