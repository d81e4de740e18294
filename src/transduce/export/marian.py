"""A bundle as a folder of Hugging Face's Marian: what MarianMTModel and MarianTokenizer load.

    config.json               the shape
    generation_config.json    how it is searched, as far as that program can say it
    model.safetensors         the weights, d_model in Marian's order
    source.spm, target.spm    the SentencePiece models of the sides
    vocab.json                the id of each piece
    tokenizer_config.json     the languages, and that control pieces in text are text
    manifest.json             size and SHA-256 of the others

Its search is another one: it divides by length to the power of `length_penalty`, where ours divides
by ((5 + length) / 6)^α, and it stops by another rule. Greedy search says the same in both.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from transduce.bundle.bundle import CONFIG, WEIGHTS, Bundle
from transduce.data.pair_tokenizer import SOURCE, TABLE, TARGET, PairTokenizer
from transduce.data.tokenizer import EOS, UNK
from transduce.export.destination import check_replaceable
from transduce.export.marian_layout import OUTPUT_BIAS, halves, twins
from transduce.inference.engines.ct2_model import vocabulary
from transduce.inference.engines.ct2_model import why_not as why_not_ctranslate2
from transduce.io.atomic_folder import whole_folder

GENERATION, TOKENIZER_CONFIG = "generation_config.json", "tokenizer_config.json"
FILES = (CONFIG, GENERATION, WEIGHTS, SOURCE, TARGET, TABLE, TOKENIZER_CONFIG)


def why_not(bundle: Bundle) -> str:
    """Say in a few words what of a model Marian cannot express; empty if it can express all."""
    shape = bundle.model.config
    if shape.norm != "post":
        return f'model.norm "{shape.norm}": its layers normalise after the sub-layer alone'
    if shape.positions != "sinusoid":
        return f'model.positions "{shape.positions}": its positions are sinusoids'
    if not shape.heads * shape.d_k == shape.heads * shape.d_v == shape.d_model:
        return (
            f"model.d_k {shape.d_k} and model.d_v {shape.d_v}: both must be d_model / heads, "
            f"{shape.d_model} / {shape.heads}"
        )
    if shape.radius:
        return f"model.radius {shape.radius}: its self-attention sees all positions"
    return ""


def write_marian(bundle: Bundle, folder: Path) -> None:
    """Write the folder, whole or not at all; an earlier one in its place is replaced.

    Raises:
        ValueError: if Marian cannot express the model, or `folder` holds something else.
        OSError: if it cannot be written; what was there is still there.
    """
    if reason := why_not(bundle):
        there = not why_not_ctranslate2(bundle.model.config)
        advice = "; export to ctranslate2 instead" if there else ""
        raise ValueError(f"Marian cannot express {reason}{advice}")
    check_replaceable(folder, FILES)
    pieces = vocabulary(bundle.tokenizer)
    with whole_folder(folder) as fresh:
        _write_json(fresh / CONFIG, _config(bundle))
        _write_json(fresh / GENERATION, _generation(bundle))
        (fresh / WEIGHTS).write_bytes(save(_weights(bundle), metadata={"format": "pt"}))
        for name, data in _models(bundle).items():
            (fresh / name).write_bytes(data)
        _write_json(fresh / TABLE, {piece: number for number, piece in enumerate(pieces)})
        _write_json(fresh / TOKENIZER_CONFIG, _tokenizer(bundle, pieces[-1]))


def _weights(bundle: Bundle) -> dict[str, Tensor]:
    """Every tensor under Marian's name and in its order; a bias that we lack is zero."""
    held = {name: each.detach().cpu().float() for name, each in bundle.model.state_dict().items()}
    config = bundle.model.config
    order = halves(config.d_model)
    weights: dict[str, Tensor] = {}
    for ours, theirs, axis in twins(config):
        tensor = held.get(ours)
        if tensor is None:
            tensor = held[f"{ours.removesuffix('.bias')}.weight"].new_zeros(config.d_model)
        weights[theirs] = (
            tensor if axis is None else tensor.index_select(axis, order)
        ).contiguous()
    zero = held["embedding.weight"].new_zeros(config.vocab_size)
    weights[OUTPUT_BIAS] = held.get("output_bias", zero)[None].contiguous()
    return weights


_Json = Mapping[str, object]


def _config(bundle: Bundle) -> _Json:
    shape, pad = bundle.model.config, bundle.model.config.pad
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
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
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "max_position_embeddings": _longest(bundle),
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": EOS,
        "forced_eos_token_id": None,  # what the limit cut stays cut
        "bos_token_id": None,
    }


def _generation(bundle: Bundle) -> _Json:
    pad = bundle.model.config.pad
    return {
        "num_beams": bundle.search.beam,
        "length_penalty": bundle.search.alpha,
        "max_length": _longest(bundle),
        "bad_words_ids": [[pad]],
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": EOS,
        "forced_eos_token_id": None,
    }


def _longest(bundle: Bundle) -> int:
    """Positions of the longest translation of the longest source."""
    return bundle.search.limit(bundle.search.max_source)


def _tokenizer(bundle: Bundle, pad: str) -> _Json:
    eos, unk = bundle.tokenizer.pieces([EOS, UNK])
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": bundle.languages.source,
        "target_lang": bundle.languages.target,
        "model_max_length": bundle.search.max_source + 1,  # EOS
        "separate_vocabs": False,
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "eos_token": eos,
        "unk_token": unk,
        "pad_token": pad,
    }


def _models(bundle: Bundle) -> Mapping[str, bytes]:
    if isinstance(bundle.tokenizer, PairTokenizer):
        return bundle.tokenizer.files()
    return dict.fromkeys((SOURCE, TARGET), bundle.tokenizer.to_bytes())


def _write_json(path: Path, value: _Json) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")
