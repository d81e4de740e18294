"""Write a bundle as a Hugging Face folder: MarianMTModel, or for a pre-norm model Pegasus.

PegasusForConditionalGeneration is the same model with pre-norm layers. Both have MarianTokenizer.

    config.json               architecture
    generation_config.json    search settings, as far as Marian has them
    model.safetensors         weights, with d_model in Marian's order
    source.spm, target.spm    SentencePiece models
    vocab.json                id of each piece
    tokenizer_config.json     languages, directions; control pieces in text are plain text
    manifest.json             size and SHA-256 of the other files

Beam search differs: transformers divides by length^`length_penalty`, ours by
((5 + length) / 6)^α, and its stopping rule is another one. Greedy search is identical.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from transduce.bundle.bundle import CONFIG, WEIGHTS, Bundle
from transduce.data.pair_tokenizer import SOURCE, TABLE, TARGET, PairTokenizer
from transduce.data.tokenizer import EOS, UNK, marian_tag
from transduce.export import marian_files
from transduce.inference.engines.ct2_model import unsupported_feature as why_not_ctranslate2
from transduce.inference.engines.ct2_model import vocabulary
from transduce.io.atomic_folder import atomic_folder, check_replaceable

GENERATION, TOKENIZER_CONFIG = "generation_config.json", "tokenizer_config.json"
FILES = (CONFIG, GENERATION, WEIGHTS, SOURCE, TARGET, TABLE, TOKENIZER_CONFIG)


def why_not(bundle: Bundle) -> str:
    """Return the first feature that both Marian and Pegasus lack; empty if one has all."""
    shape = bundle.model.config
    if shape.positions != "sinusoid":
        return f'model.positions "{shape.positions}": their positions are sinusoids'
    if shape.tie != "all":
        return f'model.tie "{shape.tie}": their source, target and output share one matrix'
    return why_not_ctranslate2(shape)


def write_huggingface(bundle: Bundle, folder: Path) -> None:
    """Write the folder atomically, replacing an earlier export.

    Raises:
        ValueError: if the format cannot express the model, or `folder` is not an export.
        OSError: if it cannot be written; an earlier export is kept.
    """
    if reason := why_not(bundle):
        other = (
            "" if why_not_ctranslate2(bundle.model.config) else "; export to ctranslate2 instead"
        )
        raise ValueError(f"Marian and Pegasus cannot express {reason}{other}")
    check_replaceable(folder, FILES)
    pieces = vocabulary(bundle.tokenizer)
    with atomic_folder(folder) as fresh:
        write_json(fresh / CONFIG, huggingface_config(bundle))
        write_json(fresh / GENERATION, generation_config(bundle))
        (fresh / WEIGHTS).write_bytes(save(_weights(bundle), metadata={"format": "pt"}))
        for name, data in _sentencepiece_models(bundle).items():
            (fresh / name).write_bytes(data)
        for tag, number in bundle.tokenizer.tags.items():
            pieces[number] = marian_tag(tag)
        write_json(fresh / TABLE, {piece: number for number, piece in enumerate(pieces)})
        write_json(fresh / TOKENIZER_CONFIG, tokenizer_config(bundle, pieces[-1]))


def _weights(bundle: Bundle) -> dict[str, Tensor]:
    """All tensors under Marian's names and in its order; biases that ours lacks are zero."""
    state = bundle.model.state_dict()
    tensors = {name: tensor.detach().cpu().float() for name, tensor in state.items()}
    config = bundle.model.config
    order = marian_files.interleaved_to_halves(config.d_model)
    weights: dict[str, Tensor] = {}
    for name, marian_name, axis in marian_files.tensor_map(config):
        tensor = tensors.get(name, torch.zeros(config.d_model))
        reordered = tensor if axis is None else tensor.index_select(axis, order)
        weights[marian_name] = reordered.contiguous()
    zeros = torch.zeros(config.vocab_size)
    weights[marian_files.OUTPUT_BIAS] = tensors.get("output_bias", zeros)[None].contiguous()
    return weights


_Json = Mapping[str, object]


def huggingface_config(bundle: Bundle) -> _Json:
    """Return the content of config.json."""
    shape, pad = bundle.model.config, bundle.model.config.pad
    pre_norm = shape.norm == "pre"
    return {
        "architectures": ["PegasusForConditionalGeneration" if pre_norm else "MarianMTModel"],
        "model_type": marian_files.PEGASUS if pre_norm else marian_files.MARIAN,
        "is_encoder_decoder": True,
        "vocab_size": shape.vocab_size,
        "decoder_vocab_size": shape.vocab_size,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "d_model": shape.d_model,
        "encoder_layers": shape.encoder_layers,
        "decoder_layers": shape.decoder_layers,
        "encoder_attention_heads": shape.heads,
        "decoder_attention_heads": shape.heads,
        "encoder_ffn_dim": shape.d_ff,
        "decoder_ffn_dim": shape.d_ff,
        "activation_function": {"silu": "swish"}.get(shape.activation, shape.activation),
        "dropout": shape.dropout,
        "attention_dropout": shape.attention_dropout,
        "activation_dropout": shape.relu_dropout,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "normalize_before": pre_norm,
        "normalize_embedding": False,
        "add_final_layer_norm": pre_norm,
        "max_position_embeddings": _max_positions(bundle),
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": EOS,
        "forced_eos_token_id": None,  # no EOS is forced at the length limit
        "bos_token_id": None,
    }


def generation_config(bundle: Bundle) -> _Json:
    """Return the content of generation_config.json."""
    pad = bundle.model.config.pad
    return {
        "num_beams": bundle.search.beam,
        "length_penalty": bundle.search.alpha,
        "max_length": _max_positions(bundle),
        "bad_words_ids": [[pad]],
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": EOS,
        "forced_eos_token_id": None,
    }


def _max_positions(bundle: Bundle) -> int:
    """Length limit of the longest source's translation, within the model's positions."""
    return min(bundle.search.limit(bundle.search.max_source), bundle.weights.config.longest)


def tokenizer_config(bundle: Bundle, pad: str) -> _Json:
    """Return the content of tokenizer_config.json; `pad` is the name of PAD."""
    eos, unk = bundle.tokenizer.pieces([EOS, UNK])
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": bundle.languages.source,
        "target_lang": bundle.languages.target,
        "directions": bundle.directions,
        "model_max_length": bundle.search.max_source + 1,  # EOS
        "separate_vocabs": False,
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "eos_token": eos,
        "unk_token": unk,
        "pad_token": pad,
    }


def _sentencepiece_models(bundle: Bundle) -> Mapping[str, bytes]:
    if isinstance(bundle.tokenizer, PairTokenizer):
        return bundle.tokenizer.files()
    return dict.fromkeys((SOURCE, TARGET), bundle.tokenizer.to_bytes())


def write_json(path: Path, value: _Json) -> None:
    """Write a JSON object."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")
