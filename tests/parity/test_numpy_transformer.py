"""The NumPy model computes what the torch model does, whatever the model's features."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import SHAPE, made

from transduce.model.numpy_transformer import NumpyDecoder, NumpyTransformer, parameter_shapes
from transduce.model.trace import cross_attention_weights, intermediate_results
from transduce.model.transformer import Transformer

FEATURES: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"norm": "pre"},
    "GELU": {"activation": "gelu"},
    "SiLU, every bias": {"activation": "silu", "attention_bias": True, "output_bias": True},
    "learned positions": {"positions": "learned", "max_positions": 11},
    "local attention": {"radius": 2, "norm": "pre"},
    "another d_v": {"d_k": 4, "d_v": 3},
    "two embeddings": {"tie": "decoder"},
    "three embeddings": {"tie": "none"},
}
PAD = SHAPE.pad
SOURCES = torch.tensor([[3, 5, 7, 11, 4, 2, 0], [6, 8, 10, 0, PAD, PAD, PAD]])
TARGETS = torch.tensor([[PAD, 4, 13, 9, 2], [PAD, 5, 3, PAD, PAD]])
MASK = SOURCES != PAD

every_feature = pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)


def twins(features: dict[str, Any]) -> tuple[Transformer, NumpyTransformer]:
    model = made(replace(SHAPE, **features)).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # which start at zero
            torch.nn.init.normal_(parameter, std=0.3)
    return model, model.to_numpy()


@every_feature
@torch.no_grad()
def test_logits_of_padded_batches_are_equal(features: dict[str, Any]):
    model, numpy_model = twins(features)
    mask = MASK[:, None, None]

    expected = model(SOURCES, mask, TARGETS)
    logits = numpy_model(SOURCES.numpy(), mask.numpy(), TARGETS.numpy())

    assert logits.dtype == np.float32
    torch.testing.assert_close(torch.from_numpy(logits), expected, atol=1e-5, rtol=0)


@every_feature
@torch.no_grad()
def test_steps_are_equal_to_the_pass_over_the_target_after_any_reordering(features: dict[str, Any]):
    model, numpy_model = twins(features)
    source, rows = SOURCES[:1], torch.tensor([[PAD, 4, 13, 9], [PAD, 4, 7, 2]])

    decoder = NumpyDecoder(numpy_model, source[0].tolist())
    decoder.step([PAD])
    decoder.reorder([0, 0])
    decoder.step([9, 4])
    decoder.reorder([1, 1])
    decoder.step([13, 7])
    log_probs = decoder.step([9, 2])

    logits = model(source.expand(2, -1), None, rows)[:, -1]
    expected = logits[:, :PAD].log_softmax(-1)
    torch.testing.assert_close(torch.from_numpy(log_probs)[:, :PAD], expected, atol=1e-5, rtol=0)
    assert (log_probs[:, PAD] == -np.inf).all()


@every_feature
def test_shapes_are_those_of_the_weights(features: dict[str, Any]):
    model, numpy_model = twins(features)

    assert parameter_shapes(model.config) == {
        name: tuple(weight.shape) for name, weight in model.state_dict().items()
    }
    assert numpy_model.size == model.size


@every_feature
@torch.no_grad()
def test_sublayers_are_recorded_with_what_the_torch_modules_return(features: dict[str, Any]):
    model, _ = twins(features)
    outputs: dict[str, torch.Tensor] = {}
    for name, module in model.named_modules():
        if name.endswith(("attention", "feed_forward", "_norm")) and "." in name:

            def keep(module: object, inputs: object, output: torch.Tensor, *, of: str = name):
                outputs[of] = output

            module.register_forward_hook(keep)
    model(SOURCES[:1], None, TARGETS[:1])

    results = intermediate_results(model, SOURCES[0].tolist(), [*TARGETS[0, 1:].tolist(), 0])

    assert outputs
    for name, output in outputs.items():
        norm = name.endswith("_norm")
        key = f"{name.removesuffix('_norm')}_output" if norm else f"{name}_norm.sublayer"
        recorded = torch.from_numpy(results[key])
        torch.testing.assert_close(recorded, output[0], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_cross_attention_of_a_batch_is_that_of_each_pair():
    model, _ = twins({})
    mask = MASK[:, None, None].numpy()

    weights = cross_attention_weights(model, SOURCES.numpy(), mask, TARGETS.numpy())

    alone = intermediate_results(model, SOURCES[1, :4].tolist(), [5, 3, 0])
    single = np.stack([alone[f"decoder.{layer}.cross_attention.weights"] for layer in range(3)])
    np.testing.assert_allclose(weights[:, :, 1, :3, :4], single, atol=1e-6)
    assert (weights[:, :, 1, :, 4:] == 0).all()


def test_a_sentence_beyond_the_learned_positions_is_refused():
    _, numpy_model = twins({"positions": "learned", "max_positions": 6})

    with pytest.raises(ValueError, match=r"7 positions.*model\.max_positions 6"):
        numpy_model.encode(SOURCES[:1].numpy(), None)
