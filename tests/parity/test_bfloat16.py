"""A model in bfloat16 says what the model in float32 says, to bfloat16's eight bits."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from transduce.model.config import ModelConfig
from transduce.model.fused_decoder import FusedDecoder
from transduce.model.transformer import Transformer, in_bfloat16


def ids(*shape: int, seed: int) -> Tensor:
    return torch.randint(2, 36, shape, generator=torch.Generator().manual_seed(seed))


SOURCE, TARGET = ids(3, 7, seed=1), ids(3, 5, seed=2)


@pytest.fixture(params=["the paper's", "departures"])
def tiny(config: ModelConfig, request: pytest.FixtureRequest) -> Transformer:
    departures = {
        "norm": "pre",
        "positions": "learned",
        "max_positions": 23,
        "attention_bias": True,
        "output_bias": True,
    }
    torch.manual_seed(1)
    model_config = replace(config, **(departures if request.param == "departures" else {}))
    model = Transformer(model_config).eval()
    for weight in model.parameters():
        if weight.dim() == 1:
            torch.nn.init.normal_(weight, mean=weight.mean().item(), std=0.1)
    return model


@torch.inference_mode()
def test_its_logits_are_those_of_float32_rounded(tiny: Transformer):
    short = in_bfloat16(tiny, embedding=True)

    rounded, exact = (model(SOURCE, None, TARGET) for model in (short, tiny))

    assert rounded.dtype == torch.bfloat16
    assert 0 < (rounded.float() - exact).norm() < 0.02 * exact.norm()


@torch.inference_mode()
def test_step_by_step_it_says_what_it_says_at_once(tiny: Transformer):
    short = in_bfloat16(tiny, embedding=True)
    steps = FusedDecoder(short, SOURCE, None)

    stepwise = torch.stack([steps.step(column) for column in TARGET.T], 1)

    exact = tiny(SOURCE, None, TARGET)
    assert stepwise.dtype == torch.bfloat16
    assert (stepwise.float() - exact).norm() < 0.02 * exact.norm()


@pytest.mark.parametrize("embedding", [False, True])
def test_the_model_stays_as_it_is_and_lends_its_other_weights(tiny: Transformer, embedding: bool):
    before = copy.deepcopy(tiny)

    short = dict(in_bfloat16(tiny, embedding=embedding).named_parameters())

    for name, weight in tiny.named_parameters():
        assert weight.dtype == torch.float32, name
        assert weight.equal(before.get_parameter(name)), name
        copied = short[name].dtype == torch.bfloat16
        assert copied or short[name] is weight, name
        if name in ("embedding.weight", "output_bias"):
            assert copied == embedding, name
    torch.testing.assert_close(tiny(SOURCE, None, TARGET), before(SOURCE, None, TARGET))
