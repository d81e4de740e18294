"""The files of a folder of Marian's, read and believed only as far as they are checked.

`pytorch_model.bin` is a pickle. It is read here alone, by a loader that makes tensors and plain
values and runs nothing else.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pydantic
import torch
from torch import Tensor

from transduce.bundle.bundle import CONFIG, WEIGHTS
from transduce.bundle.tensors import read_tensors

GENERATION, TOKENIZER_CONFIG, PICKLE = (
    "generation_config.json",
    "tokenizer_config.json",
    "pytorch_model.bin",
)
_MARIAN = "only models of Marian's architecture, such as those of OPUS-MT, can be imported"


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignConfig:
    """What config.json says, as far as it shapes a model; defaults are those of transformers."""

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
    max_position_embeddings: int = 1024
    num_beams: int = 4
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        if min(self.d_model, self.encoder_attention_heads, self.num_beams) < 1:
            raise ValueError("d_model, encoder_attention_heads and num_beams must be above 0")

    @property
    def activation(self) -> Literal["relu", "gelu", "silu"]:
        """As ours names it."""
        return "silu" if self.activation_function == "swish" else self.activation_function

    def why_not(self) -> str:
        """Say in a few words which of its blocks ours have no counterpart for; empty if none."""
        table: tuple[tuple[bool, str], ...] = (
            (
                not self.is_encoder_decoder or "MarianForCausalLM" in (self.architectures or ()),
                "a decoder alone",
            ),
            (self.normalize_before, "normalize_before true"),
            (self.normalize_embedding, "normalize_embedding true"),
            (self.add_final_layer_norm, "add_final_layer_norm true"),
            (not self.static_position_embeddings, "static_position_embeddings false"),
            (not self.share_encoder_decoder_embeddings, "share_encoder_decoder_embeddings false"),
            (not self.tie_word_embeddings, "tie_word_embeddings false"),
            (
                self.decoder_vocab_size not in (None, self.vocab_size),
                f"decoder_vocab_size {self.decoder_vocab_size} beside vocab_size {self.vocab_size}",
            ),
            (
                self.encoder_attention_heads != self.decoder_attention_heads,
                f"encoder_attention_heads {self.encoder_attention_heads} beside "
                f"decoder_attention_heads {self.decoder_attention_heads}",
            ),
            (
                self.encoder_ffn_dim != self.decoder_ffn_dim,
                f"encoder_ffn_dim {self.encoder_ffn_dim} beside decoder_ffn_dim "
                f"{self.decoder_ffn_dim}",
            ),
            (
                self.decoder_start_token_id != self.pad_token_id,
                f"decoder_start_token_id {self.decoder_start_token_id} that is not pad_token_id "
                f"{self.pad_token_id}",
            ),
            (
                bool(self.d_model % self.encoder_attention_heads),
                f"d_model {self.d_model} that {self.encoder_attention_heads} heads do not divide",
            ),
        )
        return next((reason for holds, reason in table if holds), "")


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignTokenizer:
    """What tokenizer_config.json says."""

    __pydantic_config__ = pydantic.ConfigDict(extra="ignore")

    source_lang: str | None = None
    target_lang: str | None = None
    separate_vocabs: bool = False
    model_max_length: float | None = None

    @property
    def longest(self) -> int:
        """Most pieces of a source, EOS counted."""
        said = self.model_max_length
        return sys.maxsize if said is None or said > sys.maxsize else int(said)


def read_settings(folder: Path) -> ForeignConfig:
    """Read config.json, and over it what generation_config.json says of the search.

    Raises:
        ValueError: if it cannot be read, or names a block that ours have no counterpart for.
    """
    path = folder / CONFIG
    held = read_json(path)
    kind = held.get("model_type")
    if kind != "marian":
        raise ValueError(f"{path} says model_type {kind!r}: {_MARIAN}")
    for key in ("rope_theta", "rope_parameters", "rope_scaling"):
        if held.get(key) is not None:
            raise ValueError(f"{path} says {key}, rotary positions: {_MARIAN}")
    if (folder / GENERATION).is_file():
        search = read_json(folder / GENERATION)
        held |= {key: search[key] for key in ("num_beams", "length_penalty") if search.get(key)}
    said = {key: value for key, value in held.items() if value is not None}
    try:
        config = pydantic.TypeAdapter(ForeignConfig).validate_json(json.dumps(said), strict=True)
    except pydantic.ValidationError as error:
        raise ValueError(f"{path}: {_fault(error)}") from None
    if reason := config.why_not() or ("two vocabularies" * read_languages(folder).separate_vocabs):
        raise ValueError(f"{path} says {reason}, which this program has no place for")
    return config


def read_languages(folder: Path) -> ForeignTokenizer:
    """Read tokenizer_config.json, which need not be there.

    Raises:
        ValueError: if it is there and cannot be read.
    """
    path = folder / TOKENIZER_CONFIG
    if not path.is_file():
        return ForeignTokenizer()
    try:
        adapter = pydantic.TypeAdapter(ForeignTokenizer)
        return adapter.validate_python(read_json(path))
    except pydantic.ValidationError as error:
        raise ValueError(f"{path}: {_fault(error)}") from None


def read_weights(folder: Path) -> tuple[Path, Mapping[str, Tensor]]:
    """Read the tensors, in single precision, from the safe file where there is one.

    Returns:
        Which file, and its tensors by name.

    Raises:
        ValueError: if there is none, or it is damaged.
    """
    path = folder / WEIGHTS
    if path.is_file():
        return path, {name: tensor.float() for name, tensor in read_tensors(path).items()}
    path = folder / PICKLE
    if not path.is_file():
        raise ValueError(f"{folder} has neither {WEIGHTS} nor {PICKLE}: copy the whole folder")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes make the loader raise anything
        reason = type(error).__name__  # its words advise to load the file in spite of that
        raise ValueError(f"{path} is damaged or holds more than tensors ({reason})") from None
    if not isinstance(found, dict) or not all(isinstance(one, Tensor) for one in found.values()):
        raise ValueError(f"{path} holds more than tensors by name: it is no model of Marian's")
    return path, {str(name): tensor.float() for name, tensor in found.items()}


def read_json(path: Path) -> dict[str, object]:
    """Read an object of JSON.

    Raises:
        ValueError: if there is none.
    """
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"{path} is missing: {path.parent} is no whole model of Marian's"
        ) from None
    except ValueError:
        raise ValueError(f"{path} is damaged, it is no JSON: copy it again") from None
    if not isinstance(held, dict):
        raise ValueError(f"{path} is no table of names and values: copy it again")
    return held


def read_model_file(path: Path) -> bytes:
    """Read a SentencePiece model's bytes.

    Raises:
        ValueError: if there is no such file.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ValueError(
            f"{path} is missing: {path.parent} is no whole model of Marian's"
        ) from None


def _fault(error: pydantic.ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in fault["loc"])
    return f"{key}: {fault['msg']}"
