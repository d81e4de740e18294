"""Equation (1) four ways: as one reads it, as weights, a CPU's kernel, torch's kernel."""

import pytest
import torch
from tests.conftest import weights_of
from torch import Tensor
from torch.nn import functional as F

from transduce.model.attention import Attention, KeyValue, scaled_dot_product_attention
from transduce.model.kernels import fastest_attention, scaled_dot_product_attention_cpu


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def make() -> Attention:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Attention(14, heads=3, d_k=5, d_v=7)


def scattered() -> Tensor:
    mask = torch.rand(2, 1, 6, 11, generator=torch.Generator().manual_seed(9)) < 0.6
    mask[..., 0] = True  # every query sees something
    return mask


def padded() -> Tensor:
    return (torch.arange(11) < torch.tensor([11, 4])[:, None])[:, None, None]


def triangle() -> Tensor:
    return torch.ones(1, 1, 6, 6, dtype=torch.bool).tril()


@pytest.mark.parametrize("mask", [None, scattered(), padded()], ids=["all", "scattered", "padded"])
def test_the_equation_is_torchs_kernel(mask: Tensor | None):
    queries = draw(2, 3, 6, 5, seed=1)
    past = KeyValue(draw(2, 3, 11, 5, seed=2), draw(2, 3, 11, 7, seed=3))

    readable = scaled_dot_product_attention(queries, *past, mask)
    result = scaled_dot_product_attention_cpu(queries, *past, mask=mask, causal=False)

    kernel = F.scaled_dot_product_attention(queries, past.keys, past.values, attn_mask=mask)
    torch.testing.assert_close(readable, kernel)
    torch.testing.assert_close(result, kernel)


def test_the_equation_is_torchs_kernel_when_causal():
    queries = draw(2, 3, 6, 5, seed=1)
    past = KeyValue(draw(2, 3, 6, 5, seed=2), draw(2, 3, 6, 7, seed=3))

    readable = scaled_dot_product_attention(queries, *past, triangle())
    result = scaled_dot_product_attention_cpu(queries, *past, mask=None, causal=True)

    kernel = F.scaled_dot_product_attention(queries, past.keys, past.values, is_causal=True)
    torch.testing.assert_close(readable, kernel)
    torch.testing.assert_close(result, kernel)


@pytest.mark.parametrize("short", [0, 128 * 128], ids=["kernel", "written out"])
@pytest.mark.parametrize("mask", [None, scattered(), padded()], ids=["all", "scattered", "padded"])
def test_forward_is_the_weights_of_equation_1_times_the_values(
    mask: Tensor | None, short: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.model.kernels.WRITTEN_OUT_MAX_SCORES", short)
    attention, x = make(), draw(2, 6, 14, seed=4)
    past = attention.project_kv(draw(2, 11, 14, seed=5))

    fast = attention(x, past, mask=mask)

    seen = torch.ones(2, 1, 6, 11, dtype=torch.bool) if mask is None else mask
    mixed = weights_of(attention, x, past, seen) @ past.values
    torch.testing.assert_close(fast, attention.out(mixed.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("short", [0, 128 * 128], ids=["kernel", "written out"])
def test_causal_is_the_lower_triangle(short: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("transduce.model.kernels.WRITTEN_OUT_MAX_SCORES", short)
    attention, x = make(), draw(2, 6, 14, seed=4)
    past = attention.project_kv(x)

    fast = attention(x, past, causal=True)

    mixed = weights_of(attention, x, past, triangle()) @ past.values
    torch.testing.assert_close(fast, attention.out(mixed.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("causal", [False, True])
def test_the_two_ways_have_one_gradient(causal: bool, monkeypatch: pytest.MonkeyPatch):
    def gradients(short: int) -> list[Tensor]:
        monkeypatch.setattr("transduce.model.kernels.WRITTEN_OUT_MAX_SCORES", short)
        attention, x = make().double(), draw(2, 6, 14, seed=4).double().requires_grad_()
        attention(x, attention.project_kv(x), causal=causal).square().sum().backward()
        return [tensor.grad for tensor in (x, *attention.parameters()) if tensor.grad is not None]

    for kernel, result in zip(gradients(0), gradients(128 * 128), strict=True):
        torch.testing.assert_close(result, kernel, rtol=1e-10, atol=1e-12)


def test_a_whole_model_says_the_same_either_way(tiny, monkeypatch: pytest.MonkeyPatch):
    source = torch.randint(2, 36, (3, 11), generator=torch.Generator().manual_seed(1))
    target = torch.randint(2, 36, (3, 7), generator=torch.Generator().manual_seed(2))
    mask = (torch.arange(11) < torch.tensor([11, 4, 8])[:, None])[:, None, None]

    result = tiny(source, mask, target)
    monkeypatch.setattr("transduce.model.kernels.WRITTEN_OUT_MAX_SCORES", 0)

    torch.testing.assert_close(tiny(source, mask, target), result)


@pytest.mark.parametrize("causal", [False, True])
def test_without_a_memory_attention_is_to_the_input_itself(causal: bool):
    attention, x = make(), draw(2, 6, 14, seed=4)

    assert torch.equal(
        attention(x, causal=causal), attention(x, attention.project_kv(x), causal=causal)
    )


def test_training_in_bfloat16_avoids_torchs_slow_backward_kernel(monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []

    def kernel(queries: Tensor, *others: Tensor, **settings: object) -> Tensor:
        calls.append(queries.size(2))
        return queries

    monkeypatch.setattr(F, "scaled_dot_product_attention", kernel)
    for length in (64, 257, 258):  # a longer one would take memory of its square
        heads = torch.randn(1, 1, length, 4, dtype=torch.bfloat16, requires_grad=True)
        fastest_attention(heads, heads, heads, mask=None, causal=True).sum().backward()
        with torch.no_grad():
            fastest_attention(heads, heads, heads, mask=None, causal=True)

    assert calls == [64, 257, 258, 258]
