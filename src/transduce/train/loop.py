"""The training loop: batches, learning rate, step, log, and now and then validation."""

import copy
import math
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from transduce.data.batch import Batch
from transduce.data.loader import Loader
from transduce.data.sampler import SamplerState
from transduce.model.transformer import Transformer
from transduce.train.checkpoint import (
    TrainState,
    delete_old_checkpoints,
    full_state_dict,
    intact_checkpoints,
    list_checkpoints,
    load_state,
    resume_from_latest,
    save_state,
)
from transduce.train.config import TrainConfig
from transduce.train.distributed import SINGLE_PROCESS, Process
from transduce.train.events import EventHandler, LogMessage, Validated
from transduce.train.fused_passes import FusedPasses, make_fused_passes
from transduce.train.metrics_log import MetricsLog, divergence_error
from transduce.train.optimizer import WeightEMA, learning_rates, make_optimizers
from transduce.train.precision import Bf16Replica, choose_precision, make_replica
from transduce.train.step import LossSettings, StepResult, train_step
from transduce.train.time_plan import TimePlan


class Validation(NamedTuple):
    """Scores of a model on the validation set."""

    loss: float
    """Nats per target token, without label smoothing."""
    bleu: float
    signature: str
    chrf: float = math.nan
    accuracy: float = math.nan
    translations: tuple[str, ...] = ()
    attention: tuple[tuple[float, ...], ...] = ()


_UNKNOWN = Validation(loss=math.nan, bleu=math.nan, signature="")

Validate = Callable[[Transformer], Validation]
OnBest = Callable[[Transformer, Validation], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainResult:
    """How training ended."""

    state: TrainState
    checkpoints: tuple[Path, ...]
    """The last checkpoints, oldest first: those to average."""
    model: Transformer
    """The unsharded model of rank 0, into which any weights can be loaded."""
    ema_model: Transformer | None
    """The exponential moving average of the weights, where the recipe keeps one."""


@dataclass(kw_only=True, slots=True)
class Training:
    """All that a run's updates read or change."""

    model: Transformer
    """What is trained; its weights are sharded where `config.fsdp` asks for it."""
    unsharded: Transformer
    """The same weights in one piece on rank 0; `model` itself where nothing is sharded."""
    optimizers: Sequence[torch.optim.Optimizer]
    replica: Bf16Replica | None
    passes: FusedPasses | None
    ema: WeightEMA | None
    state: TrainState
    config: TrainConfig
    process: Process
    log: MetricsLog
    checkpoints: Path
    on_event: EventHandler

    @property
    def evaluated(self) -> Transformer:
        """What validation and the best bundle see: the EMA where there is one."""
        return self.ema.model if self.ema else self.unsharded

    @property
    def max_unread(self) -> int:
        """Updates whose figures wait: a GPU computes one while the CPU prepares the next."""
        return int(self.unsharded.embedding.weight.is_cuda)

    @property
    def finished(self) -> bool:
        """Whether all updates are made, or validation has stopped improving."""
        out_of_patience = 0 < self.config.patience <= self.state.validations_since_best
        out_of_patience &= not self.state.until_update  # a cooldown is finished
        return out_of_patience or self.state.update >= self.state.last_update(self.config.updates)

    @property
    def validation_due(self) -> bool:
        """Whether validation follows the last update made."""
        updates, every = self.config.updates, self.config.validate_every
        last = self.state.last_update(updates)
        if self.state.update == last:
            return True
        if since := self.state.until_update:  # the checkpoints to average are of the cooldown
            every = min(every, -(-(last - since) // self.config.average_checkpoints))
            return (self.state.update - since) % every == 0
        if self.state.time_plan and self.state.time_plan.fixed_interval:
            return self.state.update % every == 0
        return self._position(0) // every > self._position(-1) // every

    def next_rates(self) -> tuple[float, float]:
        """Return the learning rates of the next update."""
        d_model = self.unsharded.config.d_model
        return learning_rates(self._position(1), config=self.config, d_model=d_model)

    def _position(self, offset: int) -> float:
        """The position on the schedule of an update counted from the last one made."""
        updates = self.config.updates
        return self.state.schedule_position(self.state.update + offset, updates=updates)

    def step(self, batches: Sequence[Batch], rates: Sequence[float]) -> StepResult:
        """Make the next update, of the weights and of their EMA."""
        update, config = self.state.update + 1, self.config
        self.process.seed(config.seed, update=update)  # before the passes, which draw dropout
        result = train_step(
            self.model,
            batches,
            optimizers=self.optimizers,
            rates=rates,
            loss=LossSettings(smoothing=config.label_smoothing, r_drop=config.r_drop),
            micro_tokens=self.state.micro_tokens,
            replica=self.replica,
            passes=self.passes,
            process=self.process,
        )
        if result.micro_tokens != self.state.micro_tokens:
            before = self.state.micro_tokens or self.state.planned_micro_tokens
            self.on_event(LogMessage(_out_of_memory_notice(result, update, before=before)))
        if self.ema and not result.skipped:  # unchanged weights would count twice in the mean
            self.ema.update(self.model, update=update)
        return result


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
    time_plan: TimePlan | None = None,
    process: Process = SINGLE_PROCESS,
) -> TrainResult:
    """Train `model` in place; every rank calls this, rank 0 alone validates and writes.

    Args:
        model: on its device, in its initial weights.
        loader: yields the micro-batches of each update.
        validate: scores the weights, or their EMA, every `config.validate_every` updates.
        folder: of the run; if it has checkpoints, training resumes from the newest intact one.
        on_best: called with the model that has the lowest validation loss so far.
        on_event: called with each event.
        micro_tokens: positions planned for a micro-batch; another number resets one that OOM cut.
        time_plan: under `config.time`, with this session's setup seconds; a checkpoint's is kept.
        process: this rank.

    Raises:
        MemoryError: if memory runs out on a single pair.
        FloatingPointError: if the loss stays NaN or infinite; names the last checkpoint.
    """
    run = _setup(
        model,
        config,
        folder=folder,
        micro_tokens=micro_tokens,
        time_plan=time_plan,
        on_event=on_event,
        process=process,
    )
    unread: deque[_UnreadUpdate] = deque()
    with closing(loader.updates(run.state.sampler_state)) as updates, _naming_last(run.checkpoints):
        while not run.finished:
            loaded = next(updates)
            rates = run.next_rates()
            result = run.step(loaded.batches, rates)
            run.state = _advance(run.state, result, loaded.state_after)
            unread.append(_UnreadUpdate(run.state, result, rates[0], loaded.lines))
            while len(unread) > (0 if run.validation_due else run.max_unread):
                run.state = _read_update(run, unread.popleft())
            if run.validation_due:
                _validate_and_save(run, validate=validate, on_best=on_best)
    return _training_result(run)


def _setup(
    model: Transformer,
    config: TrainConfig,
    *,
    folder: Path,
    micro_tokens: int,
    time_plan: TimePlan | None,
    on_event: EventHandler,
    process: Process,
) -> Training:
    """Shard the model, make what trains it, and restore the newest checkpoint."""
    unsharded = model
    if config.fsdp and process.world_size > 1:
        process.broadcast_weights(model)
        # Before sharding, which takes the weights apart: rank 0 validates with all of them.
        unsharded = copy.deepcopy(model) if process.is_rank_zero else model
        process.shard(model)
    # After sharding: optimizers hold the parameters themselves, which sharding replaces.
    optimizers = make_optimizers(model, config)
    replica = make_replica(model, config)
    passes = make_fused_passes(model, config, replica)
    ema = WeightEMA(model, decay=config.ema) if config.ema else None
    checkpoints = folder / "checkpoints"
    load = partial(load_state, model=model, optimizers=optimizers, ema=ema, process=process)
    state = resume_from_latest(checkpoints, load, on_event=on_event)
    keep = max(config.average_checkpoints, config.keep_checkpoints)
    process.on_rank_zero(partial(delete_old_checkpoints, checkpoints, keep))
    if state.planned_micro_tokens != micro_tokens:  # a new plan: forget what OOM cut from the old
        state = replace(state, planned_micro_tokens=micro_tokens, micro_tokens=0)
    if time_plan:
        held, setup = state.time_plan or time_plan, time_plan.setup_seconds
        setup += state.time_plan.setup_seconds if state.time_plan else 0.0
        state = replace(state, time_plan=replace(held, setup_seconds=setup))
    precision = choose_precision(config, next(model.parameters()).device).name
    precision += " with fused kernels" if passes else ""
    state = _on_this_machine(state, precision, on_event=on_event)
    if not process.sharded:
        process.broadcast_weights(model, ema.model if ema else unsharded)
    folder.mkdir(parents=True, exist_ok=True)
    log = MetricsLog(
        folder / "metrics.jsonl", config=config, state=state, on_event=on_event, process=process
    )
    model.train()
    return Training(
        model=model,
        unsharded=unsharded,
        optimizers=optimizers,
        replica=replica,
        passes=passes,
        ema=ema,
        state=state,
        config=config,
        process=process,
        log=log,
        checkpoints=checkpoints,
        on_event=on_event,
    )


def _on_this_machine(state: TrainState, precision: str, *, on_event: EventHandler) -> TrainState:
    """Record what rounding depends on, and report what differs from the checkpoint."""
    threads = torch.get_num_threads()
    before, current = (state.threads, state.precision), (threads, precision)
    if state.threads and before != current:
        text = f"resuming with {threads} threads in {precision}, before {before[0]} in {before[1]}"
        on_event(LogMessage(f"{text}: results will differ from those of an uninterrupted run"))
    return replace(state, threads=threads, precision=precision)


def _validate_and_save(run: Training, *, validate: Validate, on_best: OnBest) -> None:
    """Validate, keep the model if it is the best so far, and write a checkpoint: on every rank."""
    process, config = run.process, run.config
    run.log.pause_clock()
    if process.sharded:
        weights = full_state_dict(run.model, process)  # collective: every rank takes part
        if process.is_rank_zero:
            run.unsharded.load_state_dict(weights)
    run.state = _validate(run, validate=validate, on_best=on_best)
    run.model.train()
    run.state = _replan(run)
    save_state(
        run.checkpoints,
        run.state,
        model=run.model,
        optimizers=run.optimizers,
        ema=run.ema,
        process=process,
    )
    keep = max(config.average_checkpoints, config.keep_checkpoints)
    # After the new checkpoint is there: a crash in between leaves one more, never one fewer.
    process.on_rank_zero(partial(delete_old_checkpoints, run.checkpoints, keep))
    run.log.resume_clock()


def _replan(run: Training) -> TrainState:
    """Under `train.time`, fit the updates that remain into the time that remains."""
    plan, config = run.state.time_plan, run.config
    if plan is None or not config.time or run.state.until_update:
        return run.state
    fresh = plan.replan(
        run.state.update,
        config=config,
        left=run.log.seconds_left(run.state),
        update_seconds=run.log.update_seconds(),
        validation_seconds=run.log.paused_seconds(),
    )
    # Clocks differ, and all ranks must stop at the same update.
    updates = int(run.process.broadcast_from_rank_zero(float(fresh.updates)))
    return replace(run.state, time_plan=replace(fresh, updates=updates))


def _validate(run: Training, *, validate: Validate, on_best: OnBest) -> TrainState:
    """Validate on rank 0, while the others wait for the loss; return the state with it."""
    model, state, process = run.evaluated, run.state, run.process
    model.eval()
    scores = validate(model) if process.is_rank_zero else _UNKNOWN
    # All ranks need the loss: it decides whether they stop early, or fail, together.
    scores = scores._replace(loss=process.broadcast_from_rank_zero(scores.loss))
    if not math.isfinite(scores.loss):
        raise divergence_error(scores.loss, state.update)
    best = scores.loss < state.best_loss
    if best:
        process.on_rank_zero(partial(on_best, model, scores))
        state = replace(
            state, best_loss=scores.loss, best_update=state.update, validations_since_best=0
        )
    else:
        state = replace(state, validations_since_best=state.validations_since_best + 1)
    event = Validated(
        update=state.update,
        perplexity=math.exp(min(scores.loss, 700.0)),  # e^710 is beyond a float
        best=best,
        **scores._asdict(),
    )
    run.log.log_validation(state, event)
    state = replace(state, seconds=run.log.seconds())
    if not run.config.until or state.until_update:
        return state
    bleu = process.broadcast_from_rank_zero(scores.bleu)
    return _begin_cooldown(state, run) if bleu >= run.config.until else state


def _begin_cooldown(state: TrainState, run: Training) -> TrainState:
    """Plan the end, as `train.until` is reached: the schedule's decay, or no further update."""
    config, last = run.config, state.last_update(run.config.updates)
    position = state.schedule_position(state.update, updates=config.updates)
    updates = 0
    if config.schedule not in ("paper", "constant"):
        if config.schedule == "wsd" and position >= config.warmup:  # from the peak to its decay
            position = max(position, float(config.updates - config.decay_updates))
        share = config.decay / (1.0 - config.decay)
        updates = min(last - state.update, max(1, round(share * state.update)))
    next_step = f"{updates:,} updates of cooldown follow" if updates else "training ends"
    run.on_event(LogMessage(f"BLEU {config.until:g} (train.until) is reached: {next_step}"))
    plan = replace(
        state.time_plan or TimePlan(updates=last),
        updates=state.update + updates,
        since=state.update,
        position=position,
    )
    return replace(state, time_plan=plan, until_update=state.update)


def _advance(state: TrainState, result: StepResult, sampler_state: SamplerState) -> TrainState:
    """Return the state after one more update."""
    return replace(
        state,
        update=state.update + 1,
        # A skipped update counts here too: its sentences were read, and are not read again.
        epoch=sampler_state.epoch,
        epoch_update=sampler_state.update,
        tokens=state.tokens + result.tokens,
        micro_tokens=result.micro_tokens,
    )


class _UnreadUpdate(NamedTuple):
    """An update whose figures a device may still compute."""

    state: TrainState
    """After it, without what the figures change."""
    result: StepResult
    rate: float
    lines: Callable[[], list[int]]
    """`LoadedUpdate.lines`."""


def _read_update(run: Training, made: _UnreadUpdate) -> TrainState:
    """Log an update, waiting for its figures; return the run's state with what they change."""
    skipped = made.result.skipped
    in_a_row = run.state.skipped_in_a_row + 1 if skipped else 0
    counts = {"skipped": run.state.skipped + skipped, "skipped_in_a_row": in_a_row}
    state = replace(made.state, **counts)
    # First, as it may raise: a run that diverges writes no line of progress after it.
    if skipped:
        run.log.log_skipped(state, made.result, lines=made.lines())
    run.log.log_update(state, made.result, rate=made.rate)
    return replace(run.state, **counts)


def _training_result(run: Training) -> TrainResult:
    if run.config.until and not run.state.until_update:
        run.on_event(LogMessage(f"BLEU {run.config.until:g} (train.until) was not reached"))
    # Two stay on disk even where the recipe averages one.
    last = list_checkpoints(run.checkpoints)[-run.config.average_checkpoints :]
    return TrainResult(
        state=run.state,
        checkpoints=tuple(intact_checkpoints(last, on_event=run.on_event)),
        model=run.unsharded,
        ema_model=run.ema.model if run.ema else None,
    )


def _out_of_memory_notice(result: StepResult, update: int, *, before: int) -> str:
    was = f" in place of {before:,}" if before else ""
    return (
        f"memory ran out in update {update:,}: it was begun again, and micro-batches hold up to "
        f"{result.micro_tokens:,} positions{was} from here on (batch.micro_tokens)"
    )


@contextmanager
def _naming_last(checkpoints: Path) -> Generator[None]:
    """Add to a FloatingPointError which checkpoint a person can resume from."""
    try:
        yield
    except FloatingPointError as error:
        kept = list_checkpoints(checkpoints)
        left = f"{kept[-1]} is good, and --resume goes on from it" if kept else "none was saved yet"
        raise FloatingPointError(f"{error}; of the checkpoints {left}") from None
