"""What a trace says was looked at is what the model computed with."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from tests.conftest import SHAPE, made
from torch import Tensor

from transduce.model.attention import Attention
from transduce.model.loss import cross_entropy
from transduce.model.trace import trace
from transduce.model.transformer import Transformer

SOURCE, TARGET = (3, 5, 7, 11, 0), (2, 4, 13, 0)

both = pytest.mark.parametrize("norm", ["post", "pre"])


def make(norm: Literal["post", "pre"]) -> Transformer:
    return made(replace(SHAPE, norm=norm)).eval()


def read(model: Transformer) -> Tensor:
    target_in = torch.tensor([[model.config.pad, *TARGET[:-1]]])
    return model(torch.tensor([SOURCE]), None, target_in)


def noted(model: Transformer, attentions: Iterable[Attention]) -> list[tuple[Tensor, Tensor]]:
    """The values that each attention was given and what it answered, in one reading."""
    records: list[tuple[Tensor, Tensor]] = []

    def note(module: Attention, given: tuple[Any, ...], answer: Tensor) -> None:
        kv = given[1] if len(given) == 2 else module.project_kv(given[0])
        records.append((kv.values, answer))

    for attention in attentions:
        attention.register_forward_hook(note)
    with torch.inference_mode():
        read(model)
    return records


@both
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_weights_times_values_are_what_the_attention_answered(
    norm: Literal["post", "pre"], kind: Literal["encoder", "decoder", "cross"]
):
    model = make(norm)
    weights = torch.from_numpy(getattr(trace(model, SOURCE, TARGET), kind))
    layers = model.encoder if kind == "encoder" else model.decoder
    attentions = [
        layer.cross_attention if kind == "cross" else layer.self_attention for layer in layers
    ]

    records = noted(model, attentions)

    assert len(records) == len(weights)
    for attention, attention_weights, (values, answer) in zip(
        attentions, weights, records, strict=True
    ):
        again = attention.out((attention_weights[None] @ values).transpose(1, 2).flatten(2))
        torch.testing.assert_close(again, answer, atol=1e-5, rtol=0)


@both
def test_log_probs_are_those_of_the_forward_pass(norm: Literal["post", "pre"]):
    model = make(norm)

    log_probs = torch.from_numpy(trace(model, SOURCE, TARGET).log_probs)

    logits = read(model)[0, :, : model.config.pad]
    expected = logits.log_softmax(-1)[torch.arange(len(TARGET)), list(TARGET)]
    torch.testing.assert_close(log_probs, expected.detach(), atol=1e-6, rtol=0)


def test_log_probs_sum_to_the_loss_that_perplexity_is_made_of():
    model = make("post")

    log_probs = torch.from_numpy(trace(model, SOURCE, TARGET).log_probs)

    plain = cross_entropy(read(model), torch.tensor([TARGET]), smoothing=0.1).plain
    torch.testing.assert_close(-log_probs.sum(), plain)
