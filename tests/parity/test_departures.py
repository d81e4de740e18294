"""Dropout on attention weights and after the activation; what is scaled by √d_model."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from tests.conftest import SHAPE, made
from tests.served import bundle_of
from tests.unit.conftest import LINES
from torch import Tensor

from transduce.bundle.bundle import Bundle
from transduce.data.config import TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.model import kernels
from transduce.model.attention import Attention, attention_weights
from transduce.model.config import ModelConfig
from transduce.model.fused_decoder import FusedDecoder
from transduce.model.kernels import drop
from transduce.model.layers import FeedForward
from transduce.model.loss import output_projection_inputs
from transduce.model.transformer import Transformer, from_numpy

SOURCE = torch.tensor([[3, 1, 4, 1, 5, 0], [2, 6, 5, 0, 96, 96]])
SOURCE_MASK = (SOURCE != 96)[:, None, None]
TARGET_IN = torch.tensor([[96, 3, 5, 8, 9], [96, 7, 9, 3, 2]])


def attention(dropout: float) -> tuple[Attention, Tensor]:
    torch.manual_seed(3)
    return Attention(14, heads=3, d_k=5, d_v=7, dropout=dropout), torch.randn(2, 11, 14)


@pytest.mark.parametrize("short", [True, False], ids=["written out", "long"])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_drops_the_weights_of_equation_1(
    short: bool, causal: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kernels, "WRITTEN_OUT_MAX_SCORES", 10**6 if short else 0)
    layer, x = attention(0.4)
    kv = layer.project_kv(x)
    mask = torch.ones(1, 1, 11, 11, dtype=torch.bool).tril() if causal else None

    torch.manual_seed(7)
    fast = layer(x, kv, causal=causal)
    torch.manual_seed(7)
    queries = layer.query(x).unflatten(-1, (3, -1)).transpose(1, 2)
    weights = drop(attention_weights(queries, kv.keys, mask), 0.4)
    by_hand = layer.out((weights @ kv.values).transpose(1, 2).flatten(2))

    assert (weights == 0).float().mean() > 0.3
    torch.testing.assert_close(fast, by_hand)


def test_attention_drops_nothing_in_evaluation():
    layer, x = attention(0.4)
    plain, _ = attention(0.0)

    assert torch.equal(layer.eval()(x, layer.project_kv(x)), plain(x, plain.project_kv(x)))


def test_the_feed_forward_drops_between_activation_and_second_map():
    torch.manual_seed(3)
    feed, x = FeedForward(14, 23, dropout=0.4), torch.randn(2, 5, 14)

    torch.manual_seed(7)
    result = feed(x)
    torch.manual_seed(7)
    by_hand = feed.outer(drop(feed.inner(x).relu(), 0.4))

    assert torch.equal(result, by_hand)
    assert torch.equal(feed.eval()(x), feed.outer(feed.inner(x).relu()))


@pytest.mark.parametrize("name", ["attention_dropout", "relu_dropout"])
def test_a_model_has_each_dropout_in_every_layer(name: str):
    config = replace(SHAPE, vocab_size=97, dropout=0.0, **{name: 0.3})
    model = made(config).train()
    rates = {
        "attention_dropout": [m.dropout for m in model.modules() if isinstance(m, Attention)],
        "relu_dropout": [m.dropout for m in model.modules() if isinstance(m, FeedForward)],
    }

    assert set(rates.pop(name)) == {0.3}
    assert set(rates.popitem()[1]) == {0.0}
    assert not torch.equal(
        model(SOURCE, SOURCE_MASK, TARGET_IN), model(SOURCE, SOURCE_MASK, TARGET_IN)
    )
    assert torch.equal(
        model.eval()(SOURCE, SOURCE_MASK, TARGET_IN), model(SOURCE, SOURCE_MASK, TARGET_IN)
    )


def test_restricted_attention_refuses_dropout_on_weights():
    with pytest.raises(ValueError, match=r"model.attention_dropout 0.1 is for attention to all"):
        ModelConfig(radius=4, attention_dropout=0.1)
    with pytest.raises(ValueError, match=r"model.relu_dropout must be in \[0, 1\), not 1.0"):
        ModelConfig(relu_dropout=1.0)


def scaled(
    scale: Literal["embedding", "projection", "none"],
    tie: Literal["all", "decoder", "input", "none"],
    norm: Literal["post", "pre"],
) -> Transformer:
    config = replace(SHAPE, vocab_size=97, scale=scale, tie=tie, norm=norm, output_bias=True)
    model = made(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():  # biases and gains that are not trivial
            if weight.dim() == 1:
                weight += torch.linspace(-0.3, 0.4, len(weight)) * (1 + len(name) % 3)
    return model


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("tie", ["all", "decoder", "input", "none"])
@pytest.mark.parametrize("scale", ["projection", "none"])
def test_a_saved_model_gives_the_same_logits_in_the_paper_s_form(
    scale: Literal["projection", "none"],
    tie: Literal["all", "decoder", "input", "none"],
    norm: Literal["post", "pre"],
):
    model = scaled(scale, tie, norm)
    expected = model(SOURCE, SOURCE_MASK, TARGET_IN)

    twin = model.to_numpy()

    assert twin.config.scale == "embedding"
    again = from_numpy(twin).eval()(SOURCE, SOURCE_MASK, TARGET_IN)
    torch.testing.assert_close(again, expected, rtol=1e-4, atol=1e-4)
    plain = scaled("embedding", tie, norm)(SOURCE, SOURCE_MASK, TARGET_IN)
    assert not torch.allclose(plain, expected, atol=1e-2), "the setting changes the model"


@pytest.mark.parametrize("scale", ["projection", "none"])
def test_loss_and_decoder_see_the_model_s_scaling(scale: Literal["projection", "none"]):
    model = scaled(scale, "all", "pre")
    memory = model.encode(SOURCE, SOURCE_MASK)
    expected = model.logits(model.decode(memory, SOURCE_MASK, TARGET_IN))

    hidden, matrix = output_projection_inputs(model, model.decode(memory, SOURCE_MASK, TARGET_IN))
    torch.testing.assert_close(hidden @ matrix.T, expected)
    decoder = FusedDecoder(model, SOURCE, SOURCE_MASK)
    for position in range(TARGET_IN.size(1)):
        step = decoder.step(TARGET_IN[:, position])
        torch.testing.assert_close(
            step[:, :96].log_softmax(-1),
            expected[:, position, :96].log_softmax(-1),
            rtol=1e-4,
            atol=1e-4,
        )


def test_a_bundle_holds_the_paper_s_form(tmp_path: Path):
    tokenizer = Tokenizer.train(LINES, TokenizerConfig(vocab_size=97))
    config = replace(SHAPE, vocab_size=tokenizer.vocab_size, scale="none")
    model = made(config).eval()
    bundle_of("en", "de", tokenizer=tokenizer, model=model).save(tmp_path / "model")

    loaded = Bundle.load(tmp_path / "model").model

    assert loaded.config.scale == "embedding"
    source, target = torch.tensor([[3, 1, 4, 0]]), torch.tensor([[config.pad, 3, 5]])
    torch.testing.assert_close(
        loaded(source, None, target), model(source, None, target), rtol=1e-4, atol=1e-4
    )
