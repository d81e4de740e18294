"""Fused passes of a model against the model as it is written."""

import copy
from dataclasses import replace

import pytest
import torch
from tests.gpu.device import CONFIG, DEVICE, distance
from tests.unit.train.test_fused_passes import random_batch
from torch import Tensor

from transduce.model.fused_layers import PackedBatch, fused_loss, supports_fused_layers
from transduce.model.loss import cross_entropy
from transduce.model.transformer import Transformer, in_bfloat16
from transduce.train.config import TrainConfig
from transduce.train.fused_passes import GraphedPasses, make_fused_passes, pack_batch
from transduce.train.optimizer import make_optimizers
from transduce.train.precision import Bf16Replica, make_replica
from transduce.train.step import LossSettings, batch_loss, train_step

BOUND = 2e-2 if DEVICE == "cuda" else 1e-5
DEPARTURES: list[dict[str, object]] = [
    {},
    {"norm": "pre", "activation": "gelu", "attention_bias": True},
    {"tie": "none", "scale": "projection", "relu_dropout": 0.0},
]
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")


@pytest.mark.parametrize("departures", DEPARTURES, ids=str)
def test_loss_and_gradients_are_those_of_the_model_as_it_is_written(departures: dict[str, object]):
    torch.manual_seed(1)
    model = Transformer(replace(CONFIG, **departures)).to(DEVICE).train()  # type: ignore[arg-type]
    twin = copy.deepcopy(model).double()
    passed = in_bfloat16(model, embedding=False).train() if DEVICE == "cuda" else model
    batch = random_batch(rows=9, longest=40)
    packed = pack_batch(batch, pad=98)
    assert packed is not None
    moved = batch.to(torch.device(DEVICE))
    logits = twin(moved.source, moved.source_mask, moved.target_in)
    expected = cross_entropy(logits, moved.target_out, smoothing=0.1).smoothed
    loss = fused_loss(passed, PackedBatch(packed.shape, packed.numbers.to(DEVICE)), smoothing=0.1)
    assert abs(loss.item() / expected.item() - 1) < BOUND / 10
    expected.backward()
    loss.backward()
    grads = {name: weight.grad for name, weight in passed.named_parameters()}
    passed.zero_grad(set_to_none=True)
    batch_loss(passed, moved, loss=LossSettings(smoothing=0.1)).backward()
    for (name, weight), true in zip(passed.named_parameters(), twin.parameters(), strict=True):
        grad = grads[name]
        assert weight.grad is not None, name
        assert true.grad is not None, name
        assert grad is not None, name
        if not name.endswith("key.bias"):  # it adds to all scores of a query: no effect
            rounding = distance(weight.grad, true.grad)  # what any pass in this precision has
            assert distance(grad, true.grad) < max(1e-5, 1.5 * rounding), name


@needs_gpu
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_training_with_graphs_is_training_without(smoothing: float):
    """Equal losses after updates of few shapes: passes first made, then recorded and replayed."""
    batches = [random_batch(rows=64, longest=20, seed=n % 3) for n in range(12)]
    config = TrainConfig(label_smoothing=smoothing)
    means: list[float] = []
    for graphs in (True, False):
        torch.manual_seed(1)
        model = Transformer(CONFIG).to(DEVICE).train()
        replica, optimizers = make_replica(model, config), make_optimizers(model, config)
        passes = make_fused_passes(model, config, replica) if graphs else None
        losses = [
            train_step(
                model,
                [batch, random_batch(rows=30, longest=20, seed=7)],
                optimizers=optimizers,
                rates=[1e-3],
                loss=LossSettings(smoothing=smoothing),
                replica=replica,
                passes=passes,
            )
            for batch in batches
        ]
        assert losses[-1].loss_sum.item() < losses[0].loss_sum.item()
        means.append(losses[-1].loss_sum.item() / losses[-1].tokens)
        if graphs:
            assert isinstance(passes, GraphedPasses)
            assert sum(map(bool, passes._recorded.values())) > 1
    assert means[0] == pytest.approx(means[1], rel=2e-3)


@needs_gpu
def test_a_replayed_pass_adds_the_gradients_of_one_that_is_not_recorded():
    torch.manual_seed(1)
    model = Transformer(CONFIG).to(DEVICE).train()
    passes = make_passes(model)
    batches = [random_batch(rows=64, longest=20, seed=seed) for seed in range(4)]
    grads: list[dict[str, Tensor]] = []
    for _ in range(3):  # made, recorded, replayed
        passes.begin_update()
        for batch in batches:
            packed = pack_batch(batch, pad=98)
            assert packed is not None
            passes.add_gradients(packed, tokens=2000)
        named = model.named_parameters()
        grads.append(
            {name: weight.grad.clone() for name, weight in named if weight.grad is not None}
        )
    assert any(passes._recorded.values())
    for name, grad in grads[0].items():
        assert grad.norm() > 0, name
        for other in grads[1:]:  # atomic additions have no order
            assert distance(other[name], grad.double()) < 1e-3, name


@needs_gpu
@pytest.mark.parametrize("order", [[0], [0, 1], [1, 0], [1, 0, 0]], ids=str)
def test_gradients_of_an_update_are_of_its_own_batches_alone(order: list[int]):
    """The first pass writes, others add, and a batch that cannot be packed adds to either."""
    given = [random_batch(rows=20, longest=30), random_batch(rows=3, longest=300, seed=1)]
    batches = [given[index] for index in order]
    grads: list[list[Tensor]] = []
    for fused in (True, False):
        torch.manual_seed(1)
        model = Transformer(CONFIG).to(DEVICE).train()
        replica = make_replica(model, TrainConfig())
        passes = make_passes(model, replica) if fused else None
        for _ in range(3):  # made, recorded, replayed
            train_step(model, batches, optimizers=[], rates=[], replica=replica, passes=passes)
            named = model.named_parameters()
            grads.append([w.grad.double() for name, w in named if "key.bias" not in name])  # type: ignore[union-attr]
            model.zero_grad(set_to_none=True)
    for made in grads[:-1]:
        for grad, expected in zip(made, grads[-1], strict=True):
            assert distance(grad, expected) < BOUND


@needs_gpu
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_update_that_is_not_finite_is_skipped_on_the_device(bad: float):
    torch.manual_seed(1)
    model, config = Transformer(CONFIG).to(DEVICE).train(), TrainConfig()
    replica, optimizers = make_replica(model, config), make_optimizers(model, config)
    passes = make_fused_passes(model, config, replica)
    batch = random_batch(rows=20, longest=12)

    def step() -> bool:
        return train_step(
            model, [batch], optimizers=optimizers, rates=[1e-3], replica=replica, passes=passes
        ).skipped

    assert not step()
    gain = next(iter(model.encoder)).feed_forward_norm.norm.weight
    good = gain[0].item()
    with torch.no_grad():
        gain[0] = bad
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    assert step()
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name]) or name.endswith("feed_forward_norm.norm.weight")
    with torch.no_grad():
        gain[0] = good
    assert not step()
    assert not torch.equal(model.embedding.weight, before["embedding.weight"])


@needs_gpu
def test_dropout_is_drawn_anew_by_every_replay():
    torch.manual_seed(1)
    model = Transformer(replace(CONFIG, dropout=0.3)).to(DEVICE)
    passes = make_passes(model.train())
    passes.begin_update()
    batch = random_batch(rows=20, longest=12)
    losses: list[float] = []
    for _ in range(6):
        packed = pack_batch(batch, pad=98)
        assert packed is not None
        losses.append(passes.add_gradients(packed, tokens=batch.target_tokens).item())
    assert len(set(losses)) == 6
    torch.manual_seed(3)
    packed = pack_batch(batch, pad=98)
    assert packed is not None
    repeated = [passes.add_gradients(packed, tokens=9).item() for _ in range(2)]
    assert repeated[0] == pytest.approx(repeated[1], rel=1e-3)


@needs_gpu
@pytest.mark.parametrize(
    "departures",
    [
        {"positions": "learned"},
        {"output_bias": True},
        {"attention_dropout": 0.1},
        {"d_k": 16},
        {"d_model": 512, "heads": 1, "d_k": 512, "d_v": 512},  # too wide for shared memory
    ],
    ids=str,
)
def test_other_models_are_passed_as_they_are_written(departures: dict[str, object]):
    model = Transformer(replace(CONFIG, **departures)).to(DEVICE)  # type: ignore[arg-type]
    assert not supports_fused_layers(in_bfloat16(model, embedding=False))
    config = TrainConfig()
    assert make_fused_passes(model, config, make_replica(model, config)) is None


def make_passes(model: Transformer, replica: Bf16Replica | None = None) -> GraphedPasses:
    config = TrainConfig()
    passes = make_fused_passes(model, config, replica or make_replica(model, config))
    assert isinstance(passes, GraphedPasses)
    return passes
