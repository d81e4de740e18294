"""Our dropout is dropout: the right share, the right scale, at random, and only in training."""

import pytest
import torch
from torch import Tensor

from transduce.model.kernels import Dropout


def dropped(p: float, *shape: int, seed: int = 0) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Dropout(p).train()(torch.ones(*shape))


def test_outside_training_nothing_happens():
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))

    assert Dropout(0.5).eval()(x) is x


def test_a_probability_of_zero_does_nothing():
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))

    assert Dropout(0.0).train()(x) is x


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_the_share_of_zeros_is_the_probability(p: float):
    share = (dropped(p, 1_000_003) == 0).double().mean().item()

    assert abs(share - p) < 5 * (p * (1 - p) / 1_000_003) ** 0.5  # five standard deviations


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_what_stays_is_scaled_so_that_the_expectation_stays(p: float):
    kept = dropped(p, 1_009).unique()

    torch.testing.assert_close(kept, torch.tensor([0.0, 1 / (1 - p)]), rtol=2**-12, atol=0)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7])
def test_sizes_that_fill_no_whole_draw_keep_their_shape(size: int):
    assert dropped(0.5, size, 1).shape == (size, 1)


def test_the_four_values_of_one_draw_fall_alone():
    fallen = (dropped(0.5, 250_007, 4) == 0).double()

    together = torch.corrcoef(fallen.T)
    torch.testing.assert_close(together, torch.eye(4, dtype=torch.float64), rtol=0, atol=0.01)


def test_the_gradient_goes_where_the_values_went():
    x = torch.ones(7, 11, requires_grad=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        y = Dropout(0.4).train()(x)

    y.sum().backward()

    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


def test_one_seed_drops_the_same_values():
    assert torch.equal(dropped(0.5, 101, seed=3), dropped(0.5, 101, seed=3))


def test_two_calls_drop_different_values():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        dropout = Dropout(0.5).train()

        first, second = dropout(torch.ones(101)), dropout(torch.ones(101))

    assert not torch.equal(first, second)


@pytest.mark.parametrize("p", [0.1, 0.25, 0.3])
def test_the_scale_is_not_rounded_to_bfloat16(p: float):
    x = torch.linspace(0.5, 1.0, 100_003).bfloat16()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        y = Dropout(p).train()(x)

    kept = y != 0
    mean = y[kept].double().mean() / x[kept].double().mean()
    assert y.dtype == torch.bfloat16
    assert mean.item() == pytest.approx(1 / (1 - p), rel=3e-4)
