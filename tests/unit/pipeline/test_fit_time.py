"""Updates, warm-up, schedule and validations of a run that must end at a given time."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tests.conftest import SMALL, write_corpus

from transduce.config import load_recipe, to_toml
from transduce.data.corpus import Pair
from transduce.evaluation.metrics import Perplexity
from transduce.model.transformer import Transformer
from transduce.pipeline import fit_time as module
from transduce.pipeline import run as run_module
from transduce.pipeline.defaults import NO_PLAN, R_DROP_EPOCHS, EpochPlan, choose_recipe
from transduce.pipeline.fit_time import Durations, describe_plan, fit_time, measure_evaluation
from transduce.pipeline.run import _Run, run_recipe  # pyright: ignore[reportPrivateUsage]
from transduce.pipeline.run_folder import check_output_folder, prepare_run
from transduce.pipeline.selection import RunEvaluator
from transduce.search.config import SearchConfig
from transduce.train.distributed import Process
from transduce.train.events import Event, EventHandler, Progress
from transduce.train.optimizer import learning_rates

DEFAULT = EpochPlan(22, frozenset())
BY_HAND = DEFAULT._replace(by_hand=frozenset({"train.validate_every"}))


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


def test_validations_at_an_interval_set_by_hand_fit_into_the_time():
    recipe = load_recipe("tiny", ["train.time=10m", "train.validate_every=10"])

    fitted, plan = fit_time(recipe, Durations(0.5, 4.0, 60.0), elapsed=40.0, plan=BY_HAND)

    assert fitted.train.validate_every == 10
    assert plan.fixed_interval
    assert plan.updates == 552, "56 validations take 224 of the 500 seconds"


@pytest.mark.parametrize("plan", [DEFAULT, BY_HAND], ids=["default", "by hand"])
def test_a_time_too_short_to_validate_once_is_refused_with_one_that_is_not(plan: EpochPlan):
    every = "train.validate_every=3"
    recipe = load_recipe("tiny", ["train.time=1m", every])
    durations = Durations(1.0, 20.0, 50.0)

    with pytest.raises(
        ValueError, match=r"train.time 1m is too short: .* allow (\d+)s or"
    ) as error:
        fit_time(recipe, durations, elapsed=9.0, plan=plan)

    enough = str(error.value).partition("allow ")[2].partition("s")[0]
    recipe = load_recipe("tiny", [f"train.time={enough}s", every])
    assert fit_time(recipe, durations, elapsed=9.0, plan=plan)[1].updates >= 10


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


def test_a_resumed_run_is_with_or_without_r_drop_as_it_was_begun():
    begun = load_recipe("tiny", ["train.time=5m"])

    resumed = DEFAULT.resume(load_recipe("tiny", ["train.time=6m", "train.r_drop=2"]), begun=begun)

    assert resumed.train.r_drop == 0.0


@pytest.mark.parametrize(
    ("setting", "checkpoint", "refused"),
    [
        ("train.time=2h", "update-00000010", ""),
        ("train.time=2h", "", "train.time"),
        ("train.updates=9000", "update-00000010", "train.updates"),
    ],
)
def test_a_begun_run_of_a_given_time_gets_another_time_once_it_has_a_checkpoint(
    setting: str, checkpoint: str, refused: str, tmp_path: Path
):
    file = tmp_path / "recipe.toml"
    file.write_text(to_toml(load_recipe("tiny", ["train.time=1h"])))
    (tmp_path / "checkpoints" / checkpoint).mkdir(parents=True)
    message = f"^{refused} differs from that of the run in .* or start a new run"

    recipe = choose_recipe(str(file), [setting]).recipe
    with pytest.raises(ValueError, match=message) if refused else nullcontext():
        check_output_folder(recipe, tmp_path, resume=True)


def test_a_run_resumed_before_its_first_checkpoint_keeps_what_was_set_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_corpus(tmp_path)
    files = f"data.train=['{tmp_path}/train.src', '{tmp_path}/train.rev']"
    small = [word for word in SMALL if word != "--set"]
    recipe, out = load_recipe("tiny", [files, *small, "train.time=1h"]), tmp_path / "run"
    prepare_run(recipe, out, plan=BY_HAND, on_event=print)
    plans = list[EpochPlan]()

    def fit(*_: object, plan: EpochPlan, started: float) -> None:
        plans.append(plan)
        raise KeyboardInterrupt

    monkeypatch.setattr(_Run, "fit_time", fit)
    begun = load_recipe(out / "recipe.toml")
    more = EpochPlan(0, frozenset({"train.warmup"}), recipe_given=True)
    for plan in (None, more):
        with pytest.raises(KeyboardInterrupt):
            run_recipe(begun, out, resume=True, plan=plan, on_event=print)

    assert plans == [BY_HAND, BY_HAND._replace(by_hand=BY_HAND.by_hand | more.by_hand)]
    (out / "plan.json").write_text("{}")
    with pytest.raises(ValueError, match=r"plan\.json is damaged .*: delete it"):
        run_recipe(begun, out, resume=True, on_event=print)
    (out / "recipe.toml").unlink()  # as if killed before it was written
    check_output_folder(recipe, out, resume=False)


def test_ranks_plan_a_run_by_the_same_collectives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Rank 0 alone measures speed: it must not wait for the others meanwhile."""
    write_corpus(tmp_path)
    files = f"data.train=['{tmp_path}/train.src', '{tmp_path}/train.rev']"
    small = [word for word in SMALL if word != "--set"]
    settings = [files, *small, "batch.micro_tokens=auto", "train.time=1h"]
    recipe, out, calls = load_recipe("tiny", settings), tmp_path / "run", list[object]()
    prepared = prepare_run(recipe, out, on_event=print)
    monkeypatch.setattr(torch.distributed, "broadcast", lambda *args, **rest: calls.append(args))

    for rank in (0, 1):
        run = _Run(recipe, out, prepared, Process(rank=rank, world_size=2), print)
        plan = run.fit_time(torch.device("cpu"), plan=BY_HAND, started=time.monotonic())[1]
        assert len(calls) == 2 * (rank + 1)
        assert plan
        assert plan.fixed_interval


@pytest.mark.parametrize(
    ("plan", "epochs", "r_drop"),
    [
        (DEFAULT, R_DROP_EPOCHS - 1, 0.0),
        (DEFAULT, R_DROP_EPOCHS + 1, 2.0),
        (DEFAULT._replace(by_hand=frozenset({"train.r_drop"})), R_DROP_EPOCHS - 1, 2.0),
        (NO_PLAN, R_DROP_EPOCHS - 1, 2.0),
    ],
)
def test_a_run_of_few_epochs_is_without_a_default_r_drop(
    plan: EpochPlan, epochs: int, r_drop: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An update takes 100 s, with R-Drop 150; nothing else takes any time."""
    write_corpus(tmp_path)
    files = f"data.train=['{tmp_path}/train.src', '{tmp_path}/train.rev']"
    small = [word for word in SMALL if word != "--set"]
    recipe = load_recipe("tiny", [files, *small, "train.r_drop=2", "train.time=1h"])
    out, events = tmp_path / "run", list[Event]()
    prepared = prepare_run(recipe, out, on_event=print)
    per_epoch = prepared.updates_per_epoch(recipe)
    seconds = 100 * epochs * per_epoch + 25  # a multiple of neither
    recipe = replace(recipe, train=replace(recipe.train, time=f"{seconds}s"))
    a_second = prepared.epoch_tokens(recipe) / per_epoch / 100
    monkeypatch.setattr(run_module, "measure_evaluation", lambda *_: (0.0, 0.0))
    monkeypatch.setattr(
        _Run,
        "measure_speed",
        lambda run, *_, **rest: a_second / (1.5 if run.recipe.train.r_drop else 1),
    )

    run = _Run(recipe, out, prepared, Process(), events.append)
    run, time_plan = run.fit_time(torch.device("cpu"), plan=plan, started=time.monotonic())

    assert run.recipe.train.r_drop == r_drop
    assert time_plan
    assert time_plan.updates == seconds // (150 if r_drop else 100)
    omitted = [event for event in events if "without R-Drop" in str(event)]
    assert len(omitted) == (r_drop == 0)


def test_the_final_evaluation_counts_every_candidate_and_the_test_set(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    """A greedy translation takes 1 s a pair, a beam of four 4 s, reading 0.5 s."""
    now = [0.0]

    def translate(
        self: RunEvaluator, model: Transformer, pairs: Sequence[Pair], *, search: SearchConfig
    ) -> None:
        now[0] += search.beam * len(pairs)

    def perplexity(self: RunEvaluator, model: Transformer, pairs: Sequence[Pair]) -> Perplexity:
        now[0] += 0.5 * len(pairs)
        return Perplexity(loss_sum=1.0, tokens=1)

    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(RunEvaluator, "translate", translate)
    monkeypatch.setattr(RunEvaluator, "perplexity", perplexity)
    pairs = [Pair("a", "b")] * 300
    recipe = load_recipe("tiny", ["train.tune_length_penalty=true", "train.ema=0.9"])
    prepared = SimpleNamespace(validation=pairs, test=pairs[:50])
    evaluator = RunEvaluator(recipe, Path(), prepared, print)  # pyright: ignore[reportArgumentType]

    validation, final = measure_evaluation(evaluator, tiny)

    assert validation == 300 * 1.5
    assert final == pytest.approx(1.15 * ((3 * 300 + 50 + 300 + 300) * 4 + 350 * 0.5))


def test_a_short_measurement_of_speed_is_repeated_since_new_shapes_are_slow(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    """Passes of 0.8 s: after the third, 2 seconds have gone by."""
    now, speeds = [0.0], iter([10.0, 30.0, 31.0])

    def train(*_: object, on_event: EventHandler, **rest: object) -> None:
        speed, now[0] = next(speeds), now[0] + 0.8
        on_event(progress(1, speed / 5))  # allocates
        for update in range(2, 5):
            on_event(progress(update, speed))

    monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(run_module, "train", train)
    run = SimpleNamespace(recipe=load_recipe("tiny"), process=Process(), loader=lambda size: size)
    run._replace = lambda recipe: run

    assert _Run.measure_speed(run, tiny, micro_tokens=100) == 31.0  # pyright: ignore[reportArgumentType]


def progress(update: int, speed: float) -> Progress:
    return Progress(
        update=update,
        updates=4,
        epoch=1,
        loss=1.0,
        tokens_per_second=speed,
        learning_rate=1.0,
        grad_norm=1.0,
        seconds_left=1.0,
    )
