"""What a model looked at: every attention of one sentence, read along with its translation.

Training and decoding keep no weights. Here hooks watch what each attention is given while the model
reads as ever, and `Attention.weights` says what it made of it.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transduce.model.attention import Attention, KeyValue
from transduce.model.layers import EncoderLayer
from transduce.model.transformer import Transformer


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """One sentence as a model read it and was made to say it. All tensors are on the CPU.

    Row q of a head says how much position q takes from each position of its memory; it sums to 1.
    """

    encoder: Float[Tensor, "encoder_layers heads source source"]
    decoder: Float[Tensor, "decoder_layers heads target target"]
    """Of what the decoder read: row 0 is the start, row q the target's id q - 1."""
    cross: Float[Tensor, "decoder_layers heads target source"]
    """Row q is the look at the source while the target's id q was due."""
    log_probs: Float[Tensor, " target"]
    """ln p of each target id, given the source and the target before it."""


def trace(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Trace:
    """Read a pair once, as in training but without dropout, and keep what was looked at.

    Args:
        model: on any device; a model in training is back in training after it.
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
    encoder, decoder = cast(Iterable[EncoderLayer], model.encoder), list(model.decoder_layers())
    watched = [module for module in model.modules() if isinstance(module, Attention)]
    with _reading(model), _watching(watched) as seen:
        logits = model(torch.tensor([source], device=device), None, target_in)
        log_probs = logits[0, :, :pad].float().log_softmax(-1)  # PAD is never said
        right = log_probs.gather(1, torch.tensor(target, device=device)[:, None])[:, 0]
    return Trace(
        encoder=_stacked(seen, [layer.self_attention for layer in encoder]),
        decoder=_stacked(seen, [layer.self_attention for layer in decoder]),
        cross=_stacked(seen, [layer.cross_attention for layer in decoder]),
        log_probs=right.cpu(),
    )


def cross_attention_weights(
    model: Transformer,
    source: Int[Tensor, "batch source"],
    source_mask: Bool[Tensor, "batch 1 1 source"] | None,
    target_in: Int[Tensor, "batch target"],
) -> Float[Tensor, "layers heads batch target source"]:
    """Read a batch as in training, without dropout; return what was looked at in the sources.

    Rows of padding mean nothing; padding of a source is not looked at.
    """
    layers = list(model.decoder_layers())
    with _reading(model), _watching([layer.cross_attention for layer in layers]) as seen:
        model.hidden_states(source, source_mask, target_in)
    return torch.stack([seen[layer.cross_attention].transpose(0, 1) for layer in layers]).float()


@contextmanager
def _reading(model: nn.Module) -> Generator[None]:
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


@contextmanager
def _watching(attentions: Sequence[Attention]) -> Generator[Mapping[nn.Module, Tensor]]:
    """Note the weights of these attentions when they run, for as long as the context is open."""
    seen: dict[nn.Module, Tensor] = {}

    def note(module: nn.Module, given: tuple[object, ...], said: Mapping[str, object]) -> None:
        assert isinstance(module, Attention)
        x, past = given
        assert isinstance(x, Tensor)
        assert isinstance(past, KeyValue)
        mask = said.get("mask")
        if not isinstance(mask, Tensor):
            mask = x.new_ones(1, 1, x.size(1), past.keys.size(2), dtype=torch.bool)
            mask = mask.tril() if said.get("causal") else mask
        seen[module] = module.weights(x, past, mask)

    hooks = [one.register_forward_pre_hook(note, with_kwargs=True) for one in attentions]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _stacked(
    seen: Mapping[nn.Module, Tensor], attentions: Iterable[nn.Module]
) -> Float[Tensor, "layers heads query memory"]:
    return torch.stack([seen[attention][0] for attention in attentions]).float().cpu()
