"""A trace is of one sentence, in eval mode, and leaves the model as it was."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.conftest import SHAPE, made

from transduce.model.trace import cross_attention, intermediate_results, trace
from transduce.model.transformer import Transformer

SOURCE, TARGET = (3, 5, 7, 11, 0), (2, 4, 0)


def test_a_trace_has_every_layer_and_head(tiny: Transformer):
    traced = trace(tiny, SOURCE, TARGET)

    assert traced.encoder.shape == (2, 3, 5, 5)
    assert traced.decoder.shape == (3, 3, 3, 3)
    assert traced.cross.shape == (3, 3, 3, 5)
    assert traced.log_probs.shape == (3,)


def test_cross_attention_alone_is_that_of_the_trace(tiny: Transformer):
    expected = trace(tiny, SOURCE, TARGET).cross

    np.testing.assert_array_equal(cross_attention(tiny, SOURCE, TARGET), expected)


def test_rows_sum_to_one(tiny: Transformer):
    traced = trace(tiny, SOURCE, TARGET)

    for weights in (traced.encoder, traced.decoder, traced.cross):
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-6)


def test_the_decoder_does_not_look_ahead(tiny: Transformer):
    traced = trace(tiny, SOURCE, TARGET)

    assert (traced.decoder == np.tril(traced.decoder)).all()
    assert (traced.decoder.diagonal(axis1=-2, axis2=-1) > 0).all()


def test_the_encoder_looks_both_ways(tiny: Transformer):
    assert (trace(tiny, SOURCE, TARGET).encoder > 0).all()


def test_dropout_is_off_and_training_is_back_on_after_it():
    model = made(replace(SHAPE, dropout=0.5)).train()

    first, second = trace(model, SOURCE, TARGET), trace(model, SOURCE, TARGET)

    assert (first.cross == second.cross).all()
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_side_without_ids_is_refused(tiny: Transformer, side: str):
    sides = {"source": SOURCE, "target": TARGET} | {side: ()}

    with pytest.raises(ValueError, match=f"the {side} has no ids"):
        trace(tiny, sides["source"], sides["target"])


def test_every_number_agrees_with_the_weights_and_log_probabilities():
    model = made(SHAPE).eval()
    source, target = [5, 6, 7, 0], [9, 8, 0]

    results, expected = intermediate_results(model, source, target), trace(model, source, target)

    for part, name in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross")):
        weights = getattr(expected, "cross" if name == "cross" else part)
        for layer, matrix in enumerate(weights):
            assert (results[f"{part}.{layer}.{name}_attention.weights"] == matrix).all()
    log_probs = torch.from_numpy(results["logits"][:, : SHAPE.pad]).log_softmax(-1)
    target_log_probs = log_probs[range(3), target]
    torch.testing.assert_close(target_log_probs, torch.from_numpy(expected.log_probs))


def test_the_mean_and_variance_are_those_of_what_is_normalised():
    model = made(SHAPE).eval()

    results = intermediate_results(model, [5, 6, 0], [9, 0])

    results = {name: torch.from_numpy(np.array(value)) for name, value in results.items()}
    total = results["decoder.0.cross_attention_norm.sum"]
    mean = results["decoder.0.cross_attention_norm.mean"][:, None]
    variance = results["decoder.0.cross_attention_norm.variance"][:, None]
    norm = next(iter(model.decoder)).cross_attention_norm.norm
    output = (total - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias
    torch.testing.assert_close(output, results["decoder.0.cross_attention_output"])
    assert results["decoder.0.self_attention.masked_scores"][0, 0, 1] == -torch.inf
