"""One update: the only place where a gradient is made."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.data.batch import Batch
from transduce.model.loss import nats_of_hidden
from transduce.model.r_drop import consistent_nats
from transduce.model.transformer import OutputProjectionInputs, Transformer
from transduce.train.distributed import SINGLE_PROCESS, Process
from transduce.train.oom_retry import halve_limit, out_of_memory, split_batch
from transduce.train.precision import Bf16Replica


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What one update did. Tensors stay on the device until someone reads them."""

    loss_sum: Float[Tensor, ""]
    """Label-smoothed loss summed over the update's target tokens, those of all processes."""
    tokens: int
    """Target tokens of the update, those of all processes, EOS included, padding excluded."""
    grad_norm: Float[Tensor, ""]
    skipped: bool = False
    """Whether it changed nothing, because loss or gradient was no number."""
    micro_tokens: int = 0
    """Positions that a micro-batch may have from here on; 0: memory did not run out, ever."""


def train_step(
    model: Transformer,
    batches: Sequence[Batch],
    *,
    optimizers: Sequence[torch.optim.Optimizer],
    rates: Sequence[float],
    smoothing: float,
    r_drop: float = 0.0,
    micro_tokens: int = 0,
    compiled: bool = False,
    working: Bf16Replica | None = None,
    process: Process = SINGLE_PROCESS,
) -> StepResult:
    """Make one update from several micro-batches, exactly as if they were one batch.

    Losses are summed and divided once by the tokens of the whole update, so that how the sentences
    are cut into micro-batches and dealt out to processes changes memory and time, not learning.
    Gradients are added up over the processes once, after the last micro-batch. A loss or a gradient
    that is no number never reaches the weights or the optimizers' memory, in any process: the one
    number read back from the device.

    Where memory runs out, all gradients are forgotten and the update is begun again, with each
    micro-batch of more than half the positions cut in two; dropout is then drawn anew. That happens
    before the processes meet, so each may cut its rows as it must; where they share out the
    weights they meet in every layer, and the error is passed on.

    Args:
        model: on its device.
        batches: this process's micro-batches, on any device.
        optimizers: those of `make_optimizers`.
        rates: one for each of them.
        smoothing: of the labels.
        r_drop: α; 0 reads each batch once.
        micro_tokens: positions that a micro-batch may have, since memory ran out before; 0: all.
        compiled: whether the loss is; layers are what they are.
        working: what is passed in place of the model and hands its gradients over to it.
        process: which of the run's processes this is.

    Raises:
        MemoryError: if memory runs out on a single row.
    """
    tokens = process.sum_tokens(sum(batch.target_tokens for batch in batches))
    pad = model.config.pad
    over = process.max(len(batches)) - len(batches)
    passes = [*batches, *[_blank(pad)] * over]  # where processes must pass forward together
    if working:
        working.sync_from_master()
    while True:
        parts = split_batch(passes, most=micro_tokens, pad=pad)
        with process.collective():
            nats = _add_gradients(
                model,
                parts,
                tokens=tokens,
                smoothing=smoothing,
                r_drop=r_drop,
                compiled=compiled,
                again=not process.sharded,
                working=working,
            )
        if not isinstance(nats, Batch):
            break
        for each in (model, working.model) if working else (model,):
            each.zero_grad(set_to_none=True)
        micro_tokens = halve_limit(nats)
    process.all_reduce_gradients(model, nats)
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    grad_norm = process.gather(torch.nn.utils.get_total_norm(grads))
    if not bool(torch.isfinite(grad_norm + nats)):
        model.zero_grad(set_to_none=True)
        return StepResult(
            loss_sum=nats,
            tokens=tokens,
            grad_norm=grad_norm,
            skipped=True,
            micro_tokens=micro_tokens,
        )
    for optimizer, rate in zip(optimizers, rates, strict=False):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return StepResult(loss_sum=nats, tokens=tokens, grad_norm=grad_norm, micro_tokens=micro_tokens)


def _add_gradients(
    model: Transformer,
    batches: Iterable[Batch],
    *,
    tokens: int,
    smoothing: float,
    r_drop: float,
    compiled: bool,
    again: bool,
    working: Bf16Replica | None,
) -> Float[Tensor, ""] | Batch:
    """Add up the gradients of some micro-batches and return the loss, summed over target tokens.

    If memory runs out, return the micro-batch in which it did: some of its gradients may be there.
    If the update cannot be begun `again`, raise the error.
    """
    device, passed = model.embedding.weight.device, working.model if working else model
    nats = torch.zeros((), dtype=model.embedding.weight.dtype, device=device)
    for batch in batches:
        try:
            here = batch.to(device)
            shaped = working.pad_to_bucket(here) if working else here
            part = batch_loss(passed, shaped, smoothing=smoothing, r_drop=r_drop, compiled=compiled)
            (part / tokens).backward()
            if working:
                working.accumulate_grads_to_master()
            nats += part.detach()
        except (MemoryError, RuntimeError) as error:
            if not again or not out_of_memory(error):
                raise
            return batch  # and with the error all that it holds on to is gone
    return nats


def _blank(pad: int) -> Batch:
    """A batch with nothing to learn from."""
    nothing = torch.full((1, 1), pad)
    return Batch(
        source=nothing, source_mask=None, target_in=nothing, target_out=nothing, target_tokens=0
    )


def batch_loss(
    model: Transformer, batch: Batch, *, smoothing: float, r_drop: float, compiled: bool = False
) -> Float[Tensor, ""]:
    """The loss of one micro-batch, summed over its target tokens. R-Drop's is never compiled."""

    def read() -> OutputProjectionInputs:
        return model.output_projection_inputs(
            model.hidden_states(batch.source, batch.source_mask, batch.target_in)
        )

    (hidden, pieces), target_out = read(), batch.target_out
    if r_drop:
        again = read().hidden
        return consistent_nats(
            hidden, again, pieces, target_out=target_out, smoothing=smoothing, alpha=r_drop
        )
    sums = nats_of_hidden(hidden, pieces, target_out, smoothing=smoothing, compiled=compiled)
    return sums.smoothed
