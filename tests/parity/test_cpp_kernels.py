"""The compiled kernels for CPUs against their readable twins, one by one and in whole updates."""

import copy
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from tests.gpu.device import CONFIG, distance
from tests.unit.train.test_fused_passes import random_batch
from torch import Tensor

from transduce.model import cpp_kernels
from transduce.model.attention import scaled_dot_product_attention
from transduce.model.cpp_library import load_kernels
from transduce.model.fused_layers import fused_loss, supports_fused_layers
from transduce.model.loss import cross_entropy, r_drop_loss
from transduce.model.transformer import Transformer, in_bfloat16
from transduce.train.config import TrainConfig
from transduce.train.fused_passes import _MAX_CPU_LENGTH, make_fused_passes, pack_batch
from transduce.train.optimizer import make_optimizers
from transduce.train.precision import make_replica
from transduce.train.step import LossSettings, batch_loss, train_step

pytestmark = pytest.mark.skipif(
    load_kernels().library is None, reason=f"no compiled kernels: {load_kernels().reason}"
)

DEPARTURES: list[dict[str, object]] = [
    {},
    {"norm": "pre", "activation": "gelu", "attention_bias": True},
    {"tie": "none", "scale": "projection"},
]
BOUNDS = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
precisions = pytest.mark.parametrize("dtype", list(BOUNDS), ids=str)

OUT_OF_MEMORY = """
import resource, torch
from transduce.model.cpp_library import load_kernels

kernels, size = load_kernels(), 1 << 25
ids, starts = torch.zeros(2, dtype=torch.int32), torch.tensor([0, 20_000], dtype=torch.int32)
x, y, sums = torch.empty(size), torch.empty(size), torch.empty(6 * size)
attention = [starts, starts, 1, 1, 16, 16, 16, 1.0, 0]
calls = {
    "attention_forward": [x, x, x, y, x, x, *attention],
    "attention_backward": [x, x, x, x, x, x, y, y, y, *attention],
    "add_norm_backward": [x, None, None, x, x, x, x, y, y, sums, 1, size, 0, 0, 0, 1.0],
    "relu_backward": [x, y, sums, 1, size],
    "logit_gradients": [y, ids, sums, 0.9, 1, size - 1],
    "r_drop_gradients": [y, y, ids, sums, 0.9, 1.0, 1, size - 1],
}
kernels.call("relu_backward", False, x, y, sums, 2, 16)  # starts the threads
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), used + (64 << 20)))
failures = 0
for kernel, arguments in calls.items():
    try:
        kernels.call(kernel, False, *arguments)
    except MemoryError:
        failures += 1
print(failures)
"""


@pytest.fixture(params=[1, 2], ids=["1-thread", "2-threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@precisions
@pytest.mark.parametrize("departures", DEPARTURES, ids=str)
def test_loss_and_gradients_are_those_of_the_model_as_it_is_written(
    departures: dict[str, object], dtype: torch.dtype
):
    torch.manual_seed(1)
    model = Transformer(replace(CONFIG, **departures)).train()  # type: ignore[arg-type]
    twin = copy.deepcopy(model).double()
    passed = in_bfloat16(model, embedding=False) if dtype == torch.bfloat16 else model
    assert supports_fused_layers(passed)
    batch = random_batch(rows=9, longest=40)
    packed = pack_batch(batch, pad=98)
    assert packed is not None
    logits = twin(batch.source, batch.source_mask, batch.target_in)
    expected = cross_entropy(logits, batch.target_out, smoothing=0.1).smoothed

    loss = fused_loss(passed, packed, smoothing=0.1)

    assert loss.item() == pytest.approx(expected.item(), rel=BOUNDS[dtype] / 10)
    grads = torch.autograd.grad(loss, list(passed.parameters()))
    unfused = batch_loss(passed, batch, loss=LossSettings(smoothing=0.1))
    rounded = torch.autograd.grad(unfused, list(passed.parameters()))
    exact = torch.autograd.grad(expected, list(twin.parameters()))
    names = [name for name, _ in model.named_parameters()]
    for name, grad, other, true in zip(names, grads, rounded, exact, strict=True):
        if not name.endswith("key.bias"):  # it adds to all scores of a query: no effect
            # What any pass in this precision has.
            assert distance(grad, true) < max(1e-5, 1.5 * distance(other, true)), name


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_products_of_onednn_are_those_of_mkl(r_drop: float, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(1)
    model = Transformer(replace(CONFIG, attention_bias=True)).train()
    batch = random_batch(rows=9, longest=40)
    packed = pack_batch(batch.repeat() if r_drop else batch, pad=98)
    assert packed is not None
    results: list[list[Tensor]] = []
    for is_faster in (False, True):
        monkeypatch.setattr(cpp_kernels, "_onednn_is_faster", lambda chosen=is_faster: chosen)
        loss = fused_loss(model, packed, smoothing=0.1, r_drop=r_drop)
        results.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    names = ["loss", *(name for name, _ in model.named_parameters())]
    for name, mkl, onednn in zip(names, *results, strict=True):
        if not name.endswith("key.bias"):  # it adds to all scores of a query: no effect
            assert distance(onednn, mkl) < 1e-5, name


@pytest.mark.parametrize("has_bias", [False, True])
def test_a_linear_map_by_onednn(has_bias: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpp_kernels, "_onednn_is_faster", lambda: True)
    torch.manual_seed(1)
    inputs = [torch.randn(*shape).requires_grad_() for shape in ((40, 24), (33, 24), (33,))]
    inputs = inputs[: 2 + has_bias]
    twins = [x.detach().double().requires_grad_() for x in inputs]
    slopes = torch.randn(40, 33)

    out, expected = cpp_kernels.linear(*inputs), torch.nn.functional.linear(*twins)

    assert type(out.grad_fn).__name__ == "OneDnnLinearBackward"
    assert distance(out, expected) < 1e-5
    grads = torch.autograd.grad(out, inputs, slopes)
    exact = torch.autograd.grad(expected, twins, slopes.double())
    for grad, true in zip(grads, exact, strict=True):
        assert distance(grad, true) < 1e-5


@pytest.mark.usefixtures("threads")
@precisions
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("depth", [16, 64])
def test_attention(dtype: torch.dtype, causal: bool, depth: int):
    torch.manual_seed(1)
    lengths, heads = [1, 2, 3, 17, 16, 300, 5], 2
    starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)
    packed = torch.randn(sum(lengths), 3 * heads * depth).to(dtype).requires_grad_()
    weights = torch.randn(sum(lengths), heads * depth).to(dtype)
    twin = packed.detach().double().requires_grad_()

    out = cpp_kernels.attention(packed, None, starts, starts, (512, 512), heads, causal)

    rows = [attend(part, part, heads=heads, causal=causal) for part in twin.split(lengths)]
    expected = torch.cat(rows)
    assert distance(out, expected) < BOUNDS[dtype]
    (grad,) = torch.autograd.grad(out, packed, weights)
    (exact,) = torch.autograd.grad(expected, twin, weights.double())
    assert distance(grad, exact) < BOUNDS[dtype]


def test_a_masked_score_has_no_effect_however_large():
    packed = torch.randn(20, 3 * 16)
    packed[19, :32] = 30.0  # by far the largest score for all that may not see it
    packed[:, :16] = 1.0

    outs: list[Tensor] = []
    for length in (20, 19):
        starts = torch.tensor([0, length], dtype=torch.int32)
        outs.append(cpp_kernels.attention(packed[:length], None, starts, starts, (32, 32), 1, True))

    assert distance(outs[0][:19], outs[1]) < 1e-6


@precisions
def test_attention_to_a_memory(dtype: torch.dtype):
    torch.manual_seed(1)
    queries, keys, heads, width = [3, 20, 1], [18, 1, 33], 4, 64
    starts = [
        torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)
        for lengths in (queries, keys)
    ]
    q = torch.randn(sum(queries), width).to(dtype).requires_grad_()
    memory = torch.randn(sum(keys), 2 * width).to(dtype).requires_grad_()
    twins = [x.detach().double().requires_grad_() for x in (q, memory)]

    out = cpp_kernels.attention(q, memory, *starts, (32, 64), heads, False)

    pairs = zip(twins[0].split(queries), twins[1].split(keys), strict=True)
    expected = torch.cat([attend(left, right, heads=heads, causal=False) for left, right in pairs])
    assert distance(out, expected) < BOUNDS[dtype]
    grads = torch.autograd.grad(out.float().square().sum(), [q, memory])
    exact = torch.autograd.grad(expected.square().sum(), twins)
    for grad, true in zip(grads, exact, strict=True):
        assert distance(grad, true) < 2 * BOUNDS[dtype]


def attend(queries: Tensor, memory: Tensor, *, heads: int, causal: bool) -> Tensor:
    """Equation (1) for one sentence, from projections that lie side by side."""
    width = memory.size(1) // (3 if queries is memory else 2)
    q = queries[:, :width]
    k, v = memory[:, -2 * width : -width], memory[:, -width:]
    q, k, v = (x.unflatten(1, (heads, -1)).transpose(0, 1)[None] for x in (q, k, v))
    mask = torch.ones(1, 1, q.size(2), k.size(2)).tril().bool() if causal else None
    return scaled_dot_product_attention(q, k, v, mask)[0].transpose(0, 1).flatten(1)


@pytest.mark.usefixtures("threads")
@precisions
@pytest.mark.parametrize("pieces", [15, 16, 17, 100])
def test_the_loss_of_vocabularies_of_any_size(pieces: int, dtype: torch.dtype):
    rows, matrix, targets = output_inputs(pieces, dtype)
    loss = cpp_kernels.cross_entropy(rows, matrix, targets, 0.1, 16)

    twins = [x.detach().double().requires_grad_() for x in (rows, matrix)]
    logits = (twins[0] @ twins[1].T)[None]
    expected = cross_entropy(logits, targets[None].long(), smoothing=0.1).smoothed
    assert loss.item() == pytest.approx(expected.item(), rel=BOUNDS[dtype] / 5)
    grads, exact = gradients(loss, [rows, matrix]), gradients(expected, twins)
    for grad, true in zip(grads, exact, strict=True):
        assert distance(grad, true) < BOUNDS[dtype]


@pytest.mark.usefixtures("threads")
@precisions
@pytest.mark.parametrize("pieces", [15, 16, 17, 100])
def test_r_drop_of_vocabularies_of_any_size(pieces: int, dtype: torch.dtype):
    first, matrix, targets = output_inputs(pieces, dtype)
    second = output_inputs(pieces, dtype, seed=2)[0]
    targets %= pieces  # no PAD
    loss = cpp_kernels.r_drop(first, second, matrix, targets, 0.1, 3.0, 16)

    twins = [x.detach().double().requires_grad_() for x in (first, second, matrix)]
    expected = r_drop_loss(
        twins[0][None],
        twins[1][None],
        twins[2],
        target_out=targets[None].long(),
        smoothing=0.1,
        alpha=3.0,
    )
    assert loss.item() == pytest.approx(expected.item(), rel=BOUNDS[dtype] / 5)
    grads, exact = gradients(loss, [first, second, matrix]), gradients(expected, twins)
    for grad, true in zip(grads, exact, strict=True):
        assert distance(grad, true) < 2 * BOUNDS[dtype]


def test_sentences_up_to_the_limit():
    torch.manual_seed(1)
    model, batch = Transformer(CONFIG).train(), random_batch(rows=3, longest=_MAX_CPU_LENGTH)
    packed = pack_batch(batch, pad=98, limit=_MAX_CPU_LENGTH)
    assert packed is not None

    losses = [fused_loss(model, packed, smoothing=0.1), batch_loss(model, batch)]

    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)
    fused, unfused = (torch.autograd.grad(loss, list(model.parameters())) for loss in losses)
    for (name, _), grad, other in zip(model.named_parameters(), fused, unfused, strict=True):
        if not name.endswith("key.bias"):
            assert distance(grad, other) < 1e-4, name


def test_r_drop_of_a_model_without_dropout_is_its_loss_alone():
    torch.manual_seed(1)
    model, batch = Transformer(CONFIG).train(), random_batch(rows=9, longest=40)
    packed = pack_batch(batch.repeat(), pad=98)
    assert packed is not None

    loss = fused_loss(model, packed, smoothing=0.1, r_drop=2.0)

    assert loss.item() == pytest.approx(batch_loss(model, batch).item(), rel=1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_not_hidden(bad: float):
    rows, matrix, targets = output_inputs(40, torch.float32)
    spoiled = rows.detach().clone()
    spoiled[5, 3] = bad

    assert not cpp_kernels.cross_entropy(spoiled, matrix, targets, 0.1, 16).isfinite()
    targets %= 40
    assert not cpp_kernels.r_drop(spoiled, rows, matrix, targets, 0.1, 3.0, 16).isfinite()


def test_far_apart_logits():
    """Their exponentials underflow; the loss does not."""
    matrix = torch.eye(17) * 200
    rows, targets = torch.eye(17)[:16], torch.arange(1, 17, dtype=torch.int32) % 16
    loss = cpp_kernels.cross_entropy(rows, matrix, targets, 0.0, 16)

    assert loss.item() == pytest.approx(16 * 200)


@precisions
def test_dropout_has_its_probability_and_one_mask_for_both_directions(dtype: torch.dtype):
    x, y = torch.zeros(500, 64, dtype=dtype), torch.ones(500, 64, dtype=dtype).requires_grad_()
    gain, offset, seed = torch.ones(64), torch.zeros(64), torch.tensor([7], dtype=torch.int32)
    masks: list[Tensor] = []
    for stream in (0, 1):
        total, out, _ = cpp_kernels.add_norm(x, y, None, gain, offset, 1e-5, 0.3, seed, stream)
        slopes = torch.ones_like(total), torch.zeros_like(out)
        (grad,) = torch.autograd.grad([total, out], y, slopes)
        assert torch.equal(grad, total)
        assert set(total.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).to(dtype).item()}
        masks.append(total == 0)
    assert masks[0].float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert (masks[0] & masks[1]).float().mean().item() == pytest.approx(0.09, abs=0.01)


def test_embedded_pieces_drop_the_same_values_in_both_directions():
    ids = torch.arange(40, dtype=torch.int32)
    matrix, table = torch.ones(50, 64).requires_grad_(), torch.zeros(40, 64)
    seed = torch.tensor([3], dtype=torch.int32)

    out = cpp_kernels.embed(ids, ids, matrix, table, 2.0, torch.float32, 0.5, seed, 0)
    (grad,) = torch.autograd.grad(out.sum(), matrix)

    assert torch.equal(grad[:40], out)
    assert not grad[40:].any()
    assert out.mean().item() == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_updates_learn_as_those_without_the_kernels(optimizer: str, precision: str, r_drop: float):
    config = TrainConfig(optimizer=optimizer, precision=precision, r_drop=r_drop)  # type: ignore[arg-type]
    losses: list[float] = []
    for fused in (False, True):
        torch.manual_seed(1)
        model = Transformer(CONFIG).train()
        optimizers, replica = make_optimizers(model, config), make_replica(model, config)
        passes = make_fused_passes(model, config, replica) if fused else None
        assert fused == (passes is not None)
        for number in range(6):
            result = train_step(
                model,
                # Two micro-batches, and sentences too long for the kernels in the last.
                [
                    random_batch(rows=20, longest=12, seed=number),
                    random_batch(rows=2, longest=1100 if number == 5 else 20, seed=number),
                ],
                optimizers=optimizers,
                rates=[1e-3, 1e-3],
                loss=LossSettings(r_drop=r_drop),
                replica=replica,
                passes=passes,
            )
        losses.append(result.loss_sum.item() / result.tokens)
    assert losses[1] == pytest.approx(losses[0], rel=1e-5 if precision == "float32" else 2e-3)


@pytest.mark.parametrize(
    "departures",
    [{"positions": "learned"}, {"output_bias": True}, {"attention_dropout": 0.1}, {"d_k": 16}],
    ids=str,
)
def test_other_models_are_passed_as_they_are_written(departures: dict[str, object]):
    model = Transformer(replace(CONFIG, **departures))  # type: ignore[arg-type]

    assert make_fused_passes(model, TrainConfig(), None) is None


def test_lack_of_memory_is_an_error_of_python():
    script = [sys.executable, "-c", OUT_OF_MEMORY]

    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr


def output_inputs(
    pieces: int, dtype: torch.dtype, *, seed: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, an output matrix that has PAD as well, and targets, PAD among them."""
    rng = torch.Generator().manual_seed(seed)
    rows = torch.randn(37, 32, generator=rng).to(dtype).requires_grad_()
    matrix = torch.randn(pieces + 1, 32, generator=torch.Generator().manual_seed(3))
    targets = torch.randint(pieces + 1, (37,), generator=rng, dtype=torch.int32)
    targets[:2] = torch.tensor([pieces, pieces - 1])
    return rows, matrix.requires_grad_(), targets


def gradients(loss: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, inputs)
