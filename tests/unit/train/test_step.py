"""One update: what it reports and what it leaves behind."""

import copy
import math
from dataclasses import replace
from typing import Literal

import pytest
import torch
from tests.conftest import made

from transduce.data.batch import Batch, collate
from transduce.model.config import ModelConfig
from transduce.model.loss import LossSums, chunked_cross_entropy, cross_entropy
from transduce.model.transformer import Transformer
from transduce.train import step
from transduce.train.config import TrainConfig
from transduce.train.distributed import Process
from transduce.train.optimizer import make_optimizers
from transduce.train.step import LossSettings, batch_loss, train_step


@pytest.fixture
def batch() -> Batch:
    return collate([[5, 6, 7], [8]], [[9, 4], [10, 11, 12, 13, 4]], pad=36, eos=0)


def test_an_update_counts_target_tokens_without_padding(tiny: Transformer, batch: Batch):
    optimizers = make_optimizers(tiny, TrainConfig())

    done = train_step(tiny, [batch], optimizers=optimizers, rates=[0.01])

    assert done.tokens == 3 + 6


def test_an_update_reports_the_smoothed_nats_before_it(tiny: Transformer, batch: Batch):
    tiny.eval()
    logits = tiny(batch.source, batch.source_mask, batch.target_in)
    before = cross_entropy(logits, batch.target_out, smoothing=0.1).smoothed.detach()
    optimizers = make_optimizers(tiny, TrainConfig())

    done = train_step(tiny, [batch], optimizers=optimizers, rates=[0.01])

    torch.testing.assert_close(done.loss_sum, before)


def test_the_gradients_norm_is_that_of_the_mean_loss(tiny: Transformer, batch: Batch):
    tiny.eval()
    logits = tiny(batch.source, batch.source_mask, batch.target_in)
    loss = cross_entropy(logits, batch.target_out, smoothing=0.1).smoothed / 9
    grads = torch.autograd.grad(loss, list(tiny.parameters()))
    optimizers = make_optimizers(tiny, TrainConfig())

    done = train_step(tiny, [batch], optimizers=optimizers, rates=[0.01])

    by_hand = torch.cat([grad.flatten() for grad in grads]).norm()
    torch.testing.assert_close(done.grad_norm, by_hand)


def test_an_update_leaves_no_gradient(tiny: Transformer, batch: Batch):
    optimizers = make_optimizers(tiny, TrainConfig())

    train_step(tiny, [batch], optimizers=optimizers, rates=[0.01])

    assert all(weight.grad is None for weight in tiny.parameters())


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_a_gradient_that_is_no_number_changes_no_weight_and_no_memory(
    tiny: Transformer, batch: Batch, optimizer: Literal["adam", "muon"], bad: float
):
    optimizers = make_optimizers(tiny, TrainConfig(optimizer=optimizer))
    rates = [0.01] * len(optimizers)
    train_step(tiny, [batch], optimizers=optimizers, rates=rates)
    before = copy.deepcopy(
        (tiny.state_dict(), [optimizer.state_dict() for optimizer in optimizers])
    )
    hook = tiny.embedding.weight.register_hook(lambda grad: grad * bad)

    done = train_step(tiny, [batch], optimizers=optimizers, rates=rates)

    hook.remove()
    after = (tiny.state_dict(), [optimizer.state_dict() for optimizer in optimizers])
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert done.skipped
    assert all(weight.grad is None for weight in tiny.parameters())


def test_a_loss_that_is_no_number_is_enough_to_skip(
    tiny: Transformer, batch: Batch, monkeypatch: pytest.MonkeyPatch
):
    def spoilt(*given: torch.Tensor, smoothing: float) -> LossSums:
        loss_result = chunked_cross_entropy(*given, smoothing=smoothing)
        return loss_result._replace(smoothed=loss_result.smoothed + math.nan)

    monkeypatch.setattr(step, "chunked_cross_entropy", spoilt)

    done = train_step(tiny, [batch], optimizers=make_optimizers(tiny, TrainConfig()), rates=[0.01])

    assert done.grad_norm.isfinite()
    assert done.skipped


@pytest.mark.parametrize("missing", [0, 2])
def test_processes_agree_on_the_number_of_passes_once_rows_are_split(
    tiny: Transformer, batch: Batch, missing: int, monkeypatch: pytest.MonkeyPatch
):
    """A run in which memory ran out may be resumed with sharded weights."""
    agreed, passed = list[int](), list[Batch]()

    def most_of_all(process: Process, number: int) -> int:
        agreed.append(number + missing)
        return agreed[-1]

    def counted_loss(model: Transformer, part: Batch, *, loss: LossSettings) -> torch.Tensor:
        passed.append(part)
        return batch_loss(model, part, loss=loss)

    monkeypatch.setattr(Process, "max", most_of_all)
    monkeypatch.setattr(step, "batch_loss", counted_loss)

    train_step(tiny, [batch], optimizers=[], rates=[], micro_tokens=1)

    assert agreed == [len(passed)] == [2 + missing]


def test_gradients_are_not_clipped(tiny: Transformer, batch: Batch):
    with torch.no_grad():
        tiny.embedding.weight.mul_(100.0)
    tiny.eval()
    optimizers = [torch.optim.SGD(tiny.parameters(), lr=0.0)]
    before = torch.nn.utils.parameters_to_vector(tiny.parameters()).detach()

    done = train_step(tiny, [batch], optimizers=optimizers, rates=[1.0])

    after = torch.nn.utils.parameters_to_vector(tiny.parameters()).detach()
    assert done.grad_norm > 5.0
    torch.testing.assert_close((after - before).norm(), done.grad_norm, rtol=1e-3, atol=0)


def test_each_optimizer_gets_its_own_rate(tiny: Transformer, batch: Batch):
    optimizers = make_optimizers(tiny, TrainConfig(optimizer="muon"))

    train_step(tiny, [batch], optimizers=optimizers, rates=[0.01, 0.02])

    applied = [{group["lr"] for group in optimizer.param_groups} for optimizer in optimizers]
    assert applied == [{0.01}, {0.02}]


@pytest.mark.parametrize(("optimizer", "rates"), [("adam", [0.01, 0.0]), ("muon", [0.005, 0.02])])
def test_updates_learn_the_batch_by_heart(
    tiny: Transformer, batch: Batch, optimizer: str, rates: list[float]
):
    optimizers = make_optimizers(tiny.eval(), TrainConfig(optimizer=optimizer))

    losses = [
        train_step(
            tiny, [batch], optimizers=optimizers, rates=rates, loss=LossSettings(smoothing=0.0)
        ).loss_sum.item()
        for _ in range(30)
    ]

    assert losses[-1] < 0.5 * losses[0]


def test_two_equal_readings_are_one_reading(tiny: Transformer, batch: Batch):
    tiny.eval()
    optimizers = make_optimizers(tiny, TrainConfig())
    once, twice = (
        train_step(
            tiny, [batch], optimizers=optimizers, rates=[0.0], loss=LossSettings(r_drop=r_drop)
        )
        for r_drop in (0.0, 5.0)
    )

    torch.testing.assert_close(twice.loss_sum, once.loss_sum)
    torch.testing.assert_close(twice.grad_norm, once.grad_norm)


def test_readings_that_differ_by_dropout_cost_more_with_r_drop(config: ModelConfig, batch: Batch):
    model = made(replace(config, vocab_size=37, dropout=0.5)).train()
    optimizers = make_optimizers(model, TrainConfig())

    def loss_of(r_drop: float) -> float:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            done = train_step(
                model,
                [batch],
                optimizers=optimizers,
                rates=[0.0],
                loss=LossSettings(smoothing=0.0, r_drop=r_drop),
            )
        return done.loss_sum.item()

    assert loss_of(1.0) < loss_of(2.0)


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_a_bias_of_the_logits_is_learned_but_for_pads(
    config: ModelConfig, batch: Batch, r_drop: float
):
    model = made(replace(config, vocab_size=37, output_bias=True))
    optimizers = make_optimizers(model, TrainConfig())

    train_step(
        model, [batch], optimizers=optimizers, rates=[0.01], loss=LossSettings(r_drop=r_drop)
    )

    assert (model.output_bias[:36] != 0).all()
    assert model.output_bias[36] == 0


def test_the_gradient_of_a_bias_of_the_logits_is_autograds(config: ModelConfig, batch: Batch):
    model = made(replace(config, vocab_size=37, output_bias=True)).eval()
    logits = model(batch.source, batch.source_mask, batch.target_in)
    loss = cross_entropy(logits, batch.target_out, smoothing=0.1).smoothed / 9
    norm = torch.nn.utils.get_total_norm(torch.autograd.grad(loss, list(model.parameters())))
    optimizers = make_optimizers(model, TrainConfig())

    done = train_step(model, [batch], optimizers=optimizers, rates=[0.01])

    torch.testing.assert_close(done.grad_norm, norm)
