"""Every GPU kernel against its twin, in double precision on the same inputs.

Also without a GPU, in float32, where Triton is installed: TRITON_INTERPRET=1.
"""

from collections.abc import Sequence

import pytest
import torch
from tests.gpu.device import DEVICE, DTYPE, distance
from torch import Tensor
from torch.nn import functional as F

from transduce.model import triton_kernels as kernels
from transduce.model.loss import cross_entropy

BOUND = 1e-2 if DEVICE == "cuda" else 1e-5


@pytest.mark.parametrize("read", ["total out copy", "total out", "total copy", "out copy", "out"])
@pytest.mark.parametrize(
    ("width", "bias", "dropout"),
    [(512, True, 0.0), (1024, True, 0.1), (48, False, 0.1), (64, True, 0.3)],
)
def test_add_norm(width: int, bias: bool, dropout: float, read: str):
    x, y = random_tensors((203, width), (203, width))
    (b,) = random_tensors((width,))
    gain, offset = (t.detach().float().requires_grad_() for t in random_tensors((width,), (width,)))
    random = dropout, seed_tensor(), 7
    inputs = [x, y, *([b] if bias else []), gain, offset]
    total, out, copy = kernels.FusedAddNorm.apply(
        x, y, b if bias else None, gain, offset, 1e-5, *random
    )
    twins = doubles(inputs)
    sum_y = twins[1] + twins[2] if bias else twins[1]
    if dropout:
        ones = torch.zeros_like(x), torch.ones_like(y)
        kept = kernels.FusedAddNorm.apply(*ones, None, gain, offset, 1e-5, *random)[0] > 0
        assert abs(kept.double().mean().item() - (1 - dropout)) < 0.03
        sum_y = sum_y * kept / (1 - dropout)
    true_total = twins[0] + sum_y
    true_out = F.layer_norm(true_total, (width,), twins[-2], twins[-1])
    assert distance(total, true_total) < BOUND
    assert distance(out, true_out) < BOUND
    assert torch.equal(out, copy)
    pairs = {"total": (total, true_total), "out": (out, true_out), "copy": (copy, true_out)}
    outputs, true_outputs = zip(*(pairs[name] for name in read.split()), strict=True)
    grads = [torch.randn_like(output) for output in outputs]
    assert_same_gradients(outputs, true_outputs, inputs, twins, grads)


@pytest.mark.parametrize("lengths", [(5, 7), (33, 70), (29, 29), (100, 200)])
@pytest.mark.parametrize("kind", ["self", "causal", "cross"])
def test_attention(lengths: tuple[int, int], kind: str):
    heads, depth, sentences = 2, 32, 3
    sides = [[max(1, length - 2 * n) for n in range(sentences)] for length in lengths]
    sides[0][1] = 0  # a sentence of padding may have one side only
    if kind != "cross":
        sides[1] = sides[0]
    starts = [torch.tensor([0, *side], device=DEVICE).cumsum(0).int() for side in sides]
    width = heads * depth
    packed, memory = random_tensors(
        (sum(sides[0]), width * (1 if kind == "cross" else 3)), (sum(sides[1]), 2 * width)
    )
    inputs = [packed, memory] if kind == "cross" else [packed]
    longest = max(sides[0]), max(sides[1])
    out = kernels.PackedAttention.apply(
        packed, memory if kind == "cross" else None, *starts, longest, heads, kind == "causal"
    )
    twins = doubles(inputs)
    q, k, v = twins[0].chunk(3, -1) if len(twins) == 1 else (twins[0], *twins[1].chunk(2, -1))
    parts: list[Tensor] = []
    for queries, keys in zip(
        q.split(sides[0]), zip(k.split(sides[1]), v.split(sides[1]), strict=True), strict=True
    ):
        split = [t.unflatten(-1, (heads, depth)).transpose(0, 1) for t in (queries, *keys)]
        part = F.scaled_dot_product_attention(
            split[0], split[1], split[2], is_causal=kind == "causal"
        )
        parts.append(part.transpose(0, 1).flatten(1))
    true_out = torch.cat(parts)
    assert distance(out, true_out) < BOUND
    assert_same_gradients([out], [true_out], inputs, twins, [torch.randn_like(out)])


def test_feed_forward():
    x, b = random_tensors((100, 32), (200,))
    inner, outer = random_tensors((200, 32), (32, 200))
    inputs = [x, inner, b, outer]
    out = kernels.FusedFeedForward.apply(*inputs)
    twins = doubles(inputs)
    true_out = F.relu(F.linear(twins[0], twins[1], twins[2])) @ twins[3].T
    assert distance(out, true_out) < BOUND
    assert_same_gradients([out], [true_out], inputs, twins, [torch.randn_like(out)])


@pytest.mark.parametrize("vocabulary", [9001, 777])
def test_cross_entropy_of_rows_some_of_which_are_padding(vocabulary: int):
    rows, matrix = random_tensors((37, 16), (vocabulary, 16))
    matrix = matrix.detach().float().requires_grad_()
    targets = torch.randint(vocabulary - 1, (37,), device=DEVICE, dtype=torch.int32)
    targets[-5:] = vocabulary - 1
    loss = kernels.CrossEntropy.apply(rows, matrix, targets, 0.1, 16)
    twins = doubles([rows, matrix.to(DTYPE)])
    logits = (twins[0] @ twins[1].T)[None]
    true_loss = cross_entropy(logits, targets[None].long(), smoothing=0.1).smoothed
    assert distance(loss, true_loss) < BOUND
    assert_same_gradients([loss], [true_loss], [rows, matrix], twins, [torch.ones_like(loss)])


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_embedding(dropout: float):
    (matrix,) = random_tensors((99, 64))
    matrix = matrix.detach().float().requires_grad_()
    ids = torch.randint(99, (150,), device=DEVICE, dtype=torch.int32)
    positions = torch.randint(20, (150,), device=DEVICE, dtype=torch.int32)
    table = torch.randn(20, 64, device=DEVICE)
    random = dropout, seed_tensor(), 3
    out = kernels.Embed.apply(ids, positions, matrix, table, 8.0, torch.float32, *random)
    twin = matrix.detach().double().requires_grad_()
    kept = out != 0
    assert abs(kept.double().mean().item() - (1 - dropout)) < 0.03
    true_out = (
        (F.embedding(ids.long(), twin, padding_idx=98) * 8 + table.double()[positions.long()])
        * kept
        / (1 - dropout)
    )
    assert distance(out, true_out) < 1e-5
    assert_same_gradients([out], [true_out], [matrix], [twin], [torch.randn_like(out)])


def test_dropout_differs_by_seed_and_by_call():
    x, y = torch.zeros(64, 64, device=DEVICE), torch.ones(64, 64, device=DEVICE)
    gain = torch.ones(64, device=DEVICE)
    settings = None, gain, gain, 1e-5, 0.5
    draws = [
        kernels.FusedAddNorm.apply(x, y, *settings, seed_tensor(seed), call)[0] > 0
        for seed, call in ((1, 1), (2, 1), (1, 2), (1, 1))
    ]
    assert torch.equal(draws[0], draws[3])
    for other in draws[1:3]:  # as independent draws would
        assert 0.45 < (draws[0] == other).double().mean() < 0.55


def random_tensors(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [
        (
            torch.randn(shape, device=DEVICE) / shape[-1] ** 0.5
            if len(shape) == 2 and shape[0] > 99
            else torch.randn(shape, device=DEVICE)
        )
        .to(DTYPE)
        .requires_grad_()
        for shape in shapes
    ]


def seed_tensor(seed: int = 12345) -> Tensor:
    return torch.tensor([seed], dtype=torch.int32, device=DEVICE)


def doubles(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def assert_same_gradients(
    outputs: Sequence[Tensor],
    true_outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    twins: Sequence[Tensor],
    grads: Sequence[Tensor],
) -> None:
    got = torch.autograd.grad(outputs, inputs, grads)
    expected = torch.autograd.grad(true_outputs, twins, [grad.double() for grad in grads])
    for number, (grad, true_grad) in enumerate(zip(got, expected, strict=True)):
        assert distance(grad, true_grad) < BOUND, f"gradient of input {number}"
