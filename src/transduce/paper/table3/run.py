"""Train scaled-down rows of Table 3 on a corpus in the paper's regime.

Post-norm, Adam, equation (3), label smoothing, no averaging of checkpoints, a beam of 4. Every row
makes as many updates (the big one more, as in the paper) over the same sentences in the same
order, and the weights after the last update are what is scored. Nothing is chosen on the
validation set, which stands where newstest2013 stood. In the folder of a run:

    settings.json         what all rows share; only more updates may follow
    corpus/prepared/      tokenizer and encoded pairs, made once
    rows/C5-seed-1/       checkpoints to go on from, metrics.jsonl, and at the end outcome.json
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import torch
from pydantic import TypeAdapter, ValidationError

from transduce.config import Recipe, load_recipe
from transduce.data.corpus import Pair
from transduce.data.loader import Loader
from transduce.data.sampler import Sampler
from transduce.data.store import PREPARED_FOLDER
from transduce.evaluation.metrics import bleu
from transduce.evaluation.scoring import evaluate_perplexity, translate_pairs, translation_texts
from transduce.inference.translator import Extras, Translation, Translator
from transduce.io.atomic_folder import atomic_file, recover_interrupted
from transduce.io.lock import exclusive_lock
from transduce.io.machine import keep_freed_memory
from transduce.model.transformer import Transformer
from transduce.paper.table3.rows import Scale, parameters, scaled
from transduce.pipeline.prepare import (
    Prepared,
    check_positions,
    is_up_to_date,
    open_prepared,
    prepare,
)
from transduce.recipes import table3
from transduce.train.distributed import compute_device
from transduce.train.events import Event, EventHandler, LogMessage, Progress
from transduce.train.loop import Validation, train

_CHECKPOINTS: Final = 4
_MONITORED_LINES: Final = 100
"""Validation lines translated during training, for monitoring."""
_MARK: Final = "outcome.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What all rows of one table share.

    Raises:
        ValueError: if a number is below 1.
    """

    vocab_size: int = 2000
    tokens: int = 512
    """Target tokens of an update."""
    updates: int = 3600
    """Of every row but the big one; may be raised later, as equation (3) has no end."""
    warmup: int = 1000
    """Of equation (3), in every row."""
    big_times: int = 3
    """Updates of the big row as a multiple of the others', as in the paper."""
    width_divisor: int = 8
    depth_divisor: int = 2

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                option = name.replace("_", "-")
                raise ValueError(f"--{option} must be at least 1, not {value}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredRow:
    """Scores of a row on one set."""

    bleu: float
    signature: str
    nats: tuple[float, ...]
    """Negative log-probability of each reference, EOS included, in nats."""
    pieces: tuple[int, ...]
    """Tokens of each reference, EOS included."""
    hypotheses: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Result of a row with one seed: the content of outcome.json."""

    row: str
    seed: int
    parameters: int
    updates: int
    tokens: int
    """Target tokens learned from."""
    seconds: float
    """Of training and validation, over all runs."""
    validation: ScoredRow
    test: ScoredRow | None


class Job:
    """A row with a seed, its recipe and folder."""

    def __init__(self, row: table3.Row, seed: int, *, recipe: Recipe, folder: Path) -> None:
        """Create a job."""
        self.row = row
        self.seed = seed
        self.recipe = recipe
        self.folder = folder

    @property
    def done(self) -> Path:
        """The file that a row has once it is scored."""
        return self.folder / _MARK

    @property
    def finished(self) -> bool:
        """Whether it is scored after as many updates as it should make.

        Raises:
            ValueError: if it has made more.
        """
        if not self.done.is_file():
            return False
        made, wanted = _read(self.done).updates, self.recipe.train.updates
        if made > wanted:
            raise ValueError(
                f"{self.folder} has made {made:,} updates, more than {wanted:,}: raise --updates, "
                f"or name another folder by --out"
            )
        return made == wanted

    @property
    def weight(self) -> float:
        """About what it costs beside other rows: updates times weights that meet each token."""
        return float(self.recipe.train.updates * (parameters(self.recipe.model) + 500_000))


def measure(
    corpus: Path,
    out: Path,
    *,
    rows: Sequence[str],
    seeds: Sequence[int],
    settings: Settings,
    threads: int = 0,
    on_event: EventHandler,
) -> list[Outcome]:
    """Train unfinished rows and return the outcomes of the requested ones.

    Args:
        corpus: the folder of a corpus named as the recipe `multi30k` names it.
        out: the folder of the table. Existing rows are resumed.
        rows: names of rows, such as "base" and "C5".
        seeds: every row is trained with each of them.
        settings: what all rows share.
        threads: of one matrix product; 0 takes torch's choice.
        on_event: called with each event of the run.

    Returns:
        The outcomes in the order of the rows, then of the seeds.

    Raises:
        ValueError: if a row is unknown, or `out` was made with other settings or another corpus.
        FloatingPointError: if a row's loss becomes NaN.
    """
    jobs = [
        Job(
            row,
            seed,
            recipe=recipe_of(row, corpus, seed=seed, settings=settings, threads=threads),
            folder=out / "rows" / f"{row.name}-seed-{seed}",
        )
        for row in map(table3.find, rows)
        for seed in seeds
    ]
    with exclusive_lock(out):
        _keep_settings(out, settings)
        prepared = _prepared(jobs[0].recipe, out / "corpus", on_event=on_event)
        keep_freed_memory()
        clock = _Clock(jobs, on_event)
        for job in jobs:
            if not job.finished:
                clock.begin(job)
                outcome = _train_row(job, prepared, on_event=clock)
                with atomic_file(job.done) as stream:
                    stream.write(json.dumps(asdict(outcome), ensure_ascii=False).encode())
                clock.end(job, outcome)
    return [_read(job.done) for job in jobs]


def named_rows(text: str) -> tuple[str, ...]:
    """The rows that a text names: base first, without duplicates, in the paper's order.

    Args:
        text: names between commas or blanks; "all" is all of them, nothing is all but the big one.

    Raises:
        ValueError: for an unknown row.

    >>> named_rows("c5, base"), len(named_rows("")), len(named_rows("all"))
    (('base', 'C5'), 19, 20)
    """
    every = [row.name for row in table3.ROWS]
    if not text.strip():
        return tuple(name for name in every if name != "big")
    if text.strip() == "all":
        return tuple(every)
    wanted = {table3.find(name).name for name in text.replace(",", " ").split()}
    return tuple(name for name in every if name in wanted)


def named_seeds(text: str) -> tuple[int, ...]:
    """The seeds that a text names, between commas or blanks, each once.

    Raises:
        ValueError: for a text that names none.

    >>> named_seeds("1, 2")
    (1, 2)
    """
    words = text.replace(",", " ").split()
    if not words or not all(word.isdecimal() for word in words):
        raise ValueError(f"--seeds are whole numbers such as 1,2,3, not {text!r}")
    return tuple(dict.fromkeys(map(int, words)))


def recipe_of(
    row: table3.Row, corpus: Path, *, seed: int, settings: Settings, threads: int = 0
) -> Recipe:
    """Make a row's recipe for a corpus: the paper's regime, scaled.

    Args:
        row: the row.
        corpus: folder of the corpus.
        seed: of the weights and of the order of sentences.
        settings: shared by all rows.
        threads: of one matrix product; 0 takes torch's choice.

    Raises:
        ValueError: if the row cannot be scaled so.
    """
    full = load_recipe(f"{table3.PREFIX}{row.name.lower()}")
    corpus_recipe = load_recipe("multi30k")
    scale = Scale(settings.width_divisor, settings.depth_divisor)
    model = scaled(replace(full.model, vocab_size=settings.vocab_size), scale, row=row)
    updates = settings.updates * (settings.big_times if row.name == "big" else 1)
    return replace(
        full,
        languages=corpus_recipe.languages,
        data=replace(corpus_recipe.data, folder=str(corpus)),
        tokenizer=replace(full.tokenizer, vocab_size=settings.vocab_size),
        model=model,
        batch=replace(full.batch, tokens=settings.tokens),
        train=replace(
            full.train,
            updates=updates,
            warmup=settings.warmup,
            seed=seed,
            validate_every=-(-updates // _CHECKPOINTS),
            intra_op_threads=threads,
        ),
    )


def references(out: Path) -> Mapping[str, Sequence[str]]:
    """Read what the translations should be, by "validation" and "test"."""
    prepared = open_prepared(out / "corpus")
    sets = {"validation": prepared.validation, "test": prepared.test}
    return {name: [pair.target for pair in pairs] for name, pairs in sets.items()}


def _keep_settings(out: Path, settings: Settings) -> None:
    """Write the settings, or check that all but the updates are those of the rows there."""
    file, current = out / "settings.json", asdict(settings)
    if not file.is_file():
        with atomic_file(file) as stream:
            stream.write((json.dumps(current, indent=2) + "\n").encode())
        return
    stored = json.loads(file.read_text(encoding="utf-8"))
    for name, value in current.items():
        if name != "updates" and stored.get(name) != value:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"{out} holds rows with {option} {stored.get(name)}, not {value}: give that, or "
                f"name another folder by --out"
            )


def _prepared(recipe: Recipe, folder: Path, *, on_event: EventHandler) -> Prepared:
    """The corpus, prepared once for all rows."""
    if not recover_interrupted(folder / PREPARED_FOLDER):
        return prepare(recipe, folder, on_event=on_event)
    if not is_up_to_date(recipe, folder):
        raise ValueError(
            f"{folder / PREPARED_FOLDER} was made of another corpus than {recipe.data.folder}: "
            f"name that one by --corpus, or another folder by --out"
        )
    on_event(LogMessage(text=f"the corpus is prepared already, in {folder / PREPARED_FOLDER}"))
    return open_prepared(folder)


def _train_row(job: Job, prepared: Prepared, *, on_event: EventHandler) -> Outcome:
    """Train a row, or go on with it, and score the weights after its last update."""
    recipe, tokenizer = job.recipe, prepared.tokenizer
    check_positions(recipe, prepared)
    with compute_device(
        device=recipe.train.device, threads=recipe.train.intra_op_threads
    ) as device:
        torch.manual_seed(job.seed)
        shape = replace(recipe.model, vocab_size=tokenizer.vocab_size)
        model = Transformer(shape).to(device)
        sampler = Sampler(prepared.store.lengths, config=recipe.batch, seed=job.seed)
        trained = train(
            model,
            loader=Loader(prepared.store, sampler=sampler, tokenizer=tokenizer, seed=job.seed),
            config=recipe.train,
            validate=lambda model: _monitor(recipe, model, prepared=prepared),
            folder=job.folder,
            on_best=lambda model, validation: None,
            on_event=on_event,
        )
        model.eval()
        return Outcome(
            row=job.row.name,
            seed=job.seed,
            parameters=model.size,
            updates=trained.state.update,
            tokens=trained.state.tokens,
            seconds=trained.state.seconds,
            validation=_scored(recipe, model, prepared=prepared, pairs=prepared.validation),
            test=_scored(recipe, model, prepared=prepared, pairs=prepared.test)
            if prepared.test
            else None,
        )


def _monitor(recipe: Recipe, model: Transformer, *, prepared: Prepared) -> Validation:
    """The loss on the validation set, and the greedy BLEU of its first lines."""
    loss = evaluate_perplexity(model, prepared.tokenizer, pairs=prepared.validation)
    first = prepared.validation[:_MONITORED_LINES]
    greedy = replace(recipe.search, beam=1)
    translations = translate_pairs(model, prepared.tokenizer, pairs=first, search=greedy)
    score = bleu(
        translation_texts(translations),
        [pair.target for pair in first],
        language=recipe.languages.target,
    )
    some = f"{score.signature}, {len(first)} lines"
    return Validation(loss=loss.per_token, bleu=score.value, signature=some)


def _scored(
    recipe: Recipe, model: Transformer, *, prepared: Prepared, pairs: Sequence[Pair]
) -> ScoredRow:
    """Translate with the paper's beam and score the references."""
    sources, wanted = [pair.source for pair in pairs], [pair.target for pair in pairs]
    translator = Translator.from_parts(model, prepared.tokenizer, search=recipe.search)
    translations: Sequence[Translation] = translator.translate(
        sources, extras=Extras(retry_loops=False)
    )
    references_scored = translator.score(sources, wanted)
    score = bleu(translation_texts(translations), wanted, language=recipe.languages.target)
    return ScoredRow(
        bleu=score.value,
        signature=score.signature,
        nats=tuple(-round(sum(score.log_probs), 4) for score in references_scored),
        pieces=tuple(len(score.log_probs) for score in references_scored),
        hypotheses=translation_texts(translations),
    )


def _read(file: Path) -> Outcome:
    try:
        return TypeAdapter(Outcome).validate_json(file.read_bytes())
    except (OSError, ValidationError):
        raise ValueError(f"{file} is damaged: delete it, and the row is scored again") from None


class _Clock:
    """Forwards events with the time left for all rows."""

    def __init__(self, jobs: Sequence[Job], on_event: EventHandler) -> None:
        self._on_event = on_event
        self._jobs = jobs
        self._left = sum((job.weight for job in jobs if not job.finished), 0.0)
        self._seconds = self._worked = 0.0
        self._now, self._started = jobs[0], time.perf_counter()

    def begin(self, job: Job) -> None:
        """Report the next row and the time left."""
        number = self._jobs.index(job) + 1
        size = f"{parameters(job.recipe.model):,} parameters"
        left = f", about {self._later(self._left) / 60:.0f} min for all" if self._worked else ""
        name = f"row {job.row.name}, seed {job.seed} ({number} of {len(self._jobs)})"
        self._on_event(
            LogMessage(text=f"{name}: {job.row.differs or 'as the paper has it'}; {size}{left}")
        )
        self._now, self._started = job, time.perf_counter()
        self._left -= job.weight

    def end(self, job: Job, outcome: Outcome) -> None:
        """Update the estimated speed from a finished row."""
        self._seconds += outcome.seconds
        self._worked += job.weight
        score = outcome.validation
        perplexity = f"perplexity {perplexity_of(score):.2f}"
        self._on_event(LogMessage(text=f"row {job.row.name}: {perplexity}, BLEU {score.bleu:.2f}"))

    def __call__(self, event: Event) -> None:
        """Pass an event on."""
        if isinstance(event, Progress) and event.update:
            if self._worked:
                later = self._later(self._left)
            else:  # this row is all that is known
                spent = time.perf_counter() - self._started
                total = spent * event.updates / event.update
                later = total * self._left / self._now.weight
            event = replace(event, seconds_left=event.seconds_left + later)
        self._on_event(event)

    def _later(self, weight: float) -> float:
        return self._seconds / self._worked * weight


def perplexity_of(scored: ScoredRow) -> float:
    """The perplexity of a set, per piece."""
    nats = torch.tensor(scored.nats, dtype=torch.float64).sum() / sum(scored.pieces)
    return float(nats.exp())
