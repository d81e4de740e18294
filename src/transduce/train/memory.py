"""Micro-batch size: `batch.micro_tokens = "auto"`, measured before training starts.

Memory is linear in positions: a fixed part (gradients, a chunk of logits) and a part for each
position. Two micro-batches of the longest sentences give the line. On a GPU the allocator's peak is
measured; on a CPU, where the size of a process says little, what autograd saves for the backward
pass is counted. Four fifths of the free memory may be used.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from transduce.data.batch import Batch
from transduce.data.config import MICRO_TOKENS
from transduce.io.atomic_folder import atomic_file
from transduce.io.machine import out_of_memory
from transduce.io.records import read_record
from transduce.model.loss import chunk_size
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.distributed import Process
from transduce.train.events import EventHandler, LogMessage
from transduce.train.fused_passes import make_fused_passes
from transduce.train.precision import make_replica
from transduce.train.step import LossSettings, batch_loss

_USABLE = 0.8  # of the free memory
_FRAGMENTATION = 1.4  # of a CPU's heap: freed blocks do not fit the next ones
_LARGER = 4  # rows of the second measured micro-batch, in rows of the first
_MULTIPLE = 64  # that measured sizes are rounded down to

FILE = "micro_tokens.json"


class MemoryCost(NamedTuple):
    """Peak bytes of the forward and backward pass of a micro-batch."""

    fixed_bytes: float
    bytes_per_position: float


class BatchSizeEstimate(NamedTuple):
    """How large a micro-batch may be."""

    micro_tokens: int
    """Positions."""
    reason: str
    """A clause for the person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoredSize:
    """The content of micro_tokens.json."""

    micro_tokens: Annotated[int, Field(ge=1)]
    device: str


def estimate_batch_size(
    model: Transformer, *, longest: int, training: TrainConfig, process: Process
) -> BatchSizeEstimate:
    """Measure how many positions a micro-batch may have; model and random state stay as they are.

    Args:
        model: on its device, with nothing else there yet.
        longest: positions of the longest sentence, EOS counted; one such sentence always fits.
        training: decides what else will take memory.
        process: this rank; the ranks of a machine get equal parts of its CPU's memory.
    """
    device = model.embedding.weight.device
    free = _free_on_gpu(device) if device.type == "cuda" else free_memory()
    if free is None or device.type not in ("cpu", "cuda"):
        return BatchSizeEstimate(
            max(longest, MICRO_TOKENS), "how much memory is free cannot be known here"
        )
    if device.type == "cpu":  # each process has a GPU of its own, but all share one host memory
        free //= process.local_world_size
    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    # Adam's two moments, the EMA, and the flat buffer that gradients are reduced in.
    copies = 2 + bool(training.ema) + (process.world_size > 1)
    replica = make_replica(model, training)
    passed, extra = (replica.model, replica.extra_bytes) if replica else (model, 0)
    try:
        cost = measure_cost(passed, longest=longest, training=training)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        passed.zero_grad(set_to_none=True)
        return BatchSizeEstimate(longest, "memory runs out on four times as many already")
    available = _USABLE * free - copies * weights - extra - cost.fixed_bytes
    if device.type == "cuda" and make_fused_passes(model, training, replica):
        available /= 2  # graphs keep the memory of a pass, beside that of passes without one
    fits = int(available / cost.bytes_per_position)
    limit = min(fits, MICRO_TOKENS) if device.type == "cpu" else fits  # more is no faster on a CPU
    kilobytes, megabytes = cost.bytes_per_position / 1e3, free / 1e6
    return BatchSizeEstimate(
        max(longest, limit - limit % _MULTIPLE),
        f"a position takes {kilobytes:,.0f} kB, and {megabytes:,.0f} MB are free",
    )


def load_or_measure_batch_size(
    run: Path,
    device: torch.device,
    *,
    measure: Callable[[], BatchSizeEstimate],
    on_event: EventHandler,
) -> int:
    """Return the size stored when the run began on such a device, or measure and store it.

    Resuming needs the same micro-batches to give the same bits, and free memory varies.

    Args:
        run: the run's folder.
        device: what the run computes on.
        measure: called where nothing is stored.
        on_event: called with a message that names the size.
    """
    file = run / FILE
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    with suppress(OSError, ValueError):
        stored = read_record(file, _StoredSize)
        if stored.device == name:
            on_event(LogMessage(f"micro-batches of {stored.micro_tokens:,} tokens, as before"))
            return stored.micro_tokens
    size, reason = measure()
    on_event(LogMessage(f"micro-batches of {size:,} tokens: {reason}"))
    with atomic_file(file) as stream:
        stream.write(f"{json.dumps({'micro_tokens': size, 'device': name})}\n".encode())
    return size


def measure_cost(model: Transformer, *, longest: int, training: TrainConfig) -> MemoryCost:
    """Fit the line through the peaks of two micro-batches of the longest sentences.

    Args:
        model: on its device; left without gradients.
        longest: positions of a sentence.
        training: decides the loss.

    Raises:
        RuntimeError: torch's, if the larger micro-batch does not fit.
    """
    device = model.embedding.weight.device
    loss = LossSettings(smoothing=training.label_smoothing, r_drop=training.r_drop)
    rows = chunk_size(model.embedding.weight) // longest + 1  # both fill a chunk of the loss
    # The passes draw dropout; measuring must not change what a run learns.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        low, high = (
            _peak_bytes(model, _full_batch(count, longest).to(device), loss)
            for count in (rows, _LARGER * rows)
        )
    slope = (high - low) / ((_LARGER - 1) * rows * longest)
    # Not below 0, which would promise more than the measured slope does.
    return MemoryCost(max(0.0, low - slope * rows * longest), slope)


def free_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process may still take, or None where the system does not say.

    The least of the machine's available memory and what the process's control groups leave of
    their limits; the page cache counts as free.
    """
    limits = [*_machine_bytes(root), *_control_group_bytes(root)]
    return max(0, min(limits)) if limits else None


def _peak_bytes(model: Transformer, batch: Batch, loss: LossSettings) -> int:
    """The most bytes that forward and backward take at one time, gradients included."""
    if batch.source.is_cuda:
        torch.cuda.reset_peak_memory_stats(batch.source.device)
        before = torch.cuda.memory_allocated(batch.source.device)
        batch_loss(model, batch, loss=loss).backward()
        model.zero_grad(set_to_none=True)  # the second measurement must allocate them again
        return torch.cuda.max_memory_allocated(batch.source.device) - before
    blocks = 4 if loss.r_drop else 2  # logits of each pass, and what is computed from them
    logits = blocks * chunk_size(model.embedding.weight) * model.config.vocab_size
    fixed = sum(weight.numel() for weight in model.parameters()) + logits
    saved = _saved_bytes(model, lambda: batch_loss(model, batch, loss=loss))
    return round(_FRAGMENTATION * (saved + fixed * model.embedding.weight.element_size()))


def _saved_bytes(model: Transformer, forward: Callable[[], Tensor]) -> int:
    """The bytes that autograd saves for the backward pass, without the weights."""
    saved: dict[int, int] = {}

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()  # views of one storage count once
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        loss = forward()  # held until all is counted, so that no address is used twice
    for weight in model.parameters():  # saved too, but there whatever the batch is
        saved.pop(weight.untyped_storage().data_ptr(), None)
    del loss
    return sum(saved.values())


def _full_batch(rows: int, width: int) -> Batch:
    """A micro-batch without padding."""
    ids = torch.zeros(rows, width, dtype=torch.int64)
    mask = torch.ones(rows, 1, 1, width, dtype=torch.bool)
    return Batch(
        source=ids, source_mask=mask, target_in=ids, target_out=ids, target_tokens=rows * width
    )


def _free_on_gpu(device: torch.device) -> int:
    """Free bytes of a CUDA device, those that torch's allocator caches included."""
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def _machine_bytes(root: Path) -> Iterator[int]:
    with suppress(OSError, ValueError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024


def _control_group_bytes(root: Path) -> Iterator[int]:
    """What each control group above this process leaves, of version 2 or 1."""
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if not kinds:
                yield from _group_bytes(
                    root / "sys/fs/cgroup", path, "memory.max", "memory.current"
                )
            elif "memory" in kinds.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
                yield from _group_bytes(root / "sys/fs/cgroup/memory", path, *names)


def _group_bytes(base: Path, path: str, limit: str, used: str) -> Iterator[int]:
    """What a group and its ancestors leave of their limits; a container may see the top only."""
    group = base / path.lstrip("/")
    for folder in (group, *group.parents):
        if not folder.is_relative_to(base):
            return
        with suppress(OSError, ValueError):  # "max" is not a number: no limit
            free = int((folder / limit).read_text()) - int((folder / used).read_text())
            stat = (folder / "memory.stat").read_text().split()
            fields = dict(zip(stat[::2], stat[1::2], strict=True))
            yield free + int(fields.get("total_inactive_file", fields.get("inactive_file", 0)))
