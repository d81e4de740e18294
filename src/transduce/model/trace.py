"""Attention weights of a sentence pair, or every number, recorded while the model reads it.

Training and decoding keep no weights. Here hooks capture the inputs of each attention during an
ordinary forward pass, and `Attention.weights` recomputes its weights from them.
"""

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transduce.model.attention import Attention, KeyValue
from transduce.model.layers import AddNorm, FeedForward
from transduce.model.local_attention import neighbourhood
from transduce.model.transformer import Transformer


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """Attention weights and log-probabilities of one sentence pair. All tensors are on the CPU.

    Row q of a head holds the weights of position q over its memory; it sums to 1.
    """

    encoder: Float[Tensor, "encoder_layers heads source source"]
    decoder: Float[Tensor, "decoder_layers heads target target"]
    """Over the decoder's input: row 0 is the start, row q the target's id q - 1."""
    cross: Float[Tensor, "decoder_layers heads target source"]
    """Row q holds the weights over the source while the target's id q is predicted."""
    log_probs: Float[Tensor, " target"]
    """Log-probability of each target id, given the source and the target before it."""


def trace(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Trace:
    """Run a forced forward pass without dropout and record all attention weights.

    Args:
        model: on any device; its training mode is restored.
        source: ids with EOS.
        target: ids with EOS.

    Raises:
        ValueError: if a side has no ids.
    """
    _check_ids(source, target)
    device, pad = model.embedding.weight.device, model.config.pad
    target_in = torch.tensor([[pad, *target[:-1]]], device=device)
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    with _inference(model), _recorded_weights(attentions) as weights:
        logits = model(torch.tensor([source], device=device), None, target_in)
        log_probs = logits[0, :, :pad].float().log_softmax(-1)  # PAD is never generated
        of_target = log_probs.gather(1, torch.tensor(target, device=device)[:, None])[:, 0]
    return Trace(
        encoder=_stacked(weights, [layer.self_attention for layer in model.encoder]),
        decoder=_stacked(weights, [layer.self_attention for layer in model.decoder]),
        cross=_stacked(weights, [layer.cross_attention for layer in model.decoder]),
        log_probs=of_target.cpu(),
    )


def cross_attention_weights(
    model: Transformer,
    source: Int[Tensor, "batch source"],
    source_mask: Bool[Tensor, "batch 1 1 source"] | None,
    target_in: Int[Tensor, "batch target"],
) -> Float[Tensor, "layers heads batch target source"]:
    """Return the cross-attention weights of a batch, without dropout.

    Rows of padded target positions are meaningless; padded source positions have no weight.

    Args:
        model: on any device; its training mode is restored.
        source: ids with EOS, padded.
        source_mask: True where a source position is not padding; None without padding.
        target_in: target ids shifted right.
    """
    attentions = [layer.cross_attention for layer in model.decoder]
    with _inference(model), _recorded_weights(attentions) as weights:
        model.hidden_states(source, source_mask, target_in)
    return torch.stack([weights[attention].transpose(0, 1) for attention in attentions]).float()


def intermediate_results(
    model: Transformer, source: Sequence[int], target: Sequence[int]
) -> dict[str, Tensor]:
    """Run a forced forward pass without dropout and return every number of it by name, on the CPU.

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
        model: on any device; its training mode is restored.
        source: ids with EOS.
        target: ids with EOS.

    Raises:
        ValueError: if a side has no ids.
    """
    _check_ids(source, target)
    device = model.embedding.weight.device
    ids = {"source": source, "target": [model.config.pad, *target[:-1]]}
    results: dict[str, Tensor] = {}
    with _inference(model), _recorded_results(model, results):
        batches = {side: torch.tensor([side_ids], device=device) for side, side_ids in ids.items()}
        for side, batch in batches.items():
            results[f"{side}.embedded"] = model.embedding(batch) * math.sqrt(model.config.d_model)
            results[f"{side}.positions"] = model.positions(
                torch.zeros_like(results[f"{side}.embedded"])
            )
        results["memory"] = model.encode(batches["source"], None)
        results["logits"] = model.logits(model.decode(results["memory"], None, batches["target"]))
    return {name: result[0].float().cpu() for name, result in results.items()}


@contextmanager
def _inference(model: nn.Module) -> Generator[None]:
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


@contextmanager
def _recorded_weights(attentions: Sequence[Attention]) -> Generator[Mapping[nn.Module, Tensor]]:
    """Record the weights of these attentions while the context is open."""
    weights: dict[nn.Module, Tensor] = {}

    def record(module: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        assert isinstance(module, Attention)
        x, kv, mask = _attention_inputs(args, kwargs)
        weights[module] = module.weights(x, kv, mask)

    hooks = [
        attention.register_forward_pre_hook(record, with_kwargs=True) for attention in attentions
    ]
    try:
        yield weights
    finally:
        for hook in hooks:
            hook.remove()


def _attention_inputs(
    args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[Tensor, KeyValue, Tensor]:
    """Return the arguments of `Attention.forward`, with a mask in any case."""
    x, kv = args
    assert isinstance(x, Tensor)
    assert isinstance(kv, KeyValue)
    mask = kwargs.get("mask")
    if not isinstance(mask, Tensor):
        mask = x.new_ones(1, 1, x.size(1), kv.keys.size(2), dtype=torch.bool)
        mask = mask.tril() if kwargs.get("causal") else mask
    return x, kv, mask


@contextmanager
def _recorded_results(model: Transformer, results: dict[str, Tensor]) -> Generator[None]:
    """Add what each sub-layer computes to `results` while the context is open."""

    def record_attention(
        name: str, module: Attention, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> None:
        x, kv, mask = _attention_inputs(args, kwargs)
        if module.radius:
            sizes = x.size(1), kv.keys.size(2)
            mask = mask & neighbourhood(*sizes, radius=module.radius, device=x.device)
        queries = module.query(x).unflatten(-1, (module.heads, -1)).transpose(1, 2)
        scores = queries @ kv.keys.mT / math.sqrt(kv.keys.size(-1))
        weights = module.weights(x, kv, mask)
        results[f"{name}.queries"] = queries
        results[f"{name}.keys"], results[f"{name}.values"] = kv
        results[f"{name}.scores"] = scores
        results[f"{name}.masked_scores"] = scores.masked_fill(~mask, -math.inf)
        results[f"{name}.weights"] = weights
        results[f"{name}.heads"] = (weights @ kv.values).transpose(1, 2).flatten(2)

    def record_add_norm(name: str, module: AddNorm, residual: Tensor, output: Tensor) -> None:
        total = residual + results[f"{name}.sublayer"]  # the sub-layer has run
        normalised = residual if module.pre_norm else total
        results[f"{name}.residual"], results[f"{name}.sum"] = residual, total
        results[f"{name}.mean"] = normalised.mean(-1)
        results[f"{name}.variance"] = normalised.var(-1, correction=0)
        results[f"{name.removesuffix('_norm')}_output"] = output

    names = {module: name for name, module in model.named_modules()}

    def record(
        module: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object], output: Tensor
    ) -> None:
        name = names[module]
        if isinstance(module, AddNorm):
            assert isinstance(args[0], Tensor)
            record_add_norm(name, module, args[0], output)
            return
        results[f"{name}_norm.sublayer"] = output
        if isinstance(module, Attention):
            record_attention(name, module, args, kwargs)
        elif isinstance(module, FeedForward):
            results[f"{name}.hidden"] = module.activation(module.inner(args[0]))

    hooks = [
        module.register_forward_hook(record, with_kwargs=True)
        for module in model.modules()
        if isinstance(module, Attention | FeedForward | AddNorm)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _check_ids(source: Sequence[int], target: Sequence[int]) -> None:
    for side, ids in (("source", source), ("target", target)):
        if not ids:
            raise ValueError(f"the {side} has no ids: at least EOS can be traced")


def _stacked(
    weights: Mapping[nn.Module, Tensor], attentions: Iterable[nn.Module]
) -> Float[Tensor, "layers heads query memory"]:
    return torch.stack([weights[attention][0] for attention in attentions]).float().cpu()
