"""One update: the only place where a gradient is made."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.data.batch import Batch
from transduce.model.loss import nats_of_hidden
from transduce.model.r_drop import consistent_nats
from transduce.model.transformer import Factors, Transformer
from transduce.train.process import ALONE, Process


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """What one update did. Tensors stay on the device until someone reads them."""

    nats: Float[Tensor, ""]
    """Label-smoothed loss summed over the update's target tokens, those of all processes."""
    tokens: int
    """Target tokens of the update, those of all processes, EOS included, padding excluded."""
    grad_norm: Float[Tensor, ""]
    skipped: bool = False
    """Whether it changed nothing, because loss or gradient was no number."""


def make_update(
    model: Transformer,
    batches: Sequence[Batch],
    *,
    optimizers: Sequence[torch.optim.Optimizer],
    rates: Sequence[float],
    smoothing: float,
    r_drop: float = 0.0,
    process: Process = ALONE,
) -> Update:
    """Make one update from several micro-batches, exactly as if they were one batch.

    Losses are summed and divided once by the tokens of the whole update, so that how the sentences
    are cut into micro-batches and dealt out to processes changes memory and time, not learning.
    Gradients are added up over the processes once, after the last micro-batch. A loss or a gradient
    that is no number never reaches the weights or the optimizers' memory, in any process: the one
    number read back from the device.
    """
    tokens = process.count(sum(batch.target_tokens for batch in batches))
    nats = model.embedding.weight.new_zeros(())
    for batch in batches:
        part = _nats(model, batch, smoothing=smoothing, r_drop=r_drop)
        (part / tokens).backward()
        nats += part.detach()
    process.add_up(model, nats)
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    grad_norm = torch.nn.utils.get_total_norm(grads)
    if not bool(torch.isfinite(grad_norm + nats)):
        model.zero_grad(set_to_none=True)
        return Update(nats=nats, tokens=tokens, grad_norm=grad_norm, skipped=True)
    for optimizer, rate in zip(optimizers, rates, strict=False):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return Update(nats=nats, tokens=tokens, grad_norm=grad_norm)


def _nats(
    model: Transformer, batch: Batch, *, smoothing: float, r_drop: float
) -> Float[Tensor, ""]:
    """The loss of one micro-batch, summed over its target tokens."""

    def read() -> Factors:
        return model.factors(model.hidden(batch.source, batch.source_mask, batch.target_in))

    (hidden, pieces), target_out = read(), batch.target_out
    if r_drop:
        again = read().hidden
        return consistent_nats(
            hidden, again, pieces, target_out=target_out, smoothing=smoothing, alpha=r_drop
        )
    return nats_of_hidden(hidden, pieces, target_out, smoothing=smoothing).smoothed
