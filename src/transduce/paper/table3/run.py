"""Train scaled-down rows of Table 3 on a corpus in the paper's regime.

Post-norm, Adam, equation (3), label smoothing, no checkpoint averaging, a beam of 4. All rows see
the same sentences in the same order until their loss on the validation set, which takes the place
of newstest2013, stops falling; the weights of its least value are scored. The output folder holds:

    corpus/               the training pairs that are used, and in prepared/ the tokenizer and ids
    rows/C5-seed-1/       checkpoints to resume from, the best weights, and metrics.jsonl
    outcomes/             what is finished, some hundred bytes a row and seed: C5-seed-1.json; and
                          settings.json, shared by all rows

With a copy of `outcomes` another machine goes on with the rows that are missing.
"""

import hashlib
import itertools
import math
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Final, NamedTuple

import torch

from transduce.bundle.torch_tensors import write_tensors
from transduce.config import Recipe, load_recipe
from transduce.data.corpus import Pair, read_pairs
from transduce.data.loader import Loader
from transduce.data.sampler import Sampler
from transduce.data.store import PREPARED_FOLDER
from transduce.evaluation.metrics import bleu
from transduce.evaluation.perplexity import evaluate_perplexity
from transduce.evaluation.scoring import translation_texts
from transduce.inference.translator import Translator
from transduce.io.atomic_folder import recover_interrupted
from transduce.io.lock import exclusive_lock
from transduce.io.machine import commit, keep_freed_memory, processor_name
from transduce.io.records import read_record
from transduce.model.config import ModelConfig
from transduce.model.numpy_transformer import parameter_count
from transduce.model.transformer import Transformer
from transduce.paper.report import json_text, write_files
from transduce.pipeline.prepare import is_up_to_date, prepare, write_pairs
from transduce.pipeline.prepared import Prepared, check_positions, open_prepared
from transduce.recipes import table3
from transduce.train.checkpoint import load_weights
from transduce.train.distributed import compute_device
from transduce.train.events import Event, EventHandler, LogMessage, Progress
from transduce.train.loop import Validation, train

OUTCOMES: Final = "outcomes"
"""The folder of finished rows in the output folder."""
_LEAST_D_K: Final = 16
"""Keys of fewer numbers are no heads any more."""
_BEST: Final = "best.safetensors"
"""The weights with the least validation loss so far."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Settings shared by all rows.

    Raises:
        ValueError: if a number is below 1.
    """

    pairs: int = 5000
    """Training pairs, the first of the corpus; few, so that rows are at their best in minutes."""
    vocab_size: int = 2000
    tokens: int = 512
    """Target tokens per update."""
    updates: int = 20_000
    """Limit of every row, which its validation loss should end long before."""
    patience: int = 5
    """Validations without a smaller loss after which a row ends."""
    validate_every: int = 150
    """Updates between validations, each of which also writes a checkpoint."""
    warmup: int = 2000
    """Warmup updates of equation (3); with fewer its peak is higher, and base ends worse."""
    width_divisor: int = 4
    depth_divisor: int = 2
    lines: int = 1_000_000
    """Lines of each set that are scored at most."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, int) and value < 1:
                option = name.replace("_", "-")
                raise ValueError(f"--{option} must be at least 1, not {value}")


_SET_BY_QUICK: Final = ("validate_every", "lines")
"""Settings that no other option changes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSettings(Settings):
    """The content of `outcomes/settings.json`."""

    corpus_sha256: str = ""
    """Of the text that rows are trained on and scored with; empty if it is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredRow:
    """Scores of a row on one set."""

    bleu: float
    signature: str
    perplexity: float
    """Per piece, EOS included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Result of a row with one seed: the content of its file in `outcomes`."""

    row: str
    seed: int
    parameters: int
    updates: int
    """Made until training ended."""
    best_update: int
    """Whose weights are scored."""
    tokens: int
    """Target tokens seen in training."""
    seconds: float
    """Training and validation time, summed over resumed runs."""
    processor: str
    commit: str
    validation: ScoredRow
    test: ScoredRow | None


class Job(NamedTuple):
    """A row with a seed, its recipe and the output folder."""

    row: table3.Row
    seed: int
    recipe: Recipe
    out: Path

    @property
    def folder(self) -> Path:
        """Where it is trained."""
        return self.out / "rows" / f"{self.row.name}-seed-{self.seed}"

    @property
    def result(self) -> Path:
        """The file that is written once the row is scored."""
        return self.out / OUTCOMES / f"{self.folder.name}.json"

    @property
    def finished(self) -> bool:
        """Whether the row is scored."""
        return self.result.is_file()

    def outcome(self) -> Outcome:
        """Read the result."""
        remedy = "delete it, and the row is scored again"
        return read_record(self.result, Outcome, remedy=remedy)

    @property
    def cost(self) -> int:
        """Approximate relative cost: the weights that each token passes."""
        return parameter_count(self.recipe.model) + 500_000


def measure(
    corpus: Path,
    out: Path,
    *,
    rows: Sequence[str],
    seeds: Sequence[int],
    settings: Settings,
    threads: int = 0,
    train_rows: bool = True,
    on_event: EventHandler,
) -> list[Outcome]:
    """Train unfinished rows and return the outcomes of the requested ones.

    Args:
        corpus: Multi30k folder, laid out as for the recipe `multi30k`.
        out: output folder; interrupted rows are resumed.
        rows: names such as "base" and "C5".
        seeds: random seeds; every row is trained with each.
        settings: shared by all rows.
        threads: intra-op threads; 0 for torch's default.
        train_rows: if False nothing is trained, and only rows finished with every seed are
            returned.
        on_event: called with each event of the run.

    Returns:
        The outcomes in the order of the rows, then of the seeds.

    Raises:
        ValueError: if a row is unknown, or `out` was made with other settings or another corpus.
        FloatingPointError: if a row's loss becomes NaN.
    """
    jobs = [
        Job(row, seed, recipe_of(row, corpus, seed=seed, settings=settings, threads=threads), out)
        for row in map(table3.find, rows)
        for seed in seeds
    ]
    settings_file = out / OUTCOMES / "settings.json"
    corpus_sha256 = ""
    data = jobs[0].recipe.data
    # Finished rows are reported without the corpus, too.
    if train_rows or all(path.is_file() for path in data.paths(data.files)):
        corpus_sha256 = _text_sha256(jobs[0].recipe, settings.pairs)
    shared = StoredSettings(**asdict(settings), corpus_sha256=corpus_sha256)
    if not train_rows:
        _check_settings(settings_file, shared)
        return [job.outcome() for job in _finished(jobs, out=out)]
    with exclusive_lock(out):
        stored = _check_settings(settings_file, shared)
        if stored and not stored.corpus_sha256:
            text = f"{settings_file} names no corpus: its rows are taken to be of {corpus}"
            on_event(LogMessage(text=text))
        write_files(settings_file.parent, {settings_file.name: json_text(asdict(shared))})
        prepared = _prepared(jobs[0].recipe, settings.pairs, out / "corpus", on_event=on_event)
        prepared = replace(
            prepared,
            validation=prepared.validation[: settings.lines],
            test=prepared.test[: settings.lines],
        )
        keep_freed_memory()
        clock = _Clock(jobs, on_event)
        for job in jobs:
            if not job.finished:
                clock.begin(job)
                outcome = _train_row(job, prepared, on_event=clock)
                write_files(job.result.parent, {job.result.name: json_text(asdict(outcome))})
                clock.end(job, outcome)
    return [job.outcome() for job in jobs]


def _finished(jobs: Sequence[Job], *, out: Path) -> list[Job]:
    """The jobs of rows that are finished with every seed, also while others are being trained."""
    open_rows = {job.row.name for job in jobs if not job.finished}
    if not (finished := [job for job in jobs if job.row.name not in open_rows]):
        raise ValueError(
            f"{out} has no row that is finished with every seed: train by leaving out --finished"
        )
    return finished


def named_rows(text: str, *, width_divisor: int = 4) -> tuple[str, ...]:
    """Parse row names into the paper's order, without duplicates.

    Args:
        text: names separated by commas or blanks; "all" for all, empty for all but big whose keys
            keep at least 16 numbers.
        width_divisor: divisor of d_k.

    Raises:
        ValueError: for an unknown row or separators alone, or if empty would leave out base.

    >>> named_rows("c5, base"), len(named_rows("")), len(named_rows("all"))
    (('base', 'C5'), 14, 20)
    """
    names = [row.name for row in table3.ROWS]
    words = text.replace(",", " ").split()
    if words == ["all"]:
        return tuple(names)
    if words:
        selected = {table3.find(name).name for name in words}
        return tuple(name for name in names if name in selected)
    if text.strip():
        raise ValueError(f"--rows are names such as base,A1,C5, not {text!r}")
    usual, least = ModelConfig().d_k, _LEAST_D_K * width_divisor
    if usual < least:
        raise ValueError(
            f"--width-divisor {width_divisor} leaves the keys of the base row fewer than "
            f"{_LEAST_D_K} numbers: give {usual // _LEAST_D_K} at most, or name rows by --rows"
        )
    wide = {row.name for row in table3.ROWS if int(row.model.get("d_k", usual)) >= least}
    return tuple(name for name in names if name in wide and name != "big")


def quick_settings(settings: Settings) -> Settings:
    """Make settings whose rows take seconds and learn next to nothing."""
    return replace(
        settings, updates=4, validate_every=2, warmup=2, tokens=256, vocab_size=500, lines=20
    )


def named_seeds(text: str) -> tuple[int, ...]:
    """Parse seeds separated by commas or blanks, without duplicates.

    Raises:
        ValueError: if there are none, or one is not a number.

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
    """Make a row's recipe for a corpus: the paper's regime, scaled down.

    Args:
        row: the row.
        corpus: folder of the corpus.
        seed: random seed of the weights and of the order of sentences.
        settings: shared by all rows.
        threads: intra-op threads; 0 for torch's default.

    Raises:
        ValueError: if the row's sizes do not divide by the divisors.
    """
    full = load_recipe(f"{table3.PREFIX}{row.name.lower()}")
    corpus_recipe = load_recipe("multi30k")
    model = scaled(replace(full.model, vocab_size=settings.vocab_size), settings, row=row)
    return replace(
        full,
        languages=corpus_recipe.languages,
        data=replace(corpus_recipe.data, folder=str(corpus)),
        tokenizer=replace(full.tokenizer, vocab_size=settings.vocab_size),
        model=model,
        batch=replace(full.batch, tokens=settings.tokens),
        train=replace(
            full.train,
            updates=settings.updates,
            patience=settings.patience,
            validate_every=settings.validate_every,
            warmup=settings.warmup,
            seed=seed,
            intra_op_threads=threads,
        ),
    )


def scaled(model: ModelConfig, settings: Settings, *, row: table3.Row) -> ModelConfig:
    """Divide the widths and depths of a row's model.

    Args:
        model: the row in its original size.
        settings: holds the divisors.
        row: named in error messages.

    Raises:
        ValueError: if a size does not divide, or the smaller model cannot be made.

    >>> row = table3.find("A4")
    >>> small = scaled(ModelConfig(heads=32, d_k=16, d_v=16), Settings(), row=row)
    >>> small.d_model, small.heads, small.d_k, small.encoder_layers
    (128, 32, 4, 3)
    """
    sizes: dict[str, int] = {}
    for field, name, dimension in (
        ("encoder_layers", "N", "depth"),
        ("decoder_layers", "N", "depth"),
        *((name, name, "width") for name in ("d_model", "d_ff", "d_k", "d_v")),
    ):
        size, divisor = getattr(model, field), getattr(settings, f"{dimension}_divisor")
        if size % divisor:
            raise ValueError(
                f"row {row.name} has {name} {size}, which --{dimension}-divisor {divisor} does not "
                f"divide: choose one that does, or leave the row out by --rows"
            )
        sizes[field] = size // divisor
    return replace(model, **sizes)


def _check_settings(file: Path, settings: StoredSettings) -> StoredSettings | None:
    """Check that settings and corpus equal those of existing rows; return theirs, if any."""
    if not file.is_file():
        return None
    stored = read_record(file, StoredSettings, remedy="restore it, or name another folder by --out")
    # First those that tell a quick run, as it differs in others too.
    for name in (*_SET_BY_QUICK, *(field.name for field in fields(Settings))):
        held, given = getattr(stored, name), getattr(settings, name)
        if held != given:
            option, remedy = f"--{name.replace('_', '-')}", "give that"
            if name in _SET_BY_QUICK:
                option, remedy = name, "give or leave out --quick as before"
            raise ValueError(
                f"{file.parent} holds rows with {option} {held}, not {given}: "
                f"{remedy}, or name another folder by --out"
            )
    if len({stored.corpus_sha256, settings.corpus_sha256} - {""}) > 1:
        raise ValueError(
            f"{file.parent} was made of another corpus: name that one by --corpus, or another "
            f"folder by --out"
        )
    return stored


def _text_sha256(recipe: Recipe, pairs: int) -> str:
    """The SHA-256 of the text that rows are trained on and scored with, however compressed."""
    data, digest = recipe.data, hashlib.sha256()
    for names, limit in ((data.train, pairs), (data.validation, None), (data.test, None)):
        for _, pair in itertools.islice(read_pairs(data.paths(names)), limit):
            digest.update(f"{pair.source}\n{pair.target}\n".encode())
    return digest.hexdigest()


def _prepared(recipe: Recipe, pairs: int, folder: Path, *, on_event: EventHandler) -> Prepared:
    """Prepare the first pairs of the corpus once for all rows."""
    corpus = recipe.data.folder
    numbered = read_pairs(recipe.data.paths(recipe.data.train))
    source, target = recipe.languages.codes
    train = (f"train.{source}", f"train.{target}")
    folder.mkdir(exist_ok=True)
    write_pairs(folder, train, (pair for _, pair in itertools.islice(numbered, pairs)))
    first = tuple(str((folder / name).absolute()) for name in train)
    recipe = replace(recipe, data=replace(recipe.data, train=first))
    if not recover_interrupted(folder / PREPARED_FOLDER):
        return prepare(recipe, folder, on_event=on_event)
    if not is_up_to_date(recipe, folder):
        raise ValueError(
            f"{folder / PREPARED_FOLDER} was made of another corpus than {corpus}: "
            f"name that one by --corpus, or another folder by --out"
        )
    on_event(LogMessage(text=f"the corpus is prepared already, in {folder / PREPARED_FOLDER}"))
    return open_prepared(folder)


def _train_row(job: Job, prepared: Prepared, *, on_event: EventHandler) -> Outcome:
    """Train or resume a row, and score its best weights."""
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
            validate=lambda model: _monitor(model, prepared),
            folder=job.folder,
            on_best=lambda model, _: write_tensors(model.state_dict(), job.folder / _BEST),
            on_event=on_event,
        )
        model.load_state_dict(load_weights(job.folder, name=_BEST))
        model.eval()
        return Outcome(
            row=job.row.name,
            seed=job.seed,
            parameters=model.size,
            updates=trained.state.update,
            best_update=trained.state.best_update,
            tokens=trained.state.tokens,
            seconds=trained.state.seconds,
            processor=processor_name() or platform.machine(),
            commit=commit(),
            validation=_scored(recipe, model, prepared=prepared, pairs=prepared.validation),
            test=_scored(recipe, model, prepared=prepared, pairs=prepared.test)
            if prepared.test
            else None,
        )


def _monitor(model: Transformer, prepared: Prepared) -> Validation:
    """The loss on the validation set; translating it would take longer than training."""
    loss = evaluate_perplexity(model, prepared.tokenizer, pairs=prepared.validation)
    return Validation(loss=loss.per_token, bleu=math.nan, signature="")


def _scored(
    recipe: Recipe, model: Transformer, *, prepared: Prepared, pairs: Sequence[Pair]
) -> ScoredRow:
    """Translate with the paper's beam search, and score the references."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    translator = Translator.from_parts(model, prepared.tokenizer, search=recipe.search)
    hypotheses = translation_texts(translator.translate(sources, retry_loops=False))
    log_probs = [p for line in translator.score(sources, targets) for p in line.log_probs]
    score = bleu(hypotheses, targets, language=recipe.languages.target)
    return ScoredRow(
        bleu=score.value,
        signature=score.signature,
        perplexity=math.exp(-sum(log_probs) / len(log_probs)),
    )


class _Clock:
    """Forwards events with the remaining time of all rows.

    A row is taken to need as many updates as the one before it; the first, the limit.
    """

    def __init__(self, jobs: Sequence[Job], on_event: EventHandler) -> None:
        self._on_event, self._jobs, self._job = on_event, jobs, jobs[0]
        self._cost = sum(job.cost for job in jobs if not job.finished)
        self._cost_done, self._started = 0.0, time.perf_counter()
        self._updates = jobs[0].recipe.train.updates

    def begin(self, job: Job) -> None:
        """Announce the next row."""
        self._job = job
        number, size = self._jobs.index(job) + 1, parameter_count(job.recipe.model)
        text = (
            f"row {job.row.name}, seed {job.seed} ({number} of {len(self._jobs)}): "
            f"{job.row.differs or 'as the paper has it'}; {size:,} parameters"
        )
        self._on_event(LogMessage(text=text))

    def end(self, job: Job, outcome: Outcome) -> None:
        """Report a finished row."""
        self._cost_done += job.cost
        self._updates = outcome.updates
        score = outcome.validation
        scores = f"perplexity {score.perplexity:.2f}, BLEU {score.bleu:.2f}"
        self._on_event(LogMessage(text=f"row {job.row.name}: {scores}"))

    def __call__(self, event: Event) -> None:
        """Forward an event, with the time of all rows in place of the current one's."""
        if isinstance(event, Progress) and event.update:
            done = self._cost_done + self._job.cost * min(1.0, event.update / self._updates)
            elapsed = time.perf_counter() - self._started
            event = replace(event, seconds_left=elapsed / done * (self._cost - done))
        self._on_event(event)
