"""The encoder and the decoder as ONNX graphs, with the inputs and outputs of Optimum's.

`layers.onnxtxt` has the parts, as functions in ONNX's own language; the two graphs below apply
them to our weights. Runtimes and quantizers get the functions inlined.

The decoder is a "merged" one: with `use_cache_branch` it appends to the keys and values of earlier
positions and takes those of the source from its input; without, it ignores both inputs.
"""

import math
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Float32

from transduce.model.config import ModelConfig

_OPSET, _IR_VERSION = 20, 10  # the first with Gelu; what onnxruntime 1.18 and newer read
_PAD_BIAS = -1e4  # below any logit: PAD is never output
_HEADER = f'<ir_version: {_IR_VERSION}, opset_import: ["" : {_OPSET}, "transduce" : 1]>\n'
_ACTIVATIONS = {"relu": "Relu", "gelu": "Gelu", "silu": "transduce.Silu"}

Weights = Mapping[str, np.ndarray]


def encoder_model(config: ModelConfig, weights: Weights) -> Any:
    """Build the encoder's `onnx.ModelProto`.

    Args:
        config: the shape; d_k and d_v are d_model / heads.
        weights: from `onnx_weights`.
    """
    graph = _Graph(config)
    graph.add("past = Constant <value_ints: ints = [0]> ()")
    graph.add("mask = transduce.padding_mask (attention_mask)")
    x = graph.embed("source_embedding" if config.tie in ("decoder", "none") else "embedding")
    for number in range(config.encoder_layers):
        x = graph.self_attention(x, f"encoder.{number}", "mask")
        x = graph.feed_forward(x, f"encoder.{number}")
    graph.top_norm(x, "encoder", "last_hidden_state")
    inputs = "int64[batch, source] input_ids, int64[batch, source] attention_mask"
    outputs = f"float[batch, source, {config.d_model}] last_hidden_state"
    return graph.build("encoder", inputs, outputs, weights=weights)


def decoder_model(config: ModelConfig, weights: Weights) -> Any:
    """Build the merged decoder's `onnx.ModelProto`.

    Args:
        config: the shape; d_k and d_v are d_model / heads.
        weights: from `onnx_weights`.
    """
    graph = _Graph(config)
    graph.add('stored = Shape <start: int = 2, end: int = 3> ("past_key_values.0.decoder.key")')
    graph.add("flag = Cast <to: int = 7> (use_cache_branch)")
    graph.add("past = Mul (stored, flag)")
    graph.add("causal = transduce.causal_mask (input_ids, past)")
    graph.add("mask = transduce.padding_mask (encoder_attention_mask)")
    x = graph.embed("embedding")
    for number in range(config.decoder_layers):
        x = graph.self_attention(x, f"decoder.{number}", "causal", cache=str(number))
        x = graph.cross_attention(x, f"decoder.{number}", number)
        x = graph.feed_forward(x, f"decoder.{number}")
    x = graph.top_norm(x, "decoder", "top")
    matrix = "output_embedding" if config.tie in ("input", "none") else "embedding"
    graph.add(f'logits = transduce.unembed ({x}, "{matrix}.weight", "output_bias")')
    size = f"batch, {config.heads}"
    names = [*cache_names(config)]
    inputs = [
        "int64[batch, encoder_sequence_length] encoder_attention_mask, "
        "int64[batch, target] input_ids",
        f"float[batch, encoder_sequence_length, {config.d_model}] encoder_hidden_states",
        *(
            f'float[{size}, past_{side}, {config.d_k}] "past_key_values.{name}"'
            for side, name in names
        ),
        "bool[1] use_cache_branch",
    ]
    outputs = [
        f"float[batch, target, {config.vocab_size}] logits",
        *(f'float[{size}, {side}_length, {config.d_k}] "present.{name}"' for side, name in names),
    ]
    return graph.build("decoder", ", ".join(inputs), ", ".join(outputs), weights=weights)


def cache_names(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Yield the side and the name of each cached tensor, without its prefix."""
    for number in range(config.decoder_layers):
        for side in ("decoder", "encoder"):
            for kind in ("key", "value"):
                yield side, f"{number}.{side}.{kind}"


def onnx_weights(
    config: ModelConfig,
    state: Mapping[str, np.ndarray],
    positions: Float32[np.ndarray, "rows d_model"],
) -> Weights:
    """Prepare weights: matrices as input x output, 1 / √d_k in the queries, biases everywhere.

    Args:
        config: the shape.
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


class _Graph:
    """Lines of a graph in ONNX's language."""

    def __init__(self, config: ModelConfig) -> None:
        self._config, self._lines = config, list[str]()

    def add(self, line: str) -> None:
        self._lines.append(line)

    def apply(self, call: str) -> str:
        """Add a node with one output, and return its name."""
        name = f"x{len(self._lines)}"
        self.add(f"{name} = {call}")
        return name

    def embed(self, matrix: str) -> str:
        return self.apply(
            f'transduce.embed (input_ids, past, "{matrix}.weight", "root", "positions.table")'
        )

    def self_attention(self, x: str, layer: str, mask: str, *, cache: str = "") -> str:
        name = f"{layer}.self_attention"
        y = self._before(x, name)
        key, value = (self._heads(y, f"{name}.{part}") for part in ("key", "value"))
        if cache:
            for kind, new in (("key", key), ("value", value)):
                stored = f'"past_key_values.{cache}.decoder.{kind}"'
                self.add(
                    f'"present.{cache}.decoder.{kind}" = transduce.append ({stored}, past, {new})'
                )
            key, value = (f'"present.{cache}.decoder.{kind}"' for kind in ("key", "value"))
        return self._attend(x, y, name, f"{key}, {value}, {mask}")

    def cross_attention(self, x: str, layer: str, number: int) -> str:
        name = f"{layer}.cross_attention"
        y = self._before(x, name)
        for kind in ("key", "value"):
            inner = f"{kind}_{number}"
            projected = (
                f"p = {self._project('encoder_hidden_states', f'{name}.{kind}')}\n"
                f"n = transduce.split_heads {self._shape} (p)"
            )
            stored = f'"past_key_values.{number}.encoder.{kind}"'
            self.add(
                f'"present.{number}.encoder.{kind}" = If (use_cache_branch) <\n'
                f"then_branch: graph = stored_{inner} () => (s) {{ s = Identity ({stored}) }},\n"
                f"else_branch: graph = projected_{inner} () => (n) {{ {projected} }}>"
            )
        keys_values = ", ".join(f'"present.{number}.encoder.{kind}"' for kind in ("key", "value"))
        return self._attend(x, y, name, f"{keys_values}, mask")

    def feed_forward(self, x: str, layer: str) -> str:
        name = f"{layer}.feed_forward"
        inner = self.apply(self._project(self._before(x, name), f"{name}.inner"))
        active = self.apply(f"{_ACTIVATIONS[self._config.activation]} ({inner})")
        return self._after(x, self.apply(self._project(active, f"{name}.outer")), name)

    def top_norm(self, x: str, side: str, name: str) -> str:
        pre_norm = self._config.norm == "pre"
        self.add(f"{name} = {self._norm(x, f'{side}_norm') if pre_norm else f'Identity ({x})'}")
        return name

    def build(self, name: str, inputs: str, outputs: str, *, weights: Weights) -> Any:
        """Parse the graph, inline the functions, add the weights that it reads, and check it."""
        onnx, inliner = import_module("onnx"), import_module("onnx.inliner")
        text = f"{_HEADER}{name} ({inputs}) => ({outputs}) {{\n" + "\n".join(self._lines) + "\n}\n"
        functions = files("transduce.export").joinpath("layers.onnxtxt").read_text(encoding="utf-8")
        model = onnx.parser.parse_model(text)
        model.functions.extend(map(onnx.parser.parse_function, functions.split("\n\n")))
        model.producer_name = "transduce"
        model = inliner.inline_local_functions(model)
        for key, array in weights.items():
            if f'"{key}"' in text:
                model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), key))
        return model

    @property
    def _shape(self) -> str:
        return f"<shape: ints = [0, 0, {self._config.heads}, -1]>"

    def _project(self, x: str, name: str) -> str:
        return f'transduce.project ({x}, "{name}.weight", "{name}.bias")'

    def _heads(self, x: str, name: str) -> str:
        projected = self.apply(self._project(x, name))
        return self.apply(f"transduce.split_heads {self._shape} ({projected})")

    def _attend(self, x: str, y: str, name: str, memory: str) -> str:
        query = self._heads(y, f"{name}.query")
        heads = self.apply(f"transduce.attention ({query}, {memory})")
        return self._after(x, self.apply(self._project(heads, f"{name}.out")), name)

    def _norm(self, x: str, name: str) -> str:
        call = "LayerNormalization <axis: int = -1, epsilon: float = 1e-5>"
        return f'{call} ({x}, "{name}.weight", "{name}.bias")'

    def _before(self, x: str, name: str) -> str:
        return self.apply(self._norm(x, f"{name}_norm.norm")) if self._config.norm == "pre" else x

    def _after(self, x: str, y: str, name: str) -> str:
        total = self.apply(f"Add ({x}, {y})")
        return (
            total
            if self._config.norm == "pre"
            else self.apply(self._norm(total, f"{name}_norm.norm"))
        )
