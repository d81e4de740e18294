"""Peers of `gpu.py`, with their fastest settings."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from shapes import BETAS, EPSILON, RATE, SMOOTHING
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.data.batch import Batch

Update = Callable[[Batch], object]


def tuned_update(model: nn.Module, *, marian: bool, device: torch.device, compiled: bool) -> Update:
    """Return a peer's update: fused Adam, bf16 autocast on a GPU, compiled if `compiled`."""
    adam = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, fused=True)
    autocast = torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()
    if compiled:
        model.compile(dynamic=True)

    def loss(batch: Batch) -> Tensor:
        if marian:
            attention_mask = (
                None if batch.source_mask is None else batch.source_mask[:, 0, 0].long()
            )
            logits = model(
                input_ids=batch.source,
                attention_mask=attention_mask,
                decoder_input_ids=batch.target_in,
            ).logits
        else:
            with device:  # the model creates its causal mask on the default device
                logits = model(batch.source, batch.target_in)
        pad = logits.size(-1) - 1
        rows, labels = logits.flatten(0, 1), batch.target_out.flatten()
        return F.cross_entropy(rows, labels, ignore_index=pad, label_smoothing=SMOOTHING)

    def update(batch: Batch) -> None:
        adam.zero_grad(set_to_none=True)
        with autocast:
            loss_value = loss(batch)
        loss_value.backward()
        adam.step()

    return update
