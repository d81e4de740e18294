"""Write a bundle for Marian's own programs (1.12 or newer), such as `marian-decoder`.

    model.npz       weights, and the architecture as YAML in one array
    decoder.yml     settings: `marian-decoder -c decoder.yml`
    vocab.spm       SentencePiece model; an imported model has source.spm and target.spm, which
                    segment text outside Marian, and vocab.yml
    manifest.json   size and SHA-256 of the others

The model has Marian's layers of type "transformer-new". Those of the older type "transformer"
compute other sinusoids (the exponent's denominator is d_model / 2 - 1), read a table of positions
from row 0 in every decoding step, and after the first step normalise only the queries of a pre-norm
decoder. So positions are written as a table, whether sinusoids or learned.

Before a table Marian does not multiply embeddings by √d_model. They are written multiplied, and the
last norm, which only the logits read, is divided by it.

Its beam search differs in the length penalty, length^α. Greedy search is identical.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from jaxtyping import Float32

from transduce.bundle.bundle import Bundle
from transduce.data.pair_tokenizer import SOURCE, TARGET, PairTokenizer
from transduce.export.marian_files import tensor_map
from transduce.export.proof import (
    PiecePair,
    Proof,
    compare_pieces,
    missing_packages,
    run_program,
    samples,
)
from transduce.inference.engines.ct2_model import unsupported_feature as why_not
from transduce.inference.engines.ct2_model import vocabulary
from transduce.io.atomic_folder import atomic_folder, check_replaceable
from transduce.model.config import ModelConfig
from transduce.model.numpy_transformer import last_norm, sinusoids

MODEL, DECODER, VOCABULARY, TABLE = "model.npz", "decoder.yml", "vocab.spm", "vocab.yml"
FILES: Final = (MODEL, DECODER, VOCABULARY, TABLE, SOURCE, TARGET)

_FACTOR = 3  # Marian's default: the longest translation, in lengths of its source

_BLOCKS = {
    "encoder.self_attention": "selfAttentionBlock",
    "decoder.self_attention": "autoRegressiveBlock",
    "decoder.cross_attention": "crossAttentionBlock",
    "encoder.feed_forward": "filterBlock",
    "decoder.feed_forward": "filterBlock",
}
_ATTENTIONS = {"self_attention": "selfAttention", "cross_attention": "crossAttention"}
_CLASSES = {"encoder": "EncoderLayer", "decoder": "DecoderLayerWithCrossAttention"}
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}


def write_marian_npz(bundle: Bundle, folder: Path) -> None:
    """Write the folder atomically, replacing an earlier export. Raises: as `write_huggingface`."""
    if bundle.tokenizer.tags and not isinstance(bundle.tokenizer, PairTokenizer):
        raise ValueError(
            "Marian's vocabulary cannot express the target language tags of data.directions: "
            "export to ctranslate2 or huggingface instead"
        )
    if (tie := bundle.weights.config.tie) != "all":
        raise ValueError(
            f'Marian cannot express model.tie "{tie}": source, target and output share one matrix '
            f"in this export"
        )
    if reason := why_not(bundle.weights.config):
        raise ValueError(f"Marian cannot express {reason}")
    check_replaceable(folder, FILES)
    vocabularies = _vocabulary_files(bundle)
    positions = _positions(bundle)
    arrays = _arrays(bundle, positions)
    with atomic_folder(folder) as fresh:
        np.savez(fresh / MODEL, **cast("Any", arrays))
        for name, data in vocabularies.items():
            (fresh / name).write_bytes(data)
        settings = {
            "relative-paths": True,
            "models": [MODEL],
            "vocabs": [TABLE if TABLE in vocabularies else VOCABULARY] * 2,
            "beam-size": bundle.search.beam,
            "normalize": bundle.search.alpha,
            "word-penalty": 0,
            "allow-unk": True,
            "max-length": len(positions),  # Marian requires the number of rows
            "max-length-crop": True,
            "max-length-factor": _FACTOR,
            "mini-batch": 16,
            "maxi-batch": 100,
            "maxi-batch-sort": "src",
        }
        (fresh / DECODER).write_text(_yaml(settings), encoding="utf-8")


def prove_marian_npz(bundle: Bundle, folder: Path, sentences: Sequence[str]) -> Proof:
    """Compare Marian, by its package pymarian, with our torch engine.

    Marian aborts the process at errors, so it has one of its own. It segments by itself where the
    folder has one SentencePiece model.

    Args: those of `proof.prove_huggingface`, of `write_marian_npz`.

    Raises:
        ValueError: if Marian fails; the message has its error.
    """
    if proof := missing_packages("marian-npz", "pymarian"):
        return proof
    pieces = vocabulary(bundle.tokenizer)
    ids = {piece: number for number, piece in enumerate(pieces)}
    pair = isinstance(bundle.tokenizer, PairTokenizer)
    sample = list(samples(bundle, sentences))
    texts = [" ".join(pieces[id] for id in s.source[:-1]) if pair else s.text for s in sample]
    factor = max([_FACTOR, *(math.ceil(len(s.target) / len(s.source)) for s in sample)])
    options = {"config": str((folder / DECODER).resolve()), "max_length_factor": factor}
    job = {"options": options, "sentences": texts}
    outputs = run_program(("-c", _PROGRAM), job, name="Marian", out=folder)
    gap, pairs = 0.0, list[PiecePair]()
    for s, output in zip(sample, outputs, strict=True):
        _, line = output.split(" ||| ", 1)
        translation, scores, *_ = line.rsplit("|||", 3)
        target = [ids[piece] for piece in translation.split()][: s.limit]
        scores = [float(score) for score in scores.split()[1:]]
        if len(scores) > len(target) < s.limit:
            target.append(bundle.tokenizer.EOS)
        pairs.append(s.pair(s.source, target))
        logits = s.logits()[:, :-1]  # without PAD
        log_probs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        expected = log_probs[range(len(s.target)), list(s.target)].tolist()
        gap = max([gap, *(abs(a - b) for a, b in zip(expected, scores, strict=False))])
    return compare_pieces("marian-npz", pairs, gap=gap)


_PROGRAM = """
import json, pathlib, sys
import pymarian
job = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
translator = pymarian.Translator(
    **job["options"], beam_size=1, mini_batch=1, cpu_threads=1, quiet_translation=True,
    no_spm_decode=True, n_best=True, word_scores=True,
)
translations = [translator.translate(text) for text in job["sentences"]]
pathlib.Path(job["output"]).write_text(json.dumps(translations), encoding="utf-8")
"""


def _positions(bundle: Bundle) -> Float32[np.ndarray, "rows d_model"]:
    """The table of positions; beyond those that a model learned, its last.

    Marian aborts beyond the table, so it holds the longest translation of the longest source.
    """
    rows = _FACTOR * (bundle.search.max_source + 1)  # EOS
    table = bundle.weights.to_numpy().weights.get("positions.weight")
    if table is None:
        return sinusoids(rows, bundle.weights.config.d_model)
    return table[np.arange(rows).clip(max=len(table) - 1)]


def _arrays(
    bundle: Bundle, positions: Float32[np.ndarray, "rows d_model"]
) -> Mapping[str, np.ndarray]:
    """All weights under Marian's names; biases that ours lacks are zero."""
    config, weights = bundle.weights.config, dict(bundle.weights.to_numpy().weights)
    root = np.float32(math.sqrt(config.d_model))
    weights["embedding.weight"] = weights["embedding.weight"][:-1] * root  # PAD is no piece
    for name in last_norm(config):
        weights[name] = weights[name] / root
    arrays: dict[str, np.ndarray] = {}
    for name, _, _ in tensor_map(config):
        array = weights.get(name, np.zeros(config.d_model, np.float32))
        matrix = array.ndim == 2 and name != "embedding.weight"
        arrays[_marian_name(name, config)] = np.ascontiguousarray(array.T if matrix else array)
    bias = weights.get("output_bias", np.zeros(config.vocab_size, np.float32))
    arrays["decoder_ff_logit_out_b"] = bias[None, :-1]
    for side in ("encoder", "decoder"):
        arrays[f"{_side(side)}->positionEmbedding->embeddings"] = positions
    settings = _yaml(_architecture(config)).encode()
    arrays["special:model.yml"] = np.frombuffer(settings + b"\0", np.int8)
    return arrays


def _marian_name(name: str, config: ModelConfig) -> str:
    """Marian's name of a weight: the C++ expression that leads to it.

    >>> _marian_name("encoder.0.self_attention.query.weight", ModelConfig()).rpartition(")->")[2]
    'selfAttentionBlock->selfAttention->qProj->weight'
    """
    side, *parts, kind = name.split(".")
    if side == "embedding":
        return "Wemb"
    if side.endswith("_norm"):
        return f"{_side(side.removesuffix('_norm'))}->postprocessor->norm->{kind}"
    number, sublayer, part = parts
    block = _BLOCKS[f"{side}.{sublayer.removesuffix('_norm')}"]
    layer = f"{_side(side)}->layers->at({number})->as<marian::nn::Transformer{_CLASSES[side]}>()"
    if part == "norm":
        return f"{layer}->{block}->{config.norm}processor->norm->{kind}"
    if sublayer == "feed_forward":
        relu = config.activation == "relu"  # fused with the inner layer and its dropout
        inner = "LinearReluDropout" if relu else "Linear"
        index, linear = (0, inner) if part == "inner" else (1 if relu else 3, "Linear")
        return f"{layer}->{block}->layers->at({index})->as<marian::nn::{linear}>()->{kind}"
    return f"{layer}->{block}->{_ATTENTIONS[sublayer]}->{part[0]}Proj->{kind}"


def _side(side: str) -> str:
    return f"TransformerBatch{side.capitalize()}->{side}"


def _architecture(config: ModelConfig) -> Mapping[str, object]:
    pre_norm = config.norm == "pre"
    return {
        "type": "transformer-new",
        "version": "v1.12.0 transduce",
        "dim-emb": config.d_model,
        "dim-vocabs": [config.vocab_size - 1] * 2,
        "enc-depth": config.encoder_layers,
        "dec-depth": config.decoder_layers,
        "transformer-heads": config.heads,
        "transformer-dim-ffn": config.d_ff,
        "transformer-ffn-activation": _ACTIVATIONS[config.activation],
        "transformer-preprocess": "n" if pre_norm else "",
        "transformer-postprocess": "da" if pre_norm else "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "n" if pre_norm else "",
        "transformer-train-position-embeddings": True,
        "tied-embeddings-all": True,
    }


def _vocabulary_files(bundle: Bundle) -> Mapping[str, bytes]:
    tokenizer = bundle.tokenizer
    if not isinstance(tokenizer, PairTokenizer):
        return {VOCABULARY: tokenizer.to_bytes()}
    pieces = vocabulary(tokenizer)[:-1]
    table = _yaml({piece: number for number, piece in enumerate(pieces)})
    return {**tokenizer.files(), TABLE: table.encode()}


def _yaml(values: Mapping[str, object]) -> str:
    """Format as YAML, of which JSON's values are a part."""
    lines = (
        f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value)}"
        for key, value in values.items()
    )
    return "".join(f"{line}\n" for line in lines)
