"""The encoder and the decoder as ONNX graphs, with the inputs and outputs of Optimum's.

They are written in ONNX's own language: `functions.onnxtxt` has the parts, `encoder_layer.onnxtxt`
and `decoder_layer.onnxtxt` a layer. Runtimes and quantizers get the functions inlined.

The decoder is a "merged" one: with `use_cache_branch` it appends to the keys and values of earlier
positions and takes those of the source from its input; without, it ignores both inputs.
"""

import math
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
from jaxtyping import Float32

from transduce.model.config import ModelConfig
from transduce.model.numpy_transformer import Weights

_HEADER = '<ir_version: 10, opset_import: ["" : 20, "transduce" : 1]>'
"""What onnxruntime 1.18 and newer read; opset 20 is the first with Gelu."""

_PAD_BIAS = -1e4  # below any logit: PAD is never output


def encoder_model(config: ModelConfig, weights: Weights) -> Any:
    """Build the encoder's `onnx.ModelProto` of what `onnx_weights` returned."""
    embedding = "source_embedding" if config.tie in ("decoder", "none") else "embedding"
    return _model(
        config,
        weights,
        inputs=["int64[batch, source] input_ids", "int64[batch, source] attention_mask"],
        outputs=[f"float[batch, source, {config.d_model}] last_hidden_state"],
        lines=[
            "past = Constant <value_ints: ints = [0]> ()",
            "mask = transduce.padding_mask (attention_mask)",
            _embed(embedding, "encoder"),
            *_layers(config, "encoder"),
            _top_norm(config, "encoder", "last_hidden_state"),
        ],
    )


def decoder_model(config: ModelConfig, weights: Weights) -> Any:
    """Build the merged decoder's `onnx.ModelProto` of what `onnx_weights` returned."""
    matrix = "output_embedding" if config.tie in ("input", "none") else "embedding"
    names, size = [*cache_names(config)], f"batch, {config.heads}"
    stored = [
        f'[{size}, past_{side}, {config.d_k}] "past_key_values.{name}"' for side, name in names
    ]
    present = [f'[{size}, {side}_length, {config.d_k}] "present.{name}"' for side, name in names]
    return _model(
        config,
        weights,
        inputs=[
            "int64[batch, encoder_sequence_length] encoder_attention_mask",
            "int64[batch, target] input_ids",
            f"float[batch, encoder_sequence_length, {config.d_model}] encoder_hidden_states",
            *(f"float{value}" for value in stored),
            "bool[1] use_cache_branch",
        ],
        outputs=[
            f"float[batch, target, {config.vocab_size}] logits",
            *(f"float{value}" for value in present),
        ],
        lines=[
            'stored = Shape <start: int = 2, end: int = 3> ("past_key_values.0.decoder.key")',
            "flag = Cast <to: int = 7> (use_cache_branch)",
            "past = Mul (stored, flag)",
            "causal = transduce.causal_mask (input_ids, past)",
            "mask = transduce.padding_mask (encoder_attention_mask)",
            _embed("embedding", "decoder"),
            *_layers(config, "decoder"),
            _top_norm(config, "decoder", "top"),
            f'logits = transduce.unembed (top, "{matrix}.weight", "output_bias")',
        ],
    )


def cache_names(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Yield the side and the name of each cached tensor, without its prefix."""
    for number in range(config.decoder_layers):
        for side in ("decoder", "encoder"):
            for kind in ("key", "value"):
                yield side, f"{number}.{side}.{kind}"


def onnx_weights(
    config: ModelConfig, state: Weights, positions: Float32[np.ndarray, "rows d_model"]
) -> Weights:
    """Prepare weights: matrices as input x output, 1 / √d_k in the queries, biases everywhere.

    Args:
        config: the shape; d_k and d_v are d_model / heads.
        state: the model's tensors by name, float32.
        positions: the table of positions.
    """
    scale = np.float32(1 / math.sqrt(config.d_k))
    root = np.array([math.sqrt(config.d_model)], np.float32)
    weights: dict[str, np.ndarray] = {"positions.table": positions, "root": root}
    for name, array in state.items():
        scaled = array * scale if ".query." in name else array
        matrix = array.ndim == 2 and not name.endswith(("embedding.weight", "positions.weight"))
        weights[name] = np.ascontiguousarray(scaled.T) if matrix else scaled
    for name in [name for name in weights if name.endswith(".weight") and "attention." in name]:
        weights.setdefault(name.replace("weight", "bias"), np.zeros(config.d_model, np.float32))
    bias = weights.get("output_bias", np.zeros(config.vocab_size, np.float32)).copy()
    bias[config.pad] = _PAD_BIAS
    return weights | {"output_bias": bias}


def _embed(matrix: str, side: str) -> str:
    weights = f'"{matrix}.weight", "root", "positions.table"'
    return f'"{side}.0" = transduce.embed (input_ids, past, {weights})'


def _layers(config: ModelConfig, side: str) -> Iterator[str]:
    template = Template(_text(f"{side}_layer"))
    count = config.encoder_layers if side == "encoder" else config.decoder_layers
    for number in range(count):
        yield template.substitute(
            layer=f"{side}.{number}",
            next=f"{side}.{number + 1}",
            number=number,
            norm=config.norm,
            activation=config.activation,
            shape=f"<shape: ints = [0, 0, {config.heads}, -1]>",
        )


def _top_norm(config: ModelConfig, side: str, name: str) -> str:
    last = config.encoder_layers if side == "encoder" else config.decoder_layers
    weights = f', "{side}_norm.weight", "{side}_norm.bias"' if config.norm == "pre" else ', "", ""'
    return f'{name} = transduce.before_{config.norm} ("{side}.{last}"{weights})'


def _model(
    config: ModelConfig,
    weights: Weights,
    *,
    inputs: list[str],
    outputs: list[str],
    lines: list[str],
) -> Any:
    """Parse the graph, inline the functions, and add the weights that it reads."""
    onnx, inliner = import_module("onnx"), import_module("onnx.inliner")
    body = "\n".join(lines)
    text = f"{_HEADER}\ngraph ({', '.join(inputs)}) => ({', '.join(outputs)}) {{\n{body}\n}}\n"
    model = onnx.parser.parse_model(text)
    model.functions.extend(map(onnx.parser.parse_function, _text("functions").split("\n\n")))
    model.producer_name = "transduce"
    model = inliner.inline_local_functions(model)
    for name, array in weights.items():
        if f'"{name}"' in text:
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def _text(name: str) -> str:
    return files("transduce.export").joinpath(f"{name}.onnxtxt").read_text(encoding="utf-8")
