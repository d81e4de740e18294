"""Run a recipe: prepare → train → average → evaluate → bundle.

Everything a run makes is in its folder, and each part is written atomically, so a run that was
stopped anywhere can be resumed:

    recipe.toml        every setting of the run
    prepared/          tokenizer, encoded training pairs, validation and test text, what was
                       dropped, and the model to start from where there is one
    checkpoints/       the last few, to resume from and to average
    micro_tokens.json  the measured micro-batch size of batch.micro_tokens = "auto"
    metrics.jsonl      loss, speed and validations, a line each
    report.html        curves, translations and attention, rewritten at each validation
    best/              the bundle with the lowest validation loss
    results.json       scores with their signatures, and hypotheses.* with the text they are of
    model/             the bundle to ship; written last, so a run that has it is finished
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple
from warnings import warn

import torch

from transduce.bundle.averaging import average_weights
from transduce.bundle.bundle import CONFIG, Bundle, Provenance
from transduce.config import Recipe, differences, load_recipe, to_toml
from transduce.data.config import MICRO_TOKENS, Languages
from transduce.data.corpus import Pair
from transduce.data.loader import Loader
from transduce.data.sampler import Sampler, target_tokens, updates_per_epoch
from transduce.data.tokenizer import Tokenizer, without_tag
from transduce.evaluation.metrics import Perplexity, Score, bleu, chrf
from transduce.evaluation.perplexity import evaluate_perplexity
from transduce.evaluation.scoring import (
    EvaluationResult,
    RunResult,
    ScoringOptions,
    describe_decoding,
    fit_confidence,
    score_lines,
    translate_pairs,
    translation_texts,
)
from transduce.inference.translator import Translation
from transduce.io.atomic_folder import atomic_file, check_folder, recover_interrupted
from transduce.io.lock import LOCK_FILE, exclusive_lock
from transduce.io.machine import commit, keep_freed_memory, peak_memory
from transduce.model.transformer import Transformer
from transduce.pipeline.defaults import NO_PLAN, EpochPlan, describe_updates, schedule_plan
from transduce.pipeline.finetune import StartModel
from transduce.pipeline.fit_time import Durations, describe_plan, fit_time, measure_evaluation
from transduce.pipeline.length_penalty import propose_alpha
from transduce.pipeline.prepare import (
    Prepared,
    PreparedDirection,
    check_positions,
    corpus_sha256,
    is_up_to_date,
    open_prepared,
    prepare,
)
from transduce.pipeline.run_page import RunPage
from transduce.search.config import SearchConfig
from transduce.train.checkpoint import EMA_WEIGHTS, WEIGHTS, list_checkpoints, load_weights
from transduce.train.distributed import SINGLE_PROCESS, Process, compute_device, process_group
from transduce.train.events import Event, EventHandler, LogMessage, Progress, describe_duration
from transduce.train.loop import TrainResult, Validation, train
from transduce.train.memory import estimate_batch_size, load_or_measure_batch_size
from transduce.train.precision import check_compiler, choose_precision
from transduce.train.time_plan import TimePlan
from transduce.train.trackers import check_trackers, trackers

_MACHINE = frozenset(
    {
        *("train.device", "train.intra_op_threads", "train.fsdp", "train.log_to"),
        *("train.precision", "train.keep_checkpoints", "batch.micro_tokens"),
    }
)
"""Settings of the machine, not of what is learned: a resumed run may change them."""

_TRIAL_UPDATES = 4  # of a dry run

_CORPUS = ("data.", "tokenizer.", "augment.", "train.seed")
"""Settings that preparing depends on."""


class _Candidate(NamedTuple):
    """Weights, and their translations of the validation pairs."""

    model: Transformer
    name: str
    translations: tuple[Translation, ...]
    bleu: Score
    chrf: Score


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
        recipe: what to run.
        out: the run's folder; it may hold what `prepare_run` wrote.
        resume: continue the run that `out` holds, or begin one if it holds none.
        start: the model to start from, which the recipe must fit (`adopt_model`); None: random.
        plan: sets the recipe's updates once the corpus is prepared.
        started: when the time of `train.time` began, of `time.monotonic()`; None: now.
        on_event: called with each event.

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
        else:
            on_event = _ignore
        if process.broadcast_from_rank_zero(1.0 if prepared is None else 0.0):
            return RunResult.read(out / "results.json")
        if planned:  # rank 0 wrote what the others need
            recipe = load_recipe(out / "recipe.toml")
        run = _Run(recipe, out, prepared or open_prepared(out), process, on_event)
        threads = recipe.train.intra_op_threads
        with compute_device(device=recipe.train.device, threads=threads, process=process) as device:
            run, time_plan = run.fit_time(device, plan=fitting, started=started)
            model = run.initial_model(device)
            run.announce(model)
            trained = run.train(model, time_plan=time_plan, started=started)
            process.on_rank_zero(partial(run.finish, trained))
        return RunResult.read(out / "results.json")


def dry_run(
    recipe: Recipe,
    *,
    start: StartModel | None = None,
    plan: EpochPlan | None = None,
    on_event: EventHandler,
) -> str:
    """Describe what a run would take; a few updates are trained in a temporary folder.

    Args:
        recipe: what would be run.
        start: the model to start from.
        plan: as of `run_recipe`.
        on_event: called with each event of preparing.

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
        run = _Run(load_recipe(out / "recipe.toml"), out, prepared, alone, on_event)
        run, time_plan = run.fit_time(device, plan=plan or NO_PLAN, started=started)
        model = run.initial_model(device)
        run.announce(model)
        if time_plan:
            return f"{describe_plan(run.recipe, time_plan)}; nothing was written"
        target_tokens_per_second = run.measure_speed(model)
    recipe, per_epoch = run.recipe, _updates_per_epoch(run.recipe, prepared)
    tokens = recipe.train.updates * _epoch_tokens(recipe, prepared) / per_epoch
    gpu = device.type == "cuda"
    peak = torch.cuda.max_memory_allocated(device) if gpu else peak_memory()
    memory = f"; {peak / 1e9:.1f} GB of {'GPU ' * gpu}memory" if peak else ""
    return (
        f"training would take {describe_duration(tokens / target_tokens_per_second)} "
        f"({target_tokens_per_second:,.0f} tokens/s), not counting validations and the "
        f"evaluation{memory}; nothing was written"
    )


def carry_out(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    start: StartModel | None = None,
    tell: EventHandler,
) -> RunResult:
    """Former name of `run_recipe`.

    Args:
        recipe: what to run.
        out: the run's folder.
        resume: continue the run that `out` holds.
        start: the model to start from.
        tell: now `on_event`.
    """
    warn("transduce.carry_out is now called run_recipe", DeprecationWarning, stacklevel=2)
    return run_recipe(recipe, out, resume=resume, start=start, on_event=tell)


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
    device = process.find_device(recipe.train.device)
    if recipe.train.compile:
        check_compiler(device)
    check_trackers(recipe.train.log_to)
    prepared = prepare_run(recipe, out, resume=resume, start=start, plan=plan, on_event=on_event)
    check_positions(recipe, prepared)
    return prepared


def _ignore(event: Event) -> None:
    """The event handler of all ranks but 0."""


def has_begun(out: Path) -> bool:
    """Whether a folder holds a run whose training has started."""
    return any((out / name).exists() for name in ("metrics.jsonl", "checkpoints", "model"))


def check_output_folder(recipe: Recipe, out: Path, *, resume: bool) -> None:
    """Refuse a folder that this recipe's run cannot be written to.

    Args:
        recipe: of the run.
        out: the run's folder.
        resume: whether to continue the run that it holds, if any.

    Raises:
        ValueError: one line that says what to do instead.
    """
    file = out / "recipe.toml"
    if resume and not file.is_file():
        if has_begun(out):
            raise ValueError(f"{file} is missing: put it back, or name another folder with --out")
        if not recipe.data.files:
            raise ValueError(
                f"{out} holds no run to resume: name its folder with --out, or a corpus to begin"
            )
    if not resume and has_begun(out):
        raise ValueError(
            f"{out} already holds a run: continue it with --resume, "
            f"or name another folder with --out"
        )
    # What a run that was killed before it had its recipe.toml may leave.
    allowed = ("prepared", ".prepared.", ".recipe.toml.", LOCK_FILE)
    held = () if file.is_file() or not out.is_dir() else out.iterdir()
    if any(not path.name.startswith(allowed) for path in held):
        raise ValueError(f"{out} holds other files: name another folder with --out")
    if not (resume and file.is_file()):
        return
    held = load_recipe(file)
    if key := _other_setting(held, recipe, out):
        raise ValueError(
            f"{key} differs from that of the run in {out}: resume with the settings of {file}, "
            f"or start a new run with another --out"
        )
    if (trained := _trained_recipe(out)) and (key := _other_setting(trained, recipe, out)):
        raise ValueError(
            f"{key} in {file} differs from what {out} was trained with: change it back, or start a "
            f"new run with another --out"
        )


def _other_setting(first: Recipe, second: Recipe, out: Path) -> str:
    """A setting that a run cannot change when it is resumed; empty if there is none."""
    free = set(_MACHINE)
    if not (out / "model").exists():
        free |= {"train.updates"} if second.train.updates > first.train.updates else set()
        free |= {"train.time"} if first.train.time and second.train.time else set()
    return next((key for key in differences(first, second) if key not in free), "")


def _trained_recipe(out: Path) -> Recipe | None:
    """The recipe that best/ was trained with, which nobody edits by hand; None if it is lost."""
    try:
        config = json.loads((out / "best" / CONFIG).read_bytes())
        with TemporaryDirectory() as folder:
            file = Path(folder) / "recipe.toml"
            file.write_text(config["provenance"]["recipe"], encoding="utf-8")
            return load_recipe(file)
    except (OSError, ValueError, TypeError, LookupError):
        return None


def prepare_run(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    start: StartModel | None = None,
    vocabulary: Tokenizer | None = None,
    plan: EpochPlan | None = None,
    on_event: EventHandler,
) -> Prepared:
    """Prepare the corpus in a run's folder, unless it is prepared and up to date.

    Args:
        recipe: of the run.
        out: the run's folder.
        resume: keep a prepared corpus even if the corpus files are gone or changed.
        start: the model to start from.
        vocabulary: used in place of one that would be trained.
        plan: sets the updates in recipe.toml by the prepared corpus.
        on_event: called with each event.

    Raises:
        ValueError: if the corpus cannot be used; then nothing is left behind.
    """
    file = out / "recipe.toml"
    if recover_interrupted(out / "prepared") and file.is_file():
        changed = [k for k in differences(load_recipe(file), recipe) if k.startswith(_CORPUS)]
        if resume or (not changed and is_up_to_date(recipe, out, start=start)):
            try:
                prepared = open_prepared(out)
            except ValueError as error:
                on_event(LogMessage(f"{_fault(error)}: preparing it again"))
                return _prepare_again(
                    recipe, out, start=start, vocabulary=vocabulary, on_event=on_event
                )
            on_event(LogMessage(f"the corpus is prepared already, in {out / 'prepared'}"))
            if start and start.sha256 not in prepared.started_from.values():
                was = ", ".join(prepared.started_from) or "random weights"
                raise ValueError(f"the run in {out} started from {was}: leave --from out")
            _write_recipe(file, recipe, prepared, plan=plan)
            return prepared
    try:
        prepared = prepare(recipe, out, start=start, vocabulary=vocabulary, on_event=on_event)
    except BaseException:
        if out.is_dir() and not any(out.iterdir()):
            out.rmdir()
        raise
    _write_recipe(file, recipe, prepared, plan=plan)
    return prepared


def _write_recipe(
    file: Path, recipe: Recipe, prepared: Prepared, *, plan: EpochPlan | None
) -> None:
    """Write the recipe, its updates planned by the prepared corpus."""
    if plan:
        recipe = plan.schedule(recipe, updates_per_epoch=_updates_per_epoch(recipe, prepared))
    _write(file, to_toml(recipe))


def _updates_per_epoch(recipe: Recipe, prepared: Prepared) -> int:
    return updates_per_epoch(_epoch_tokens(recipe, prepared), recipe.batch)


def _epoch_tokens(recipe: Recipe, prepared: Prepared) -> int:
    """Target tokens of an epoch."""
    mixture, lengths = prepared.mixture(recipe.data.temperature), prepared.store.lengths
    return mixture.tokens(lengths) if mixture else target_tokens(lengths)


def _prepare_again(
    recipe: Recipe,
    out: Path,
    *,
    start: StartModel | None,
    vocabulary: Tokenizer | None,
    on_event: EventHandler,
) -> Prepared:
    """Replace a damaged prepared corpus by one of the same text and vocabulary.

    Raises:
        ValueError: if training has begun, and the corpus or what it started from is not the same.
    """
    if list_checkpoints(out / "checkpoints"):
        best, lost = Bundle.load(out / "best"), f"{out / 'prepared'} is damaged, and"
        if best.provenance.data_sha256 != corpus_sha256(recipe):
            raise ValueError(f"{lost} the corpus changed since: put back the one or the other")
        started_from = {start.name: start.sha256} if start else {}
        if set(best.provenance.started_from.values()) != set(started_from.values()):
            names = ", ".join(best.provenance.started_from) or "no model"
            raise ValueError(f"{lost} the run started from {names}: name it with --from")
        vocabulary = best.tokenizer
    return prepare(recipe, out, start=start, vocabulary=vocabulary, on_event=on_event)


class _Run(NamedTuple):
    """A run whose corpus is prepared: what its stages share."""

    recipe: Recipe
    out: Path
    prepared: Prepared
    process: Process
    on_event: EventHandler

    def initial_model(self, device: torch.device) -> Transformer:
        """The model before the first update, on its device."""
        keep_freed_memory()
        return initial_model(self.recipe, self.prepared).to(device)

    def announce(self, model: Transformer) -> None:
        """Report the run's length, and the model's size, device and precision."""
        per_epoch = _updates_per_epoch(self.recipe, self.prepared)
        text = describe_updates(self.recipe.train.updates, per_epoch=per_epoch)
        self.on_event(LogMessage(text))
        device, processes = model.embedding.weight.device, self.process.world_size
        several = f", in {processes} processes" if processes > 1 else ""
        self.on_event(LogMessage(f"{model.size:,} parameters, on {device}{several}"))
        precision = choose_precision(self.recipe.train, device)
        if precision.reason:
            text = f"computing in {precision.name}: {precision.reason} (train.precision)"
            self.on_event(LogMessage(text))

    def fit_time(
        self, device: torch.device, *, plan: EpochPlan, started: float
    ) -> "tuple[_Run, TimePlan | None]":
        """Plan the updates by `train.time`; a run that has a checkpoint has its plan there."""
        recipe, file = self.recipe, self.out / "recipe.toml"
        if not recipe.train.time:
            return self, None
        if list_checkpoints(self.out / "checkpoints"):
            return self, TimePlan(updates=recipe.train.updates)
        plans: list[TimePlan] = []

        def measure() -> None:
            model = self.initial_model(device)
            per_update = target_tokens(self.prepared.store.lengths) / _updates_per_epoch(
                recipe, self.prepared
            )
            durations = Durations(
                per_update / self.measure_speed(model),
                *measure_evaluation(
                    recipe,
                    self.prepared.validation,
                    self.prepared.test,
                    translate=lambda pairs, search: self.translate(model, pairs, search=search),
                    perplexity=partial(self.perplexity, model),
                ),
            )
            elapsed = time.monotonic() - started
            fitted, time_plan = fit_time(recipe, durations, elapsed=elapsed, plan=plan)
            _write(file, to_toml(fitted))
            plans.append(time_plan)
            self.on_event(LogMessage(describe_plan(fitted, time_plan)))

        self.process.on_rank_zero(measure)
        run = self._replace(recipe=load_recipe(file))
        return run, plans[0] if plans else TimePlan(updates=run.recipe.train.updates)

    def train(
        self, model: Transformer, *, time_plan: TimePlan | None, started: float
    ) -> TrainResult:
        """Train in place, validating on loss and greedy BLEU; best/ follows the lowest loss.

        Args:
            model: in its initial weights.
            time_plan: under `train.time`.
            started: when this session's time began.
        """
        recipe, process, pairs = self.recipe, self.process, self.prepared.validation
        greedy = replace(recipe.search, beam=1)
        run_page = self.page(model)

        def validate(model: Transformer) -> Validation:
            hypotheses = translation_texts(
                self.translate(model, pairs, search=greedy, retry_loops=False)  # for speed
            )
            score, characters = recipe_bleu(recipe, hypotheses, pairs), self.chrf(hypotheses, pairs)
            measured = self.perplexity(model, pairs)
            if self.prepared.directions:
                self.on_event(LogMessage(self.greedy_by_direction(hypotheses)))
            return Validation(
                loss=measured.per_token,
                bleu=score.value,
                signature=score.signature,
                chrf=characters.value,
                accuracy=measured.accuracy,
                translations=tuple(hypotheses[index] for index in run_page.shown_pairs),
                attention=run_page.trace(model),
            )

        best = self.out / "best"
        if process.is_rank_zero and recover_interrupted(best) and (fault := _damage(best)):
            self.on_event(LogMessage(f"{fault}: deleted, and made again"))
            shutil.rmtree(best)

        def on_best(model: Transformer, scored: Validation) -> None:
            scores = {
                "validation.loss": scored.loss,
                "validation.bleu_greedy": scored.bleu,
                "validation.chrf_greedy": scored.chrf,
            }
            _as_bundle(recipe, model, prepared=self.prepared, scores=scores).save(best)

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
                validate=validate,
                folder=self.out,
                on_best=on_best,
                on_event=on_event,
                micro_tokens=size,
                time_plan=time_plan,
                process=process,
            )

    def page(self, model: Transformer) -> RunPage:
        """The page that shows the run of a model."""
        return RunPage(
            out=self.out,
            recipe=self.recipe,
            prepared=self.prepared,
            parameters=model.size,
            device=str(model.embedding.weight.device),
        )

    def greedy_by_direction(self, hypotheses: Sequence[str]) -> str:
        """Format the BLEU of greedy translations of the validation pairs, by direction."""
        pairs = self.prepared.validation
        scores: list[str] = []
        for part, s in self.spans("validation"):
            score = recipe_bleu(self.recipe, hypotheses[s], pairs[s], language=part.target)
            scores.append(f"{part} {score.value:.2f}")
        return f"BLEU by direction: {', '.join(scores)}"

    def spans(
        self, name: Literal["validation", "test"]
    ) -> Iterator[tuple[PreparedDirection, slice]]:
        """Each direction that has pairs in a set, and where they are."""
        start = 0
        for part in self.prepared.directions:
            count = part.validation_pairs if name == "validation" else part.test_pairs
            if count:
                yield part, slice(start, start + count)
            start += count

    def measure_speed(self, model: Transformer) -> float:
        """Train a few updates, and return the target tokens of a second."""
        batch, events = self.recipe.batch, list[Event]()
        if model.embedding.weight.device.type == "cpu":  # whose speed depends little on the size
            batch = replace(batch, tokens=min(batch.tokens, MICRO_TOKENS))
        count = _TRIAL_UPDATES
        short = replace(
            self.recipe.train, updates=count, validate_every=count, warmup=1, log_every=1, time=""
        )
        trial = self._replace(recipe=replace(self.recipe, batch=batch, train=short))
        size = trial.micro_tokens(model, on_event=self.on_event)
        with TemporaryDirectory() as folder:
            train(
                model,
                loader=trial.loader(size),
                config=short,
                validate=lambda model: Validation(loss=1.0, bleu=0.0, signature=""),
                folder=Path(folder),
                on_best=lambda model, scored: None,
                on_event=events.append,
                micro_tokens=size,
            )
        speeds = [event.tokens_per_second for event in events if isinstance(event, Progress)]
        return median(speeds[1:] or speeds)  # the first update compiles, or allocates memory

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
                mixture=self.prepared.mixture(self.recipe.data.temperature),
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

    def finish(self, trained: TrainResult) -> None:
        """Average checkpoints, select the best weights, score them, and save the bundle."""
        test = " and test" * bool(self.prepared.test)
        text = f"training is done; selecting weights, and evaluating on validation{test} text"
        self.on_event(LogMessage(text))
        selected = self.select_weights(trained)
        self.on_event(LogMessage(selected.name))
        search, selected = self.tune_length_penalty(selected)
        result = self._replace(recipe=replace(self.recipe, search=search)).evaluate(
            selected, trained
        )
        scores = _bundle_scores(result)
        bundle = _as_bundle(self.recipe, selected.model, prepared=self.prepared, scores=scores)
        bundle.search = search
        bundle.confidence = fit_confidence(
            selected.translations, self.prepared.validation, tokenizer=self.prepared.tokenizer
        )
        bundle.save(self.out / "model")
        self.page(selected.model).write(result)

    def select_weights(self, trained: TrainResult) -> _Candidate:
        """Select on validation: the checkpoint average, the best checkpoint, or the EMA."""
        model, ema, pairs = trained.model.eval(), trained.ema_model, self.prepared.validation
        model.load_state_dict(average_weights([load_weights(path) for path in trained.checkpoints]))
        count = len(trained.checkpoints)
        name = (
            f"the average of the last {count} checkpoints" if count > 1 else "the last checkpoint"
        )
        candidates = {name: model}
        if ema:
            candidates["the running mean of the weights"] = ema
        if not ema or trained.state.best_update != trained.state.update:
            kind = "running mean" if ema else "single checkpoint"
            if single := self.best_model(trained, model.embedding.weight.device):
                candidates[f"the best {kind} (update {trained.state.best_update})"] = single
        scored = [
            self.candidate(candidate, name, search=self.recipe.search)
            for name, candidate in candidates.items()
        ]
        return _select(scored, perplexity=lambda model: self.perplexity(model, pairs).perplexity)

    def candidate(self, model: Transformer, name: str, *, search: SearchConfig) -> _Candidate:
        """Translate the validation pairs and score that."""
        pairs = self.prepared.validation
        translations = self.translate(model, pairs, search=search)
        texts = translation_texts(translations)
        return _Candidate(
            model,
            name,
            translations,
            recipe_bleu(self.recipe, texts, pairs),
            self.chrf(texts, pairs),
        )

    def tune_length_penalty(self, selected: _Candidate) -> tuple[SearchConfig, _Candidate]:
        """Choose the length penalty on validation, where the recipe leaves it to that.

        A short list proposes another exponent, which is taken only if all validation pairs, as
        `translate` translates them, score higher with it.
        """
        recipe, pairs, model = self.recipe, self.prepared.validation, selected.model
        if not recipe.train.tune_length_penalty:
            return recipe.search, selected

        def measure(texts: Sequence[str], some: Sequence[Pair]) -> tuple[float, float]:
            score = recipe_bleu(recipe, texts, some)
            return 0.0 if score.note else round(score.value, 2), self.chrf(texts, some).value

        alpha = propose_alpha(
            model, self.prepared.tokenizer, pairs=pairs, search=recipe.search, measure=measure
        )
        if alpha == recipe.search.alpha:
            return recipe.search, selected
        search = replace(recipe.search, alpha=alpha)
        tuned = self.candidate(model, f"length penalty {alpha:g}", search=search)
        usual = selected._replace(name=f"length penalty {recipe.search.alpha:g}")
        winner = _select([usual, tuned], perplexity=lambda model: 0.0)
        self.on_event(LogMessage(f"{winner.name} (search.alpha)"))
        if winner.translations is tuned.translations:
            return search, tuned._replace(name=selected.name)
        return recipe.search, selected

    def best_model(self, trained: TrainResult, device: torch.device) -> Transformer | None:
        """The model in best/; if that was lost, the same from its checkpoint, or None."""
        best, update = self.out / "best", trained.state.best_update
        # A damaged one was deleted when training began.
        if not recover_interrupted(best):
            checkpoint = self.out / "checkpoints" / f"update-{update:08d}"
            if not checkpoint.is_dir() or _damage(checkpoint):
                text = f"{best} and the checkpoint of update {update} are lost: left out"
                self.on_event(LogMessage(text))
                return None
            model = _model_of(self.recipe, self.prepared)
            name = EMA_WEIGHTS if trained.ema_model else WEIGHTS
            model.load_state_dict(load_weights(checkpoint, name=name))
            _as_bundle(self.recipe, model, prepared=self.prepared, scores={}).save(best)
        return Bundle.load(best, device=device).model

    def evaluate(self, selected: _Candidate, trained: TrainResult) -> RunResult:
        """Score the selected weights; writes results.json and hypotheses.*."""
        model, prepared, language = selected.model, self.prepared, self.recipe.languages.target
        test: EvaluationResult | None = None
        validation = self.score(
            model, prepared.validation, selected.translations, f"hypotheses.validation.{language}"
        )
        sets = {"validation": (prepared.validation, selected.translations)}
        if prepared.test:
            translations = self.translate(model, prepared.test, search=self.recipe.search)
            test = self.score(model, prepared.test, translations, f"hypotheses.{language}")
            sets["test"] = prepared.test, translations
        directions: dict[str, EvaluationResult] = {}
        for name, (pairs, translations) in sets.items():
            for part, s in self.spans("test" if name == "test" else "validation"):
                kind = "" if part.pairs else " (zero-shot)"
                own = replace(
                    self.recipe, languages=Languages(source=part.source, target=part.target)
                )
                directions[f"{name} {part}{kind}"] = self._replace(recipe=own).score(
                    model, pairs[s], translations[s], f"hypotheses.{name}.{part}"
                )
        result = RunResult(
            recipe=self.recipe.name,
            chosen=selected.name,
            updates=trained.state.update,
            seconds=trained.state.seconds,
            parameters=model.size,
            validation=validation,
            test=test,
            directions=directions,
        )
        _write(self.out / "results.json", result.to_json())
        return result

    def score(
        self,
        model: Transformer,
        pairs: Sequence[Pair],
        translations: Sequence[Translation],
        name: str,
    ) -> EvaluationResult:
        """Score the translations of some pairs, and write them to the file of that name."""
        hypotheses, loss = translation_texts(translations), self.perplexity(model, pairs)
        scores = score_lines(
            hypotheses,
            [pair.target for pair in pairs],
            sources=[without_tag(pair.source) for pair in pairs],
            options=ScoringOptions(
                language=self.recipe.languages.target,
                tokenize=self.recipe.score.bleu_tokenize,
                lower_case=self.recipe.tokenizer.lower_case,
            ),
        )
        _write(self.out / name, "".join(f"{text}\n" for text in hypotheses))
        return EvaluationResult(
            pairs=len(pairs),
            loss=loss.per_token,
            perplexity=loss.perplexity,
            decoding=describe_decoding(self.recipe.search, translations),
            scores=scores,
        )

    def translate(
        self,
        model: Transformer,
        pairs: Sequence[Pair],
        *,
        search: SearchConfig,
        retry_loops: bool = True,
    ) -> tuple[Translation, ...]:
        return translate_pairs(
            model, self.prepared.tokenizer, pairs=pairs, search=search, retry_loops=retry_loops
        )

    def chrf(self, hypotheses: Sequence[str], pairs: Sequence[Pair]) -> Score:
        references = [pair.target for pair in pairs]
        return chrf(hypotheses, references, lower_case=self.recipe.tokenizer.lower_case)

    def perplexity(self, model: Transformer, pairs: Sequence[Pair]) -> Perplexity:
        return evaluate_perplexity(
            model, self.prepared.tokenizer, pairs=pairs, micro_tokens=self.recipe.batch.positions
        )


def initial_model(recipe: Recipe, prepared: Prepared) -> Transformer:
    """Return the model before the first update: random weights, or those that it starts from."""
    torch.manual_seed(recipe.train.seed)
    model = _model_of(recipe, prepared)
    if prepared.start:
        model.load_state_dict(Bundle.load(prepared.start).model.state_dict())
    return model


def average_to_bundle(checkpoints: Sequence[Path], out: Path) -> None:
    """Average training checkpoints of one run, or bundles, into a bundle.

    Raises:
        ValueError: if they are damaged or not of one model; one line that names the folder.
    """
    if not all((path / "state.json").is_file() for path in checkpoints):
        bundles = [Bundle.load(path) for path in checkpoints]
        first = bundles[0]
        if {bundle.tokenizer.checksum for bundle in bundles} != {first.tokenizer.checksum}:
            raise ValueError("the bundles have different tokenizers: average bundles of one run")
        first.model.load_state_dict(
            average_weights([bundle.model.state_dict() for bundle in bundles])
        )
        replace(first, provenance=replace(first.provenance, scores={})).save(out)
        return
    for path in checkpoints:
        check_folder(path, expected="a training checkpoint")
    runs = {path.resolve().parent.parent for path in checkpoints}
    if len(runs) > 1:
        raise ValueError("the checkpoints are of different runs: average those of one run")
    recipe, prepared = load_recipe((run := runs.pop()) / "recipe.toml"), open_prepared(run)
    model = _model_of(recipe, prepared)
    model.load_state_dict(average_weights([load_weights(path) for path in checkpoints]))
    _as_bundle(recipe, model, prepared=prepared, scores={}).save(out)


def recipe_bleu(
    recipe: Recipe, hypotheses: Sequence[str], pairs: Sequence[Pair], *, language: str = ""
) -> Score:
    """Compute BLEU as the recipe has it.

    Args:
        recipe: names the target language, and perhaps a tokeniser.
        hypotheses: a translation of each pair.
        pairs: have the references.
        language: of the target, if it is not the recipe's.
    """
    return bleu(
        hypotheses,
        [pair.target for pair in pairs],
        language=language or recipe.languages.target,
        tokenize=recipe.score.bleu_tokenize,
        lower_case=recipe.tokenizer.lower_case,
    )


def _select(
    candidates: Sequence[_Candidate], *, perplexity: Callable[[Transformer], float]
) -> _Candidate:
    """Select by BLEU, ties by chrF2, then perplexity; the name says by what, and against what.

    BLEU does not decide where it is 0.00 for all, or the references are too short for its 4-grams.
    Of equals the first is selected.
    """
    blind = all(round(candidate.bleu.value, 2) == 0 for candidate in candidates)
    blind = blind or bool(candidates[0].bleu.note)
    measures: list[tuple[str, Callable[[_Candidate], float]]] = [
        ("chrF2", lambda candidate: candidate.chrf.value),
        ("perplexity", lambda candidate: -perplexity(candidate.model)),
    ]
    if not blind:
        measures.insert(0, ("BLEU", lambda candidate: candidate.bleu.value))
    while True:
        name, measure = measures.pop(0)
        values = [measure(candidate) for candidate in candidates]
        tied = [c for c, value in zip(candidates, values, strict=True) if value == max(values)]
        if len(tied) == 1 or not measures:
            break
        candidates = tied
    others = [
        f"{abs(value):.2f} of {candidate.name}"
        for value, candidate in zip(values, candidates, strict=True)
        if candidate is not tied[0]
    ]
    against = (others and f", against {' and '.join(others)}") or ""
    title = f"{tied[0].name}: {abs(max(values)):.2f} {name} on validation{against}"
    return tied[0]._replace(name=title)


def _model_of(recipe: Recipe, prepared: Prepared) -> Transformer:
    """A model of the recipe's shape; a small corpus may have fewer pieces than the recipe wants."""
    return Transformer(replace(recipe.model, vocab_size=prepared.tokenizer.vocab_size))


def _bundle_scores(finished: RunResult) -> dict[str, float]:
    """The scores as a bundle records them, by set, name and signature."""
    scores: dict[str, float] = {}
    results = {"validation": finished.validation, "test": finished.test, **finished.directions}
    for name, result in results.items():
        if result is not None:
            scores[f"{name} perplexity"] = result.perplexity
            scores |= {f"{name} {s.name} ({s.signature})": s.value for s in result.scores}
    return scores


def _as_bundle(
    recipe: Recipe, model: Transformer, *, prepared: Prepared, scores: Mapping[str, float]
) -> Bundle:
    return Bundle(
        model=model,
        tokenizer=prepared.tokenizer,
        languages=recipe.languages,
        search=recipe.search,
        directions=tuple(direction.pair for direction in recipe.data.trained),
        provenance=Provenance.current(
            commit=commit(),
            data_sha256=prepared.data_sha256,
            recipe=to_toml(recipe),
            scores=scores,
            started_from=prepared.started_from,
        ),
    )


def _damage(folder: Path) -> str:
    """What is wrong with a folder of the run; empty if it is intact."""
    try:
        check_folder(folder, expected="a part of this run")
    except ValueError as error:
        return _fault(error)
    return ""


def _fault(error: ValueError) -> str:
    """What is wrong with a folder, without the advice for one that cannot be made again."""
    return str(error).removesuffix(", copy it again")


def _write(file: Path, text: str) -> None:
    """Write a file atomically."""
    with atomic_file(file) as stream:
        stream.write(text.encode())
