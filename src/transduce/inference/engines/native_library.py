"""The compiled search of the native engine (`native_engine.cpp`), called with NumPy arrays."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from jaxtyping import Float, Int32, Int64

from transduce.inference.engines.ct2_model import Shortlist
from transduce.io.compiler import Compiled, load_compiled
from transduce.model.config import ModelConfig
from transduce.model.numpy_transformer import NumpyTransformer, sinusoids

_SIGNATURES: Final = {
    "int8_instructions": "> s",
    "create_model": "pp > p",
    "free_model": "p",
    "search": "p ll p pp p pp pp p lllll l ppp > i",
}

_LANES: Final = 16
"""Numbers of a vector; widths have to be multiples."""

_ACTIVATIONS: Final = ("relu", "gelu", "silu")

INT8_NEEDS: Final = "a processor with VNNI, or with AVX2 and no AVX-512"

LONGEST: Final = 16_384
"""Maximum positions of a source or target: memory is reserved for all of a translation."""


@cache
def load_search() -> Compiled:
    """Return the library, compiled for this processor unless the user's cache has it."""
    return load_compiled("transduce.inference.engines", "native_engine.cpp", _SIGNATURES)


def unsupported_shape(config: ModelConfig) -> str:
    """Name what of a model's shape is not supported; empty if all is."""
    if config.radius:
        return "attention to near positions only"
    for field in ("d_model", "d_ff", "d_k", "d_v"):
        if getattr(config, field) % _LANES:
            return f"model.{field} {getattr(config, field)}, which is no multiple of {_LANES}"
    return ""


class Sentence(NamedTuple):
    """A sentence to translate."""

    source: Sequence[int]
    """Ids, EOS included."""
    limit: int
    """Maximum length of a translation in pieces, EOS included; at least 1."""
    prefix: Sequence[int] = ()
    """Ids that every translation begins with; at most as many as the limit."""


class RawHypothesis(NamedTuple):
    """A translation."""

    ids: tuple[int, ...]
    """With EOS at the end, if it was reached."""
    log_probs: tuple[float, ...]
    """Log-probability of each."""


class NativeModel:
    """A model in the library's memory. Thread-safe."""

    def __init__(
        self, model: NumpyTransformer, *, int8: bool, shortlist: Shortlist | None = None
    ) -> None:
        """Pack the weights.

        Args:
            model: of a supported shape. If a weight is not finite, no hypothesis ever finishes.
            int8: whether products are computed in int8, else in float32.
            shortlist: ids that may be generated; None is the whole vocabulary.

        Raises:
            ValueError: if there is no library, or no int8 on this processor.
            MemoryError: if there is no memory.
        """
        library, reason = load_search()
        if library is None:
            raise ValueError(f"the native engine's kernels are missing: {reason}")
        if int8 and not library.int8_instructions():
            raise ValueError(f"the native engine's int8 needs {INT8_NEEDS}")
        self._library, self._config = library, model.config
        tensors = [_as_float32(tensor) for tensor in _tensors(model)]
        addresses = np.array([t.ctypes.data if t is not None else 0 for t in tensors], np.uintp)
        # A NaN would survive in float32, but not the rounding to int8.
        self._is_finite = all(np.isfinite(t).all() for t in tensors if t is not None)
        self._embeddings = tensors[:2]  # which are read where they are
        config = model.config
        shape = np.array(
            [
                *(int8, config.d_model, config.d_ff, config.heads, config.d_k, config.d_v),
                *(config.encoder_layers, config.decoder_layers, config.vocab_size),
                *(config.norm == "pre", _ACTIVATIONS.index(config.activation)),
            ],
            np.int64,
        )
        self._model = library.create_model(shape.ctypes.data, addresses.ctypes.data)
        if not self._model:
            raise MemoryError("the native engine has no memory for the model")
        self._shortlist = (None, None)
        if shortlist:
            by_source = [shortlist.by_source.get(id, ()) for id in range(config.vocab_size)]
            self._shortlist = _flat([*by_source, shortlist.always])
        learned = model.weights.get("positions.weight")
        positions = sinusoids(64, config.d_model) if learned is None else learned
        self._positions = np.ascontiguousarray(positions, np.float32)

    def __del__(self) -> None:
        if model := getattr(self, "_model", None):
            self._library.free_model(model)

    def search(
        self,
        groups: Sequence[Sequence[Sentence]],
        *,
        beam: int,
        min_length: int = 0,
        no_repeat: int = 0,
        eos: int,
        threads: int,
        whole_vocabulary: bool = False,
    ) -> list[list[list[RawHypothesis]]]:
        """Translate groups of sentences; each is computed by one thread, or a lone one by two.

        Args:
            groups: a group's sentences share each step, and should be of similar length.
            beam: beam size; 1 is greedy search.
            min_length: minimum length of a translation in pieces, EOS not included.
            no_repeat: size of the n-grams that are not repeated; 0 = off.
            eos: id that ends a translation.
            threads: maximum number of groups that are computed at a time.
            whole_vocabulary: whether to ignore the shortlist.

        Returns:
            For each sentence of each group the hypotheses that finished, in this order; there may
            be up to 2 x beam - 1.

        Raises:
            ValueError: if an id is not in the vocabulary.
            MemoryError: if there is no memory.
        """
        sentences = [sentence for group in groups for sentence in group]
        if not sentences or not self._is_finite:
            return [[[] for _ in group] for group in groups]
        capacity = max(sentence.limit for sentence in sentences)
        most = 2 * beam
        ids = np.empty((len(sentences), most, capacity), np.int32)
        log_probs = np.empty((len(sentences), most, capacity), np.float32)
        lengths = np.zeros((len(sentences), most), np.int32)
        positions = self._position_table(max(capacity, *(len(s.source) for s in sentences)))
        sources, prefixes = _flat(s.source for s in sentences), _flat(s.prefix for s in sentences)
        for texts in (sources[0], prefixes[0]):
            if texts.size and not (texts.min() >= 0 and texts.max() < self._config.vocab_size):
                raise ValueError(f"an id is not in the vocabulary of {self._config.vocab_size}")
        arrays = (
            _starts(len(group) for group in groups),
            *sources,
            np.array([s.limit for s in sentences], np.int32),
            *prefixes,
            *((None, None) if whole_vocabulary else self._shortlist),
            positions,
        )
        status = self._library.search(
            *(self._model, threads, len(groups)),
            *(None if array is None else array.ctypes.data for array in arrays),
            *(beam, min_length, no_repeat, eos, self._config.pad),
            *(capacity, ids.ctypes.data, lengths.ctypes.data, log_probs.ctypes.data),
        )
        if status:
            raise MemoryError("the native engine has no memory for this batch")
        results = iter(zip(ids, log_probs, lengths.tolist(), strict=True))
        return [[_hypotheses(*next(results)) for _ in group] for group in groups]

    def _position_table(self, length: int) -> Float[np.ndarray, "positions d_model"]:
        table = self._positions
        if self._config.positions == "sinusoid" and len(table) < length:
            rows = max(length, min(2 * length, LONGEST))
            table = sinusoids(rows, self._config.d_model)
            if len(table) > len(self._positions):  # another thread may have stored a longer table
                self._positions = table
        return table


def _hypotheses(
    ids: Int32[np.ndarray, "hypotheses length"],
    log_probs: Float[np.ndarray, "hypotheses length"],
    lengths: Sequence[int],
) -> list[RawHypothesis]:
    return [
        RawHypothesis(tuple(ids[row, :length].tolist()), tuple(log_probs[row, :length].tolist()))
        for row, length in enumerate(lengths)
        if length
    ]


def _starts(lengths: Iterable[int]) -> Int64[np.ndarray, " starts"]:
    return np.cumsum([0, *lengths], dtype=np.int64)


def _flat(rows: Iterable[Any]) -> tuple[Int32[np.ndarray, " ids"], Int64[np.ndarray, " starts"]]:
    """Concatenate rows of ids; return them and where each begins."""
    arrays = [np.asarray(row, np.int32) for row in rows]
    return np.concatenate(arrays), _starts(map(len, arrays))


def _as_float32(tensor: Float[np.ndarray, "..."] | None) -> Float[np.ndarray, "..."] | None:
    return None if tensor is None else np.ascontiguousarray(tensor, np.float32)


def _tensors(model: NumpyTransformer) -> Iterator[Float[np.ndarray, "..."] | None]:
    """Yield the weights in the order in which the library reads them; None where there is none."""
    weights, config = model.weights, model.config

    def embedding(side: str):
        return weights.get(f"{side}_embedding.weight", weights["embedding.weight"])

    def linear(*names: str):
        yield np.concatenate([weights[f"{name}.weight"] for name in names])
        biases = [weights[f"{name}.bias"] for name in names if f"{name}.bias" in weights]
        yield np.concatenate(biases) if biases else None

    def norm(name: str):
        yield from (weights[f"{name}.weight"], weights[f"{name}.bias"])

    yield embedding("source")
    yield embedding("target")
    yield embedding("output")
    yield weights.get("output_bias")
    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for layer in (f"{side}.{number}" for number in range(layers)):
            own, memory = f"{layer}.self_attention", f"{layer}.cross_attention"
            yield from linear(f"{own}.query", f"{own}.key", f"{own}.value")
            yield from linear(f"{own}.out")
            yield from linear(f"{layer}.feed_forward.inner")
            yield from linear(f"{layer}.feed_forward.outer")
            parts = ["self_attention", "feed_forward"]
            if side == "decoder":
                yield from linear(f"{memory}.query")
                yield from linear(f"{memory}.key", f"{memory}.value")
                yield from linear(f"{memory}.out")
                parts.insert(1, "cross_attention")
            for part in parts:
                yield from norm(f"{layer}.{part}_norm.norm")
    if config.norm == "pre":
        yield from norm("encoder_norm")
        yield from norm("decoder_norm")
