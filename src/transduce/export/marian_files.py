"""Read and validate a Hugging Face Marian folder; map its tensors to ours.

`pytorch_model.bin` is a pickle, read here alone and with `weights_only`, which executes no code.

Marian stores all sines of a position before all cosines, ours interleaves them (section 3.5).
Embeddings are added to positions, so every d_model axis is permuted accordingly; queries, keys,
values and the inner layer keep their order.
"""

import json
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

import pydantic
import torch
from jaxtyping import Int
from torch import Tensor

from transduce.bundle.bundle import CONFIG, WEIGHTS
from transduce.bundle.torch_tensors import read_tensors
from transduce.data.languages import LanguagePair
from transduce.io.atomic_folder import sanitise
from transduce.io.records import first_fault
from transduce.model.config import ModelConfig

GENERATION, TOKENIZER_CONFIG, PICKLE = (
    "generation_config.json",
    "tokenizer_config.json",
    "pytorch_model.bin",
)
MARIAN, PEGASUS = "marian", "pegasus"
_MARIAN = "only models of Marian's architecture, such as those of OPUS-MT, can be imported"

_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)

_REQUIRED_FLAGS = {
    "normalize_embedding": False,
    "static_position_embeddings": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
_EQUAL_FIELDS = (
    ("decoder_vocab_size", "vocab_size"),
    ("encoder_attention_heads", "decoder_attention_heads"),
    ("encoder_ffn_dim", "decoder_ffn_dim"),
    ("decoder_start_token_id", "pad_token_id"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MarianConfig:
    """The fields of config.json that define the architecture, with transformers' defaults."""

    __pydantic_config__ = pydantic.ConfigDict(extra="ignore")

    vocab_size: int
    d_model: int
    encoder_layers: int
    decoder_layers: int
    encoder_attention_heads: int
    decoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_ffn_dim: int
    pad_token_id: int
    decoder_start_token_id: int
    eos_token_id: int
    model_type: str = ""
    architectures: tuple[str, ...] | None = None
    decoder_vocab_size: int | None = None
    is_encoder_decoder: bool = True
    activation_function: Literal["relu", "gelu", "silu", "swish"] = "gelu"
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    static_position_embeddings: bool = True
    normalize_before: bool = False
    normalize_embedding: bool = False
    add_final_layer_norm: bool = False
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    max_position_embeddings: int = 1024
    num_beams: int = 4
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        if min(self.d_model, self.encoder_attention_heads, self.num_beams) < 1:
            raise ValueError("d_model, encoder_attention_heads and num_beams must be above 0")

    @property
    def norm(self) -> Literal["pre", "post"]:
        """Where the layers normalise: Pegasus has pre-norm layers and a norm at the top."""
        return "pre" if self.model_type == PEGASUS else "post"

    @property
    def activation(self) -> Literal["relu", "gelu", "silu"]:
        """The activation under our name."""
        return "silu" if self.activation_function == "swish" else self.activation_function

    def why_not(self) -> str:
        """Return the first feature that our model lacks; empty if it has all."""
        if not self.is_encoder_decoder or "MarianForCausalLM" in (self.architectures or ()):
            return "a decoder without encoder"
        pre_norm = self.norm == "pre"
        flags = {"normalize_before": pre_norm, "add_final_layer_norm": pre_norm}
        for name, required in (_REQUIRED_FLAGS | flags).items():
            if (flag := getattr(self, name)) != required:
                return f"{name} {str(flag).lower()}"
        for name, other in _EQUAL_FIELDS:
            value, expected = getattr(self, name), getattr(self, other)
            if value not in (None, expected):
                return f"{name} {value} but {other} {expected}"
        if self.d_model % self.encoder_attention_heads:
            return f"d_model {self.d_model} not divisible by {self.encoder_attention_heads} heads"
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MarianTokenizerConfig:
    """The fields of tokenizer_config.json that matter."""

    __pydantic_config__ = pydantic.ConfigDict(extra="ignore")

    source_lang: str | None = None
    target_lang: str | None = None
    directions: tuple[LanguagePair, ...] = ()
    """Only our exports name them."""
    separate_vocabs: bool = False
    model_max_length: Annotated[float, pydantic.Field(gt=0)] | None = None

    @property
    def max_source(self) -> int:
        """Maximum source length in pieces, EOS included."""
        limit = self.model_max_length
        return int(limit) if limit is not None and limit < sys.maxsize else sys.maxsize


def read_settings(folder: Path) -> MarianConfig:
    """Read config.json and the search settings of generation_config.json.

    Raises:
        ValueError: if it cannot be read, or has a feature that our model lacks.
    """
    path = folder / CONFIG
    values = read_json(path)
    model_type = values.get("model_type")
    if model_type not in (MARIAN, PEGASUS):
        raise ValueError(f"{path} has model_type {model_type!r}: {_MARIAN}")
    for key in ("rope_theta", "rope_parameters", "rope_scaling"):
        if values.get(key) is not None:
            raise ValueError(f"{path} has {key}, rotary positions: {_MARIAN}")
    if (folder / GENERATION).is_file():
        search = read_json(folder / GENERATION)
        kept = {key: search.get(key) for key in ("num_beams", "length_penalty")}
        values |= {key: value for key, value in kept.items() if value is not None}
    if read_languages(folder).separate_vocabs:
        raise ValueError(f"{path} has two vocabularies, which transduce does not support")
    return parse_config({key: value for key, value in values.items() if value is not None}, path)


def parse_config(values: Mapping[str, object], path: Path) -> MarianConfig:
    """Check the fields that define the architecture.

    Raises:
        ValueError: if one is missing or of the wrong type, or a feature is one that ours lacks.
    """
    with _naming_field(path):
        text = json.dumps(values, default=str, skipkeys=True)  # YAML also has dates
        config = pydantic.TypeAdapter(MarianConfig).validate_json(text, strict=True)
    if reason := config.why_not():
        raise ValueError(f"{path} has {reason}, which transduce does not support")
    return config


def read_languages(folder: Path) -> MarianTokenizerConfig:
    """Read tokenizer_config.json; defaults if there is none.

    Raises:
        ValueError: if it cannot be read.
    """
    path = folder / TOKENIZER_CONFIG
    if not path.is_file():
        return MarianTokenizerConfig()
    with _naming_field(path):
        return pydantic.TypeAdapter(MarianTokenizerConfig).validate_python(read_json(path))


def read_weights(folder: Path) -> tuple[Path, Mapping[str, Tensor]]:
    """Return the file of the weights, safetensors if there is one, and its tensors as float32.

    Raises:
        ValueError: if it is missing or damaged.
    """
    path = folder / WEIGHTS
    if path.is_file():
        return path, as_float32(read_tensors(path), path)
    path = folder / PICKLE
    if not path.is_file():
        raise ValueError(f"{folder} has neither {WEIGHTS} nor {PICKLE}: copy the whole folder")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files raise all kinds of errors
        reason = type(error).__name__  # torch's text advises weights_only=False
        raise ValueError(f"{path} is damaged or holds more than tensors ({reason})") from None
    named = isinstance(tensors, dict) and all(isinstance(t, Tensor) for t in tensors.values())
    if not named:
        raise ValueError(f"{path} holds more than named tensors: it is not a Marian model")
    return path, as_float32({str(name): tensor for name, tensor in tensors.items()}, path)


def as_float32(tensors: Mapping[str, Tensor], path: Path) -> Mapping[str, Tensor]:
    """Convert to float32; quantized, complex, sparse and other tensors are refused by name."""
    for name, tensor in tensors.items():
        dense = tensor.layout == torch.strided and not (tensor.is_nested or tensor.is_meta)
        if tensor.dtype not in _DTYPES or not dense:
            kind = str(tensor.dtype if dense else tensor.layout).removeprefix("torch.")
            raise ValueError(
                f"{path}: tensor {sanitise(name)} is {kind}, "
                f"but only dense float32, float16, bfloat16 and float64 can be imported: save the "
                f"model in one of these"
            )
    return {name: tensor.float() for name, tensor in tensors.items()}


def read_json(path: Path) -> dict[str, object]:
    """Read a JSON object.

    Raises:
        ValueError: if it is missing or damaged.
    """
    content = read_file(path)
    try:
        values = json.loads(content.decode())
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not valid JSON: copy it again") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} is not a JSON object: copy it again")
    return values


def read_file(path: Path) -> bytes:
    """Read a file that every Marian model has.

    Raises:
        ValueError: if it is missing.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ValueError(
            f"{path} is missing: {path.parent} is not a complete Marian model"
        ) from None


@contextmanager
def _naming_field(path: Path) -> Generator[None]:
    """Turn the first fault of a file's fields into one line that names both."""
    try:
        yield
    except pydantic.ValidationError as error:
        raise ValueError(f"{path}: {first_fault(error)}") from None


EMBEDDING: Final = "model.shared.weight"
OUTPUT_BIAS: Final = "final_logits_bias"
"""Marian's names of the shared embedding matrix and of the output bias."""

_ATTENTIONS = (("self_attention", "self_attn"), ("cross_attention", "encoder_attn"))
_PROJECTIONS = (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"))


class TensorMapping(NamedTuple):
    """A tensor's name here and in Marian."""

    name: str
    marian_name: str
    axis: int | None
    """The axis to permute, d_model; None if there is none or its order does not matter."""


def tensor_map(config: ModelConfig) -> Iterator[TensorMapping]:
    """Map every tensor but the output bias, including biases that ours may lack."""
    yield TensorMapping("embedding.weight", EMBEDDING, 1)
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(layers):
            prefix, marian_prefix = f"{side}.{number}", f"model.{side}.layers.{number}"
            for name, marian_name, axis in _layer(side):
                yield TensorMapping(f"{prefix}.{name}", f"{marian_prefix}.{marian_name}", axis)
        if config.norm == "pre":  # Pegasus
            for part in ("weight", "bias"):
                yield TensorMapping(f"{side}_norm.{part}", f"model.{side}.layer_norm.{part}", 0)


def _layer(side: str) -> Iterator[TensorMapping]:
    for name, marian_name in _ATTENTIONS if side == "decoder" else _ATTENTIONS[:1]:
        for part, marian_part in _PROJECTIONS:
            yield from _linear(f"{name}.{part}", f"{marian_name}.{marian_part}", input_axis=True)
        yield from _linear(f"{name}.out", f"{marian_name}.out_proj", input_axis=False)
        yield from _norm(f"{name}_norm", f"{marian_name}_layer_norm")
    yield from _linear("feed_forward.inner", "fc1", input_axis=True)
    yield from _linear("feed_forward.outer", "fc2", input_axis=False)
    yield from _norm("feed_forward_norm", "final_layer_norm")


def _linear(name: str, marian_name: str, *, input_axis: bool) -> Iterator[TensorMapping]:
    """A linear layer whose input (else output) is d_model wide; weights are output x input."""
    yield TensorMapping(f"{name}.weight", f"{marian_name}.weight", 1 if input_axis else 0)
    yield TensorMapping(f"{name}.bias", f"{marian_name}.bias", None if input_axis else 0)


def _norm(name: str, marian_name: str) -> Iterator[TensorMapping]:
    yield TensorMapping(f"{name}.norm.weight", f"{marian_name}.weight", 0)
    yield TensorMapping(f"{name}.norm.bias", f"{marian_name}.bias", 0)


def interleaved_to_halves(d_model: int) -> Int[Tensor, " d_model"]:
    """Indices that turn our order of d_model into Marian's.

    >>> interleaved_to_halves(6).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def halves_to_interleaved(d_model: int) -> Int[Tensor, " d_model"]:
    """Indices that turn Marian's order of d_model into ours.

    >>> halves_to_interleaved(6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return interleaved_to_halves(d_model).argsort()
