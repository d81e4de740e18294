"""Forward and backward passes of packed batches by the fused kernels of `model.fused_layers`.

On a GPU a pass starts about a thousand kernels, which takes a CPU longer than it takes the GPU to
run them. A CUDA graph starts all of them at once. It is recorded for one shape of a batch
(`model.fused_layers.PackedShape`); all graphs share the memory of their activations.
"""

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from transduce.data.batch import Batch
from transduce.model.fused_layers import (
    MAX_LENGTH,
    PackedBatch,
    PackedShape,
    fused_loss,
    longest_on_gpu,
    supports_fused_layers,
)
from transduce.model.layers import Positions
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.precision import Bf16Replica

MAX_GRAPHS = 512
"""Graphs of a run: the batches of further shapes are passed without one."""

_MAX_CPU_LENGTH = 1024
"""Pieces of a sentence on a CPU, EOS counted: the attention kernel holds all scores of a head, and
with longer sentences torch's is faster."""


class FusedPasses:
    """Adds the gradients of batches to those of the master weights."""

    def __init__(
        self,
        model: Transformer,
        masters: Sequence[nn.Parameter],
        *,
        smoothing: float,
        r_drop: float,
    ) -> None:
        """Compute nothing yet.

        Args:
            model: one that `supports_fused_layers`.
            masters: the parameters to learn, in the order of the model's.
            smoothing: ε of label smoothing.
            r_drop: α of R-Drop; 0 passes each batch once.
        """
        self._model, self._smoothing, self._r_drop = model, smoothing, r_drop
        self._weights, self._masters = list(model.parameters()), masters

    def pack(self, batch: Batch) -> PackedBatch | None:
        """Pack a batch in main memory, or return None where it has to be passed as it is."""
        repeated = batch.repeat() if self._r_drop else batch  # two passes, which differ by dropout
        return pack_batch(repeated, pad=self._model.config.pad, limit=_MAX_CPU_LENGTH)

    def begin_update(self) -> None:
        """Forget the gradients of the last update: the first pass writes, and need not add."""

    def zero_unwritten(self) -> None:
        """Set gradients that no pass has written to zero: the model's own pass adds to them."""

    @torch.no_grad()
    def add_gradients(self, batch: PackedBatch, *, tokens: int) -> Float[Tensor, ""]:
        """Pass a batch; return its loss, summed over its target pieces.

        Args:
            batch: in main memory.
            tokens: target tokens of the update, which the gradient is divided by.
        """
        loss, grads = self._pass(batch, torch.full((), 1.0 / tokens))
        for master, grad in zip(self._masters, _in_float32(grads), strict=True):
            if master.grad is None:
                master.grad = grad
            else:
                master.grad += grad
        return loss

    @torch.enable_grad()
    def _pass(
        self, batch: PackedBatch, scale: Float[Tensor, ""]
    ) -> tuple[Float[Tensor, ""], Sequence[Tensor]]:
        """Return the loss, and the gradients of the scaled loss."""
        loss = fused_loss(self._model, batch, smoothing=self._smoothing, r_drop=self._r_drop)
        grads = torch.autograd.grad(loss * scale, self._weights, materialize_grads=True)
        return loss.detach(), grads


def _in_float32(grads: Sequence[Tensor]) -> list[Tensor]:
    """Return gradients in float32; one call converts those in bfloat16."""
    low = [grad for grad in grads if grad.dtype != torch.float32]
    exact = [torch.empty(grad.shape, device=grad.device) for grad in low]
    if low:
        torch._foreach_copy_(exact, low)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
    parts = iter(exact)
    return [grad if grad.dtype == torch.float32 else next(parts) for grad in grads]


class _Recorded(NamedTuple):
    """A graph, and the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    batch: PackedBatch
    scale: Float[Tensor, ""]
    loss: Float[Tensor, ""]
    positions: Tensor
    """The table that the graph reads, kept: the model replaces it for a longer sentence."""


class GraphedPasses(FusedPasses):
    """Passes whose kernels a GPU starts by itself, and gradients that stay where they are."""

    def __init__(
        self, model: Transformer, masters: Sequence[nn.Parameter], *, smoothing: float
    ) -> None:
        """Record nothing yet; arguments as for `FusedPasses`."""
        super().__init__(model, masters, smoothing=smoothing, r_drop=0.0)
        self._grads = [torch.empty_like(master) for master in masters]
        self._written = False
        self._recorded: dict[tuple[PackedShape, bool], _Recorded | None] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def pack(self, batch: Batch) -> PackedBatch | None:
        """Pack a batch in main memory, or return None where it has to be passed as it is."""
        config, device = self._model.config, self._grads[0].device
        return pack_batch(batch, pad=config.pad, limit=longest_on_gpu(config.d_k, device))

    def begin_update(self) -> None:
        """Forget the gradients of the last update, in the memory that the graphs write to."""
        self._written = False
        for master, grad in zip(self._masters, self._grads, strict=True):
            master.grad = grad

    def zero_unwritten(self) -> None:
        """Set gradients that no pass has written to zero: the model's own pass adds to them."""
        if not self._written:
            torch._foreach_zero_(self._grads)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
            self._written = True

    def add_gradients(self, batch: PackedBatch, *, tokens: int) -> Float[Tensor, ""]:
        """Pass a batch; return its loss, summed over its target pieces.

        Args:
            batch: in main memory.
            tokens: target tokens of the update, which the gradient is divided by.
        """
        kind, device = (batch.shape, self._written), self._grads[0].device
        self._written = True
        numbers = batch.numbers.pin_memory()
        if kind not in self._recorded:
            # The first pass of a shape compiles what it needs; many shapes have no second.
            if len(self._recorded) < MAX_GRAPHS:
                self._recorded[kind] = None
            moved = PackedBatch(batch.shape, numbers.to(device, non_blocking=True))
            return self._add(moved, torch.full((), 1.0 / tokens, device=device), written=kind[1])
        recorded = self._recorded[kind] or self._record(*kind, numbers)
        recorded.batch.numbers.copy_(numbers, non_blocking=True)
        recorded.scale.fill_(1.0 / tokens)
        recorded.graph.replay()
        return recorded.loss.clone()

    def _record(self, shape: PackedShape, written: bool, numbers: Tensor) -> _Recorded:
        device = self._grads[0].device
        batch = PackedBatch(shape, numbers.to(device))
        scale, graph = torch.ones((), device=device), torch.cuda.CUDAGraph()
        # Other threads, such as the one that loads batches, may use CUDA meanwhile.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            loss = self._add(batch, scale, written=written)
        assert isinstance(self._model.positions, Positions)
        table = self._model.positions.table
        recorded = self._recorded[shape, written] = _Recorded(graph, batch, scale, loss, table)
        return recorded

    def _add(self, batch: PackedBatch, scale: Tensor, *, written: bool) -> Float[Tensor, ""]:
        """Add a batch's gradients to those written, or write them; return its loss."""
        loss, grads = self._pass(batch, scale)
        # Few calls: otherwise there would be a kernel for every matrix.
        if written:
            torch._foreach_add_(self._grads, _in_float32(grads))  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
            return loss
        low = [grad.dtype != torch.float32 for grad in grads]
        for chosen in (low, [not is_low for is_low in low]):
            into, values = list(compress(self._grads, chosen)), list(compress(grads, chosen))
            torch._foreach_copy_(into, values)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        return loss


def make_fused_passes(
    master: Transformer, config: TrainConfig, replica: Bf16Replica | None
) -> FusedPasses | None:
    """Return the faster passes of a model, or None where there are no kernels for it.

    Args:
        master: the model to train.
        config: decides the loss.
        replica: what is passed in place of the model.
    """
    passed = replica.model if replica else master
    if config.fsdp or not supports_fused_layers(passed):
        return None
    masters, smoothing = list(master.parameters()), config.label_smoothing
    if master.embedding.weight.device.type == "cpu":
        return FusedPasses(passed, masters, smoothing=smoothing, r_drop=config.r_drop)
    return None if config.r_drop else GraphedPasses(passed, masters, smoothing=smoothing)


def pack_batch(batch: Batch, *, pad: int, limit: int = MAX_LENGTH) -> PackedBatch | None:
    """Pack a batch, or return None if it has too long sentences, or nothing to learn.

    Args:
        batch: in main memory.
        pad: the id of PAD.
        limit: pieces that a side of a sentence may have, EOS counted.
    """
    sides = (batch.source,), (batch.target_in, batch.target_out)
    # In NumPy: arrays are small, and the GPU may be waiting.
    padded = [[ids.numpy() for ids in side] for side in sides]
    lengths = [(side[-1] != pad).sum(1) for side in padded]
    longest = [int(length.max()) for length in lengths]
    if max(longest) > limit or not min(longest):
        return None
    totals = [int(length.sum()) for length in lengths]
    # Coarser for sources: their number of pieces varies more.
    rounded = [_round_up(total, steps) for total, steps in zip(totals, (16, 32), strict=True)]
    widths = [1 << max(4, (length - 1).bit_length()) for length in longest]
    extra = [total - real for total, real in zip(rounded, totals, strict=True)]
    fillers = max(-(-missing // width) for missing, width in zip(extra, widths, strict=True))
    sentences = _round_up(len(batch.source) + fillers, 4)
    shape = PackedShape(rounded[0], rounded[1], sentences, (widths[0], widths[1]))
    # The seed is the CPU generator's, which checkpoints hold.
    numbers = [torch.randint(2**31 - 1, (1,)).numpy()]
    for side, length, missing, width in zip(padded, lengths, extra, widths, strict=True):
        filler = (missing - width * np.arange(sentences - len(length))).clip(0, width)
        full = np.concatenate([length, filler])
        starts = np.concatenate([[0], full.cumsum()])
        positions = np.arange(starts[-1]) - starts[:-1].repeat(full)
        is_piece = np.arange(side[0].shape[1]) < length[:, None]
        first, *rest = (np.pad(ids[is_piece], (0, missing), constant_values=pad) for ids in side)
        numbers += [first, positions, starts, *rest]
    return PackedBatch(shape, torch.from_numpy(np.concatenate(numbers).astype(np.int32)))


def _round_up(number: int, steps: int) -> int:
    """Round up to a multiple of a power of two, at most a `steps`-th of the number, or of 16.

    >>> [_round_up(number, 4) for number in (3, 100, 129, 257)]
    [16, 112, 160, 320]
    """
    step = max(16, 1 << max(0, (number // steps).bit_length() - 1))
    return -(-number // step) * step
