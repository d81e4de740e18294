"""How large a micro-batch may be: `batch.micro_tokens = "auto"`, measured before training starts.

Memory grows along a line: a part that is always there (gradients, a chunk of logits) and a part
for each position. Two micro-batches of the longest sentences give the line. On a GPU it is the
allocator's peak; on a CPU, where a process' size says little, what autograd keeps for the backward
pass is counted. Four fifths of what is free may be used.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor

from transduce.data.batch import Batch
from transduce.data.config import MICRO_TOKENS
from transduce.io.atomic_folder import whole_file
from transduce.model.loss import chunk
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.distributed import Process
from transduce.train.events import EventHandler, LogMessage
from transduce.train.oom_retry import out_of_memory
from transduce.train.precision import make_replica
from transduce.train.step import batch_loss

_SHARE = 0.8
_HEAP = 1.4  # of a CPU's memory for what lives in it: freed pieces do not fit what comes next
_TIMES = 4  # the second of the two micro-batches has so many times the rows of the first
_STEP = 64  # found numbers are multiples of it

FILE = "micro_tokens.json"

Loss = Callable[[Batch], Tensor]


class MemoryCost(NamedTuple):
    """Bytes that forward and backward of a micro-batch take at most at one time."""

    fixed_bytes: float
    """Whatever its size."""
    bytes_per_position: float
    """For each of its positions."""


class BatchSizeEstimate(NamedTuple):
    """What a micro-batch may hold."""

    micro_tokens: int
    reason: str
    """A clause for the person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Kept:
    """What the run's folder says."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    micro_tokens: Annotated[int, Field(ge=1)]
    device: str


def estimate_batch_size(
    model: Transformer, *, longest: int, training: TrainConfig, process: Process
) -> BatchSizeEstimate:
    """Measure how many positions a micro-batch may have; model and random numbers stay as they are.

    Args:
        model: on its device, with nothing else there yet.
        longest: positions of the longest sentence, EOS counted; a micro-batch of one always may be.
        training: says what else will be kept there.
        process: of several on one machine each gets an equal part of a CPU's memory.
    """
    device = model.embedding.weight.device
    free = _free_there(device) if device.type == "cuda" else free_memory()
    if free is None or device.type not in ("cpu", "cuda"):
        return BatchSizeEstimate(
            max(longest, MICRO_TOKENS), "how much memory is free cannot be known here"
        )
    if device.type == "cpu":
        free //= process.local_world_size
    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    copies = (
        2 + bool(training.ema) + (process.world_size > 1)
    )  # Adam's two, the mean, the one piece
    working = make_replica(model, training)
    passed, beside = (working.model, working.extra_bytes) if working else (model, 0)
    try:
        need = measure_cost(passed, longest=longest, training=training)
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        passed.zero_grad(set_to_none=True)
        return BatchSizeEstimate(longest, "memory runs out on four times as many already")
    fits = int(
        (_SHARE * free - copies * weights - beside - need.fixed_bytes) / need.bytes_per_position
    )
    most = min(fits, MICRO_TOKENS) if device.type == "cpu" else fits
    room = (
        f"a position takes {need.bytes_per_position / 1e3:,.0f} kB, "
        f"and {free / 1e6:,.0f} MB are free"
    )
    return BatchSizeEstimate(max(longest, most - most % _STEP), room)


def load_or_measure_batch_size(
    run: Path,
    device: torch.device,
    *,
    find: Callable[[], BatchSizeEstimate],
    on_event: EventHandler,
) -> int:
    """The number that this run was begun with on such a device, or else one that is found now.

    A run that is gone on with needs the same micro-batches to come to the same bits, and what is
    free differs from day to day.

    Args:
        run: the run's folder; the number is kept in it.
        device: what the run computes on.
        find: measures.
        tell: told what was found.
    """
    file = run / FILE
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    with suppress(OSError, ValidationError):
        kept = TypeAdapter(_Kept).validate_json(file.read_bytes())
        if kept.device == name:
            on_event(LogMessage(text=f"micro-batches of {kept.micro_tokens:,} tokens, as before"))
            return kept.micro_tokens
    found = find()
    on_event(LogMessage(text=f"micro-batches of {found.micro_tokens:,} tokens: {found.reason}"))
    with whole_file(file) as stream:
        kept = _Kept(micro_tokens=found.micro_tokens, device=name)
        stream.write(f"{json.dumps(asdict(kept))}\n".encode())
    return found.micro_tokens


def measure_cost(model: Transformer, *, longest: int, training: TrainConfig) -> MemoryCost:
    """Measure what a micro-batch of the longest sentences takes, by the line through two of them.

    Raises:
        RuntimeError: torch's, if the larger of them does not fit.
    """
    device = model.embedding.weight.device

    def loss(batch: Batch) -> Tensor:
        smoothing, r_drop = training.label_smoothing, training.r_drop
        return batch_loss(model, batch, smoothing=smoothing, r_drop=r_drop)

    few = chunk(model.embedding.weight) // longest + 1  # so that the loss fills a chunk in both
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        low, high = (
            _peak(model, loss, _longest(rows, longest).to(device)) for rows in (few, _TIMES * few)
        )
    each = (high - low) / ((_TIMES - 1) * few * longest)
    return MemoryCost(fixed_bytes=max(0.0, low - each * few * longest), bytes_per_position=each)


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory that this process may still take, or None where the system does not say.

    The least of what the machine has and what the process' control groups leave of their limits;
    files that are held in memory count as free.
    """
    found = [*_of_the_machine(root), *_of_the_groups(root)]
    return max(0, min(found)) if found else None


def _peak(model: Transformer, loss: Loss, batch: Batch) -> int:
    """The most bytes that forward and backward of a batch take at one time, gradients included."""
    if batch.source.is_cuda:
        torch.cuda.reset_peak_memory_stats(batch.source.device)
        before = torch.cuda.memory_allocated(batch.source.device)
        loss(batch).backward()
        model.zero_grad(set_to_none=True)
        return torch.cuda.max_memory_allocated(batch.source.device) - before
    logits = 2 * chunk(model.embedding.weight) * model.config.vocab_size  # and their softmax
    always = sum(weight.numel() for weight in model.parameters()) + logits
    kept = _kept(model, lambda: loss(batch))
    return round(_HEAP * (kept + always * model.embedding.weight.element_size()))


def _kept(model: Transformer, forward: Callable[[], Tensor]) -> int:
    """The bytes that a forward pass keeps for the backward pass; weights are there anyway."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = forward()  # while it lives, so does all that is kept, each at a place of its own
    for weight in model.parameters():
        kept.pop(weight.untyped_storage().data_ptr(), None)
    del loss
    return sum(kept.values())


def _longest(rows: int, width: int) -> Batch:
    """A micro-batch of so many of the longest sentences on both sides."""
    ids = torch.zeros(rows, width, dtype=torch.int64)
    mask = torch.ones(rows, 1, 1, width, dtype=torch.bool)
    return Batch(
        source=ids, source_mask=mask, target_in=ids, target_out=ids, target_tokens=rows * width
    )


def _free_there(device: torch.device) -> int:
    """What a CUDA device has left, and what torch holds of it without use."""
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def _of_the_machine(root: Path) -> Iterator[int]:
    with suppress(OSError, ValueError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024


def _of_the_groups(root: Path) -> Iterator[int]:
    """What each control group above this process leaves; of version 2, or of version 1."""
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if not kinds:
                yield from _left(root / "sys/fs/cgroup", path, "memory.max", "memory.current")
            elif "memory" in kinds.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
                yield from _left(root / "sys/fs/cgroup/memory", path, *names)


def _left(base: Path, path: str, limit: str, used: str) -> Iterator[int]:
    """What a group and those above it leave of their limits. A container may see the top alone."""
    group = base / path.lstrip("/")
    for folder in (group, *group.parents):
        if not folder.is_relative_to(base):
            return
        with suppress(OSError, ValueError):  # "max" is no number and no limit
            free = int((folder / limit).read_text()) - int((folder / used).read_text())
            stat = (folder / "memory.stat").read_text().split()
            names = dict(zip(stat[::2], stat[1::2], strict=True))
            yield free + int(names.get("total_inactive_file", names.get("inactive_file", 0)))
