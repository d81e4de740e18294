"""Run a recipe: prepare → train → average → evaluate → bundle.

Everything a run makes is in its folder, and each part is written atomically, so a run that was
stopped anywhere can be resumed:

    recipe.toml        every setting of the run
    plan.json          of train.time: what is set by hand, and so is not planned
    prepared/          tokenizer, encoded training pairs, validation and test text, what was
                       dropped, and the model to start from where there is one
    checkpoints/       the last few, to resume from and to average
    micro_tokens.json  the measured micro-batch size of batch.micro_tokens = "auto"
    metrics.jsonl      loss, speed and validations, a line each
    wandb-id.txt       of train.log_to = "wandb" (mlflow-id.txt of "mlflow"): the run there
    report.html        curves, translations and attention, rewritten at each validation
    best/              the bundle with the lowest validation loss
    results.json       scores with their signatures, and hypotheses.* with the text they are of
    model/             the bundle to ship; written last, so a run that has it is finished
"""

import shutil
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

from transduce.config import Recipe, load_recipe, to_toml
from transduce.data.config import MICRO_TOKENS
from transduce.data.loader import Loader
from transduce.data.sampler import Sampler
from transduce.evaluation.metrics import bleu_metric
from transduce.evaluation.scoring import RunResult
from transduce.io.atomic_folder import recover_interrupted
from transduce.io.lock import exclusive_lock
from transduce.io.machine import keep_freed_memory, peak_memory
from transduce.model.cpp_library import load_kernels
from transduce.model.transformer import Transformer
from transduce.pipeline.defaults import (
    NO_PLAN,
    R_DROP_EPOCHS,
    EpochPlan,
    describe_updates,
    schedule_plan,
)
from transduce.pipeline.finetune import StartModel
from transduce.pipeline.fit_time import Durations, describe_plan, fit_time, measure_evaluation
from transduce.pipeline.prepared import Prepared, check_positions, open_prepared
from transduce.pipeline.run_bundle import initial_model, run_bundle
from transduce.pipeline.run_folder import (
    begun_plan,
    check_output_folder,
    find_damage,
    prepare_run,
    write_text,
)
from transduce.pipeline.selection import RunEvaluator, check_until
from transduce.train.checkpoint import list_checkpoints
from transduce.train.distributed import SINGLE_PROCESS, Process, compute_device, process_group
from transduce.train.events import Event, EventHandler, LogMessage, Progress, describe_duration
from transduce.train.loop import TrainResult, Validation, train
from transduce.train.memory import estimate_batch_size, load_or_measure_batch_size
from transduce.train.precision import choose_precision
from transduce.train.time_plan import TimePlan
from transduce.train.trackers import check_trackers, trackers

_TRIAL_UPDATES = 4  # of a dry run
_TRIAL_SECONDS = 2.0  # after which it is not repeated


def run_recipe(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    start: StartModel | None = None,
    plan: EpochPlan | None = None,
    started: float | None = None,
    on_event: EventHandler,
) -> RunResult:
    """Run a recipe: prepare, train, average, evaluate, and save the bundle `out`/model.

    Under torchrun every process calls this and they train together, while rank 0 does the rest;
    `out` and the corpus must be the same files for all. Restarted by torchrun, they resume.

    Args:
        recipe: all settings.
        out: the run's folder; it may hold what `prepare_run` wrote.
        resume: continue the run that `out` holds, or begin one if it holds none.
        start: the model to start from, which the recipe must fit (`adopt_model`); None: random.
        plan: sets the recipe's updates once the corpus is prepared.
        started: when the time of `train.time` began, of `time.monotonic()`; None: now.
        on_event: called with each event of the run, such as a log line or a validation.

    Raises:
        ValueError: if the corpus or the folder cannot be used; one line that says what to change.
        FloatingPointError: if training diverges.
    """
    started = time.monotonic() if started is None else started
    with process_group() as process, exclusive_lock(out) if process.is_rank_zero else nullcontext():
        prepared, plan = None, plan or schedule_plan(recipe)
        fitting = plan or NO_PLAN
        planned = plan is not None
        if process.is_rank_zero:
            resume = resume or process.restarts > 0
            if plan and resume and (out / "recipe.toml").is_file():
                recipe = plan.resume(recipe, begun=load_recipe(out / "recipe.toml"))
                plan = None
            prepared = _prepare(
                recipe,
                out,
                resume=resume,
                start=start,
                plan=plan,
                process=process,
                on_event=on_event,
            )
        if process.broadcast_from_rank_zero(1.0 if prepared is None else 0.0):
            return RunResult.read(out / "results.json")
        if planned:  # rank 0 wrote what the others need
            recipe = load_recipe(out / "recipe.toml")
            fitting = begun_plan(out, fitting)
        handler = on_event if process.is_rank_zero else lambda event: None
        run = _Run(recipe, out, prepared or open_prepared(out), process, handler)
        threads = recipe.train.intra_op_threads
        with compute_device(device=recipe.train.device, threads=threads, process=process) as device:
            run, time_plan = run.fit_time(device, plan=fitting, started=started)
            model = run.initial_model(device)
            run.announce(model)
            trained = run.train(model, time_plan=time_plan, started=started)
            process.on_rank_zero(partial(run.evaluator.finish, trained))
        return RunResult.read(out / "results.json")


def dry_run(
    recipe: Recipe,
    *,
    start: StartModel | None = None,
    plan: EpochPlan | None = None,
    on_event: EventHandler,
) -> str:
    """Describe what a run would take; a few updates are trained in a temporary folder.

    Raises:
        ValueError: if the corpus cannot be used; one line that says what to change.
    """
    settings, alone, started = recipe.train, SINGLE_PROCESS, time.monotonic()
    plan = plan or schedule_plan(recipe)
    with (
        TemporaryDirectory() as folder,
        compute_device(
            device=settings.device, threads=settings.intra_op_threads, process=alone
        ) as device,
    ):
        out = Path(folder)
        prepared = prepare_run(recipe, out, start=start, plan=plan, on_event=on_event)
        check_positions(recipe, prepared)
        check_until(recipe, prepared)
        run = _Run(load_recipe(out / "recipe.toml"), out, prepared, alone, on_event)
        run, time_plan = run.fit_time(device, plan=plan or NO_PLAN, started=started)
        model = run.initial_model(device)
        run.announce(model)
        if time_plan:
            return f"{describe_plan(run.recipe, time_plan)}; nothing was written"
        size = run.micro_tokens(model, on_event=on_event)
        target_tokens_per_second = run.measure_speed(model, micro_tokens=size)
    recipe, per_epoch = run.recipe, prepared.updates_per_epoch(run.recipe)
    tokens = recipe.train.updates * prepared.epoch_tokens(recipe) / per_epoch
    gpu = device.type == "cuda"
    peak = torch.cuda.max_memory_allocated(device) if gpu else peak_memory()
    memory = f"; {peak / 1e9:.1f} GB of {'GPU ' * gpu}memory" if peak else ""
    at_most = "at most " * bool(recipe.train.until)
    return (
        f"training would take {at_most}{describe_duration(tokens / target_tokens_per_second)} "
        f"({target_tokens_per_second:,.0f} tokens/s), not counting validations and the "
        f"evaluation{memory}; nothing was written"
    )


def _prepare(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool,
    start: StartModel | None,
    plan: EpochPlan | None,
    process: Process,
    on_event: EventHandler,
) -> Prepared | None:
    """Check that the run is possible and prepare its corpus; None if it is finished already."""
    check_output_folder(recipe, out, resume=resume)
    if resume and not (out / "recipe.toml").is_file():
        on_event(LogMessage(f"{out} holds no run yet: beginning one"))
    if recover_interrupted(out / "model"):
        on_event(LogMessage(f"{out} is finished: its model is {out / 'model'}"))
        return None
    # Now: a wrong name must not wait until the corpus is read.
    process.find_device(recipe.train.device)
    check_trackers(recipe.train.log_to)
    bleu_metric(language=recipe.languages.target, tokenize=recipe.score.bleu_tokenize)
    prepared = prepare_run(recipe, out, resume=resume, start=start, plan=plan, on_event=on_event)
    check_positions(recipe, prepared)
    check_until(recipe, prepared)
    return prepared


class _Run(NamedTuple):
    """A run whose corpus is prepared: what its stages share."""

    recipe: Recipe
    out: Path
    prepared: Prepared
    process: Process
    on_event: EventHandler

    @property
    def evaluator(self) -> RunEvaluator:
        return RunEvaluator(self.recipe, self.out, self.prepared, self.on_event)

    def initial_model(self, device: torch.device) -> Transformer:
        """The model before the first update, on its device."""
        keep_freed_memory()
        return initial_model(self.recipe, self.prepared).to(device)

    def announce(self, model: Transformer) -> None:
        """Report the run's length, and the model's size, device and precision."""
        per_epoch = self.prepared.updates_per_epoch(self.recipe)
        text = describe_updates(self.recipe.train.updates, per_epoch=per_epoch)
        self.on_event(LogMessage(text))
        device, processes = model.embedding.weight.device, self.process.world_size
        several = f", in {processes} processes" if processes > 1 else ""
        self.on_event(LogMessage(f"{model.size:,} parameters, on {device}{several}"))
        precision = choose_precision(self.recipe.train, device)
        if precision.reason:
            text = f"computing in {precision.name}: {precision.reason} (train.precision)"
            self.on_event(LogMessage(text))
        if device.type == "cpu" and (reason := load_kernels().reason):
            self.on_event(LogMessage(f"without fused kernels, so updates take longer: {reason}"))

    def fit_time(
        self, device: torch.device, *, plan: EpochPlan, started: float
    ) -> "tuple[_Run, TimePlan | None]":
        """Plan the updates by `train.time`; a run that has a checkpoint has its plan there."""
        recipe, file = self.recipe, self.out / "recipe.toml"
        if not recipe.train.time:
            return self, None
        if list_checkpoints(self.out / "checkpoints"):
            return self, TimePlan(updates=recipe.train.updates)
        model = self.initial_model(device)
        size = self.micro_tokens(model, on_event=self.on_event)  # collective: not by rank 0 alone
        plans: list[TimePlan] = []

        def measure() -> None:
            per_epoch = self.prepared.updates_per_epoch(recipe)
            per_update = self.prepared.epoch_tokens(recipe) / per_epoch
            evaluation = measure_evaluation(self.evaluator, model)

            def fit(run: _Run) -> tuple[Recipe, TimePlan]:
                speed = run.measure_speed(model, micro_tokens=size)
                durations = Durations(per_update / speed, *evaluation)
                elapsed = time.monotonic() - started
                return fit_time(run.recipe, durations, elapsed=elapsed, plan=plan)

            if plan.may_omit_r_drop(recipe):
                without = replace(recipe, train=replace(recipe.train, r_drop=0.0))
                fitted, time_plan = fit(self._replace(recipe=without))
                if fitted.train.updates >= R_DROP_EPOCHS * per_epoch:
                    fitted, time_plan = fit(self)
                else:
                    text = f"without R-Drop, which fewer than {R_DROP_EPOCHS} epochs gain little by"
                    self.on_event(LogMessage(text))
            else:
                fitted, time_plan = fit(self)
            write_text(file, to_toml(fitted))
            plans.append(time_plan)
            self.on_event(LogMessage(describe_plan(fitted, time_plan)))

        self.process.on_rank_zero(measure)
        run = self._replace(recipe=load_recipe(file))
        fixed = "train.validate_every" in plan.by_hand
        others = TimePlan(updates=run.recipe.train.updates, fixed_interval=fixed)
        return run, plans[0] if plans else others

    def train(
        self, model: Transformer, *, time_plan: TimePlan | None, started: float
    ) -> TrainResult:
        """Train in place, validating on loss and greedy BLEU; best/ follows the lowest loss."""
        recipe, process, evaluator = self.recipe, self.process, self.evaluator
        run_page = evaluator.page(model)
        best = self.out / "best"
        if process.is_rank_zero and recover_interrupted(best) and (fault := find_damage(best)):
            self.on_event(LogMessage(f"{fault}: deleted, and made again"))
            shutil.rmtree(best)

        def on_best(model: Transformer, scored: Validation) -> None:
            scores = {
                "validation.loss": scored.loss,
                "validation.bleu_greedy": scored.bleu,
                "validation.chrf_greedy": scored.chrf,
            }
            run_bundle(recipe, model, prepared=self.prepared, scores=scores).save(best)

        names = recipe.train.log_to if process.is_rank_zero else ()
        with trackers(self.out, names, on_event=self.on_event) as on_event:
            size = self.micro_tokens(model, on_event=on_event)
            if process.is_rank_zero:
                run_page.write()
                on_event = run_page.handler(on_event)
            if time_plan:
                time_plan = replace(time_plan, setup_seconds=time.monotonic() - started)
            return train(
                model,
                loader=self.loader(size),
                config=recipe.train,
                validate=partial(evaluator.validate, run_page=run_page),
                folder=self.out,
                on_best=on_best,
                on_event=on_event,
                micro_tokens=size,
                time_plan=time_plan,
                process=process,
            )

    def measure_speed(self, model: Transformer, *, micro_tokens: int) -> float:
        """Train a few updates on this rank; return the target tokens of a second, of all ranks."""
        batch, events = self.recipe.batch, list[Event]()
        if model.embedding.weight.device.type == "cpu":  # whose speed depends little on the size
            batch = replace(batch, tokens=min(batch.tokens, MICRO_TOKENS))
        count = _TRIAL_UPDATES
        short = replace(
            self.recipe.train,
            updates=count,
            validate_every=count,
            warmup=1,
            decay=0.5,  # fits besides the warm-up, whatever that of the run is
            log_every=1,
            time="",
        )
        trial = self._replace(recipe=replace(self.recipe, batch=batch, train=short))
        started = time.monotonic()
        # The first pass over a batch compiles products of its shape, or allocates memory.
        while not events or time.monotonic() - started < _TRIAL_SECONDS:
            events.clear()
            with TemporaryDirectory() as folder:
                train(
                    model,
                    loader=trial.loader(micro_tokens),
                    config=short,
                    validate=lambda model: Validation(loss=1.0, bleu=0.0, signature=""),
                    folder=Path(folder),
                    on_best=lambda model, scored: None,
                    on_event=events.append,
                    micro_tokens=micro_tokens,
                )
        speeds = [event.tokens_per_second for event in events if isinstance(event, Progress)]
        # Without the first update: a large model's passes are not repeated.
        return self.process.world_size * median(speeds[1:] or speeds)

    def loader(self, micro_tokens: int) -> Loader:
        """Load this rank's share of every update's micro-batches."""
        store, seed = self.prepared.store, self.recipe.train.seed
        batch = replace(self.recipe.batch, micro_tokens=micro_tokens)
        return Loader(
            store,
            sampler=Sampler(
                store.lengths,
                config=batch,
                seed=seed,
                world=self.process.world_size,
                mixture=self.prepared.mixture(self.recipe.data),
            ),
            tokenizer=self.prepared.tokenizer,
            sampling=batch.subword_sampling,
            augment=self.recipe.augment,
            seed=seed,
            rank=self.process.rank,
        )

    def micro_tokens(self, model: Transformer, *, on_event: EventHandler) -> int:
        """The positions of a micro-batch: the recipe's number, or what rank 0 measures for all."""
        batch, store, process = self.recipe.batch, self.prepared.store, self.process
        if batch.micro_tokens != "auto":
            return batch.micro_tokens
        # Varied pairs and sampled segmentations are longer than the stored ones, up to the limit.
        varied = batch.subword_sampling > 0 or self.recipe.augment.active
        longest = store.metadata.max_pieces if varied else int(store.lengths.max())
        measure = partial(
            estimate_batch_size,
            model,
            longest=longest + 1,
            training=self.recipe.train,
            process=process,
        )
        device, size = model.embedding.weight.device, 0
        if process.is_rank_zero:
            size = load_or_measure_batch_size(self.out, device, measure=measure, on_event=on_event)
        return int(process.broadcast_from_rank_zero(float(size)))
