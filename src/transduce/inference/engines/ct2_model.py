"""A model as CTranslate2 reads it: a folder written from our weights, without a foreign converter.

    model.bin                 the weights, in single precision or quantized
    config.json               the names of EOS, UNK and of what the decoder starts from
    shared_vocabulary.json    the pieces by id, PAD last; with a shortlist PAD follows UNK
    tokenizer.model           the SentencePiece model, which CTranslate2 leaves unread; of an
                              imported model source.spm and target.spm
    vmap.txt                  the shortlist, where there is one
    manifest.json             size and SHA-256 of the others

The folder can be used alone: it adds EOS to a source by itself, and PAD can never be generated,
because its logit has a bias that no other reaches.

CTranslate2 (4.8) numbers what a shortlist allows anew for each batch, but remembers an id's first
number: EOS, UNK and PAD must have the same ones always, so they come first.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from transduce.bundle.bundle import TOKENIZER, Bundle
from transduce.data.pair_tokenizer import SOURCE, TABLE, TARGET, PairTokenizer
from transduce.data.tokenizer import UNK, Tokenizer
from transduce.inference.engines.ct2_int8 import quantized
from transduce.inference.engines.shortlist import VMAP, Shortlist
from transduce.io.atomic_folder import atomic_folder
from transduce.model.config import ModelConfig
from transduce.model.positions import sinusoids

FORMAT = 1
"""Counts up when the same weights are written in another way."""

POSITIONS = 4096
"""Places that the written table of sinusoids has: no sentence is longer, EOS counted."""

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8")
"""What weights can be written as."""

FILES = (
    *("model.bin", "config.json", "shared_vocabulary.json"),
    *(TOKENIZER, SOURCE, TARGET, TABLE, VMAP),
)
"""What may lie in a written folder beside its manifest."""

_BY_ID = ("encoder/embeddings_0", "decoder/embeddings", "decoder/projection")
_NEVER = -1e4  # PAD's bias: half precision holds it, and no logit makes up for it
_TOGETHER = ("query", "key", "value")
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}


def load_ctranslate2() -> ModuleType:
    """Import the program that this room converts to; nothing else of ours needs it.

    Raises:
        ValueError: if it is not installed, or cannot be loaded.
    """
    try:
        return import_module("ctranslate2")
    except (ImportError, OSError) as error:
        raise ValueError(
            f"CTranslate2 cannot be used here ({error}): pip install ctranslate2"
        ) from None


def why_not(config: ModelConfig) -> str:
    """Say in a few words what of a model CTranslate2 cannot express; empty if it can express all.

    >>> why_not(ModelConfig())
    ''
    >>> why_not(ModelConfig(d_k=32))
    'd_k 32 and d_v 64 that are not d_model / heads'
    """
    if not config.heads * config.d_k == config.heads * config.d_v == config.d_model:
        return f"d_k {config.d_k} and d_v {config.d_v} that are not d_model / heads"
    if config.activation not in _ACTIVATIONS:
        return f"the activation {config.activation}"
    if config.radius:
        return f"model.radius {config.radius}, self-attention to what is near"
    return ""


def positions(config: ModelConfig) -> int:
    """The longest sentence, EOS counted, that the written model has positions for."""
    return config.max_positions if config.positions == "learned" else POSITIONS


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """The pieces by id, all different: PAD gets another name where text has a piece like it."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    *learned, pad = pieces
    while pad in learned:
        pad = f"<{pad}>"
    return [*learned, pad]


def write_ctranslate2(
    bundle: Bundle,
    folder: Path,
    *,
    quantization: str | None = None,
    shortlist: Shortlist | None = None,
) -> None:
    """Write the folder, whole or not at all; a folder that is there already is replaced.

    Args:
        bundle: the model, on any device, and its tokenizer.
        folder: where to write.
        quantization: one of `QUANTIZATIONS`; None keeps single precision. CTranslate2 can quantize
            when it loads, too; what is written quantized is smaller, and int8 is more exact.
        shortlist: goes along; whoever loads the folder says whether it is used.

    Raises:
        ValueError: if CTranslate2 is not installed, cannot express the model, or has no such
            quantization.
        OSError: if it cannot be written; what was there is still there.
    """
    reason = why_not(bundle.model.config)
    if reason:
        raise ValueError(f"CTranslate2 cannot express {reason}: use the torch engine")
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ValueError(
            f"CTranslate2 cannot be written as {quantization!r}: take one of "
            f"{', '.join(QUANTIZATIONS)}"
        )
    pieces = vocabulary(bundle.tokenizer)
    order = list(range(len(pieces)))
    if shortlist is not None:
        order.insert(UNK + 1, order.pop())
    int8 = quantization == "int8"
    spec = _spec(bundle.model.config, bundle.model.state_dict(), order, int8=int8)
    names = [pieces[one] for one in order]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.unk_token = pieces[bundle.tokenizer.UNK]
    spec.config.eos_token = pieces[bundle.tokenizer.EOS]
    spec.config.bos_token = spec.config.decoder_start_token = pieces[bundle.tokenizer.pad]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = nn.LayerNorm(1).eps
    spec.validate()
    spec.optimize(quantization=None if int8 else quantization)
    with atomic_folder(folder) as fresh:
        spec.save(str(fresh))
        for name, data in _tokenizer_files(bundle.tokenizer).items():
            (fresh / name).write_bytes(data)
        if shortlist is not None:
            (fresh / VMAP).write_bytes(shortlist.to_text(pieces).encode())


def _tokenizer_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    if isinstance(tokenizer, PairTokenizer):
        return tokenizer.files()
    return {TOKENIZER: tokenizer.to_bytes()}


def _spec(config: ModelConfig, weights: Mapping[str, Tensor], order: Sequence[int], *, int8: bool):
    """The shape as CTranslate2 describes it, every weight in its place, ids in that order."""
    load_ctranslate2()
    specs = import_module("ctranslate2.specs")
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=specs.common_spec.Activation[_ACTIVATIONS[config.activation]],
    )
    spec.decoder.start_from_zero_embedding = True
    for name, tensor in variables(config, weights).items():
        scope, _, variable = name.rpartition("/")
        ours = tensor[order] if scope in _BY_ID else tensor
        place = specs.model_spec.index_spec(spec, scope)
        if int8 and variable == "weight":
            place.weight, place.weight_scale = quantized(ours)
        else:
            setattr(place, variable, ours)
    return spec


def variables(config: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every tensor of the written model, under the name that CTranslate2 has for it.

    What it multiplies with one matrix is one matrix here: queries, keys and values of an attention
    to itself, keys and values of an attention to the memory.
    """
    # Copies: CTranslate2 quantizes in place.
    weights = {name: tensor.detach().cpu().float().clone() for name, tensor in weights.items()}
    embedding = weights["embedding.weight"]
    bias = weights.get("output_bias", embedding.new_zeros(config.vocab_size)).clone()
    bias[config.pad] = _NEVER
    table = weights.get("positions.weight")
    if table is None:
        table = sinusoids(POSITIONS, config.d_model)
    # A translation that its limit cut is read with one place more, for what might follow it.
    table = torch.cat([table, torch.zeros(1, config.d_model)])
    found = {
        "encoder/embeddings_0/weight": embedding,
        "decoder/embeddings/weight": embedding,
        "decoder/projection/weight": embedding,
        "decoder/projection/bias": bias,
        "encoder/position_encodings/encodings": table,
        "decoder/position_encodings/encodings": table,
    }
    for place, names in _maps(config):
        for part in ("weight", "bias"):
            parts = [weights[key] for name in names if (key := f"{name}.{part}") in weights]
            if parts:
                found[f"{place}/{part}"] = torch.cat(parts)
    for place, name in _norms(config):
        found[f"{place}/gamma"] = weights[f"{name}.weight"]
        found[f"{place}/beta"] = weights[f"{name}.bias"]
    return found


def _layers(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Each layer's name there and here."""
    for side, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number in range(count):
            yield f"{side}/layer_{number}", f"{side}.{number}"


def _maps(config: ModelConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each linear map there, and which of ours stand in it, below each other."""
    for place, name in _layers(config):
        attend, cross = f"{name}.self_attention", f"{name}.cross_attention"
        yield f"{place}/self_attention/linear_0", tuple(f"{attend}.{m}" for m in _TOGETHER)
        yield f"{place}/self_attention/linear_1", (f"{attend}.out",)
        yield f"{place}/ffn/linear_0", (f"{name}.feed_forward.inner",)
        yield f"{place}/ffn/linear_1", (f"{name}.feed_forward.outer",)
        if name.startswith("decoder"):
            yield f"{place}/attention/linear_0", (f"{cross}.query",)
            yield f"{place}/attention/linear_1", (f"{cross}.key", f"{cross}.value")
            yield f"{place}/attention/linear_2", (f"{cross}.out",)


def _norms(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Each normalisation there and here."""
    for place, name in _layers(config):
        yield f"{place}/self_attention/layer_norm", f"{name}.self_attention_norm.norm"
        yield f"{place}/ffn/layer_norm", f"{name}.feed_forward_norm.norm"
        if name.startswith("decoder"):
            yield f"{place}/attention/layer_norm", f"{name}.cross_attention_norm.norm"
    if config.norm == "pre":
        yield "encoder/layer_norm", "encoder_norm"
        yield "decoder/layer_norm", "decoder_norm"
