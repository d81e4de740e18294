"""Section 3.2: attention, in the paper's words and by hand."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from transduce.model.attention import Attention, KeyValue, scaled_dot_product_attention
from transduce.model.config import ModelConfig
from transduce.model.fused_decoder import FusedDecoder
from transduce.model.kernels import scaled_dot_product_attention_cpu
from transduce.model.transformer import Transformer


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def by_hand(query: list[float], keys: list[list[float]], values: list[list[float]]) -> list[float]:
    """Equation (1) for one query, in Python's own numbers."""
    products = [sum(q * k for q, k in zip(query, key, strict=True)) for key in keys]
    powers = [math.exp(product / math.sqrt(len(query))) for product in products]
    shares = [power / sum(powers) for power in powers]
    return [
        sum(share * value[axis] for share, value in zip(shares, values, strict=True))
        for axis in range(len(values[0]))
    ]


@pytest.mark.parametrize("way", [scaled_dot_product_attention, scaled_dot_product_attention_cpu])
def test_equation_1_is_the_softmax_of_scaled_products_times_the_values(way: Callable[..., Tensor]):
    queries, keys, values = draw(3, 5), draw(7, 5, seed=2), draw(7, 2, seed=3)

    made = way(queries[None, None], keys[None, None], values[None, None])

    wanted = [by_hand(query, keys.tolist(), values.tolist()) for query in queries.tolist()]
    torch.testing.assert_close(made[0, 0], torch.tensor(wanted))


def test_heads_attend_apart_and_stand_side_by_side_before_the_output():
    attention, x = Attention(14, heads=3, d_k=5, d_v=7), draw(2, 6, 14)

    y = attention(x, attention.project_kv(x))

    heads: list[Tensor] = []
    for head in range(3):
        narrow, wide = slice(5 * head, 5 * head + 5), slice(7 * head, 7 * head + 7)
        queries, keys = (x @ item.weight[narrow].T for item in (attention.query, attention.key))
        shares = (queries @ keys.mT / math.sqrt(5)).softmax(-1)
        heads.append(shares @ (x @ attention.value.weight[wide].T))
    torch.testing.assert_close(y, torch.cat(heads, dim=-1) @ attention.out.weight.T)


def test_attention_projects_without_biases(tiny: Transformer):
    biased = [name for name, _ in tiny.named_parameters() if ("attention." in name)]

    names = [name for name in biased if "_norm." not in name and not name.endswith(".weight")]
    assert names == []


def test_the_decoders_queries_meet_keys_and_values_of_the_encoders_output(tiny: Transformer):
    memory = tiny.encode(torch.tensor([[3, 4, 5, 0]]), None)
    decoding = FusedDecoder(tiny, torch.tensor([[3, 4, 5, 0]]), None)

    for layer, step in zip(tiny.decoder, decoding._layers, strict=True):
        keys = (memory @ layer.cross_attention.key.weight.T).unflatten(-1, (3, 5)).transpose(1, 2)
        values = (
            (memory @ layer.cross_attention.value.weight.T).unflatten(-1, (3, 7)).transpose(1, 2)
        )
        torch.testing.assert_close(step._memory.keys, keys)
        torch.testing.assert_close(step._memory.values, values)


def test_every_position_of_the_encoder_sees_all_positions(tiny: Transformer):
    source = torch.tensor([[3, 4, 5, 6, 7, 8, 0]])
    plain = tiny.encode(source, None)

    for place in range(7):
        changed = source.clone()
        changed[0, place] = 9

        assert (tiny.encode(changed, None) != plain).any(-1).all()


def test_a_position_of_the_decoder_sees_itself_and_what_came_before(tiny: Transformer):
    source, target = torch.tensor([[3, 4, 0]]), torch.tensor([[18, 5, 6, 7, 8]])
    plain = tiny(source, None, target)

    for place in range(5):
        changed = target.clone()
        changed[0, place] = 9
        moved = (tiny(source, None, changed) != plain).any(-1)[0]

        assert moved.tolist() == [False] * place + [True] * (5 - place)


def test_the_mask_is_laid_on_scores_before_the_softmax():
    """Shares of what may be seen still sum to one: nothing is taken away after the softmax."""
    queries, past = draw(1, 1, 6, 5), KeyValue(draw(1, 1, 6, 5, seed=2), torch.ones(1, 1, 6, 2))
    mask = torch.ones(1, 1, 6, 6, dtype=torch.bool).tril()

    readable = scaled_dot_product_attention(queries, *past, mask)
    by_mask = scaled_dot_product_attention_cpu(queries, *past, mask=mask)
    by_order = scaled_dot_product_attention_cpu(queries, *past, causal=True)

    torch.testing.assert_close(readable, torch.ones(1, 1, 6, 2))
    torch.testing.assert_close(by_mask, torch.ones(1, 1, 6, 2))
    torch.testing.assert_close(by_order, torch.ones(1, 1, 6, 2))


def test_the_base_model_has_eight_heads_of_64():
    base = ModelConfig()

    assert (base.heads, base.d_k, base.d_v) == (8, 64, 64)
    assert base.d_k == base.d_v == base.d_model / base.heads
