"""Convert a Marian model, such as OPUS-MT's, or our own Pegasus export, to a bundle.

A folder is in Hugging Face's form (`marian_files`) or in Marian's own (`npz_files`).

Unsupported features are refused by name before anything is written; departures from the paper
(attention biases, SiLU, an output bias) become model settings. d_model is permuted to our order
(`marian_files`), ids so that EOS is 0, UNK 1 and PAD last. Unscaled embeddings are divided by
√d_model, which our model multiplies with; the last norm, which only the logits read, compensates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from transduce.bundle.bundle import CONFIG, WEIGHTS, Bundle, Provenance
from transduce.bundle.tensors import check_size
from transduce.data.config import Languages
from transduce.data.languages import LanguagePair, normalized_code
from transduce.data.pair_tokenizer import SOURCE, TABLE, TARGET, PairTokenizer
from transduce.data.tokenizer import EOS_PIECE, PAD_PIECE, UNK_PIECE, Tokenizer
from transduce.export import marian_files
from transduce.export.marian_files import EMBEDDING, OUTPUT_BIAS, MarianConfig
from transduce.export.npz_files import POSITIONS, is_npz_folder, marian_sinusoids, read_npz
from transduce.io.atomic_folder import MANIFEST, check_folder, sanitise, sha256
from transduce.model.config import ModelConfig
from transduce.model.layers import sinusoids
from transduce.model.numpy_transformer import NumpyTransformer, parameter_shapes
from transduce.model.transformer import Transformer, from_numpy, with_paper_scaling
from transduce.search.config import SearchConfig

FILES = (
    CONFIG,
    marian_files.GENERATION,
    marian_files.TOKENIZER_CONFIG,
    WEIGHTS,
    marian_files.PICKLE,
    SOURCE,
    TARGET,
    TABLE,
)
"""What is read, if it exists."""

_COPIES = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
"""Names under which the shared embedding matrix may be stored again."""

_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_TOLERANCE = 2e-3  # of sinusoids stored in half precision


def import_marian(folder: Path, *, source: str | None = None, target: str | None = None) -> Bundle:
    """Convert a Marian folder; the model is returned in eval mode on the CPU.

    Args:
        folder: holds config.json, model.safetensors or pytorch_model.bin, source.spm, target.spm,
            vocab.json and optionally tokenizer_config.json with the languages; or decoder.yml, the
            .npz that it names, the vocabulary and source.spm, target.spm. If it was exported by us,
            the checksums of its manifest.json are verified.
        source: code of the source language; None means the folder's. Three letters become two where
            the language is known.
        target: code of the target language, likewise.

    Raises:
        ValueError: if something is missing, damaged or unsupported; the message names it.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} does not exist: name the folder of a Marian model")
    if (folder / MANIFEST).exists():
        existing = [name for name in FILES if (folder / name).exists()]
        check_folder(folder, expected="a Marian model exported by transduce", required=existing)
    try:
        return _converted(folder, source=source, target=target)
    except ValueError as error:
        if str(folder) in str(error):
            raise
        raise ValueError(f"{folder}: {sanitise(str(error))}") from None


def _converted(folder: Path, *, source: str | None, target: str | None) -> Bundle:
    tokenizer_config, positions = marian_files.MarianTokenizerConfig(), None
    if is_npz_folder(folder):
        config, path, weights, table, table_path, *models = read_npz(folder)
        weights = marian_files.as_float32(weights, path)
        positions = marian_sinusoids(POSITIONS, config.d_model)
    else:
        config, table_path = marian_files.read_settings(folder), folder / TABLE
        path, weights = marian_files.read_weights(folder)
        table, tokenizer_config = (
            marian_files.read_json(table_path),
            marian_files.read_languages(folder),
        )
        models = [marian_files.read_file(folder / name) for name in (SOURCE, TARGET)]
    ids = _IdMap.read(table_path, table, config)
    model = _model(weights, config, ids, path=path, positions=positions)
    default = Languages()
    tokenizer = _tokenizer(models[0], models[1], ids)
    source_code, target_code = (
        normalized_code(code) or code
        for code in (
            source or tokenizer_config.source_lang or default.source,
            target or tokenizer_config.target_lang or ("mul" if tokenizer.tags else default.target),
        )
    )
    return Bundle(
        model=model,
        tokenizer=tokenizer,
        languages=Languages(source=source_code, target=target_code),
        directions=_directions(tokenizer_config, tokenizer, source_code),
        search=_search(config, tokenizer_config.max_source),
        provenance=replace(
            Provenance.current(), started_from={folder.resolve().name: sha256(path)}
        ),
    )


def _directions(
    config: marian_files.MarianTokenizerConfig, tokenizer: Tokenizer, source: str
) -> tuple[LanguagePair, ...]:
    """The directions that our exports name, else those from the source to the other tags."""
    if not config.directions:
        codes = [tag.strip("<>").removeprefix("2") for tag in tokenizer.tags]
        targets = dict.fromkeys(normalized_code(code) or code for code in codes)
        return tuple(LanguagePair(source, target) for target in targets if target != source)
    renamed = {config.source_lang: source}
    pairs = tuple(
        pair._replace(source=renamed.get(pair.source, pair.source)) for pair in config.directions
    )
    for pair in pairs:
        Languages(source=pair.source, target=pair.target)  # refuses what is no code
        if pair.source == pair.target or not tokenizer.find_tag(pair.target):
            raise ValueError(
                f"{marian_files.TOKENIZER_CONFIG}: the direction {pair} needs two languages, and a "
                f"tag of the second in {TABLE}"
            )
    return pairs


@dataclass(frozen=True, kw_only=True, slots=True)
class _IdMap:
    """Marian's ids in our order, and their pieces."""

    order: tuple[int, ...]
    pieces: tuple[str, ...]

    @classmethod
    def read(cls, path: Path, table: Mapping[str, object], config: MarianConfig) -> "_IdMap":
        """Validate a vocabulary, read from `path`."""
        size, pad = config.vocab_size, config.pad_token_id
        names: dict[int, str] = {}
        for piece, number in table.items():
            if type(number) is not int or not 0 <= number < size or number in names:
                raise ValueError(
                    f"{path}: the id of {piece!r} is {sanitise(str(number))}, which is not in "
                    f"0 to {size - 1} or not unique: copy the folder again"
                )
            names[number] = piece
        names.setdefault(pad, PAD_PIECE)
        unk = table.get(UNK_PIECE)
        if type(unk) is not int:
            raise ValueError(f"{path} has no {UNK_PIECE}: it is not a Marian vocabulary")
        for number in range(size):
            if number not in names:
                raise ValueError(
                    f"{path} has no piece for id {number}, but config.json has vocab_size {size}: "
                    f"copy all files from one folder"
                )
        eos = config.eos_token_id
        special = {eos, unk, pad}
        if len(special) < 3 or not 0 <= min(special) <= max(special) < size:
            raise ValueError(
                f"{path}: EOS {eos}, UNK {unk} and PAD {pad} must be three different ids in it"
            )
        ordinary = [number for number in range(size) if number not in special]
        pieces = [names[number] for number in ordinary]
        return cls(
            order=(eos, unk, *ordinary, pad), pieces=(EOS_PIECE, UNK_PIECE, *pieces, PAD_PIECE)
        )


def _model(
    weights: Mapping[str, Tensor],
    marian: MarianConfig,
    ids: _IdMap,
    *,
    path: Path,
    positions: Tensor | None,
) -> Transformer:
    """Validate all tensors and load them into our model."""
    config = ModelConfig(
        vocab_size=marian.vocab_size,
        encoder_layers=marian.encoder_layers,
        decoder_layers=marian.decoder_layers,
        d_model=marian.d_model,
        d_ff=marian.encoder_ffn_dim,
        heads=marian.encoder_attention_heads,
        d_k=marian.d_model // marian.encoder_attention_heads,
        d_v=marian.d_model // marian.encoder_attention_heads,
        dropout=marian.dropout,
        attention_dropout=marian.attention_dropout,
        relu_dropout=marian.activation_dropout,
        norm=marian.norm,
        activation=marian.activation,
        attention_bias=True,
        output_bias=True,
    )
    check_size([tensor.numel() for tensor in weights.values()], config, str(path))
    state = _state_dict(_validated(weights, config, path=path), config, ids)
    if state["embedding.weight"][config.pad].any():
        raise ValueError(
            f"{path}: PAD's embedding is not zero, but transduce's decoder starts with a zero one"
        )
    if not marian.scale_embedding:
        state = with_paper_scaling(state, replace(config, scale="none"))
    config, state = _drop_zero_biases(config, state)
    if positions is not None:
        config = replace(config, positions="learned", max_positions=len(positions))
        state["positions.weight"] = positions
    arrays = {name: tensor.numpy() for name, tensor in state.items()}
    return from_numpy(NumpyTransformer(config, arrays))


def _validated(
    weights: Mapping[str, Tensor], config: ModelConfig, *, path: Path
) -> Mapping[str, Tensor]:
    """Check that the tensors are complete, of the right shapes and finite; drop copies."""
    tensors = dict(weights)
    _drop_copies(tensors, path=path)
    _drop_positions(tensors, config, path=path)
    tensors.setdefault(OUTPUT_BIAS, torch.zeros(1, config.vocab_size))
    shapes = parameter_shapes(config)
    expected = {entry.marian_name: shapes[entry.name] for entry in marian_files.tensor_map(config)}
    expected[OUTPUT_BIAS] = (1, config.vocab_size)
    for name in sorted(expected.keys() - tensors.keys()):
        raise ValueError(f"{path} has no tensor {name}, which config.json requires")
    for name in sorted(tensors.keys() - expected.keys()):
        raise ValueError(
            f"{path} has an unsupported tensor {name}: config.json describes "
            f"{config.encoder_layers} + {config.decoder_layers} standard layers"
        )
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            raise ValueError(
                f"{path}: tensor {name} is {list(tensors[name].shape)}, not {list(shape)} as "
                f"config.json requires"
            )
        if not tensors[name].isfinite().all():
            raise ValueError(f"{path}: tensor {name} has NaN or infinite values")
    return tensors


def _drop_copies(tensors: dict[str, Tensor], *, path: Path) -> None:
    """Remove copies of the shared embedding matrix."""
    for name in _COPIES:
        copy = tensors.pop(name, None)
        if copy is not None and not torch.equal(tensors.setdefault(EMBEDDING, copy), copy):
            raise ValueError(
                f"{path}: {name} differs from {EMBEDDING}: only models that share one matrix "
                f"between source, target and output can be imported"
            )


def _drop_positions(tensors: dict[str, Tensor], config: ModelConfig, *, path: Path) -> None:
    """Remove stored position tables, which must be the sinusoids."""
    for name in _POSITIONS:
        table = tensors.pop(name, None)
        if table is None:
            continue
        expected = torch.empty(0)
        if table.dim() == 2 and table.size(1) == config.d_model:
            order = marian_files.interleaved_to_halves(config.d_model)
            expected = sinusoids(table.size(0), config.d_model)[:, order]
        if table.shape != expected.shape or not torch.allclose(
            table, expected, atol=_TOLERANCE, rtol=0.0
        ):
            raise ValueError(
                f"{path}: {name} is not the paper's sinusoids, which alone can be imported"
            )


def _state_dict(
    tensors: Mapping[str, Tensor], config: ModelConfig, ids: _IdMap
) -> dict[str, Tensor]:
    """Rename the tensors, and permute d_model and the vocabulary to our order."""
    order, rows = marian_files.halves_to_interleaved(config.d_model), torch.tensor(ids.order)
    state: dict[str, Tensor] = {}
    for name, marian_name, axis in marian_files.tensor_map(config):
        tensor = tensors[marian_name]
        state[name] = tensor if axis is None else tensor.index_select(axis, order)
    state["embedding.weight"] = state["embedding.weight"].index_select(0, rows)
    state["output_bias"] = tensors[OUTPUT_BIAS][0].index_select(0, rows)
    return state


def _drop_zero_biases(
    config: ModelConfig, state: Mapping[str, Tensor]
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Drop biases that are all zero, which leaves the paper's model."""
    attention = {
        name
        for name in state
        if name.endswith(".bias") and {"self_attention", "cross_attention"} & {*name.split(".")}
    }
    config = replace(
        config,
        attention_bias=any(bool(state[name].any()) for name in attention),
        output_bias=bool(state["output_bias"][:-1].any()),  # PAD is never output
    )
    dropped = set() if config.attention_bias else attention
    dropped |= set() if config.output_bias else {"output_bias"}
    return config, {name: tensor for name, tensor in state.items() if name not in dropped}


def _tokenizer(source: bytes, target: bytes, ids: _IdMap) -> Tokenizer:
    """A single tokenizer if the folder has one that is as ours, else a pair of two models."""
    if source == target:
        try:
            own = Tokenizer.from_bytes(source)
        except ValueError:
            pass
        else:
            if own.pieces(range(own.pad)) == list(ids.pieces[:-1]):
                return own
    table = {piece: number for number, piece in enumerate(ids.pieces)}
    return PairTokenizer.from_files(source=source, target=target, table=table)


def _search(config: MarianConfig, max_source: int) -> SearchConfig:
    """Beam size, length penalty and length limit, as close as ours get."""
    return SearchConfig(
        beam=config.num_beams,
        alpha=max(0.0, config.length_penalty),
        # EOS has a position as well
        max_source=max(1, min(config.max_position_embeddings, max_source) - 1),
    )
