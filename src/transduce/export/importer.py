"""A model of Hugging Face's Marian, such as those of OPUS-MT, as a bundle.

What its format can say and ours can not is refused by name, before anything is written. Where it
differs from the paper (biases of attention, SiLU, a bias of the logits) the bundle says so in its
model settings. d_model is put into our order (`export.layout`), and ids so that ours hold: EOS 0,
UNK 1, PAD last. Embeddings that it does not scale become smaller ones that we do; the last norm,
which only the logits read, makes up for it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from transduce.bundle.bundle import Bundle, Provenance
from transduce.bundle.tensors import check_size
from transduce.data.corpus_config import Languages
from transduce.data.pair_tokenizer import (
    EOS_PIECE,
    PAD_PIECE,
    SOURCE,
    TABLE,
    TARGET,
    UNK_PIECE,
    PairTokenizer,
)
from transduce.data.tokenizer import Tokenizer
from transduce.export.marian_files import (
    ForeignConfig,
    read_json,
    read_languages,
    read_model_file,
    read_settings,
    read_weights,
)
from transduce.export.marian_layout import EMBEDDING, OUTPUT_BIAS, halves, interleaved, twins
from transduce.io.atomic_folder import sha256
from transduce.model.config import ModelConfig
from transduce.model.positions import sinusoids
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig

_COPIES = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
"""Where the one matrix may be stored again."""

_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_NEAR = 2e-3  # a table of sinusoids in half precision


def import_marian(folder: Path, *, source: str | None = None, target: str | None = None) -> Bundle:
    """Read a folder of Marian's; the model comes back in eval mode, on the CPU.

    Args:
        folder: with config.json, model.safetensors or pytorch_model.bin, source.spm, target.spm
            and vocab.json; tokenizer_config.json may name the languages.
        source: code of the source language; None takes the folder's.
        target: code of the target language; None takes the folder's.

    Raises:
        ValueError: one line that names what is missing, damaged, or not to be expressed here.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder of a Marian model: there is no such folder")
    theirs = read_settings(folder)
    path, weights = read_weights(folder)
    ids = _Ids.of(folder, theirs)
    model = _model(weights, theirs, ids, path=path)
    return Bundle(
        model=model,
        tokenizer=_tokenizer(folder, ids),
        languages=_languages(folder, source=source, target=target),
        search=_search(folder, theirs),
        provenance=replace(
            Provenance.current(), started_from={folder.resolve().name: sha256(path)}
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ids:
    """Their ids in our order, and the pieces that these ids stand for."""

    order: tuple[int, ...]
    pieces: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path, theirs: ForeignConfig) -> "_Ids":
        path, size, pad = folder / TABLE, theirs.vocab_size, theirs.pad_token_id
        table = read_json(path)
        names: dict[int, str] = {}
        for piece, number in table.items():
            if type(number) is not int or not 0 <= number < size or number in names:
                raise ValueError(
                    f"{path}: the id of {piece!r} is {number}, which is none of 0 to {size - 1} or "
                    f"is another piece's as well; copy the folder again"
                )
            names[number] = piece
        names.setdefault(pad, PAD_PIECE)
        unk = table.get(UNK_PIECE)
        if type(unk) is not int:
            raise ValueError(f"{path} has no {UNK_PIECE}: it is no table of Marian's")
        for number in range(size):
            if number not in names:
                raise ValueError(
                    f"{path} has no piece for id {number}, but config.json says vocab_size {size}: "
                    f"copy all files from one folder"
                )
        special = {theirs.eos_token_id, unk, pad}
        if len(special) < 3 or not special <= names.keys() or max(special) >= size:
            raise ValueError(
                f"{path}: EOS {theirs.eos_token_id}, UNK {unk} and PAD {pad} must be three of its "
                f"ids"
            )
        order = [theirs.eos_token_id, unk]
        order += [one for one in range(size) if one not in special]
        texts = [names[one] for one in order[2:]]
        return cls(order=(*order, pad), pieces=(EOS_PIECE, UNK_PIECE, *texts, PAD_PIECE))


def _model(
    weights: Mapping[str, Tensor], theirs: ForeignConfig, ids: _Ids, *, path: Path
) -> Transformer:
    """Check every tensor, then put them into a model of ours."""
    config = ModelConfig(
        vocab_size=theirs.vocab_size,
        encoder_layers=theirs.encoder_layers,
        decoder_layers=theirs.decoder_layers,
        d_model=theirs.d_model,
        d_ff=theirs.encoder_ffn_dim,
        heads=theirs.encoder_attention_heads,
        d_k=theirs.d_model // theirs.encoder_attention_heads,
        d_v=theirs.d_model // theirs.encoder_attention_heads,
        dropout=theirs.dropout,
        activation=theirs.activation,
        attention_bias=True,
        output_bias=True,
    )
    check_size(weights, config, str(path))
    held = _ours(_checked(weights, config, path=path), config, ids)
    if held["embedding.weight"][config.pad].any():
        raise ValueError(
            f"{path}: PAD's embedding is not zero, and the decoder starts from it here"
        )
    if not theirs.scale_embedding:
        _scale(held, config)
    config, held = _without_zeros(config, held)
    with torch.random.fork_rng(devices=[]):  # the initial weights must cost nobody a seed
        model = Transformer(config)
    model.load_state_dict(held)
    return model.eval()


def _checked(
    weights: Mapping[str, Tensor], config: ModelConfig, *, path: Path
) -> Mapping[str, Tensor]:
    """The tensors that are needed, each of its shape and finite; there must be no others."""
    found = dict(weights)
    _check_copies(found, path=path)
    _check_positions(found, config, path=path)
    found.setdefault(OUTPUT_BIAS, torch.zeros(1, config.vocab_size))
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in Transformer(config).state_dict().items()}
    wanted = {twin.theirs: shapes[twin.ours] for twin in twins(config)}
    wanted[OUTPUT_BIAS] = torch.Size((1, config.vocab_size))
    for name in sorted(wanted.keys() - found.keys()):
        raise ValueError(f"{path} has no tensor {name}, which config.json makes necessary")
    for name in sorted(found.keys() - wanted.keys()):
        raise ValueError(
            f"{path} has a tensor {name}, for which this program has no place: config.json says "
            f"{config.encoder_layers} + {config.decoder_layers} plain layers"
        )
    for name, shape in wanted.items():
        if found[name].shape != shape:
            raise ValueError(
                f"{path}: tensor {name} is {list(found[name].shape)}, not {list(shape)} as "
                f"config.json says"
            )
        if not found[name].isfinite().all():
            raise ValueError(f"{path}: tensor {name} has values that are no finite numbers")
    return found


def _check_copies(found: dict[str, Tensor], *, path: Path) -> None:
    """Leave one of the matrices that should be one."""
    for name in _COPIES:
        copy = found.pop(name, None)
        if copy is not None and not torch.equal(found.setdefault(EMBEDDING, copy), copy):
            raise ValueError(
                f"{path}: {name} is not {EMBEDDING}: only models of one matrix for source, target "
                f"and output can be imported"
            )


def _check_positions(found: dict[str, Tensor], config: ModelConfig, *, path: Path) -> None:
    """Take stored positions for granted where they are the sinusoids that they should be."""
    for name in _POSITIONS:
        table = found.pop(name, None)
        if table is None:
            continue
        usual = torch.empty(0)
        if table.dim() == 2 and table.size(1) == config.d_model:
            usual = sinusoids(table.size(0), config.d_model)[:, halves(config.d_model)]
        if table.shape != usual.shape or not torch.allclose(table, usual, atol=_NEAR, rtol=0.0):
            raise ValueError(
                f"{path}: {name} are not the sinusoids of the paper: not to be imported"
            )


def _ours(found: Mapping[str, Tensor], config: ModelConfig, ids: _Ids) -> dict[str, Tensor]:
    """Our names, d_model in our order, rows of the vocabulary in the order of our ids."""
    order, rows = interleaved(config.d_model), torch.tensor(ids.order)
    held = {
        ours: found[theirs] if axis is None else found[theirs].index_select(axis, order)
        for ours, theirs, axis in twins(config)
    }
    held["embedding.weight"] = held["embedding.weight"].index_select(0, rows)
    held["output_bias"] = found[OUTPUT_BIAS][0].index_select(0, rows)
    return held


def _scale(held: dict[str, Tensor], config: ModelConfig) -> None:
    """Make embeddings that are not scaled by √d_model into such as are."""
    root = math.sqrt(config.d_model)
    last = f"decoder.{config.decoder_layers - 1}.feed_forward_norm.norm"
    held["embedding.weight"] = held["embedding.weight"] / root
    for name in (f"{last}.weight", f"{last}.bias"):
        held[name] = held[name] * root


def _without_zeros(
    config: ModelConfig, held: Mapping[str, Tensor]
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Leave out biases where all of them are zero: the model is the paper's there."""
    attention = {
        name
        for name in held
        if name.endswith(".bias") and name.split(".")[2] in ("self_attention", "cross_attention")
    }
    config = replace(
        config,
        attention_bias=any(bool(held[name].any()) for name in attention),
        output_bias=bool(held["output_bias"][:-1].any()),  # PAD is never said
    )
    gone = set() if config.attention_bias else attention
    gone |= set() if config.output_bias else {"output_bias"}
    return config, {name: tensor for name, tensor in held.items() if name not in gone}


def _tokenizer(folder: Path, ids: _Ids) -> Tokenizer:
    """Our own kind where it is one, as in a folder that came from here; else one of two models."""
    source, target = (read_model_file(folder / name) for name in (SOURCE, TARGET))
    if source == target:
        try:
            own = Tokenizer.from_bytes(source)
        except ValueError:
            pass
        else:
            if own.pieces(range(own.pad)) == list(ids.pieces[:-1]):
                return own
    try:
        return PairTokenizer.from_files(
            source=source,
            target=target,
            table={piece: number for number, piece in enumerate(ids.pieces)},
        )
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None


def _languages(folder: Path, *, source: str | None, target: str | None) -> Languages:
    said = read_languages(folder)
    usual = Languages()
    return Languages(
        source=source or said.source_lang or usual.source,
        target=target or said.target_lang or usual.target,
    )


def _search(folder: Path, theirs: ForeignConfig) -> SearchConfig:
    """Beam, exponent and limit, as near as ours come."""
    longest = min(theirs.max_position_embeddings, read_languages(folder).longest)
    return SearchConfig(
        beam=theirs.num_beams,
        alpha=max(0.0, theirs.length_penalty),
        max_source=max(1, longest - 1),  # EOS has a position as well
    )
