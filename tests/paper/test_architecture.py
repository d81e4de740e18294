"""Sections 3.1 and 3.3 to 3.5: stacks, feed-forward, the one embedding, positions."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.data.batch import collate
from transduce.model.config import ModelConfig
from transduce.model.kernels import Dropout
from transduce.model.layers import AddNorm, FeedForward, sinusoids
from transduce.model.transformer import Transformer


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def on_paper(config: ModelConfig) -> Transformer:
    """A model of shapes without numbers: quick, however large."""
    with torch.device("meta"):
        return Transformer(config)


def test_the_stacks_have_six_layers_of_width_512():
    base = ModelConfig()

    assert (base.encoder_layers, base.decoder_layers, base.d_model) == (6, 6, 512)


def test_a_sub_layer_is_layer_norm_of_x_plus_sublayer_of_x():
    assert ModelConfig().norm == "post"
    around, x = AddNorm(ModelConfig(d_model=14, dropout=0.0)), draw(2, 5, 14)
    nn.init.normal_(around.norm.weight)

    y = around(x, torch.sin)

    mean = (x + x.sin()).mean(-1, keepdim=True)
    spread = ((x + x.sin() - mean).square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(y, (x + x.sin() - mean) / spread * around.norm.weight)


def test_an_encoder_layer_has_two_sub_layers_and_a_decoder_layer_three(tiny: Transformer):
    def sublayers(layer: nn.Module) -> int:
        return sum(isinstance(module, AddNorm) for module in layer.modules())

    assert {sublayers(layer) for layer in tiny.encoder} == {2}
    assert {sublayers(layer) for layer in tiny.decoder} == {3}


def test_no_normalisation_stands_outside_the_sub_layers(tiny: Transformer):
    norms = [name for name, module in tiny.named_modules() if isinstance(module, nn.LayerNorm)]

    assert len(norms) == 2 * 2 + 3 * 3
    assert all("_norm.norm" in name for name in norms)


def test_the_decoder_starts_from_a_zero_vector_and_reads_the_target_shifted_right(
    tiny: Transformer,
):
    batch = collate([[3]], [[4, 5, 6]], pad=18, eos=0)

    assert batch.target_in.tolist() == [[18, 4, 5, 6]]
    assert batch.target_out.tolist() == [[4, 5, 6, 0]]
    assert torch.equal(tiny.embed(batch.target_in)[0, 0], sinusoids(1, 14)[0])


def test_equation_2_is_two_linear_maps_with_biases_and_a_relu_between():
    feed, x = FeedForward(14, 23), draw(2, 5, 14)

    y = feed(x)

    inner = (x @ feed.inner.weight.T + feed.inner.bias).clamp(min=0)
    torch.testing.assert_close(y, inner @ feed.outer.weight.T + feed.outer.bias)


def test_feed_forward_is_two_convolutions_of_kernel_1():
    feed, x = FeedForward(14, 23), draw(2, 5, 14)

    y = feed(x)

    inner = F.conv1d(x.mT, feed.inner.weight[:, :, None], feed.inner.bias).relu()
    outer = F.conv1d(inner, feed.outer.weight[:, :, None], feed.outer.bias)
    torch.testing.assert_close(y, outer.mT)


def test_feed_forward_is_the_same_at_every_position_and_differs_from_layer_to_layer(
    tiny: Transformer,
):
    x = draw(1, 1, 14).expand(1, 5, 14)

    first, second = (layer.feed_forward(x) for layer in tiny.encoder)

    torch.testing.assert_close(first, first[:, :1].expand(1, 5, 14))
    assert not torch.allclose(first, second)


def test_the_inner_layer_is_four_times_as_wide():
    assert ModelConfig().d_ff == 4 * ModelConfig().d_model == 2048


def test_one_matrix_embeds_both_sides_and_makes_the_logits(tiny: Transformer):
    tall = [name for name, weight in tiny.named_parameters() if 19 in weight.shape]

    assert tall == ["embedding.weight"]
    x = draw(2, 5, 14)
    torch.testing.assert_close(tiny.logits(x), x @ tiny.embedding.weight.T)


def test_embeddings_are_multiplied_by_the_root_of_the_width(tiny: Transformer):
    embedded = tiny.embed(torch.tensor([[3, 4, 5]]))

    scaled = tiny.embedding.weight[3:6] * math.sqrt(14)
    torch.testing.assert_close(embedded[0] - sinusoids(3, 14), scaled)


def test_both_sides_are_embedded_alike(tiny: Transformer, monkeypatch: pytest.MonkeyPatch):
    """The first thing both stacks do is `embed`, so the scale and the positions are the same."""
    seen: list[list[int]] = []
    embed = tiny._embed

    def noted(embedding: nn.Embedding, ids: Tensor, *, first: int) -> Tensor:
        seen.append(ids[0].tolist())
        return embed(embedding, ids, first=first)

    monkeypatch.setattr(tiny, "_embed", noted)
    tiny(torch.tensor([[3, 4, 0]]), None, torch.tensor([[18, 7]]))

    assert seen == [[3, 4, 0], [18, 7]]


@pytest.mark.parametrize("place", [0, 1, 7, 511])
def test_sines_and_cosines_are_interleaved(place: int):
    made = sinusoids(512, 14)[place]

    by_hand = [
        wave(place / 10_000 ** (2 * i / 14)) for i in range(7) for wave in (math.sin, math.cos)
    ]
    torch.testing.assert_close(made, torch.tensor(by_hand), rtol=0, atol=1e-6)


def test_wavelengths_go_from_two_pi_to_nearly_ten_thousand_times_that():
    table = sinusoids(2, 512)[1]

    assert table[0].item() == pytest.approx(math.sin(1.0))
    assert table[510].item() == pytest.approx(math.sin(10_000 ** -(510 / 512)), rel=1e-5)


def test_a_shift_of_positions_is_a_rotation():
    """Section 3.5: PE(pos + k) is a linear function of PE(pos), the same for every pos."""
    table = sinusoids(40, 6).double()
    turned = torch.linalg.lstsq(table[:30], table[7:37]).solution

    torch.testing.assert_close(table[:30] @ turned, table[7:37], rtol=0, atol=1e-5)


def test_without_positions_the_encoder_would_not_know_the_order(tiny: Transformer):
    source, order = torch.tensor([[3, 4, 5, 6, 7]]), torch.tensor([2, 0, 4, 1, 3])
    with_order = tiny.encode(source, None)[:, order]
    assert not torch.allclose(tiny.encode(source[:, order], None), with_order, atol=1e-3)

    tiny.positions.table.zero_()

    plain = tiny.encode(source, None)[:, order]
    torch.testing.assert_close(tiny.encode(source[:, order], None), plain)


def test_dropout_is_on_sub_layer_outputs_and_on_the_embedded_input_alone(tiny: Transformer):
    places = {name for name, module in tiny.named_modules() if isinstance(module, Dropout)}

    around = {f"encoder.{n}.{sub}.dropout" for n in range(2) for sub in ENCODER}
    around |= {f"decoder.{n}.{sub}.dropout" for n in range(3) for sub in DECODER}
    assert places == around | {"dropout"}
    assert not [module for module in tiny.modules() if isinstance(module, nn.Dropout)]


ENCODER = ("self_attention_norm", "feed_forward_norm")
DECODER = ("self_attention_norm", "cross_attention_norm", "feed_forward_norm")


def test_dropout_falls_on_the_sub_layers_output_before_it_is_added():
    around, x = AddNorm(ModelConfig(d_model=14, dropout=0.5)).train(), draw(2, 5, 14)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        y = around(x, torch.sin)
        torch.manual_seed(3)
        dropped = Dropout(0.5).train()(x.sin())

    assert (dropped == 0).any()
    torch.testing.assert_close(y, F.layer_norm(x + dropped, (14,)))


def test_dropout_falls_on_the_sum_of_embedding_and_position(config: ModelConfig):
    model = Transformer(ModelConfig(vocab_size=19, d_model=14, dropout=0.5)).train()
    ids = torch.tensor([[3, 4, 5]])

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        embedded = model.embed(ids)
        torch.manual_seed(3)
        summed = model.embedding(ids) * math.sqrt(14) + sinusoids(3, 14)
        torch.testing.assert_close(embedded, Dropout(0.5).train()(summed))


def test_attention_and_the_inner_layer_drop_nothing():
    config = ModelConfig(
        vocab_size=19, encoder_layers=1, decoder_layers=1, d_model=14, d_ff=23, dropout=0.9
    )
    layer, x = Transformer(config).train().decoder[0], draw(2, 5, 14)

    for sublayer in (
        layer.feed_forward,
        lambda y: layer.self_attention(y, layer.self_attention.project_kv(y), causal=True),
    ):
        assert torch.equal(sublayer(x), sublayer(x))
