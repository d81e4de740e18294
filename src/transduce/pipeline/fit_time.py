"""Plan a training of a given duration (`train.time`) from a short measurement."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from transduce.config import Recipe
from transduce.model.transformer import Transformer
from transduce.pipeline.defaults import VALIDATIONS, EpochPlan
from transduce.pipeline.length_penalty import MAX_SEARCHED
from transduce.pipeline.selection import RunEvaluator
from transduce.train.config import parse_duration
from transduce.train.events import describe_duration
from transduce.train.time_plan import TimePlan, fitting_updates

_FEWEST_UPDATES: Final = 10
_SAMPLE: Final = 100  # validation pairs translated for the measurement
_VALIDATION_SHARE: Final = 0.2  # of the time, at most, where that leaves one validation
_MARGIN: Final = 1.15  # repetitive lines are translated again


class Durations(NamedTuple):
    """Seconds of the parts of a run, as measured on its corpus and model."""

    update: float
    validation: float
    final: float
    """All that follows the last validation."""


def measure_evaluation(evaluator: RunEvaluator, model: Transformer) -> tuple[float, float]:
    """Return the seconds of a validation, and of the evaluation after training.

    Args:
        evaluator: has the pairs, of which some are measured.
        model: untrained.
    """
    recipe, prepared = evaluator.recipe, evaluator.prepared
    validation, test = prepared.validation, prepared.test
    translate = partial(evaluator.translate, model)
    sample = validation[:_SAMPLE]
    # An untrained model never ends a sentence; these are translated at the source's length.
    search = replace(recipe.search, extra=1)
    translate(sample[:2], search=search)  # the first call allocates
    greedy = _seconds(lambda: translate(sample, search=replace(search, beam=1))) / len(sample)
    beam = _seconds(lambda: translate(sample, search=search)) / len(sample)
    reading = _seconds(lambda: evaluator.perplexity(model, sample)) / len(sample)
    weights = 3 if recipe.train.ema else 2  # candidates for the final model
    translated = weights * len(validation) + len(test)
    if recipe.train.tune_length_penalty:
        translated += len(validation) + min(MAX_SEARCHED, len(validation))
    final = translated * beam + (len(validation) + len(test)) * reading
    return len(validation) * (greedy + reading), _MARGIN * final


def fit_time(
    recipe: Recipe, durations: Durations, *, elapsed: float, plan: EpochPlan
) -> tuple[Recipe, TimePlan]:
    """Return the recipe with as many updates as fit into its time, and the plan that says so.

    Args:
        elapsed: seconds of the time that are spent already.
        plan: has the settings that stay as they are.

    Raises:
        ValueError: if the time is too short to validate once.
    """
    seconds_left = parse_duration(recipe.train.time) - elapsed - durations.final
    update, validation = durations.update, durations.validation
    affordable = int(_VALIDATION_SHARE * seconds_left / max(validation, 1e-9))
    validations = max(1, min(VALIDATIONS, affordable))
    updates = int((seconds_left - validations * validation) / update)
    every = recipe.train.validate_every if "train.validate_every" in plan.by_hand else 0
    if every:
        updates = fitting_updates(
            seconds_left, update=update, validation=validation, validate_every=every
        )
    if updates < _FEWEST_UPDATES:
        fixed, more = elapsed + validation + durations.final, _FEWEST_UPDATES * update
        more += (_FEWEST_UPDATES - 1) // every * validation if every else 0.0
        raise ValueError(
            f"train.time {recipe.train.time} is too short: preparing, one validation and the final "
            f"evaluation take about {describe_duration(fixed)}; allow "
            f"{math.ceil(_MARGIN * (fixed + more))}s or more"
        )
    time_plan = TimePlan(
        updates=updates,
        validation_seconds=validation,
        final_share=durations.final / max(validation, 1e-9),
        fixed_interval=every > 0,
    )
    return plan.fit(recipe, updates, validations=validations), time_plan


def describe_plan(recipe: Recipe, plan: TimePlan) -> str:
    """Format what `train.time` has room for."""
    train = recipe.train
    final = describe_duration(plan.final_share * plan.validation_seconds)
    return (
        f"{train.time}: {plan.updates:,} updates, warm-up {train.warmup:,}, validation every "
        f"{train.validate_every:,}, and about {final} for the final evaluation; planned again as "
        f"the speed changes"
    )


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
