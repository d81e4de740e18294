"""Attention weights of a sentence pair, or every number of the forward pass, computed in NumPy.

Training and decoding keep no weights. Here the pass is computed again, and recorded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from transduce.model.numpy_transformer import TransformerWeights


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """Attention weights and log-probabilities of one sentence pair.

    Row q of a head holds the weights of position q over its memory; it sums to 1.
    """

    encoder: Float[np.ndarray, "encoder_layers heads source source"]
    decoder: Float[np.ndarray, "decoder_layers heads target target"]
    """Over the decoder's input: row 0 is the start, row q the target's id q - 1."""
    cross: Float[np.ndarray, "decoder_layers heads target source"]
    """Row q holds the weights over the source while the target's id q is predicted."""
    log_probs: Float[np.ndarray, " target"]
    """Log-probability of each target id, given the source and the target before it."""


def trace(model: TransformerWeights, source: Sequence[int], target: Sequence[int]) -> Trace:
    """Run a forced forward pass without dropout and record all attention weights.

    Args:
        model: in torch, on any device, or in NumPy.
        source: ids with EOS.
        target: ids with EOS.

    Raises:
        ValueError: if a side has no ids.
    """
    results = intermediate_results(model, source, target)
    pad = model.config.pad
    logits = results["logits"][:, :pad]  # PAD is never generated
    log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    encoder, decoder = range(model.config.encoder_layers), range(model.config.decoder_layers)

    def stacked(names: Iterable[str]) -> Float[np.ndarray, "layers heads query memory"]:
        return np.stack([results[f"{name}.weights"] for name in names])

    return Trace(
        encoder=stacked(f"encoder.{layer}.self_attention" for layer in encoder),
        decoder=stacked(f"decoder.{layer}.self_attention" for layer in decoder),
        cross=stacked(f"decoder.{layer}.cross_attention" for layer in decoder),
        log_probs=log_probs[np.arange(len(target)), target],
    )


def cross_attention(
    model: TransformerWeights, source: Sequence[int], target: Sequence[int]
) -> Float[np.ndarray, "decoder_layers heads target source"]:
    """Return `Trace.cross` of a sentence pair alone, which takes less time and memory."""
    target_in = np.array([[model.config.pad, *target[:-1]]])
    return cross_attention_weights(model, np.array([source]), None, target_in)[:, :, 0]


def cross_attention_weights(
    model: TransformerWeights,
    source: Int[np.ndarray, "batch source"],
    source_mask: Bool[np.ndarray, "batch 1 1 source"] | None,
    target_in: Int[np.ndarray, "batch target"],
) -> Float[np.ndarray, "layers heads batch target source"]:
    """Return the cross-attention weights of a batch, without dropout.

    Rows of padded target positions are meaningless; padded source positions have no weight.

    Args:
        model: in torch, on any device, or in NumPy.
        source: ids with EOS, padded.
        source_mask: True where a source position is not padding; None without padding.
        target_in: target ids shifted right.
    """
    weights: list[Float[np.ndarray, "batch heads target source"]] = []

    def record(name: str, value: Float[np.ndarray, "..."]) -> None:
        if name.endswith("cross_attention.weights"):
            weights.append(value)

    numpy_model = model.to_numpy()
    memory = numpy_model.project_memory(numpy_model.encode(source, source_mask))
    numpy_model.decode(memory, source_mask, target_in, record=record)
    return np.stack(weights).swapaxes(1, 2)


def intermediate_results(
    model: TransformerWeights, source: Sequence[int], target: Sequence[int]
) -> dict[str, Float[np.ndarray, "..."]]:
    """Run a forced forward pass without dropout and return every number of it by name.

    A is an attention, such as "encoder.0.self_attention" or "decoder.1.cross_attention"; S is an
    attention or a feed-forward network, such as "encoder.0.feed_forward". Positions are rows.

    - source.embedded, source.positions, target.embedded, target.positions: the embeddings times
      √d_model, and the encodings that are added to them;
    - A.queries, A.keys, A.values (heads, length, d_k or d_v), A.scores, which are QKᵀ / √d_k,
      A.masked_scores, A.weights (heads, query, memory), A.heads (length, heads · d_v);
    - encoder.0.feed_forward.hidden: after the activation;
    - S_norm.residual, S_norm.sublayer and S_norm.sum: both addends and their sum; S_norm.mean and
      S_norm.variance of the vectors that are normalised; S_output;
    - memory and logits.

    Args:
        model: in torch, on any device, or in NumPy.
        source: ids with EOS.
        target: ids with EOS.

    Raises:
        ValueError: if a side has no ids.
    """
    for side, ids in (("source", source), ("target", target)):
        if not ids:
            raise ValueError(f"the {side} has no ids: at least EOS can be traced")
    results: dict[str, Float[np.ndarray, ...]] = {}

    def record(name: str, value: Float[np.ndarray, "..."]) -> None:
        results[name] = value[0]

    target_in = np.array([[model.config.pad, *target[:-1]]])
    logits = model.to_numpy()(np.array([source]), None, target_in, record=record)
    return results | {"logits": logits[0]}
