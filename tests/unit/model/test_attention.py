"""Attention by itself: what a query sees, and what it does not."""

import pytest
import torch
from tests.conftest import weights_of

from transduce.model import kernels as module
from transduce.model.attention import Attention


def make(seed: int = 0) -> Attention:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Attention(14, heads=3, d_k=5, d_v=7)


def draw(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_project_kv_makes_keys_and_values_of_their_own_widths():
    past = make().project_kv(draw(2, 11, 14))

    assert past.keys.shape == (2, 3, 11, 5)
    assert past.values.shape == (2, 3, 11, 7)


def test_a_query_that_may_look_at_one_position_gets_that_position_whole():
    attention, memory = make(), draw(2, 11, 14)
    mask = torch.zeros(2, 1, 1, 11, dtype=torch.bool)
    mask[..., 4] = True

    read = attention(draw(2, 6, 14, seed=2), attention.project_kv(memory), mask=mask)

    alone = attention.out(attention.value(memory[:, 4]))
    torch.testing.assert_close(read, alone[:, None].expand(2, 6, 14))


def test_what_is_masked_cannot_be_told_from_the_outside():
    attention, x, memory = make(), draw(2, 6, 14, seed=2), draw(2, 11, 14)
    mask = (torch.arange(11) < torch.tensor([11, 7])[:, None])[:, None, None]
    other = memory.clone()
    other[1, 7:] = 1e4

    first = attention(x, attention.project_kv(memory), mask=mask)
    second = attention(x, attention.project_kv(other), mask=mask)

    assert torch.equal(first, second)


def test_causal_attention_sees_its_own_position_and_none_later():
    attention, x = make(), draw(2, 11, 14)
    changed = x.clone()
    changed[:, 5] += 1.0

    before = attention(x, attention.project_kv(x), causal=True)
    after = attention(changed, attention.project_kv(changed), causal=True)

    same = (before == after).flatten(2).all(-1).all(0)
    assert same.tolist() == [True] * 5 + [False] * 6


def test_weights_are_shares_of_what_may_be_seen():
    attention, x, memory = make(), draw(2, 6, 14, seed=2), draw(2, 11, 14)
    mask = torch.rand(2, 1, 6, 11, generator=torch.Generator().manual_seed(3)) < 0.5
    mask[..., 0] = True

    weights = weights_of(attention, x, attention.project_kv(memory), mask)

    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 6))
    assert (weights.masked_select(~mask) == 0).all()


def test_the_mean_of_the_values_is_read_where_all_keys_are_alike():
    attention, x, memory = make(), draw(2, 6, 14, seed=2), draw(2, 11, 14)
    past = attention.project_kv(memory)
    past = past._replace(keys=torch.ones_like(past.keys))

    read = attention(x, past)

    mean = attention.out(attention.value(memory).mean(1))
    torch.testing.assert_close(read, mean[:, None].expand(2, 6, 14))


@pytest.mark.parametrize(("length", "calls"), [(48, 0), (49, 1)])
def test_a_cpu_takes_torchs_kernel_for_long_sentences_only(
    length: int, calls: int, monkeypatch: pytest.MonkeyPatch
):
    attention, x = make(), draw(1, length, 14)
    called: list[int] = []
    kernel = module.F.scaled_dot_product_attention

    def counted(*tensors: torch.Tensor, attn_mask: None, **options: float) -> torch.Tensor:
        called.append(1)
        return kernel(*tensors, attn_mask=attn_mask, **options)

    monkeypatch.setattr(module.F, "scaled_dot_product_attention", counted)
    attention(x, attention.project_kv(x))

    assert len(called) == calls


def test_projections_with_biases_can_be_done_by_hand():
    attention = Attention(14, heads=3, d_k=5, d_v=7, bias=True)
    for projection in attention.children():
        torch.nn.init.normal_(projection.bias, generator=torch.Generator().manual_seed(3))
    memory, x = draw(2, 11, 14), draw(2, 1, 14, seed=2)

    past = attention.project_kv(memory)
    read = attention(x, past)

    keys = (memory @ attention.key.weight.T + attention.key.bias).view(2, 11, 3, 5)
    queries = (x @ attention.query.weight.T + attention.query.bias).view(2, 1, 3, 5)
    values = (memory @ attention.value.weight.T + attention.value.bias).view(2, 11, 3, 7)
    shares = torch.einsum("bqhk,bmhk->bhqm", queries, keys).div(5**0.5).softmax(-1)
    mixed = torch.einsum("bhqm,bmhv->bqhv", shares, values).flatten(2)
    torch.testing.assert_close(read, mixed @ attention.out.weight.T + attention.out.bias)


def test_without_being_asked_for_there_are_no_biases():
    assert all(projection.bias is None for projection in make().children())
