"""How an update is cut decides how much memory it takes, and nothing that is learned."""

import copy
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from transduce.data.batch import Batch, collate
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizers
from transduce.train.step import train_step

SOURCES = [[5, 6, 7, 8, 9, 10, 11], [12, 13], [], [14, 15, 16, 17, 18], [19, 19, 2]]
TARGETS = [[20, 21, 22], [23, 24, 25, 26, 27], [28], [29, 30, 31, 32], [33, 34]]
CUTS = [[range(5)], [range(2), range(2, 5)], [range(1, 2), (0, 2), (4, 3)], [[n] for n in range(5)]]


def batches(cut: Sequence[Sequence[int]]) -> list[Batch]:
    return [
        collate([SOURCES[n] for n in part], [TARGETS[n] for n in part], pad=36, eos=0)
        for part in cut
    ]


class Keep(torch.optim.Optimizer):
    """An optimizer that moves nothing and keeps the gradients it was shown."""

    def __init__(self, model: Transformer) -> None:
        super().__init__(model.parameters(), {"lr": 0.0})
        self.grads: list[Tensor] = []

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        self.grads = [weight.grad.clone() for weight in self.param_groups[0]["params"]]


def gradients(model: Transformer, cut: Sequence[Sequence[int]]) -> list[Tensor]:
    keep = Keep(model)
    train_step(model, batches(cut), optimizers=[keep], rates=[1.0])
    return keep.grads


@pytest.mark.parametrize("cut", CUTS[1:], ids=["two", "three", "five"])
def test_gradients_do_not_depend_on_the_cut(tiny: Transformer, cut: Sequence[Sequence[int]]):
    tiny.double()

    single, parts = gradients(tiny, CUTS[0]), gradients(tiny, cut)

    for expected, gradient in zip(single, parts, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cut", CUTS[1:], ids=["two", "three", "five"])
def test_in_single_precision_gradients_agree_as_far_as_it_goes(
    tiny: Transformer, cut: Sequence[Sequence[int]]
):
    single, parts = gradients(tiny, CUTS[0]), gradients(tiny, cut)

    for expected, gradient in zip(single, parts, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["adam", "muon"])
@pytest.mark.parametrize("cut", CUTS[1:], ids=["two", "three", "five"])
def test_updates_do_not_depend_on_the_cut(
    tiny: Transformer, cut: Sequence[Sequence[int]], kind: str
):
    # Adam's epsilon is raised: where a gradient is rounding alone, 1e-9 lets its sign decide.
    config = TrainConfig(optimizer=kind, epsilon=1e-4, weight_decay=0.1)

    def learned(pieces: Sequence[Sequence[int]]) -> Tensor:
        model = copy.deepcopy(tiny).double()
        optimizers = make_optimizers(model, config)
        for _ in range(3):
            train_step(model, batches(pieces), optimizers=optimizers, rates=[0.01, 0.02])
        return torch.nn.utils.parameters_to_vector(model.parameters()).detach()

    torch.testing.assert_close(learned(cut), learned(CUTS[0]), rtol=0, atol=1e-10)


def test_the_reported_loss_and_tokens_do_not_depend_on_the_cut(tiny: Transformer):
    done = [train_step(tiny, batches(cut), optimizers=[Keep(tiny)], rates=[1.0]) for cut in CUTS]

    assert {update.tokens for update in done} == {3 + 5 + 1 + 4 + 2 + 5}
    for update in done[1:]:
        torch.testing.assert_close(update.loss_sum, done[0].loss_sum)
        torch.testing.assert_close(update.grad_norm, done[0].grad_norm)
