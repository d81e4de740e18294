"""The bricks of Figure 1, each against the same thing put together by hand."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from transduce.model.config import ModelConfig
from transduce.model.layers import AddNorm, DecoderLayer, EncoderLayer, FeedForward


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def uneven(module: nn.Module) -> None:
    """Give gains and offsets values that a forgotten normalisation would not show by chance."""
    for norm in module.modules():
        if isinstance(norm, nn.LayerNorm):
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)


def test_feed_forward_can_be_done_by_hand():
    feed = FeedForward(2, 3)
    feed.load_state_dict(
        {
            "inner.weight": torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
            "inner.bias": torch.tensor([0.0, -5.0, 1.0]),
            "outer.weight": torch.tensor([[1.0, 1.0, 2.0], [0.0, 1.0, -1.0]]),
            "outer.bias": torch.tensor([10.0, 20.0]),
        }
    )

    y = feed(torch.tensor([[[2.0, 3.0]]]))

    # relu([2, 3 - 5, 2 + 3 + 1]) = [2, 0, 6]; [2 + 0 + 12 + 10, 0 - 6 + 20]
    assert y.tolist() == [[[24.0, 14.0]]]


def test_feed_forward_with_gelu_can_be_done_by_hand():
    feed, x = FeedForward(14, 23, activation="gelu"), draw(2, 5, 14)

    y = feed(x)

    inner = x @ feed.inner.weight.T + feed.inner.bias
    below = (1 + torch.erf(inner / 2**0.5)) / 2  # Φ: how much of a normal distribution lies below
    torch.testing.assert_close(y, (inner * below) @ feed.outer.weight.T + feed.outer.bias)


def test_feed_forward_with_silu_can_be_done_by_hand():
    feed, x = FeedForward(14, 23, activation="silu"), draw(2, 5, 14)

    y = feed(x)

    inner = x @ feed.inner.weight.T + feed.inner.bias
    gated = inner / (1 + (-inner).exp())
    torch.testing.assert_close(y, gated @ feed.outer.weight.T + feed.outer.bias)


def test_the_activation_is_the_configs_on_both_sides(config: ModelConfig):
    for kind in (EncoderLayer, DecoderLayer):
        relu, gelu = kind(config), kind(replace(config, activation="gelu"))
        gelu.load_state_dict(relu.state_dict())
        x = draw(2, 5, 14)

        assert (gelu.feed_forward(x) != relu.feed_forward(x)).any()


def test_add_norm_before_training_begins_is_the_normalised_sum(config: ModelConfig):
    around = AddNorm(config)
    x = draw(2, 5, 14)

    y = around(x, torch.sin)

    torch.testing.assert_close(y, nn.functional.layer_norm(x + x.sin(), (14,)))


def test_pre_norm_leaves_the_residual_path_alone(config: ModelConfig):
    around = AddNorm(replace(config, norm="pre"))
    x = draw(2, 5, 14)

    y = around(x, torch.sin)

    torch.testing.assert_close(y, x + nn.functional.layer_norm(x, (14,)).sin())


def test_an_encoder_layer_is_attention_then_feed_forward(config: ModelConfig):
    layer, x = EncoderLayer(config).eval(), draw(2, 5, 14)
    uneven(layer)
    mask = (torch.arange(5) < torch.tensor([5, 3])[:, None])[:, None, None]

    y = layer(x, mask)

    seen = layer.self_attention(x, layer.self_attention.project_kv(x), mask=mask)
    middle = layer.self_attention_norm.norm(x + seen)
    torch.testing.assert_close(y, layer.feed_forward_norm.norm(middle + layer.feed_forward(middle)))


def test_a_decoder_layer_is_two_attentions_then_feed_forward(config: ModelConfig):
    layer, x = DecoderLayer(config).eval(), draw(2, 6, 14)
    uneven(layer)
    memory = layer.cross_attention.project_kv(draw(2, 5, 14, seed=2))
    mask = (torch.arange(5) < torch.tensor([5, 3])[:, None])[:, None, None]

    y = layer(x, memory, mask)

    first = layer.self_attention_norm.norm(
        x + layer.self_attention(x, layer.self_attention.project_kv(x), causal=True)
    )
    second = layer.cross_attention_norm.norm(
        first + layer.cross_attention(first, memory, mask=mask)
    )
    torch.testing.assert_close(y, layer.feed_forward_norm.norm(second + layer.feed_forward(second)))
