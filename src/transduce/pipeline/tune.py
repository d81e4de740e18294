"""Search for good settings with Optuna: each trial is a run, OUT/trial-0003.

OUT/study.log is Optuna's journal, OUT/tune.html a plot and a table. The same command resumes a
search that was stopped anywhere, within a trial too; each trial draws by a seed of its own, so that
the search ends as an uninterrupted one.
"""

import gc
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final
from warnings import catch_warnings

import optuna
from optuna import distributions
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import Trial, TrialState

from transduce.io.lock import exclusive_lock
from transduce.io.machine import out_of_memory
from transduce.pipeline.defaults import RecipeChoice
from transduce.pipeline.run import run_recipe
from transduce.pipeline.run_folder import write_text
from transduce.pipeline.run_page import METRICS, read_metrics
from transduce.train.events import Event, EventHandler, LogMessage, Validated
from transduce.visualization.page import Section, Series, line_chart, page, table

HEADERS: Final = ("trial", "settings", "score", "state")
PAGE: Final = "tune.html"
_DONE = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
_STARTUP = 4  # finished trials before one is pruned
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_RANGE = re.compile(rf"(.+?)=({_NUMBER}):({_NUMBER})(:log)?")


def parse_space(
    ranges: Sequence[str], choices: Sequence[str]
) -> dict[str, distributions.BaseDistribution]:
    """Parse "section.key=low:high", perhaps with ":log", and "section.key=one,two".

    Raises:
        ValueError: if a range is malformed, or a key is named twice.
    """
    space = dict[str, distributions.BaseDistribution]()
    keys = [text.partition("=")[0] for text in (*choices, *ranges)]
    if repeated := [key for key in keys if keys.count(key) > 1]:
        raise ValueError(f"{repeated[0]} is searched twice: name it in one --range or --choice")
    for text in choices:
        key, _, values = text.partition("=")
        space[key] = distributions.CategoricalDistribution(values.split(","))
    for text in ranges:
        if not (match := _RANGE.fullmatch(text)):
            raise ValueError(f"--range {text} is not KEY=LOW:HIGH or KEY=LOW:HIGH:log")
        key, low, high, log = match.groups()
        if low.isdigit() and high.isdigit():
            space[key] = distributions.IntDistribution(int(low), int(high), bool(log))
        else:
            space[key] = distributions.FloatDistribution(float(low), float(high), bool(log))
    return space


def search(
    choose: Callable[[Sequence[str]], RecipeChoice],
    out: Path,
    *,
    space: Mapping[str, distributions.BaseDistribution],
    trials: int,
    metric: str,
    seed: int,
    on_event: EventHandler,
) -> optuna.Study:
    """Run trials until so many are finished, those of earlier sessions included.

    Args:
        choose: makes a recipe of the settings of a trial.
        space: what is searched, by setting.
        metric: "bleu" or "loss": of a validation it prunes, of the final model it is the score.
        seed: of the search.

    Raises:
        ValueError: if the folder holds a search of other settings, or a setting is wrong.
        FloatingPointError: if all trials diverged or ran out of memory.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    identity = [str(choose([]).recipe), str(dict(space)), metric, str(seed)]
    direction = "maximize" if metric == "bleu" else "minimize"
    with exclusive_lock(out):
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(out / "study.log"))),
            study_name="tune",
            direction=direction,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=_STARTUP),
            load_if_exists=True,
        )
        finished = study.get_trials(states=[TrialState.COMPLETE])
        changed = bool(finished) and study.user_attrs["identity"] != identity
        if changed or study.direction.name.lower() != direction:  # a loaded study keeps its own
            raise ValueError(f"{out} holds a search of other settings: name another --out")
        study.set_user_attr("identity", identity)
        while (number := len(study.get_trials(states=_DONE))) < trials:
            study.sampler = optuna.samplers.TPESampler(seed=seed + number)
            # The lock is ours: a trial that runs is of a session that was stopped.
            interrupted = study.get_trials(states=[TrialState.RUNNING])
            trial = Trial(study, interrupted[0]._trial_id) if interrupted else study.ask()  # pyright: ignore[reportPrivateUsage]
            suggested = [f"{key}={trial._suggest(key, kind)}" for key, kind in space.items()]  # pyright: ignore[reportPrivateUsage]
            on_event(LogMessage(f"trial {number} of {trials}: {' '.join(suggested)}"))
            folder = out / f"trial-{number:04}"
            try:
                handler = _pruning(trial, folder, metric=metric, on_event=on_event)
                chosen = choose(suggested)
                result = run_recipe(
                    chosen.recipe, folder, resume=True, plan=chosen.plan, on_event=handler
                ).validation
                bleu = next(score.value for score in result.scores if score.name == "BLEU")
                study.tell(trial, bleu if metric == "bleu" else result.loss)
            except (optuna.TrialPruned, FloatingPointError, ValueError) as error:
                pruned = isinstance(error, optuna.TrialPruned)
                study.tell(trial, state=TrialState.PRUNED if pruned else TrialState.FAIL)
                if isinstance(error, ValueError):  # of the settings; the next session goes on
                    raise
                on_event(LogMessage(f"trial {number}: {error}"))
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                study.tell(trial, state=TrialState.FAIL)
                own_message = isinstance(error, MemoryError) and str(error)
                on_event(LogMessage(f"trial {number}: {own_message or 'out of memory'}"))
            gc.collect()  # tensors in reference cycles, of which an allocator does not know
            _write_page(study, out / PAGE)
    if not study.get_trials(states=[TrialState.COMPLETE]):
        raise FloatingPointError(
            f"all trials in {out} failed: name another --out, and search lower values of "
            f"train.learning_rate or higher ones of train.warmup, or smaller models for less memory"
        )
    return study


def trial_rows(study: optuna.Study) -> list[tuple[str, str, str, str]]:
    """Return the cells of `HEADERS` for each trial."""
    return [
        (
            str(trial.number),
            " ".join(
                f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                for key, value in trial.params.items()
            ),
            "" if trial.value is None else f"{trial.value:.4g}",
            trial.state.name.lower(),
        )
        for trial in study.get_trials(states=_DONE)
    ]


def _pruning(trial: Trial, run: Path, *, metric: str, on_event: EventHandler) -> EventHandler:
    """Return a handler that ends a run whose validation falls behind."""

    def handle(event: Event) -> None:
        on_event(event)
        if isinstance(event, Validated):
            step = sum("bleu" in line for line in read_metrics(run / METRICS))
            with catch_warnings(action="ignore"):  # a resumed run may repeat a validation
                trial.report(event.bleu if metric == "bleu" else event.loss, step)
            if trial.should_prune():
                raise optuna.TrialPruned(f"pruned at validation {step}")

    return handle


def _write_page(study: optuna.Study, file: Path) -> None:
    complete = study.get_trials(states=[TrialState.COMPLETE])
    numbers, scores = [t.number for t in complete], [t.value or 0.0 for t in complete]
    better = max if study.direction == optuna.study.StudyDirection.MAXIMIZE else min
    lines = [
        Series("trial", numbers, scores),
        Series("best so far", numbers, list(accumulate(scores, better))),
    ]
    chart = line_chart(lines, x_label="trial", y_label="score", title="Scores on validation")
    trials = table(HEADERS, trial_rows(study), numbers=(0, 2))
    sections = [Section("Scores", chart), Section("Trials", trials)]
    write_text(file, page("Search for settings", sections))
