"""Checkpoints: all that training needs to resume exactly, written atomically.

A checkpoint is a folder `update-00001000`: the weights, their EMA where the recipe keeps one, the
optimizers' state with the random state (all safetensors, never pickle), and `state.json` with the
numbers.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import torch
from pydantic import ConfigDict, Field
from torch import Tensor

from transduce.bundle.tensors import check_weights, read_weights
from transduce.bundle.torch_tensors import read_tensors, write_tensors
from transduce.data.sampler import SamplerState
from transduce.data.store import Count
from transduce.io.atomic_folder import atomic_folder, check_folder
from transduce.io.records import read_record
from transduce.model.transformer import Transformer
from transduce.train.distributed import SINGLE_PROCESS, Process
from transduce.train.events import EventHandler, LogMessage
from transduce.train.optimizer import WeightEMA
from transduce.train.time_plan import TimePlan

WEIGHTS = "model.safetensors"
EMA_WEIGHTS = "mean.safetensors"
STATE = "state.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainState:
    """The state of a run, apart from tensors: the content of state.json."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)
    update: Count = 0
    """Updates made."""
    epoch: Count = 0
    epoch_update: Count = 0
    """Updates made in this epoch."""
    tokens: Count = 0
    """Target tokens trained on."""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds spent in updates and validations, over all sessions."""
    best_loss: Annotated[float, Field(gt=float("-inf"))] = float("inf")  # refuses NaN
    best_update: Count = 0
    validations_since_best: Count = 0
    skipped: Count = 0
    """Updates that changed no weight, because their gradient was NaN or infinite."""
    skipped_in_a_row: Count = 0
    micro_tokens: Count = 0
    """Positions that a micro-batch may have since memory ran out; 0: it never did."""
    planned_micro_tokens: Count = 0
    """Positions that were planned; under another plan `micro_tokens` starts from 0 again."""
    threads: Count = 0
    """Threads of one CPU operation; 0: not recorded, in a checkpoint of an earlier version."""
    precision: str = ""
    """Its name, and whether fused kernels computed."""
    time_plan: TimePlan | None = None
    """Where `train.time` or `train.until` sets the updates: how many there are, as planned last."""
    until_update: Count = 0
    """The update whose validation reached `train.until`; 0: none did."""

    def last_update(self, updates: int) -> int:
        """Return the last update of a run whose recipe has so many."""
        return self.time_plan.updates if self.time_plan else updates

    def schedule_position(self, update: int, *, updates: int) -> float:
        """Return the position of an update on the recipe's schedule, which has `updates`."""
        plan = self.time_plan
        return plan.schedule_position(update, end=updates) if plan else float(update)

    @property
    def sampler_state(self) -> SamplerState:
        """Where the sampler resumes."""
        return SamplerState(epoch=self.epoch, update=self.epoch_update)


def save_state(
    folder: Path,
    state: TrainState,
    *,
    model: Transformer,
    optimizers: Sequence[torch.optim.Optimizer],
    ema: WeightEMA | None = None,
    process: Process = SINGLE_PROCESS,
) -> Path:
    """Write a checkpoint below `folder`. Collective: every rank calls this, rank 0 writes.

    Args:
        folder: of the run's checkpoints.
        state: names the checkpoint.
        model: sharded or not.
        optimizers: in their order.
        ema: of the weights, if the recipe keeps one.
        process: this rank.

    Returns:
        The checkpoint's folder.
    """
    checkpoint = folder / f"update-{state.update:08d}"
    weights = full_state_dict(model, process)
    tensors = _gathered(_optimizer_tensors(optimizers), process)
    # Only now: a rank that left before the gathering would leave the others waiting in it.
    if not process.is_rank_zero:
        return checkpoint
    with atomic_folder(checkpoint) as fresh:
        write_tensors(weights, fresh / WEIGHTS)
        if ema:
            write_tensors(ema.model.state_dict(), fresh / EMA_WEIGHTS)
        # Dropout draws from these: without them a resumed run would have other masks.
        tensors["random.cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors["random.cuda"] = torch.cuda.get_rng_state()
        write_tensors(tensors, fresh / "optimizer.safetensors")
        (fresh / STATE).write_text(json.dumps(asdict(state), indent=2) + "\n")
    return checkpoint


def load_state(
    checkpoint: Path,
    *,
    model: Transformer,
    optimizers: Sequence[torch.optim.Optimizer],
    ema: WeightEMA | None = None,
    process: Process = SINGLE_PROCESS,
) -> TrainState:
    """Restore model, optimizers, EMA and random state from a checkpoint.

    Args:
        checkpoint: its folder.
        model: of the same shape; sharded or not.
        optimizers: of the same kinds.
        ema: where the recipe keeps one.
        process: this rank.

    Raises:
        ValueError: one line, if a file is missing, damaged, or of another model.
    """
    check_folder(checkpoint, expected="a training checkpoint")
    state = read_record(checkpoint / STATE, TrainState)
    try:
        weights, current = load_weights(checkpoint), model.state_dict()
        model.load_state_dict(
            {name: process.shard_like(w, like=current.get(name, w)) for name, w in weights.items()}
        )
        if ema:
            ema.model.load_state_dict(load_weights(checkpoint, name=EMA_WEIGHTS))
        tensors = read_tensors(checkpoint / "optimizer.safetensors")
        # Popped: what is left belongs to the optimizers.
        torch.set_rng_state(tensors.pop("random.cpu"))
        cuda = tensors.pop("random.cuda", None)
        if cuda is not None and torch.cuda.is_available():  # a run may move to another machine
            torch.cuda.set_rng_state(cuda)
        _restore(optimizers, tensors, process)
    except (RuntimeError, LookupError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]  # torch goes on with a line for each weight
        raise ValueError(f"{checkpoint} does not fit this run: {reason}") from None
    return state


def resume_from_latest(
    folder: Path, load: Callable[[Path], TrainState], *, on_event: EventHandler
) -> TrainState:
    """Restore the newest intact checkpoint below `folder`; damaged ones are reported and skipped.

    Args:
        folder: of the run's checkpoints.
        load: `load_state` of what is trained, which checks the checkpoint.
        on_event: called with what was skipped and restored.

    Returns:
        The restored state, or that of a run that has not begun.

    Raises:
        ValueError: one line, if no checkpoint is intact, or the newest is of another model.
    """
    checkpoints = list_checkpoints(folder)
    for checkpoint in reversed(checkpoints):
        try:
            state = load(checkpoint)
        except (ValueError, FileNotFoundError):
            if intact_checkpoints([checkpoint], on_event=on_event):
                raise  # it is of another model
            continue
        on_event(LogMessage(f"resuming after update {state.update:,}"))
        return state
    if checkpoints:
        raise ValueError(f"no checkpoint in {folder} is intact: train anew with another --out")
    return TrainState()


def full_state_dict(model: Transformer, process: Process) -> dict[str, Tensor]:
    """Return the unsharded weights by name, on rank 0. Collective: every rank must call it."""
    return _gathered(model.state_dict(), process)


def intact_checkpoints(checkpoints: Sequence[Path], *, on_event: EventHandler) -> list[Path]:
    """Return the checkpoints whose checksums hold; report the others."""
    intact: list[Path] = []
    for checkpoint in checkpoints:
        try:
            check_folder(checkpoint, expected="a training checkpoint")
            intact.append(checkpoint)
        except (ValueError, FileNotFoundError) as error:  # another rank deletes old ones
            on_event(LogMessage(f"skipping a checkpoint: {error}"))
    return intact


def load_weights(checkpoint: Path, *, name: str = WEIGHTS) -> dict[str, Tensor]:
    """Read the weights of a checkpoint, or their EMA.

    Raises:
        ValueError: one line, if the file is missing or damaged, or a weight not plausible.
    """
    weights = read_weights(checkpoint / name)
    check_weights(weights, str(checkpoint / name))
    return {key: torch.from_numpy(weight) for key, weight in weights.items()}


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints below `folder`, oldest first."""
    # Numbers are padded with zeros, so that the order of names is that of updates.
    return sorted(path for path in folder.glob("update-*") if path.is_dir())


def delete_old_checkpoints(folder: Path, count: int) -> None:
    """Delete all but the newest `count` checkpoints; two always stay, should one be damaged.

    What was left of one by a process that was killed while it wrote or deleted it goes, too.
    """
    for checkpoint in list_checkpoints(folder)[: -max(2, count)]:
        # Renamed first: half of a checkpoint must not be taken for a damaged one.
        checkpoint.rename(checkpoint.with_name(f".{checkpoint.name}.deleted"))
    for leftover in folder.glob(".update-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _gathered(tensors: Mapping[str, Tensor], process: Process) -> dict[str, Tensor]:
    """Gather sharded tensors one by one into rank 0's main memory: a device has room for few."""
    gathered = ((name, process.gather(tensor)) for name, tensor in tensors.items())
    if not process.sharded:
        return dict(gathered)
    return {name: tensor.cpu() for name, tensor in gathered if process.is_rank_zero}


def _optimizer_tensors(optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Tensor]:
    return {
        f"{number}.{parameter}.{name}": tensor.contiguous()  # safetensors takes no other
        for number, optimizer in enumerate(optimizers)
        for parameter, values in optimizer.state_dict()["state"].items()
        for name, tensor in values.items()
    }


def _restore(
    optimizers: Sequence[torch.optim.Optimizer], tensors: dict[str, Tensor], process: Process
) -> None:
    states: list[dict[int, dict[str, Tensor]]] = [{} for _ in optimizers]
    for key, tensor in tensors.items():
        number, parameter, name = key.split(".")
        states[int(number)].setdefault(int(parameter), {})[name] = tensor
    for optimizer, state in zip(optimizers, states, strict=True):
        parameters = [weight for group in optimizer.param_groups for weight in group["params"]]
        if len(state) not in (0, len(parameters)):  # no state before the first update
            raise ValueError("it was trained with another optimizer")
        for number, values in state.items():
            for name, tensor in values.items():
                values[name] = process.shard_like(tensor, like=parameters[number])
        # Groups are not stored: they follow from the recipe, and rates are set before each update.
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
