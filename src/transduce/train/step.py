"""One training step: losses and gradients of some micro-batches, then one optimizer update.

Losses are summed and divided once by the target tokens of the whole update. How sentences are split
into micro-batches, and dealt out to processes, therefore changes memory and time, not learning:
this is gradient accumulation, and data parallelism, that agree with one large batch.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transduce.data.batch import Batch
from transduce.io.machine import out_of_memory
from transduce.model.loss import chunked_cross_entropy, output_projection_inputs, r_drop_loss
from transduce.model.transformer import Transformer
from transduce.train.distributed import SINGLE_PROCESS, Process
from transduce.train.fused_passes import FusedPasses
from transduce.train.precision import Bf16Replica


@dataclass(frozen=True, kw_only=True, slots=True)
class LossSettings:
    """What a step minimises; by default the paper's loss (section 5.4)."""

    smoothing: float = 0.1
    """ε of label smoothing."""
    r_drop: float = 0.0
    """α of R-Drop; 0 passes each batch once."""


PAPER_LOSS = LossSettings()


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """Figures of one step. Tensors stay on the device until they are read."""

    loss_sum: Float[Tensor, ""]
    """Label-smoothed loss summed over the update's target tokens, over all processes."""
    tokens: int
    """Target tokens of the update over all processes; EOS counts, padding does not."""
    grad_norm: Float[Tensor, ""]
    is_finite: "bool | DeviceFlag" = True
    """Whether neither loss nor gradient was NaN or infinite."""
    micro_tokens: int = 0
    """Positions that a micro-batch may have from here on; 0: memory has never run out."""

    @property
    def skipped(self) -> bool:
        """Whether the weights stayed as they were; on a GPU this waits for the update."""
        return not self.is_finite


class DeviceFlag:
    """A condition that a GPU computes; reading it waits for no work that was started later."""

    def __init__(self, condition: Bool[Tensor, ""]) -> None:
        """Start to copy it into main memory."""
        self._copy = torch.empty_like(condition, device="cpu", pin_memory=True)
        self._copy.copy_(condition, non_blocking=True)
        self._copied = torch.cuda.Event()
        self._copied.record()

    def __bool__(self) -> bool:
        self._copied.synchronize()
        return bool(self._copy)


def train_step(
    model: Transformer,
    batches: Sequence[Batch],
    *,
    optimizers: Sequence[torch.optim.Optimizer],
    rates: Sequence[float],
    loss: LossSettings = PAPER_LOSS,
    micro_tokens: int = 0,
    replica: Bf16Replica | None = None,
    passes: FusedPasses | None = None,
    process: Process = SINGLE_PROCESS,
) -> StepResult:
    """Update the weights once from several micro-batches, as if they were one batch.

    A step whose loss or gradient is NaN or infinite is skipped on every rank. Where memory runs out
    the step starts over with smaller micro-batches, and dropout is drawn anew. Gradients are summed
    over ranks only afterwards, so each rank may split as it needs; sharded ranks communicate in
    every layer, so there the error is raised.

    Args:
        model: on its device.
        batches: this rank's micro-batches, on any device.
        optimizers: those of `make_optimizers`.
        rates: a learning rate for each of them; more are ignored.
        loss: what to minimise.
        micro_tokens: positions that a micro-batch may have, as memory ran out before; 0: no limit.
        replica: passed in place of the model; its gradients go to the model.
        passes: faster ones of the replica, or of the model, with the same loss.
        process: this rank.

    Returns:
        The loss of the weights before the step, and what became of it.

    Raises:
        MemoryError: if memory runs out on a single row.
    """
    tokens = process.sum_tokens(sum(batch.target_tokens for batch in batches))
    parts = list(split_batch(batches, most=micro_tokens, pad=model.config.pad))
    # Sharded ranks gather weights in every pass, so all ranks must make equally many.
    missing = process.max(len(parts)) - len(parts)
    parts += [_empty_batch(model.config.pad)] * missing

    loss_sum, micro_tokens = _accumulate_gradients(
        model,
        parts,
        tokens=tokens,
        loss=loss,
        limit=micro_tokens,
        replica=replica,
        passes=passes,
        process=process,
    )
    # Once, after the last micro-batch: a reduction per micro-batch would cost as much each time.
    process.all_reduce_gradients(model, loss_sum)
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    grad_norm = process.gather(torch.nn.utils.get_total_norm(grads))
    # Both terms are the same on every rank, and so is this: ranks that disagreed on whether to skip
    # would have different weights from here on.
    condition = torch.isfinite(grad_norm + loss_sum)
    if _skips_on_device(optimizers, condition):
        is_finite = DeviceFlag(condition)
        _update_weights(optimizers, rates, skip=~condition)
    elif is_finite := bool(condition):  # the step's only device-to-host sync
        _update_weights(optimizers, rates)
    else:
        model.zero_grad(set_to_none=True)
    return StepResult(
        loss_sum=loss_sum,
        tokens=tokens,
        grad_norm=grad_norm,
        is_finite=is_finite,
        micro_tokens=micro_tokens,
    )


def batch_loss(
    model: Transformer, batch: Batch, *, loss: LossSettings = PAPER_LOSS
) -> Float[Tensor, ""]:
    """Return the loss of one micro-batch, summed over its target tokens.

    Args:
        model: or its replica.
        batch: on the model's device.
        loss: what is minimised.
    """

    inputs = batch.repeat() if loss.r_drop else batch  # two passes, which differ by dropout
    hidden, pieces = output_projection_inputs(
        model, model.hidden_states(inputs.source, inputs.source_mask, inputs.target_in)
    )
    target_out = batch.target_out
    if loss.r_drop:
        first, second = hidden.chunk(2)
        return r_drop_loss(
            first,
            second,
            pieces,
            target_out=target_out,
            smoothing=loss.smoothing,
            alpha=loss.r_drop,
        )
    sums = chunked_cross_entropy(hidden, pieces, target_out, smoothing=loss.smoothing)
    return sums.smoothed


def _accumulate_gradients(
    model: Transformer,
    batches: Sequence[Batch],
    *,
    tokens: int,
    loss: LossSettings,
    limit: int,
    replica: Bf16Replica | None,
    passes: FusedPasses | None,
    process: Process,
) -> tuple[Float[Tensor, ""], int]:
    """Add the gradients of each micro-batch to the weights'; halve these while memory runs out.

    Returns the summed loss, and the positions that a micro-batch may have.
    """
    weight = model.embedding.weight
    if replica:
        replica.sync_from_master()  # the optimizer has changed the master weights only
    while True:
        if passes:
            passes.begin_update()
        loss_sum = torch.zeros((), dtype=weight.dtype, device=weight.device)
        for batch in split_batch(batches, most=limit, pad=model.config.pad):
            try:
                with process.collective():
                    loss_sum += _backward(
                        model, batch, tokens=tokens, loss=loss, replica=replica, passes=passes
                    )
            except (MemoryError, RuntimeError) as error:
                # A sharded rank that began again alone would wait for the others' collectives.
                if process.sharded or not out_of_memory(error):
                    raise
                limit = halve_limit(batch)
                break
        else:
            if passes:
                passes.zero_unwritten()  # a rank without rows has made no pass
            return loss_sum, limit
        # Only here: until the handler ends, the traceback keeps all activations. Gradients of the
        # micro-batches before the one that failed would otherwise count twice.
        for module in (model, replica.model) if replica else (model,):
            module.zero_grad(set_to_none=True)


def _backward(
    model: Transformer,
    batch: Batch,
    *,
    tokens: int,
    loss: LossSettings,
    replica: Bf16Replica | None,
    passes: FusedPasses | None,
) -> Float[Tensor, ""]:
    """Add the gradients of one micro-batch to the weights'; return its summed loss."""
    if passes:
        if packed := passes.pack(batch):
            return passes.add_gradients(packed, tokens=tokens)
        passes.zero_unwritten()
    moved = batch.to(model.embedding.weight.device)
    if replica:
        part = batch_loss(replica.model, replica.pad_to_bucket(moved), loss=loss)
    else:
        part = batch_loss(model, moved, loss=loss)
    (part / tokens).backward()  # by the whole update's tokens, not the micro-batch's
    if replica:
        replica.accumulate_grads_to_master()
    return part.detach()


def _skips_on_device(optimizers: Sequence[torch.optim.Optimizer], condition: Tensor) -> bool:
    """Return whether the optimizers can be told by a GPU's tensor to skip an update."""
    return condition.is_cuda and all(
        isinstance(optimizer, torch.optim.AdamW) for optimizer in optimizers
    )


def _update_weights(
    optimizers: Sequence[torch.optim.Optimizer],
    rates: Sequence[float],
    *,
    skip: Bool[Tensor, ""] | None = None,
) -> None:
    """Make an update, unless `skip`, which only fused Adam can take."""
    for optimizer, rate in zip(optimizers, rates, strict=False):  # Muon's rate may be left over
        for group in optimizer.param_groups:
            group["lr"] = rate
        if skip is not None:
            optimizer.found_inf = skip.float()  # type: ignore[attr-defined]
        optimizer.step()
        # To None, not zero: the next backward pass then writes gradients in place of adding them.
        optimizer.zero_grad(set_to_none=True)


def _empty_batch(pad: int) -> Batch:
    """A batch of padding alone: it passes through the model, and its loss and gradient are 0."""
    padding = torch.full((1, 1), pad)
    return Batch(
        source=padding, source_mask=None, target_in=padding, target_out=padding, target_tokens=0
    )


def positions(batch: Batch) -> int:
    """Count rows x the longest source or target, padding included."""
    return len(batch.source) * batch.width


def halve_limit(batch: Batch) -> int:
    """Return the positions of the larger half of a batch.

    Raises:
        MemoryError: if the batch is one row, which cannot be split.
    """
    rows = len(batch.source)
    if rows == 1:
        raise MemoryError(
            f"memory runs out on a single pair of {batch.width} positions: lower data.max_pieces "
            f"below {batch.width - 1} and prepare anew, or take a smaller model"
        )
    return -(-rows // 2) * batch.width


def split_batch(batches: Iterable[Batch], *, most: int, pad: int) -> Iterator[Batch]:
    """Yield the same rows in batches of at most `most` positions, or of one row.

    Args:
        batches: as they are planned.
        most: positions; 0 leaves every batch as it is.
        pad: the id of padding; columns that hold nothing else are cut off.
    """
    for batch in batches:
        if len(batch.source) == 1 or positions(batch) <= (most or sys.maxsize):
            yield batch
            continue
        half = -(-len(batch.source) // 2)  # rounded up, as in `halve_limit`
        parts = (_rows(batch, part, pad=pad) for part in (slice(half), slice(half, None)))
        yield from split_batch(parts, most=most, pad=pad)


def _rows(batch: Batch, rows: slice, *, pad: int) -> Batch:
    """Some rows of a batch, no wider than they need."""
    source, target_out = batch.source[rows], batch.target_out[rows]
    is_target = target_out != pad
    source_width, target_width = (int(real.sum(1).max()) for real in (source != pad, is_target))
    mask = None if batch.source_mask is None else batch.source_mask[rows, ..., :source_width]
    # Without padding there is no mask: attention without one has faster kernels.
    return Batch(
        source=source[:, :source_width],
        source_mask=None if mask is None or bool(mask.all()) else mask,
        target_in=batch.target_in[rows, :target_width],
        target_out=target_out[:, :target_width],
        target_tokens=int(is_target.sum()),
    )
