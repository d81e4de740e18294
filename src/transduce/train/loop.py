"""The training loop, from the first update to the last: it reads top to bottom."""

import copy
import math
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from transduce.data.loader import Loader
from transduce.model.transformer import Transformer
from transduce.train.checkpoint import (
    TrainState,
    delete_old_checkpoints,
    full_state_dict,
    intact_checkpoints,
    list_checkpoints,
    resume_from_latest,
    save_state,
)
from transduce.train.config import TrainConfig
from transduce.train.distributed import SINGLE_PROCESS, Process
from transduce.train.events import EventHandler, LogMessage, Validated
from transduce.train.metrics_log import MetricsLog, divergence_error
from transduce.train.optimizer import WeightEMA, make_optimizers
from transduce.train.precision import compile_layers, eager_mode, make_replica
from transduce.train.schedule import learning_rates
from transduce.train.step import StepResult, train_step


class Validation(NamedTuple):
    """What the model is worth on the validation set."""

    loss: float
    """Nats per target token, without label smoothing."""
    bleu: float
    signature: str


_UNKNOWN = Validation(loss=math.nan, bleu=math.nan, signature="")

Validate = Callable[[Transformer], Validation]
OnBest = Callable[[Transformer, Validation], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainResult:
    """How training ended."""

    state: TrainState
    stopped_early: bool
    """Whether it stopped because validation no longer got better."""
    checkpoints: tuple[Path, ...]
    """The last checkpoints, oldest first: those to average."""
    model: Transformer
    """The model in the first process, whole, which any weights can be put into."""
    ema_model: Transformer | None
    """The running mean of the weights, where the recipe keeps one."""


def train(
    model: Transformer,
    *,
    loader: Loader,
    config: TrainConfig,
    validate: Validate,
    folder: Path,
    on_best: OnBest,
    on_event: EventHandler,
    micro_tokens: int = 0,
    process: Process = SINGLE_PROCESS,
) -> TrainResult:
    """Train `model` in place until the recipe's last update, or until validation stops improving.

    A folder that holds checkpoints is gone on with, from the newest that is whole: the run ends in
    the same weights as one that never stopped (on a CPU, bit for bit). An update whose loss or
    gradient is no number is skipped, and counted. Of several processes, each of which calls this,
    the first alone validates and writes.

    Args:
        model: on its device, in its initial weights.
        loader: reads the pairs that each update learns from.
        validate: scores the model, or the running mean of its weights where the recipe keeps one;
            called every `config.validate_every` updates.
        folder: the run's folder; `checkpoints/` and `metrics.jsonl` are written below it.
        on_best: called with what was validated when its loss is lower than any before.
        on_event: called with each event of the run.
        micro_tokens: positions that the loader gives a micro-batch. Where memory runs out they are
            halved for the rest of the run; going on with another number forgets that.
        process: which of the run's processes this is; the loader reads its share.

    Raises:
        MemoryError: if memory runs out on a single pair.
        FloatingPointError: if more than `config.max_skipped_updates` updates in a row are skipped,
            or the validation loss is no number; it names the last checkpoint, which stays whole.
    """
    whole = model
    if config.fsdp and process.world_size > 1:
        process.broadcast_weights(model)
        whole = copy.deepcopy(model) if process.is_rank_zero else model
        process.shard(model)
    optimizers = make_optimizers(model, config)
    working = make_replica(model, config)
    if config.compile:
        compile_layers(working.model if working else model)
    mean = WeightEMA(model, decay=config.ema) if config.ema else None
    judged = mean.model if mean else whole
    checkpoints = folder / "checkpoints"
    state = resume_from_latest(
        checkpoints,
        model=model,
        optimizers=optimizers,
        ema=mean,
        process=process,
        on_event=on_event,
    )
    if state.planned_micro_tokens != micro_tokens:
        state = replace(state, planned_micro_tokens=micro_tokens, micro_tokens=0)
    if not process.sharded:
        process.broadcast_weights(model, judged)
    folder.mkdir(parents=True, exist_ok=True)
    log = MetricsLog(
        folder / "metrics.jsonl", config=config, state=state, on_event=on_event, process=process
    )
    model.train()
    with closing(loader.updates(state.sampler_state)) as updates, naming_the_last(checkpoints):
        while state.update < config.updates and not out_of_patience(state, config):
            loaded = next(updates)
            number = state.update + 1
            now = learning_rates(number, config=config, d_model=model.config.d_model)
            process.seed(config.seed, update=number)
            done = train_step(
                model,
                loaded.batches,
                optimizers=optimizers,
                rates=now,
                smoothing=config.label_smoothing,
                r_drop=config.r_drop,
                micro_tokens=state.micro_tokens,
                compiled=config.compile,
                working=working,
                process=process,
            )
            if done.micro_tokens != state.micro_tokens:
                on_event(
                    LogMessage(
                        text=_smaller(done, number, before=state.micro_tokens or micro_tokens)
                    )
                )
            if mean and not done.skipped:
                mean.update(model, update=number)
            state = replace(
                state,
                update=number,
                epoch=loaded.place_after.epoch,
                epoch_update=loaded.place_after.update,
                tokens=state.tokens + done.tokens,
                micro_tokens=done.micro_tokens,
                skipped=state.skipped + done.skipped,
                skipped_in_a_row=state.skipped_in_a_row + 1 if done.skipped else 0,
            )
            if done.skipped:
                log.log_skipped(state, done, lines=loaded.lines())
            log.log_update(state, done, rate=now[0])
            if number % config.validate_every == 0 or number == config.updates:
                log.pause_clock()
                if process.sharded:
                    weights = full_state_dict(model, process)
                    if process.is_rank_zero:
                        whole.load_state_dict(weights)
                with eager_mode(config.compile):
                    state = check(
                        judged, state, validate=validate, on_best=on_best, log=log, process=process
                    )
                model.train()
                save_state(
                    checkpoints,
                    state,
                    model=model,
                    optimizers=optimizers,
                    ema=mean,
                    process=process,
                )
                process.on_rank_zero(
                    partial(delete_old_checkpoints, checkpoints, config.average_checkpoints)
                )
                log.resume_clock()
    return TrainResult(
        state=state,
        stopped_early=state.update < config.updates,
        checkpoints=tuple(
            intact_checkpoints(
                list_checkpoints(checkpoints)[-config.average_checkpoints :], on_event=on_event
            )
        ),
        model=whole,
        ema_model=mean.model if mean else None,
    )


def check(
    model: Transformer,
    state: TrainState,
    *,
    validate: Validate,
    on_best: OnBest,
    log: MetricsLog,
    process: Process = SINGLE_PROCESS,
) -> TrainState:
    """Validate, keep the model if it is the best so far, and return the state with that in it.

    The first process validates; the others wait for the loss that it finds.
    """
    model.eval()
    found = validate(model) if process.is_rank_zero else _UNKNOWN
    found = found._replace(loss=process.broadcast_from_rank_zero(found.loss))
    if not math.isfinite(found.loss):
        raise divergence_error(found.loss, state.update)
    best = found.loss < state.best_loss
    if best:
        process.on_rank_zero(partial(on_best, model, found))
        state = replace(
            state, best_loss=found.loss, best_update=state.update, validations_since_best=0
        )
    else:
        state = replace(state, validations_since_best=state.validations_since_best + 1)
    event = Validated(
        update=state.update,
        loss=found.loss,
        perplexity=math.exp(min(found.loss, 700.0)),
        bleu=found.bleu,
        signature=found.signature,
        best=best,
    )
    log.log_validation(state, event)
    return replace(state, seconds=log.seconds())


def _smaller(done: StepResult, update: int, *, before: int) -> str:
    """Say that memory ran out, and what was done about it."""
    was = f" in place of {before:,}" if before else ""
    return (
        f"memory ran out in update {update:,}: it was begun again, and micro-batches hold up to "
        f"{done.micro_tokens:,} positions{was} from here on (batch.micro_tokens)"
    )


@contextmanager
def naming_the_last(checkpoints: Path) -> Generator[None]:
    """Let the end of a run whose numbers went wrong say what can be gone on with."""
    try:
        yield
    except FloatingPointError as error:
        kept = list_checkpoints(checkpoints)
        left = f"{kept[-1]} is good, and --resume goes on from it" if kept else "none was saved yet"
        raise FloatingPointError(f"{error}; of the checkpoints {left}") from None


def out_of_patience(state: TrainState, config: TrainConfig) -> bool:
    """Whether so many validations went by without a better one that the recipe says to stop."""
    return 0 < config.patience <= state.validations_since_best
