"""Read a model in Marian's own form, OPUS-MT's original: `.npz`, `decoder.yml` and a vocabulary.

Only the older layers, `type: transformer`, post-norm, as all models of OPUS-MT have. Their tensors
get the names of `marian_files`. Their sinusoids are not the paper's: the exponent's denominator is
d_model / 2 - 1. So the imported model has them as a table of learned positions.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
import yaml
from jaxtyping import Float
from torch import Tensor

from transduce.data.pair_tokenizer import SOURCE, TARGET
from transduce.data.sentencepiece_model import read_pieces
from transduce.data.tokenizer import EOS_PIECE
from transduce.export.marian_files import (
    MARIAN,
    OUTPUT_BIAS,
    MarianConfig,
    parse_config,
    read_file,
    tensor_map,
)
from transduce.io.atomic_folder import sanitise
from transduce.model.config import ModelConfig

DECODER = "decoder.yml"
POSITIONS = 1100  # rows of the table: the longest translation of 1,023 pieces, and some
_MAX_SOURCE = 1024
_SETTINGS = "special:model.yml"
_DTYPES = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
_REQUIRED = {
    "type": ("transformer",),
    "tied-embeddings-all": (True,),
    "transformer-preprocess": ("", "d"),
    "transformer-postprocess": ("dan", "an"),
    "transformer-postprocess-top": ("",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-train-position-embeddings": (False,),
    "transformer-no-projection": (False,),
    "transformer-tied-layers": ([],),
    "input-types": ([],),
}
"""Settings and their supported values; an absent one has the first."""


class NpzModel(NamedTuple):
    """A model as it was read."""

    config: MarianConfig
    path: Path
    tensors: Mapping[str, Tensor]
    """Under Hugging Face's names, with a row of zeros for PAD."""
    table: Mapping[str, object]
    table_path: Path
    source: bytes
    target: bytes
    """SentencePiece models."""


def is_npz_folder(folder: Path) -> bool:
    """Return whether a folder has Marian's own form."""
    return (folder / DECODER).is_file()


def read_npz(folder: Path) -> NpzModel:
    """Read a folder; the tensors' shapes and values are not checked.

    Raises:
        ValueError: if a file is missing or damaged, or the model has an unsupported feature.
    """
    decoder = _yaml(read_file(folder / DECODER), folder / DECODER)
    path = folder / Path(_first(decoder, "models", folder)).name
    table_path = folder / Path(_first(decoder, "vocabs", folder)).name
    arrays = _arrays(path)
    if _SETTINGS not in arrays:
        raise ValueError(f"{path} has no {_SETTINGS}, which Marian's models have")
    settings = _yaml(arrays.pop(_SETTINGS).tobytes().rstrip(b"\0"), path)
    for name, supported in _REQUIRED.items():
        if (value := settings.get(name, supported[0])) not in supported:
            shown = sanitise(str(value))
            raise ValueError(f"{path} has {name} {shown}, which transduce does not support")
    if table_path.suffix == ".spm":
        source = target = read_file(table_path)
        table = {piece.text: number for number, piece in enumerate(read_pieces(source))}
    else:
        table = _ids(table_path)
        source, target = (read_file(folder / name) for name in (SOURCE, TARGET))
    config = parse_config(_fields(settings, decoder, table), path)
    tensors = _renamed(arrays, config, path)
    return NpzModel(config, path, tensors, table, table_path, source, target)


def marian_sinusoids(rows: int, d_model: int) -> Float[Tensor, "rows d_model"]:
    """Marian's encodings of positions, sine and cosine interleaved as ours."""
    frequencies = np.exp(np.arange(d_model // 2) * -math.log(10_000) / (d_model // 2 - 1))
    angles = np.arange(rows)[:, None] * frequencies
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(rows, d_model)
    return torch.from_numpy(table.astype(np.float32))


def _fields(
    settings: Mapping[str, object], decoder: Mapping[str, object], table: Mapping[str, object]
) -> dict[str, object]:
    """Fields of `MarianConfig`, as Hugging Face's conversion names them; PAD is added."""
    sizes = settings.get("dim-vocabs")
    size = sizes[0] if isinstance(sizes, list) and sizes == [len(table)] * 2 else None
    heads, width = settings.get("transformer-heads"), settings.get("transformer-dim-ffn")
    fields = {
        "model_type": MARIAN,
        "vocab_size": None if size is None else size + 1,
        "d_model": settings.get("dim-emb"),
        "encoder_layers": settings.get("enc-depth"),
        "decoder_layers": settings.get("dec-depth"),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": width,
        "decoder_ffn_dim": settings.get("transformer-decoder-dim-ffn") or width,
        "activation_function": settings.get("transformer-ffn-activation"),
        "scale_embedding": True,
        "pad_token_id": size,
        "decoder_start_token_id": size,
        "eos_token_id": table.get(EOS_PIECE),
        "max_position_embeddings": _MAX_SOURCE,
        "num_beams": decoder.get("beam-size"),
        "length_penalty": decoder.get("normalize"),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _renamed(
    arrays: Mapping[str, np.ndarray], config: MarianConfig, path: Path
) -> Mapping[str, Tensor]:
    """Names of Hugging Face, matrices as output x input, a zero row and bias for PAD."""
    if (layers := config.encoder_layers + config.decoder_layers) > len(arrays):
        raise ValueError(f"{path} names {layers:,} layers, but has only {len(arrays)} tensors")
    shape = ModelConfig(encoder_layers=config.encoder_layers, decoder_layers=config.decoder_layers)
    names = {_npz_name(name): marian_name for name, marian_name, _ in tensor_map(shape)}
    tensors: dict[str, Tensor] = {}
    for name, array in arrays.items():
        if array.ndim != 2 or array.dtype not in _DTYPES:
            raise ValueError(
                f"{path}: {sanitise(name)} is {array.dtype} {list(array.shape)}, not a matrix of "
                f"float16, float32 or float64"
            )
        tensor = torch.from_numpy(array)
        if name == "Wemb":
            tensor = torch.nn.functional.pad(tensor, (0, 0, 0, 1))
        elif name == "decoder_ff_logit_out_b":
            tensor = torch.nn.functional.pad(tensor, (0, 1))
        elif name in names:
            tensor = tensor.T if "_W" in name and "_ln_" not in name else tensor.flatten()
        tensors[names.get(name, OUTPUT_BIAS if "logit_out_b" in name else name)] = tensor
    return tensors


def _npz_name(name: str) -> str:
    """Name of our tensor in an archive.

    >>> _npz_name("decoder.0.cross_attention.query.weight")
    'decoder_l1_context_Wq'
    >>> _npz_name("encoder.1.feed_forward_norm.norm.bias")
    'encoder_l2_ffn_ffn_ln_bias'
    """
    if name == "embedding.weight":
        return "Wemb"
    side, number, sublayer, part, kind = name.split(".")
    short = {"self": "self", "cross": "context", "feed": "ffn"}[sublayer.partition("_")[0]]
    prefix = f"{side}_l{int(number) + 1}_{short}"
    if part == "norm":
        scale = "scale" if kind == "weight" else "bias"
        return f"{prefix}_{'ffn' if short == 'ffn' else 'Wo'}_ln_{scale}"
    letter = {"inner": "1", "outer": "2"}.get(part, part[0])
    return f"{prefix}_{'W' if kind == 'weight' else 'b'}{letter}"


def _arrays(path: Path) -> dict[str, np.ndarray]:
    read_file(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: np.asarray(array) for name, array in archive.items()}
    except MemoryError:
        raise
    except Exception as error:  # damaged files raise all kinds of errors
        reason = sanitise(str(error)) or type(error).__name__
        raise ValueError(f"{path} is damaged or no archive of arrays ({reason})") from None


def _ids(path: Path) -> dict[str, int]:
    """Read a vocabulary: the id of each piece, which may be `no`, `=` or `000` without quotes."""
    table = _yaml(read_file(path), path, loader="BaseLoader")
    for piece, number in table.items():
        if not str(number).isdecimal():
            raise ValueError(
                f"{path}: the id of {piece!r} must be a number from 0, not {sanitise(str(number))}"
            )
    return {piece: int(str(number)) for piece, number in table.items()}


def _yaml(
    data: bytes, path: Path, *, loader: Literal["SafeLoader", "BaseLoader"] = "SafeLoader"
) -> dict[str, object]:
    """Read a YAML file of scalars and lists; BaseLoader returns all scalars as text.

    Aliases, by which few bytes make a text of any length, are refused.
    """
    parser = getattr(yaml, f"C{loader}", None) or getattr(yaml, loader)
    try:
        events = iter(parser(data).get_event, None)
        aliases = any(isinstance(event, yaml.AliasEvent) for event in events)
        values = None if aliases else parser(data).get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ValueError(f"{path} is no YAML file of settings without aliases: copy it again")
    return {str(key): value for key, value in values.items()}


def _first(decoder: Mapping[str, object], key: str, folder: Path) -> str:
    """The file that a list in decoder.yml names; all its entries are the same or the only one."""
    names = decoder.get(key)
    if not isinstance(names, list) or not names or len({*map(str, names)}) > 1:
        raise ValueError(
            f"{folder / DECODER} names {sanitise(str(names))} as {key}: only a single model with a "
            f"vocabulary that both sides share can be imported"
        )
    return str(names[0])
