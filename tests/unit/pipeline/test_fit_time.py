"""Updates, warm-up, schedule and validations of a run that must end at a given time."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from transduce.config import load_recipe
from transduce.data.corpus import Pair
from transduce.evaluation.metrics import Perplexity
from transduce.pipeline import fit_time as module
from transduce.pipeline.defaults import NO_PLAN, EpochPlan
from transduce.pipeline.fit_time import Durations, describe_plan, fit_time, measure_evaluation
from transduce.search.config import SearchConfig
from transduce.train.optimizer import learning_rates

DEFAULT = EpochPlan(22, frozenset())


def test_updates_and_validations_fill_the_time():
    recipe = load_recipe("tiny", ["train.time=10m"])

    fitted, plan = fit_time(recipe, Durations(0.5, 4.0, 60.0), elapsed=40.0, plan=DEFAULT)

    assert plan.updates == fitted.train.updates == (600 - 40 - 60 - 25 * 4) / 0.5
    assert (fitted.train.warmup, fitted.train.validate_every) == (53, 32)
    assert plan.validation_seconds * plan.final_share == pytest.approx(60.0)
    assert describe_plan(fitted, plan) == (
        "10m: 800 updates, warm-up 53, validation every 32, and about 1 min 00 s for the final "
        "evaluation; planned again as the speed changes"
    )


def test_slow_validations_are_fewer():
    recipe = load_recipe("tiny", ["train.time=5m"])

    fitted, plan = fit_time(recipe, Durations(1.0, 20.0, 50.0), elapsed=0.0, plan=DEFAULT)

    assert plan.updates == 300 - 50 - 2 * 20
    assert fitted.train.validate_every == plan.updates / 2


def test_a_time_too_short_to_validate_once_is_refused_with_one_that_is_not():
    recipe = load_recipe("tiny", ["train.time=1m"])
    durations = Durations(1.0, 20.0, 50.0)

    with pytest.raises(
        ValueError, match=r"train.time 1m is too short: .* allow (\d+)s or"
    ) as error:
        fit_time(recipe, durations, elapsed=9.0, plan=DEFAULT)

    enough = str(error.value).partition("allow ")[2].partition("s")[0]
    recipe = load_recipe("tiny", [f"train.time={enough}s"])
    assert fit_time(recipe, durations, elapsed=9.0, plan=DEFAULT)[1].updates >= 10


def test_the_paper_s_schedule_gives_way_to_one_that_ends_from_the_same_peak():
    recipe = load_recipe("base", ["train.time=2h"])
    peak = learning_rates(4000, config=recipe.train, d_model=512)[0]

    train = fit_time(recipe, Durations(0.5, 9.0, 60.0), elapsed=0.0, plan=NO_PLAN)[0].train

    assert (train.schedule, train.warmup) == ("linear", train.updates // 4)
    assert train.learning_rate == pytest.approx(peak)
    by_hand = EpochPlan(0, frozenset({"train.schedule", "train.validate_every"}))
    train = fit_time(recipe, Durations(0.5, 9.0, 60.0), elapsed=0.0, plan=by_hand)[0].train
    assert (train.schedule, train.learning_rate, train.validate_every) == ("paper", 1.0, 1000)


def test_a_resumed_run_has_the_schedule_of_its_plan():
    begun = fit_time(
        load_recipe("base", ["train.time=2h"]), Durations(0.5, 9.0, 60.0), elapsed=0.0, plan=NO_PLAN
    )[0]

    resumed = NO_PLAN.resume(load_recipe("base", ["train.time=3h"]), begun=begun)

    assert resumed == replace(begun, train=replace(begun.train, time="3h"))


def test_the_final_evaluation_counts_every_candidate_and_the_test_set(
    monkeypatch: pytest.MonkeyPatch,
):
    """A greedy translation takes 1 s a pair, a beam of four 4 s, reading 0.5 s."""
    now = [0.0]

    def translate(pairs: Sequence[Pair], search: SearchConfig) -> None:
        now[0] += search.beam * len(pairs)

    def perplexity(pairs: Sequence[Pair]) -> Perplexity:
        now[0] += 0.5 * len(pairs)
        return Perplexity(loss_sum=1.0, tokens=1)

    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    pairs = [Pair("a", "b")] * 300
    recipe = load_recipe("tiny", ["train.tune_length_penalty=true", "train.ema=0.9"])

    validation, final = measure_evaluation(
        recipe, pairs, pairs[:50], translate=translate, perplexity=perplexity
    )

    assert validation == 300 * 1.5
    assert final == pytest.approx(1.15 * ((3 * 300 + 50 + 300 + 300) * 4 + 350 * 0.5))
