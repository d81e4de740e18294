"""Attention weights of a sentence pair, recorded while the model reads it.

Training and decoding keep no weights. Here hooks capture the inputs of each attention during an
ordinary forward pass, and `Attention.weights` recomputes its weights from them.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transduce.model.attention import Attention, KeyValue
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
    for side, ids in (("source", source), ("target", target)):
        if not ids:
            raise ValueError(f"the {side} has no ids: at least EOS can be traced")
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
        x, kv = args
        assert isinstance(x, Tensor)
        assert isinstance(kv, KeyValue)
        mask = kwargs.get("mask")
        if not isinstance(mask, Tensor):
            mask = x.new_ones(1, 1, x.size(1), kv.keys.size(2), dtype=torch.bool)
            mask = mask.tril() if kwargs.get("causal") else mask
        weights[module] = module.weights(x, kv, mask)

    hooks = [
        attention.register_forward_pre_hook(record, with_kwargs=True) for attention in attentions
    ]
    try:
        yield weights
    finally:
        for hook in hooks:
            hook.remove()


def _stacked(
    weights: Mapping[nn.Module, Tensor], attentions: Iterable[nn.Module]
) -> Float[Tensor, "layers heads query memory"]:
    return torch.stack([weights[attention][0] for attention in attentions]).float().cpu()
