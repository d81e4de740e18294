"""In bfloat16 a model learns what it learns in float32, and its weights stay float32."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from tests.conftest import Corpus
from tests.parity.test_micro_batches import CUTS, Keep, batches
from tests.parity.test_resume import sit
from tests.processes import bound_memory
from torch import Tensor, nn

from transduce.bundle.torch_tensors import read_tensors
from transduce.data.batch import Batch, collate
from transduce.model.config import ModelConfig
from transduce.model.loss import chunked_cross_entropy, cross_entropy, r_drop_loss
from transduce.model.transformer import Transformer
from transduce.train.checkpoint import EMA_WEIGHTS, WEIGHTS, list_checkpoints, load_weights
from transduce.train.config import TrainConfig
from transduce.train.events import Event, Progress
from transduce.train.loop import TrainResult, Validation, train
from transduce.train.precision import Bf16Replica
from transduce.train.step import LossSettings, StepResult, train_step

LEARNING = TrainConfig(
    updates=60,
    validate_every=60,
    schedule="linear",
    learning_rate=0.005,
    muon_learning_rate=0.01,
    warmup=10,
    log_every=1,
    precision="bfloat16",
)


@pytest.fixture
def config(config: ModelConfig) -> ModelConfig:
    """Wide enough to learn to turn five words around."""
    return replace(config, d_model=34, d_ff=47, d_k=11, d_v=13)


def losses(corpus: Corpus, config: ModelConfig, training: TrainConfig, folder: Path) -> Tensor:
    """The loss of each update."""
    seen: list[float] = []

    def on_event(event: Event) -> None:
        if isinstance(event, Progress):
            seen.append(event.loss)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        train(
            Transformer(replace(config, dropout=0.1)),
            loader=corpus.loader(),
            config=training,
            validate=lambda model: Validation(loss=1.0, bleu=0.0, signature=""),
            folder=folder,
            on_best=lambda model, evaluation: None,
            on_event=on_event,
        )
    return torch.tensor(seen)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_learning_is_that_of_float32(
    corpus: Corpus,
    config: ModelConfig,
    tmp_path: Path,
    optimizer: Literal["adam", "muon"],
    monkeypatch: pytest.MonkeyPatch,
):
    # Rows that fill a batch up would draw from dropout too, and all later draws were others.
    monkeypatch.setattr(Bf16Replica, "pad_to_bucket", lambda self, batch: batch)
    training = replace(LEARNING, optimizer=optimizer)

    short = losses(corpus, config, training, tmp_path / "bfloat16")
    exact = losses(corpus, config, replace(training, precision="float32"), tmp_path / "float32")

    assert exact[-20:].mean() < 0.7 * exact[:10].mean()
    assert not torch.equal(short, exact)
    for lo in range(0, len(exact), 20):  # sets of updates
        short_mean, exact_mean = short[lo : lo + 20].mean(), exact[lo : lo + 20].mean()
        torch.testing.assert_close(short_mean, exact_mean, rtol=0.01, atol=0)


def shared_error(actual: Tensor, expected: Tensor) -> float:
    """The length of the difference as a share of the length."""
    return ((actual - expected).norm() / expected.norm()).item()


def moved(model: Transformer, working: Bf16Replica | None) -> dict[str, Tensor]:
    """How far each weight goes in ten updates, each of which is tiny."""
    before = copy.deepcopy(model.state_dict())
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.0)]
    for _ in range(10):
        train_step(model, batches(CUTS[0]), optimizers=optimizers, rates=[1e-4], replica=working)
    return {name: weight - before[name] for name, weight in model.state_dict().items()}


def test_updates_below_bfloat16s_last_bit_are_not_lost(tiny: Transformer):
    name, weights = "encoder.0.feed_forward.inner.weight", tiny.state_dict()
    exact = moved(copy.deepcopy(tiny), None)

    short = moved(tiny, Bf16Replica(tiny))

    assert exact[name].abs().max() < 2**-8 * weights[name].abs().mean()
    for name, way in exact.items():
        assert shared_error(short[name], way) < 0.06, name


def gradients(
    model: Transformer, given: Sequence[Batch], working: Bf16Replica | None
) -> dict[str, Tensor]:
    keep = Keep(model)
    train_step(model, given, optimizers=[keep], rates=[1.0], replica=working)
    names = (name for name, _ in model.named_parameters())
    return dict(zip(names, keep.grads, strict=True))


def test_gradients_over_thousands_of_tokens_are_those_of_float32(tiny: Transformer):
    frequent = [[5, 6] * 30 for _ in range(40)]
    large = [collate(frequent, frequent, pad=36, eos=0)]

    exact = gradients(tiny, large, None)

    for name, grad in gradients(tiny, large, Bf16Replica(tiny)).items():
        assert grad.dtype == torch.float32
        assert shared_error(grad, exact[name]) < 0.06, name


def plain(hidden: Tensor, embedding: Tensor, target_out: Tensor) -> Tensor:
    return chunked_cross_entropy(hidden, embedding, target_out, smoothing=0.1).smoothed


def twice(hidden: Tensor, embedding: Tensor, target_out: Tensor) -> Tensor:
    again = hidden.roll(1, -1)
    return r_drop_loss(hidden, again, embedding, target_out=target_out, smoothing=0.1, alpha=3.0)


@pytest.mark.parametrize("loss", [plain, twice])
def test_the_embeddings_gradient_is_added_up_over_chunks_in_float32(
    loss: Callable[[Tensor, Tensor, Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.model.loss.CHUNK", 1)
    drawn = torch.Generator().manual_seed(0)
    hidden = torch.randn(1, 1, 7, generator=drawn).bfloat16().float().repeat(1, 1009, 1)
    embedding = torch.randn(11, 7, generator=drawn).requires_grad_()
    target_out = torch.full((1, 1009), 3)

    exact, short = (
        torch.autograd.grad(loss(states, embedding, target_out), embedding)[0]
        for states in (hidden, hidden.bfloat16())
    )

    assert short.dtype == torch.float32
    assert shared_error(short, exact) < 0.02


@pytest.mark.parametrize("loss", [plain, twice])
def test_loss_and_gradients_in_bfloat16_are_near_those_of_float32(
    loss: Callable[[Tensor, Tensor, Tensor], Tensor],
):
    drawn = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 31, 16, generator=drawn).bfloat16().float().requires_grad_()
    embedding = torch.randn(301, 16, generator=drawn).bfloat16().float().requires_grad_()
    target_out = torch.randint(0, 301, (5, 31), generator=drawn)
    rounded = hidden.detach().bfloat16().requires_grad_()

    exact = loss(hidden, embedding, target_out)
    short = loss(rounded, embedding, target_out)

    torch.testing.assert_close(short, exact, rtol=2e-3, atol=0)
    exact_grads = torch.autograd.grad(exact, (hidden, embedding))
    for grad, near in zip(
        torch.autograd.grad(short, (rounded, embedding)), exact_grads, strict=True
    ):
        assert shared_error(grad.float(), near) < 0.02


def test_the_loss_of_logits_in_bfloat16_is_that_of_float32():
    drawn = torch.Generator().manual_seed(0)
    hidden = 3.0 * torch.randn(5, 31, 7, generator=drawn).bfloat16()
    embedding = torch.randn(11, 7, generator=drawn).bfloat16()
    target_out = torch.randint(0, 11, (5, 31), generator=drawn)

    result = chunked_cross_entropy(hidden, embedding, target_out, smoothing=0.1)

    written = cross_entropy((hidden @ embedding.T).float(), target_out, smoothing=0.1)
    torch.testing.assert_close(result.plain, written.plain, rtol=1e-5, atol=0)
    torch.testing.assert_close(result.smoothed, written.smoothed, rtol=1e-4, atol=0)


def test_rounded_probabilities_change_the_loss_of_training_little():
    drawn = torch.Generator().manual_seed(0)
    hidden = 3.0 * torch.randn(5, 31, 7, generator=drawn).bfloat16()
    embedding = torch.randn(11, 7, generator=drawn).bfloat16()
    target_out = torch.randint(0, 11, (5, 31), generator=drawn)

    exact, trained = (
        chunked_cross_entropy(states, embedding, target_out, smoothing=0.1)
        for states in (hidden, hidden.clone().requires_grad_())
    )

    assert (exact.correct.isnan(), trained.correct.isnan()) == (False, True)
    torch.testing.assert_close(trained.plain, exact.plain, rtol=1e-4, atol=0)
    torch.testing.assert_close(trained.smoothed, exact.smoothed, rtol=1e-4, atol=0)


@pytest.mark.parametrize("cut", CUTS[1:], ids=["two", "three", "five"])
def test_gradients_do_not_depend_on_the_cut(tiny: Transformer, cut: Sequence[Sequence[int]]):
    working = Bf16Replica(tiny)

    single, parts = (gradients(tiny, batches(sizes), working) for sizes in (CUTS[0], cut))

    for name, grad in single.items():
        assert shared_error(parts[name], grad) < 0.02, name


@pytest.mark.parametrize(
    ("planned", "room", "left"), [(CUTS[0], 25, 24), (CUTS[1], 17, 12)], ids=["only", "second"]
)
@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_memory_that_runs_out_changes_no_gradient(
    tiny: Transformer, planned: Sequence[Sequence[int]], room: int, left: int, r_drop: float
):
    working, keep = Bf16Replica(tiny), Keep(tiny)

    def update() -> StepResult:
        return train_step(
            tiny,
            batches(planned),
            optimizers=[keep],
            rates=[1.0],
            loss=LossSettings(r_drop=r_drop),
            replica=working,
        )

    update()
    expected = keep.grads
    room *= 2 if r_drop else 1  # R-Drop passes every row twice
    passes = bound_memory(working.model, room)
    done = update()

    assert (max(passes) > room, done.micro_tokens) == (True, left)
    for gradient, expected_gradient in zip(keep.grads, expected, strict=True):
        assert shared_error(gradient, expected_gradient) < 0.02


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_changes_no_weight(tiny: Transformer, bad: float):
    working, before = Bf16Replica(tiny), copy.deepcopy(tiny.state_dict())
    first = next(module for module in working.model.modules() if isinstance(module, nn.Linear))
    first.weight.register_hook(lambda grad: grad * bad)

    done = train_step(
        tiny,
        batches(CUTS[1]),
        optimizers=[torch.optim.SGD(tiny.parameters(), lr=0.0)],
        rates=[1.0],
        replica=working,
    )

    assert done.skipped
    torch.testing.assert_close(tiny.state_dict(), before, rtol=0, atol=0)
    for model in (tiny, working.model):
        assert all(weight.grad is None for weight in model.parameters())


def test_resumed_training_is_uninterrupted_training_bit_for_bit(
    corpus: Corpus, config: ModelConfig, tmp_path: Path
):
    training = replace(LEARNING, optimizer="muon", updates=10, validate_every=2, warmup=3, ema=0.9)

    def trained(name: str, stop_at: int = 0) -> TrainResult:
        loader = corpus.loader(micro_tokens=97)
        return sit(loader, config, training, folder=tmp_path / name, stop_at=stop_at)

    with torch.random.fork_rng(devices=[]):
        straight = trained("straight")
        with pytest.raises(KeyboardInterrupt):
            trained("resumed", stop_at=5)
        resumed = trained("resumed")

    for name in (WEIGHTS, EMA_WEIGHTS):
        resumed_weights, straight_weights = (
            load_weights(run.checkpoints[-1], name=name) for run in (resumed, straight)
        )
        assert resumed_weights.keys() == straight_weights.keys()
        for key, weight in resumed_weights.items():
            assert torch.equal(weight, straight_weights[key]), key


def test_checkpoints_are_float32_and_more_than_bfloat16_can_hold(
    corpus: Corpus, config: ModelConfig, tmp_path: Path
):
    training = replace(LEARNING, updates=3, validate_every=3, warmup=1, ema=0.9)
    losses(corpus, config, training, tmp_path)
    (checkpoint,) = list_checkpoints(tmp_path / "checkpoints")

    for name in (WEIGHTS, EMA_WEIGHTS, "optimizer.safetensors"):
        for key, tensor in read_tensors(checkpoint / name).items():
            assert tensor.dtype == torch.float32 or key == "random.cpu", key
            assert tensor.dim() < 2 or not torch.equal(tensor.bfloat16().to(tensor), tensor), key
