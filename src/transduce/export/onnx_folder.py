"""Write a bundle as an ONNX folder, as transformers.js and Optimum load it.

    config.json, generation_config.json     as of a MarianMTModel, whichever the norm
    tokenizer.json, tokenizer_config.json   the source's tokenizer, and the target's pieces
    onnx/encoder_model.onnx                 ids to hidden states
    onnx/decoder_model_merged.onnx          ids and cache to logits and cache
    manifest.json                           size and SHA-256 of the others

Batch and lengths are dynamic; positions are a table as long as the longest translation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from transduce.bundle.bundle import CONFIG, Bundle
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.data.tokenizer import EOS
from transduce.export.marian import (
    GENERATION,
    TOKENIZER_CONFIG,
    check_replaceable,
    generation_config,
    huggingface_config,
    tokenizer_config,
    write_json,
)
from transduce.export.onnx_graph import cache_names, decoder_model, encoder_model, onnx_weights
from transduce.export.proof import PiecePair, Proof, compare_pieces, missing_packages, samples
from transduce.export.tokenizer_json import tokenizer_json
from transduce.inference.engines.ct2_model import unsupported_feature as why_not
from transduce.inference.engines.ct2_model import vocabulary
from transduce.inference.translator import fit_to_positions
from transduce.io.atomic_folder import atomic_folder
from transduce.model.config import ModelConfig
from transduce.model.numpy_transformer import sinusoids

FOLDER, ENCODER, DECODER = "onnx", "encoder_model.onnx", "decoder_model_merged.onnx"
TOKENIZER = "tokenizer.json"


def write_onnx(bundle: Bundle, folder: Path) -> None:
    """Write the folder atomically, replacing an earlier export.

    Raises: as `write_huggingface`, and a ValueError if the package onnx is not installed.
    """
    config = bundle.weights.config
    if reason := why_not(config):
        raise ValueError(f"ONNX runtimes for translation do not support {reason}")
    if bundle.tokenizer.tags and not isinstance(bundle.tokenizer, PairTokenizer):
        raise ValueError(
            "the tokenizer of an ONNX folder cannot express the tags of several directions: export "
            "to ctranslate2 or huggingface instead"
        )
    if find_spec("onnx") is None:
        raise ValueError("onnx is not installed: pip install 'transduce[onnx]'")
    check_replaceable(folder, (CONFIG, GENERATION, TOKENIZER, TOKENIZER_CONFIG, FOLDER))
    bundle = replace(bundle, search=fit_to_positions(bundle.search, longest=config.longest))
    names = vocabulary(bundle.tokenizer)
    tokenizer = tokenizer_json(bundle.tokenizer, names)
    state = bundle.weights.to_numpy().weights
    rows = bundle.search.limit(bundle.search.max_source)
    positions = state.get("positions.weight", sinusoids(rows, config.d_model))
    weights = onnx_weights(config, state, positions)
    marian = {"model_type": "marian", "architectures": ["MarianMTModel"]}
    fast = {"tokenizer_class": "PreTrainedTokenizerFast"}
    with atomic_folder(folder) as fresh:
        (fresh / FOLDER).mkdir()
        for name, build in ((ENCODER, encoder_model), (DECODER, decoder_model)):
            model = build(config, weights)
            (fresh / FOLDER / name).write_bytes(model.SerializeToString(deterministic=True))
        write_json(fresh / CONFIG, {**huggingface_config(bundle), **marian})
        write_json(fresh / GENERATION, generation_config(bundle))
        write_json(fresh / TOKENIZER, tokenizer)
        write_json(fresh / TOKENIZER_CONFIG, {**tokenizer_config(bundle, names[-1]), **fast})


def prove_onnx(bundle: Bundle, folder: Path, sentences: Sequence[str]) -> Proof:
    """Compare onnxruntime and Hugging Face's `tokenizers` with our torch engine.

    Args: those of `proof.prove_huggingface`, of `write_onnx`.
    """
    if proof := missing_packages("onnx", "onnxruntime", "tokenizers"):
        return proof
    session = import_module("onnxruntime").InferenceSession
    encoder, decoder = (session(folder / FOLDER / name) for name in (ENCODER, DECODER))
    tokenizer = import_module("tokenizers").Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.encode_special_tokens = True  # the names of control pieces are text
    gap, pairs = 0.0, list[PiecePair]()
    for sample in samples(bundle, sentences):
        source = tokenizer.encode(sample.text).ids
        runner = _Runner(decoder, bundle.weights.config, encoder, source)
        target = list(runner.greedy(bundle.tokenizer.pad, limit=sample.limit))
        pairs.append(sample.pair(source, target))
        runner = _Runner(decoder, bundle.weights.config, encoder, sample.source)
        gap = max(gap, sample.gap(runner.step(sample.target_in)))
    return compare_pieces("onnx", pairs, gap=gap)


class _Runner:
    """One sentence in onnxruntime."""

    def __init__(
        self, decoder: Any, config: ModelConfig, encoder: Any, source: Sequence[int]
    ) -> None:
        self._decoder = decoder
        ids, mask = np.array([source]), np.ones((1, len(source)), np.int64)
        (hidden,) = encoder.run(None, {"input_ids": ids, "attention_mask": mask})
        empty = np.zeros((1, config.heads, 0, config.d_k), np.float32)
        self._names = [name for _, name in cache_names(config)]
        self._feed = {
            "encoder_hidden_states": hidden,
            "encoder_attention_mask": mask,
            "use_cache_branch": np.array([False]),
            **{f"past_key_values.{name}": empty for name in self._names},
        }

    def step(self, ids: Sequence[int]) -> Float32[np.ndarray, "target vocab"]:
        """Logits of further positions."""
        logits, *cache = self._decoder.run(None, {**self._feed, "input_ids": np.array([ids])})
        cached = zip(self._names, cache, strict=True)
        self._feed |= {f"past_key_values.{name}": array for name, array in cached}
        self._feed["use_cache_branch"] = np.array([True])
        return logits[0]

    def greedy(self, start: int, *, limit: int) -> Iterator[int]:
        """Translate, up to EOS."""
        last = start
        for _ in range(limit):
            last = int(self.step([last])[-1].argmax())
            yield last
            if last == EOS:
                return
