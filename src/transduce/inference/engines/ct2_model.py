"""CTranslate2 models on disk: conversion (without its own converters), shortlists, the cache.

    model.bin                 the weights, float32 or quantized
    config.json               the names of EOS, UNK and the decoder's start token
    shared_vocabulary.json    the pieces by id, PAD last; with a shortlist it follows UNK;
                              if the sides differ source_vocabulary.json and
                              target_vocabulary.json
    tokenizer.model           the SentencePiece model, for other programs; source.spm and
                              target.spm for an imported model
    vmap.txt                  the shortlist, if there is one
    manifest.json             size and SHA-256 of the others

The folder is self-contained: CTranslate2 adds EOS to each source, and never generates PAD, whose
logit has a large negative bias.

CTranslate2 (4.8) renumbers the ids that a shortlist allows in each batch but remembers an id's
first number: EOS, UNK and PAD must always keep theirs, so they come first.

int8: CTranslate2 scales each row of a matrix until its largest weight is 127; activations become
-127...127. x86 processors without VNNI shift those to 1...255, multiply two neighbours at a time
and add both products in 16 bits. The sum may reach 2 x 255 x 127 = 64,770, beyond 32,767, and
saturates silently: the translation changes, for the worse. So a row is scaled until **two
neighbours of one sign** add up to 128, the most that fits: 255 x 128 = 32,640. Large weights are
seldom adjacent, so most rows keep 100 of 127 levels; halving every weight would leave 64. The same
folder is right on any processor, and as fast.

A shortlist restricts the output: for each source piece, the few target pieces that it may
translate to. An engine that knows them leaves the rest of the vocabulary out of its last and widest
matrix product, and out of its search. Each line of `vmap.txt` has a source piece, a tab and
space-separated target pieces; the line without a source piece lists those that are always allowed.
CTranslate2 allows a batch the union of what its sentences are allowed.

The user's cache keeps converted models and measured plans. It never fails: if the folder is not
writable, a temporary one is used and removed with the process. Concurrent processes are safe:
entries are written atomically, named by what they depend on.
"""

import itertools
import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int8

from transduce.bundle.bundle import TOKENIZER, Bundle
from transduce.data.pair_tokenizer import SOURCE, TABLE, TARGET, PairTokenizer
from transduce.data.tokenizer import UNK, Tokenizer
from transduce.io.atomic_folder import atomic_file, atomic_folder, check_folder
from transduce.io.machine import require_torch, user_cache
from transduce.model.config import ModelConfig
from transduce.model.numpy_transformer import EPSILON, Weights, sinusoids

FORMAT = 1
"""Version of the written folder, part of its name in the cache."""

POSITIONS = 4096
"""Positions in the written sinusoid table: the maximum sentence length, EOS included."""

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8")
"""Supported weight formats."""

VMAP = "vmap.txt"
"""CTranslate2's name for the shortlist in a model folder."""

SOURCE_VOCABULARY = "source_vocabulary.json"
"""CTranslate2's name of the source's vocabulary, if it is not the target's."""

FILES = (
    *("model.bin", "config.json", "shared_vocabulary.json"),
    *(SOURCE_VOCABULARY, "target_vocabulary.json"),
    *(TOKENIZER, SOURCE, TARGET, TABLE, VMAP),
)
"""Files of a written folder, besides its manifest."""

CACHE_PREFIX = "ct2-"
"""Beginning of the names of the cache's folders, which may lie beside others."""

MAX_FOLDERS = 20
"""Folders kept; the least recently used ones beyond that are deleted."""

_IN_USE = 3600.0  # seconds: another process may still be reading a folder that it just looked up

_BY_ID = ("encoder/embeddings_0", "decoder/embeddings", "decoder/projection")
_PAIR_LIMIT = 128  # largest sum of two adjacent int8 weights of one sign: see above
_TINY = 1e-20  # a row below it counts as zero: its scale must fit float32
_PAD_BIAS = -1e4  # representable in float16, and below any logit
_LAYERS = {
    "self_attention/linear_0": tuple(
        f"self_attention.{part}" for part in ("query", "key", "value")
    ),
    "self_attention/linear_1": ("self_attention.out",),
    "self_attention/layer_norm": ("self_attention_norm.norm",),
    "attention/linear_0": ("cross_attention.query",),
    "attention/linear_1": ("cross_attention.key", "cross_attention.value"),
    "attention/linear_2": ("cross_attention.out",),
    "attention/layer_norm": ("cross_attention_norm.norm",),
    "ffn/linear_0": ("feed_forward.inner",),
    "ffn/linear_1": ("feed_forward.outer",),
    "ffn/layer_norm": ("feed_forward_norm.norm",),
}
"""CTranslate2's parts of a layer, and ours whose tensors are concatenated in each."""

_NORM_PARTS = {"weight": "gamma", "bias": "beta"}
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}


def load_ctranslate2() -> ModuleType:
    """Import CTranslate2.

    Raises:
        ValueError: if it is not installed, or cannot be loaded.
    """
    try:
        return import_module("ctranslate2")
    except (ImportError, OSError) as error:
        raise ValueError(
            f"CTranslate2 cannot be used here ({error}): pip install ctranslate2"
        ) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortlist:
    """The target ids that may be generated. `export.shortlist` learns one."""

    always: tuple[int, ...]
    """Allowed for any source; EOS and UNK are among them."""
    by_source: Mapping[int, tuple[int, ...]]
    """Additional ids for each source piece."""

    def allowed(self, source: Iterable[int]) -> frozenset[int]:
        """Return the ids allowed for a sentence.

        >>> sorted(Shortlist(always=(0, 1), by_source={5: (7, 5), 6: (8,)}).allowed([5, 9]))
        [0, 1, 5, 7]
        """
        return frozenset(self.always).union(*(self.by_source.get(id, ()) for id in source))

    def coverage(self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> float:
        """Return the share of the targets' pieces, EOS not counted, that their sources allow.

        >>> Shortlist(always=(0, 1), by_source={5: (7,)}).coverage([([5], [7, 7, 8]), ([6], [1])])
        0.75
        """
        covered = total = 0
        for source, target in pairs:
            allowed = self.allowed(source)
            covered += sum(id in allowed for id in target)
            total += len(target)
        return covered / total if total else 1.0

    def to_text(self, pieces: Sequence[str]) -> str:
        """Format it as `vmap.txt`.

        Args:
            pieces: the vocabulary by id. Pieces that contain whitespace cannot be written.
        """
        lines = [("", self.always), *((pieces[id], ids) for id, ids in self.by_source.items())]
        return "".join(
            f"{piece}\t{' '.join(pieces[id] for id in ids if _is_writable(pieces[id]))}\n"
            for piece, ids in lines
            if not piece or _is_writable(piece)
        )


def read_shortlist(file: Path, pieces: Sequence[str]) -> Shortlist:
    """Read a shortlist that was written for a vocabulary.

    Args:
        file: written by `Shortlist.to_text`.
        pieces: the vocabulary by id.

    Raises:
        ValueError: if it is not a shortlist, or for another vocabulary; the message names the file.
        OSError: if it cannot be read.
    """
    ids = {piece: id for id, piece in enumerate(pieces)}
    entries: dict[str, tuple[int, ...]] = {}
    try:
        lines = file.read_bytes().decode().split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not a shortlist: it is not UTF-8") from None
    for number, line in enumerate(lines, 1):
        source, tab, targets = line.partition("\t")
        if line and not tab:
            raise ValueError(f"{file} is not a shortlist: line {number} has no tab")
        for piece in (source, *targets.split(" ")):
            if piece and piece not in ids:
                raise ValueError(
                    f"{file}, line {number}: the model has no piece {piece!r}; use the shortlist "
                    f"that was learned from this model"
                )
        if line:
            entries[source] = tuple(ids[piece] for piece in targets.split(" ") if piece)
    always = entries.pop("", ())
    if not always:
        raise ValueError(f"{file} is not a shortlist: it has no line of pieces always allowed")
    return Shortlist(
        always=always, by_source={ids[piece]: allowed for piece, allowed in entries.items()}
    )


def _is_writable(piece: str) -> bool:
    return not any(space in piece for space in " \t\n\r")


def unsupported_feature(config: ModelConfig) -> str:
    """Name what CTranslate2 does not support in a model; empty if it supports everything.

    >>> unsupported_feature(ModelConfig())
    ''
    >>> unsupported_feature(ModelConfig(d_k=32))
    'd_k 32 and d_v 64 other than d_model / heads'
    """
    if not config.heads * config.d_k == config.heads * config.d_v == config.d_model:
        return f"d_k {config.d_k} and d_v {config.d_v} other than d_model / heads"
    if config.activation not in _ACTIVATIONS:
        return f"the activation {config.activation}"
    if config.radius:
        return f"model.radius {config.radius} for local self-attention"
    return ""


def max_positions(config: ModelConfig) -> int:
    """Return the number of positions of the written model, EOS included."""
    return config.max_positions if config.positions == "learned" else POSITIONS


def vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Return the pieces by id, all distinct: PAD is renamed if the vocabulary has such a piece."""
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    *learned, pad = pieces
    while pad in learned:
        pad = f"<{pad}>"
    return [*learned, pad]


def check_expressible(bundle: Bundle, *, quantization: str | None, shortlist: bool) -> None:
    """Refuse what `write_ctranslate2` cannot write.

    Args:
        bundle: the model and its tokenizer.
        quantization: of the weights.
        shortlist: whether one is written with it.

    Raises:
        ValueError: if CTranslate2 is not installed, or does not support the model, the
            quantization or the shortlist.
    """
    if reason := unsupported_feature(bundle.weights.config):
        raise ValueError(f"CTranslate2 does not support {reason}: use the torch engine")
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise ValueError(
            f"there is no quantization {quantization!r} for CTranslate2: choose one of "
            f"{', '.join(QUANTIZATIONS)}"
        )
    if quantization == "bfloat16":  # which NumPy does not have
        require_torch("the quantization bfloat16")
    if shortlist and not bundle.tokenizer.shared:
        raise ValueError("a shortlist needs a vocabulary of both sides: leave it out")
    load_ctranslate2()


def write_ctranslate2(
    bundle: Bundle,
    folder: Path,
    *,
    quantization: str | None = None,
    shortlist: Shortlist | None = None,
) -> None:
    """Write the folder atomically, replacing an existing one.

    Args:
        bundle: the model, on any device, and its tokenizer.
        folder: where to write.
        quantization: one of `QUANTIZATIONS`; None is float32. CTranslate2 can also quantize on
            loading, but a quantized folder is smaller, and our int8 more accurate.
        shortlist: written with it.

    Raises:
        ValueError: that of `check_expressible`.
        OSError: if it cannot be written; an existing folder is unchanged.
    """
    check_expressible(bundle, quantization=quantization, shortlist=shortlist is not None)
    pieces, source_pieces = vocabulary(bundle.tokenizer.target), vocabulary(bundle.tokenizer)
    order = list(range(len(pieces)))
    if shortlist is not None:
        order.insert(UNK + 1, order.pop())
    int8 = quantization == "int8"
    spec = _spec(bundle.weights.config, bundle.weights.to_numpy().weights, order, int8=int8)
    names = [pieces[id] for id in order]
    spec.register_source_vocabulary([source_pieces[id] for id in order])
    spec.register_target_vocabulary(names)
    spec.config.unk_token = pieces[bundle.tokenizer.UNK]
    spec.config.eos_token = pieces[bundle.tokenizer.EOS]
    spec.config.bos_token = spec.config.decoder_start_token = pieces[bundle.tokenizer.pad]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = EPSILON
    spec.validate()
    spec.optimize(quantization=None if int8 else quantization)
    with atomic_folder(folder) as fresh:
        spec.save(str(fresh))
        tokenizer = bundle.tokenizer
        pair = isinstance(tokenizer, PairTokenizer)
        files = tokenizer.files() if pair else {TOKENIZER: tokenizer.to_bytes()}
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        if shortlist is not None:
            (fresh / VMAP).write_bytes(shortlist.to_text(pieces).encode())


def _spec(config: ModelConfig, weights: Weights, order: Sequence[int], *, int8: bool):
    """Build CTranslate2's model specification, with the vocabulary in the given order."""
    specs = import_module("ctranslate2.specs")
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=specs.common_spec.Activation[_ACTIVATIONS[config.activation]],
    )
    spec.decoder.start_from_zero_embedding = True
    for name, tensor in ct2_variables(config, weights).items():
        scope, _, variable = name.rpartition("/")
        value = tensor[order] if scope in _BY_ID else tensor
        layer = specs.model_spec.index_spec(spec, scope)
        if int8 and variable == "weight":
            layer.weight, layer.weight_scale = quantize_int8(value)
        else:
            setattr(layer, variable, value)
    return spec


def ct2_variables(config: ModelConfig, weights: Weights) -> dict[str, Float[np.ndarray, "..."]]:
    """Return every tensor of the written model by its CTranslate2 name."""
    # Copies: CTranslate2 quantizes in place.
    weights = {name: weight.copy() for name, weight in weights.items()}
    embedding = weights["embedding.weight"]
    bias = weights.get("output_bias", np.zeros(config.vocab_size, np.float32)).copy()
    bias[config.pad] = _PAD_BIAS
    table = weights.get("positions.weight")
    if table is None:
        table = sinusoids(POSITIONS, config.d_model)
    # Scoring a translation cut at the length limit needs one position more.
    table = np.concatenate([table, np.zeros((1, config.d_model), np.float32)])
    variables = {
        "encoder/embeddings_0/weight": weights.get("source_embedding.weight", embedding),
        "decoder/embeddings/weight": embedding,
        "decoder/projection/weight": weights.get("output_embedding.weight", embedding),
        "decoder/projection/bias": bias,
        "encoder/position_encodings/encodings": table,
        "decoder/position_encodings/encodings": table,
    }
    for side, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for number, (layer, names) in itertools.product(range(count), _LAYERS.items()):
            for part in ("weight", "bias"):
                keys = [f"{side}.{number}.{name}.{part}" for name in names]
                if keys := [key for key in keys if key in weights]:
                    variable = _NORM_PARTS[part] if layer.endswith("layer_norm") else part
                    tensor = np.concatenate([weights[key] for key in keys])
                    variables[f"{side}/layer_{number}/{layer}/{variable}"] = tensor
        for part, variable in _NORM_PARTS.items() if config.norm == "pre" else ():
            variables[f"{side}/layer_norm/{variable}"] = weights[f"{side}_norm.{part}"]
    return variables


class QuantizedMatrix(NamedTuple):
    """A matrix as CTranslate2 stores it: row r is `weight[r] / scale[r]`."""

    weight: Int8[np.ndarray, "rows columns"]
    scale: Float[np.ndarray, " rows"]


def quantize_int8(weight: Float[np.ndarray, "rows columns"]) -> QuantizedMatrix:
    """Round a matrix to 8 bits with a scale per row (see the module's docstring).

    >>> quantize_int8(np.array([[3.0, -3.0, 1.0], [2.0, 1.0, 0.0]])).weight.tolist()
    [[127, -127, 42], [85, 42, 0]]
    """
    rows, columns = weight.shape
    pairs = np.pad(weight, ((0, 0), (0, columns % 2))).reshape(rows, -1, 2)
    sums = np.maximum(pairs.clip(min=0).sum(2), -pairs.clip(max=0).sum(2))
    largest = sums.max(1)
    # Rounding may add a half to each of the two, so together they are scaled to one less.
    scale = (_PAIR_LIMIT - 1) / np.where(largest < _TINY, _PAIR_LIMIT - 1, largest)
    scale = scale.astype(np.float32)
    with np.errstate(invalid="ignore"):  # of what is not a number
        return QuantizedMatrix((weight * scale[:, None]).round().astype(np.int8), scale)


class Cache:
    """Folders and small text files by name."""

    def __init__(self, root: Path | None = None) -> None:
        """Use `root`; None is the user's cache folder."""
        try:
            self.root = root or user_cache(os.environ, system=sys.platform, home=Path.home())
            self.root.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.root).close()
        except (OSError, RuntimeError):  # RuntimeError: no home folder
            self._use_temporary()

    def folder(self, name: str, write: Callable[[Path], None]) -> Path:
        """Return the folder of that name, writing it if it is missing or damaged.

        Args:
            name: `CACHE_PREFIX`, and what identifies everything that the contents depend on.
            write: writes the folder, with `atomic_folder`.

        Raises:
            OSError: if not even a temporary folder can be written.
        """
        folder = self.root / name
        if _is_intact(folder):
            return folder
        try:
            return self._write(folder, write)
        except OSError:
            self._use_temporary()
            return self._write(self.root / name, write)

    def read_text(self, name: str) -> str:
        """Return the text of that name; empty if there is none."""
        try:
            return (self.root / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def store_text(self, name: str, text: str) -> None:
        """Store a text if possible."""
        with suppress(OSError, ValueError), atomic_file(self.root / name) as file:
            file.write(text.encode())

    def _write(self, folder: Path, write: Callable[[Path], None]) -> Path:
        fresh_folder = tempfile.TemporaryDirectory(
            dir=self.root, prefix=f".{CACHE_PREFIX}", ignore_cleanup_errors=True
        )
        with fresh_folder as fresh:
            written = Path(fresh) / "new"
            write(written)
            if folder.exists() and not _is_intact(folder):
                folder.rename(Path(fresh) / "damaged")
            try:
                written.rename(folder)
            except OSError:  # another process was faster
                if not _is_intact(folder):
                    raise
        self._evict()
        return folder

    def _evict(self) -> None:
        """Delete the least recently used folders, and leftovers of killed processes."""
        try:
            used = {
                path: path.stat().st_mtime
                for path in self.root.iterdir()
                if path.name.removeprefix(".").startswith(CACHE_PREFIX)
            }
        except OSError:
            return
        recent_first = sorted(used, key=lambda path: (path.name.startswith("."), -used[path]))
        complete = [path for path in recent_first if not path.name.startswith(".")]
        for path in recent_first:
            if path not in complete[:MAX_FOLDERS] and used[path] < time.time() - _IN_USE:
                shutil.rmtree(path, ignore_errors=True)

    def _use_temporary(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="transduce-"))
        weakref.finalize(self, _remove, os.getpid(), self.root)


def _remove(owner: int, folder: Path) -> None:
    if os.getpid() == owner:  # not in a forked child: its parent still reads the folder
        shutil.rmtree(folder, ignore_errors=True)


def _is_intact(folder: Path) -> bool:
    """Verify all checksums and mark the folder as used."""
    try:
        check_folder(folder, expected="a cache folder")
        os.utime(folder)
    except (ValueError, OSError):
        return False
    return True
