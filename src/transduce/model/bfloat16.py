"""A model that computes in bfloat16: a copy, whose other weights are the model's own tensors."""

import copy

import torch
from torch import Tensor, nn

from transduce.model.transformer import Transformer


def in_bfloat16(model: Transformer, *, embedding: bool) -> Transformer:
    """A copy whose linear maps are bfloat16, so that everything flows in it between them.

    Normalisations, learned positions and, unless asked for, the embedding are not copied: they are
    the model's weights themselves, in its precision, so that a gradient of theirs is where it
    belongs, and they compute in float32.

    Args:
        model: in float32; it is left as it is.
        embedding: whether the embedding, which makes the logits too, is bfloat16 as well: for
            translating. In training its gradient wants to be added up in float32.
    """
    kinds = (nn.Linear, nn.Embedding) if embedding else (nn.Linear,)
    short = {
        id(weight)
        for module in model.modules()
        if isinstance(module, kinds)
        for weight in module.parameters()
    }
    shared = {id(weight): weight for weight in model.parameters() if id(weight) not in short}
    made = copy.deepcopy(model, shared)
    for module in made.modules():
        if isinstance(module, kinds):
            module.bfloat16()
        if isinstance(module, nn.LayerNorm):
            module.register_forward_pre_hook(_widen)
            module.register_forward_hook(_narrow)
    made.dropout.register_forward_hook(_narrow)  # the last of what embeds
    if embedding and made.output_bias is not None:
        made.output_bias = nn.Parameter(made.output_bias.detach().bfloat16())
    return made


def _widen(module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(each.float() for each in given)


def _narrow(module: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> Tensor:
    return made.to(torch.bfloat16)
