"""The explorer's switches, done in torch: hooks that replace what a part of the model computes."""

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from transduce.model.attention import Attention
from transduce.model.layers import AddNorm, FeedForward
from transduce.model.local_attention import neighbourhood
from transduce.model.transformer import Transformer


@contextmanager
def switched(model: Transformer, switches: Mapping[str, Any]) -> Generator[None]:
    """Compute as the page does with these switches; the names are those of trace.js."""

    def attend(name: str, module: Attention, args: tuple[Any, ...], kwargs: Mapping[str, Any]):
        x, kv = args if len(args) == 2 else (args[0], module.project_kv(args[0]))
        size = x.size(1), kv.keys.size(2)
        queries = module.query(x).unflatten(-1, (module.heads, -1)).transpose(1, 2)
        scores = queries @ kv.keys.mT / switches.get("temperature", 1)
        scores = scores if switches.get("noScaling") else scores / math.sqrt(kv.keys.size(-1))
        visible = torch.ones(size, dtype=torch.bool)
        visible = visible.tril() if kwargs.get("causal") else visible
        if module.radius:
            visible &= neighbourhood(*size, radius=module.radius, device=x.device)
        if not switches.get("noMask"):
            scores = scores.masked_fill(~visible, -math.inf)
        weights = scores.softmax(-1)
        _edit(weights, [edit for edit in switches.get("weights", []) if edit["attention"] == name])
        heads = weights @ kv.values
        for off in switches.get("heads", []):
            if off["attention"] == name:
                heads[:, off["head"]] = 0
        return module.out(heads.transpose(1, 2).flatten(2))

    names = {module: name for name, module in model.named_modules()}

    def replace(
        module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Tensor
    ) -> Tensor:
        name = names[module]
        if module is model.positions:
            return args[0] if switches.get("noPositions") else output
        if isinstance(module, AddNorm):
            x, sublayer = args
            if name.startswith(f"{switches.get('residual')}."):
                return sublayer(module.norm(x)) if module.pre_norm else module.norm(sublayer(x))
            return output
        if name.startswith(f"{switches.get('layer')}."):
            return torch.zeros_like(output)
        return attend(name, module, args, kwargs) if isinstance(module, Attention) else output

    hooks = [
        module.register_forward_hook(replace, with_kwargs=True)
        for module in model.modules()
        if isinstance(module, Attention | FeedForward | AddNorm) or module is model.positions
    ]
    try:
        with torch.inference_mode():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _edit(weights: Tensor, edits: Sequence[Mapping[str, Any]]) -> None:
    """Set weights; the others of their rows keep their proportions, and the sum stays 1."""
    for head, query in {(edit["head"], edit["query"]) for edit in edits}:
        if query >= weights.size(2):
            continue
        row = weights[0, head, query]
        fixed = {
            edit["memory"]: edit["value"]
            for edit in edits
            if (edit["head"], edit["query"]) == (head, query) and edit["memory"] < len(row)
        }
        others = torch.tensor([place not in fixed for place in range(len(row))])
        row *= (1 - sum(fixed.values())) / row[others].sum()
        for memory, value in fixed.items():
            row[memory] = value


def greedy(model: Transformer, source: Sequence[int], limit: int) -> list[int]:
    """Translate ids with EOS greedily, every step over the target from its beginning."""
    pad, ids = model.config.pad, list[int]()
    while len(ids) < limit and ids[-1:] != [0]:
        logits = model(torch.tensor([list(source)]), None, torch.tensor([[pad, *ids]]))
        ids.append(int(logits[0, -1, :pad].argmax()))
    return ids


def probabilities(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Of each next piece, a row for each target position; PAD is not output."""
    pad = model.config.pad
    logits = model(torch.tensor([list(source)]), None, torch.tensor([[pad, *target[:-1]]]))
    return logits[0, :, :pad].softmax(-1)
