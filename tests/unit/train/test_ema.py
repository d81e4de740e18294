"""The running mean of the weights: what one update adds, and how soon the start is forgotten."""

import pytest
import torch

from transduce.model.transformer import Transformer
from transduce.train.optimizer import WeightEMA


def moved(model: Transformer, *, by: float) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight += by


@pytest.mark.parametrize(("update", "kept"), [(1, 2 / 11), (7, 8 / 17), (10_000, 0.9)])
def test_an_update_moves_the_mean_by_one_minus_decay(tiny: Transformer, update: int, kept: float):
    mean = WeightEMA(tiny, decay=0.9)
    before = [weight.clone() for weight in tiny.parameters()]
    moved(tiny, by=1.0)

    mean.update(tiny, update=update)

    for start, averaged in zip(before, mean.model.parameters(), strict=True):
        torch.testing.assert_close(averaged, start + 1.0 - kept)


def test_the_model_is_not_touched(tiny: Transformer):
    mean = WeightEMA(tiny, decay=0.9)
    moved(tiny, by=1.0)
    before = [weight.clone() for weight in tiny.parameters()]

    mean.update(tiny, update=5)

    assert all(map(torch.equal, before, tiny.parameters()))


def test_the_mean_asks_for_no_gradient_and_drops_nothing(tiny: Transformer):
    mean = WeightEMA(tiny.train(), decay=0.9)

    assert not mean.model.training
    assert not any(weight.requires_grad for weight in mean.model.parameters())
