"""A model that computes in bfloat16 and shares its other weights with the original."""

import copy

import torch
from torch import Tensor, nn

from transduce.model.transformer import Transformer


def in_bfloat16(model: Transformer, *, embedding: bool) -> Transformer:
    """Return a copy whose linear maps are bfloat16, and so all activations between them.

    Normalisations, learned positions and, unless requested, the embedding are not copied: they are
    the original's parameters, in its precision, so that their gradients arrive where they belong.
    They compute in float32.

    Args:
        model: in float32; it is not changed.
        embedding: whether the embedding, which also makes the logits, is bfloat16 too: for
            inference. In training its gradient should be accumulated in float32.
    """
    kinds = (nn.Linear, nn.Embedding) if embedding else (nn.Linear,)
    converted = {
        id(weight)
        for module in model.modules()
        if isinstance(module, kinds)
        for weight in module.parameters()
    }
    # deepcopy takes what its memo holds instead of copying it.
    shared = {id(weight): weight for weight in model.parameters() if id(weight) not in converted}
    replica = copy.deepcopy(model, shared)
    for module in replica.modules():
        if isinstance(module, kinds):
            module.bfloat16()
        if isinstance(module, nn.LayerNorm):
            module.register_forward_pre_hook(_to_float32)
            module.register_forward_hook(_to_bfloat16)
    replica.dropout.register_forward_hook(_to_bfloat16)  # the last operation of `embed`
    if embedding and replica.output_bias is not None:
        replica.output_bias = nn.Parameter(replica.output_bias.detach().bfloat16())
    return replica


def _to_float32(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.float() for x in inputs)


def _to_bfloat16(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return output.to(torch.bfloat16)
