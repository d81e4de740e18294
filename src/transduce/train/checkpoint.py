"""All that is needed to go on as if training never stopped, written whole or not at all.

A checkpoint is a folder `update-00001000`: the weights, their running mean where the recipe keeps
one, the optimizers' state with the random state (all safetensors, never pickle), and `state.json`
with all that is a number.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor

from transduce.bundle.tensors import check_weights, read_tensors, read_weights, write_tensors
from transduce.data.sampler import Place
from transduce.data.store import Count
from transduce.io.atomic_folder import atomic_folder, check_folder, sanitise
from transduce.model.transformer import Transformer
from transduce.train.distributed import SINGLE_PROCESS, Process
from transduce.train.events import EventHandler, LogMessage
from transduce.train.optimizer import WeightEMA

WEIGHTS = "model.safetensors"
EMA_WEIGHTS = "mean.safetensors"
STATE = "state.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainState:
    """Where a run stands, apart from tensors."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    update: Count = 0
    """Updates made."""
    epoch: Count = 0
    epoch_update: Count = 0
    """Updates made in this epoch."""
    tokens: Count = 0
    """Target tokens learned from."""
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Seconds spent in updates and validations, over all sittings."""
    best_loss: Annotated[float, Field(gt=float("-inf"))] = float("inf")  # which no NaN is
    best_update: Count = 0
    validations_since_best: Count = 0
    skipped: Count = 0
    """Updates that changed no weight, because their gradient was no number."""
    skipped_in_a_row: Count = 0
    micro_tokens: Count = 0
    """Positions that a micro-batch may have, since memory ran out; 0: it never did."""
    planned_micro_tokens: Count = 0
    """Those that it was planned to have then; with another plan the former number is forgotten."""

    @property
    def sampler_state(self) -> Place:
        """Where the sampler goes on."""
        return Place(epoch=self.epoch, update=self.epoch_update)


def save_state(
    folder: Path,
    state: TrainState,
    *,
    model: Transformer,
    optimizers: Sequence[torch.optim.Optimizer],
    ema: WeightEMA | None = None,
    process: Process = SINGLE_PROCESS,
) -> Path:
    """Write a checkpoint below `folder` and return where it lies.

    Of several processes, each of which calls this, the first writes; what they hold in parts comes
    together first.
    """
    checkpoint = folder / f"update-{state.update:08d}"
    weights = full_state_dict(model, process)
    tensors = {name: process.gather(each) for name, each in _optimizer_tensors(optimizers).items()}
    if not process.is_rank_zero:
        return checkpoint
    with atomic_folder(checkpoint) as fresh:
        write_tensors(weights, fresh / WEIGHTS)
        if ema:
            write_tensors(ema.model.state_dict(), fresh / EMA_WEIGHTS)
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
    """Read a checkpoint back into model, optimizers, running mean and the random generators.

    Raises:
        ValueError: one line, if a file is missing, damaged, or of another model.
    """
    check_folder(checkpoint, expected="a training checkpoint")
    try:
        held = model.state_dict()
        loaded = load_weights(checkpoint)
        model.load_state_dict(
            {
                name: process.shard_like(each, like=held.get(name, each))
                for name, each in loaded.items()
            }
        )
        if ema:
            ema.model.load_state_dict(load_weights(checkpoint, name=EMA_WEIGHTS))
        tensors = read_tensors(checkpoint / "optimizer.safetensors")
        state = _read_numbers(checkpoint / STATE)
        torch.set_rng_state(tensors.pop("random.cpu"))
        cuda = tensors.pop("random.cuda", None)
        if cuda is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(cuda)
        _restore(optimizers, tensors, process)
    except (RuntimeError, LookupError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{checkpoint} does not fit this run: {reason}") from None
    return state


def resume_from_latest(
    folder: Path,
    *,
    model: Transformer,
    optimizers: Sequence[torch.optim.Optimizer],
    ema: WeightEMA | None = None,
    process: Process = SINGLE_PROCESS,
    on_event: EventHandler,
) -> TrainState:
    """Read the newest whole checkpoint below `folder` back; a damaged one is named and left out.

    Raises:
        ValueError: one line, if there are checkpoints and none is whole, or it is of another model.
    """
    checkpoints = list_checkpoints(folder)
    if not checkpoints:
        return TrainState()
    if not (whole := intact_checkpoints(checkpoints, on_event=on_event)):
        raise ValueError(f"no checkpoint in {folder} is whole: train anew with another --out")
    state = load_state(whole[-1], model=model, optimizers=optimizers, ema=ema, process=process)
    on_event(LogMessage(text=f"going on after update {state.update:,}"))
    return state


def full_state_dict(model: Transformer, process: Process) -> dict[str, Tensor]:
    """A model's weights by name, those that the processes hold in parts put together by all."""
    return {name: process.gather(each) for name, each in model.state_dict().items()}


def intact_checkpoints(checkpoints: Sequence[Path], *, on_event: EventHandler) -> list[Path]:
    """Those checkpoints every byte of which is as it was written; the others are named."""
    whole: list[Path] = []
    for checkpoint in checkpoints:
        try:
            check_folder(checkpoint, expected="a training checkpoint")
            whole.append(checkpoint)
        except ValueError as error:
            on_event(LogMessage(text=f"a checkpoint is left out: {error}"))
    return whole


def load_weights(checkpoint: Path, *, name: str = WEIGHTS) -> dict[str, Tensor]:
    """Read the weights of a checkpoint, or their running mean.

    Raises:
        ValueError: one line, if the file is missing or damaged, or a weight absurd.
    """
    weights = read_weights(checkpoint / name)
    check_weights(weights, str(checkpoint / name))
    return weights


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints below `folder`, oldest first."""
    return sorted(path for path in folder.glob("update-*") if path.is_dir())


def delete_old_checkpoints(folder: Path, count: int) -> None:
    """Delete all but the newest `count` checkpoints, and the one before where that would be one."""
    for checkpoint in list_checkpoints(folder)[: -max(2, count)]:
        shutil.rmtree(checkpoint)


def _read_numbers(file: Path) -> TrainState:
    """Read state.json: whole numbers where they belong, none of them negative or endless."""
    try:
        return TypeAdapter(TrainState).validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        said = sanitise(": ".join([*map(str, first["loc"]), first["msg"]]))
        raise ValueError(f"{file.name} is damaged ({said})") from None


def _optimizer_tensors(optimizers: Sequence[torch.optim.Optimizer]) -> dict[str, Tensor]:
    return {
        f"{number}.{parameter}.{name}": tensor.contiguous()
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
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        if len(state) not in (0, len(parameters)):  # none before the first update
            raise ValueError("its optimizer is another one")
        for number, values in state.items():
            for name, tensor in values.items():
                values[name] = process.shard_like(tensor, like=parameters[number])
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
