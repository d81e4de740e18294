"""Training from the first update to the last: when it validates, saves, stops and complains."""

import copy
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from tests.conftest import Corpus

from transduce.data.config import BatchConfig
from transduce.data.sampler import Sampler
from transduce.model.transformer import Transformer
from transduce.train import step
from transduce.train.checkpoint import TrainState, list_checkpoints, load_weights, save_state
from transduce.train.config import TrainConfig
from transduce.train.events import Event, LogMessage, Progress, Validated
from transduce.train.loop import Training, TrainResult, Validation, train
from transduce.train.optimizer import make_optimizers
from transduce.train.step import LossSettings, StepResult, train_step


@dataclass
class Run:
    """One run on the small store, with validations that find what they are told to."""

    model: Transformer
    corpus: Corpus
    folder: Path
    losses: Sequence[float] = ()
    bleus: Sequence[float] = ()
    events: list[Event] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    modes: list[bool] = field(default_factory=list)
    validated_models: list[Transformer] = field(default_factory=list)

    def train(self, config: TrainConfig) -> TrainResult:
        losses, bleus = iter(self.losses), iter(self.bleus)

        def validate(model: Transformer) -> Validation:
            self.modes.append(model.training)
            self.validated_models.append(model)
            return Validation(loss=next(losses, 1.0), bleu=next(bleus, 3.5), signature="none")

        return train(
            self.model,
            loader=self.corpus.loader(),
            config=config,
            validate=validate,
            folder=self.folder,
            on_best=lambda model, evaluation: self.best.append(evaluation.loss),
            on_event=self.events.append,
        )

    def validated(self) -> list[Validated]:
        return [event for event in self.events if isinstance(event, Validated)]


@pytest.fixture
def run(tiny: Transformer, corpus: Corpus, tmp_path: Path) -> Run:
    return Run(tiny, corpus, tmp_path)


def test_training_makes_the_updates_it_was_asked_for(run: Run):
    trained = run.train(TrainConfig(updates=7))

    assert trained.state.update == 7


def test_an_epoch_of_updates_learns_from_every_target_token_once(run: Run):
    lengths = run.corpus.store.lengths
    updates = Sampler(lengths, config=BatchConfig(tokens=101), seed=1).epoch_updates(0)

    trained = run.train(TrainConfig(updates=updates))

    assert (trained.state.epoch, trained.state.epoch_update) == (1, 0)
    assert trained.state.tokens == int((lengths[:, 1] + 1).sum())


def test_the_loss_falls(run: Run):
    run.train(TrainConfig(updates=24, warmup=8, log_every=6))

    losses = [event.loss for event in run.events if isinstance(event, Progress)]
    assert losses[-1] < 0.9 * losses[0]


def test_validation_comes_every_so_often_and_at_the_end(run: Run):
    run.train(TrainConfig(updates=7, validate_every=3))

    assert [event.update for event in run.validated()] == [3, 6, 7]


def test_validation_sees_the_model_without_dropout_and_training_gets_it_back(run: Run):
    run.train(TrainConfig(updates=4, validate_every=2))

    assert run.modes == [False, False]
    assert run.model.training


def test_each_validation_leaves_a_checkpoint_and_the_last_ones_stay(run: Run):
    trained = run.train(TrainConfig(updates=7, validate_every=2, average_checkpoints=2))

    names = [path.name for path in trained.checkpoints]
    assert names == ["update-00000006", "update-00000007"]


def test_no_more_checkpoints_are_averaged_than_asked_for_though_two_always_stay(run: Run):
    trained = run.train(TrainConfig(updates=6, validate_every=2, average_checkpoints=1))

    assert [path.name for path in trained.checkpoints] == ["update-00000006"]
    assert len(list_checkpoints(run.folder / "checkpoints")) == 2


def test_more_checkpoints_stay_than_are_averaged(run: Run):
    config = TrainConfig(updates=7, validate_every=2, average_checkpoints=1, keep_checkpoints=3)
    trained = run.train(config)

    assert [path.name for path in trained.checkpoints] == ["update-00000007"]
    kept = [path.name for path in list_checkpoints(run.folder / "checkpoints")]
    assert kept == ["update-00000004", "update-00000006", "update-00000007"]
    run.train(replace(config, updates=8, keep_checkpoints=4))
    assert len(list_checkpoints(run.folder / "checkpoints")) == 4


def test_the_seconds_of_all_sittings_are_counted(run: Run):
    first = run.train(TrainConfig(updates=1))
    again = run.train(TrainConfig(updates=2))

    assert 0.0 < first.state.seconds < again.state.seconds


def test_the_best_is_handed_over_when_it_is_found(run: Run):
    run.losses = [3.0, 2.0, 2.5, 2.0, 1.0]

    run.train(TrainConfig(updates=5, validate_every=1))

    assert run.best == [3.0, 2.0, 1.0]
    assert [event.best for event in run.validated()] == [True, True, False, False, True]


def test_a_loss_beyond_all_measure_has_a_perplexity_all_the_same(run: Run):
    run.losses = [1e4]

    run.train(TrainConfig(updates=1))

    assert math.isfinite(run.validated()[0].perplexity)


def test_training_stops_early_when_patience_is_at_its_end(run: Run):
    run.losses = [3.0, 2.0, 2.5, 2.0, 1.0]

    trained = run.train(TrainConfig(updates=50, validate_every=1, patience=2))

    assert trained.state.update == 4
    assert (trained.state.best_update, trained.state.best_loss) == (2, 2.0)


class Stopper(list[Event]):
    """Kills a run as it reports an update."""

    def __init__(self, update: int) -> None:
        super().__init__()
        self._update = update

    def append(self, event: Event) -> None:
        if isinstance(event, Progress) and event.update == self._update:
            raise KeyboardInterrupt


UNTIL = TrainConfig(
    updates=60,
    validate_every=4,
    warmup=2,
    log_every=1,
    until=20.0,
    schedule="wsd",
    learning_rate=0.003,
    decay=0.4,
    average_checkpoints=2,
)


def test_a_reached_bleu_begins_the_cooldown(run: Run):
    run.bleus = [3.0, 20.0, 30.0]
    run.losses = [1.0, 2.0, 3.0, 4.0]

    trained = run.train(replace(UNTIL, patience=1, validate_every=6))

    assert trained.state.until_update == 12
    assert trained.state.update == 12 + 8, "0.4 of all are decay"
    assert [event.update for event in run.validated()] == [6, 12, 16, 20]
    rates = [event.learning_rate for event in run.events if isinstance(event, Progress)]
    assert rates[2:12] == [0.003] * 10
    falling = rates[11:]
    assert falling == sorted(set(falling), reverse=True)
    assert falling[-1] == pytest.approx(0.003 / 25), "the last of the schedule"
    assert [path.name for path in trained.checkpoints] == ["update-00000016", "update-00000020"]
    assert (
        LogMessage("BLEU 20 (train.until) is reached: 8 updates of cooldown follow") in run.events
    )


def test_a_schedule_without_decay_ends_when_the_bleu_is_reached(run: Run):
    run.bleus = [3.0, 25.0]

    assert run.train(replace(UNTIL, schedule="constant")).state.update == 8


def test_a_bleu_that_is_not_reached_changes_nothing_and_is_reported(run: Run):
    run.bleus = [19.9, math.nan]

    assert run.train(replace(UNTIL, updates=8, decay=0.2)).state.update == 8
    assert LogMessage("BLEU 20 (train.until) was not reached") in run.events


def test_a_run_stopped_in_its_cooldown_ends_with_the_same_weights(
    run: Run, tiny: Transformer, corpus: Corpus, tmp_path: Path
):
    run.bleus = [25.0]
    config = replace(UNTIL, validate_every=8, decay=0.5)
    stopped = Run(copy.deepcopy(tiny), corpus, tmp_path / "stopped", bleus=[25.0])
    stopped.events = Stopper(14)
    resumed = Run(copy.deepcopy(tiny), corpus, tmp_path / "stopped")
    torch.manual_seed(1)  # of dropout, as in a run
    straight = run.train(config)
    torch.manual_seed(1)
    with pytest.raises(KeyboardInterrupt):
        stopped.train(config)
    again = resumed.train(config)

    assert resumed.validated()[0].update == 16
    assert again.state.update == straight.state.update == 16
    for weight, other in zip(run.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(weight, other)


@pytest.mark.parametrize("until", [-1.0, 100.5, math.nan])
def test_a_bleu_that_no_translation_has_is_refused(until: float):
    with pytest.raises(ValueError, match=r"train.until must be a BLEU score up to 100, not"):
        TrainConfig(until=until)


def test_a_run_that_stopped_early_stays_stopped(run: Run):
    run.losses = [2.0, 3.0]
    config = TrainConfig(updates=50, validate_every=1, patience=1)
    run.train(config)

    again = run.train(config)

    assert again.state.update == 2


def test_a_finished_run_is_not_trained_again(run: Run):
    run.train(TrainConfig(updates=3))
    before = len(run.validated())

    again = run.train(TrainConfig(updates=3))

    assert again.state.update == 3
    assert len(run.validated()) == before


def test_going_on_is_told(run: Run):
    run.train(TrainConfig(updates=3))
    run.train(TrainConfig(updates=5))

    assert LogMessage(text="resuming after update 3") in run.events


def test_going_on_leaves_every_update_once_in_the_metrics(run: Run):
    run.train(TrainConfig(updates=4, log_every=1))
    run.train(TrainConfig(updates=6, log_every=1))

    text = (run.folder / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["update"] for line in lines if "loss" in line] == [1, 2, 3, 4, 5, 6]


def poison(monkeypatch: pytest.MonkeyPatch, *updates: int) -> None:
    """Let the loss of these updates be no number."""
    calls = iter(range(1, 1000))
    nats = step.chunked_cross_entropy

    def poisoned(hidden: torch.Tensor, *rest: torch.Tensor, smoothing: float):
        bad = math.nan if next(calls) in updates else 1.0
        return nats(hidden * bad, *rest, smoothing=smoothing)

    monkeypatch.setattr(step, "chunked_cross_entropy", poisoned)


def test_an_update_without_a_finite_gradient_is_skipped_counted_and_named(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    poison(monkeypatch, 2)

    trained = run.train(TrainConfig(updates=5, log_every=1))

    assert (trained.state.update, trained.state.skipped) == (5, 1)
    assert trained.state.skipped_in_a_row == 0
    assert all(weight.isfinite().all() for weight in run.model.parameters())
    (note,) = [event.text for event in run.events if isinstance(event, LogMessage)]
    assert note.startswith("update 2 is skipped: loss nan, gradient nan, training lines ")


def test_figures_read_one_update_late_make_the_same_log_and_counts(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    """A GPU's updates are read late; the log and the checkpoints do not show it."""
    initial = copy.deepcopy(run.model.state_dict())
    logs: list[list[str]] = []
    counts: list[tuple[int, int]] = []
    for max_unread in (0, 1):
        run.folder /= str(max_unread)
        run.model.load_state_dict(initial)
        torch.manual_seed(1)
        with monkeypatch.context() as patch:
            patch.setattr(Training, "max_unread", max_unread)
            poison(patch, 2, 4, 5, 7)
            state = run.train(TrainConfig(updates=7, validate_every=5, log_every=2)).state
        counts.append((state.skipped, state.skipped_in_a_row))
        log = (run.folder / "metrics.jsonl").read_text()
        logs.append(re.sub(r'"(seconds|tokens_per_second)": [0-9.]+', "", log).splitlines())
    assert counts == [(4, 1), (4, 1)]
    assert logs[0] == logs[1]
    assert sum('"skipped": ' in line for line in logs[0]) == 4


def test_a_run_that_diverges_fails_though_figures_are_read_late(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    poison(monkeypatch, *range(3, 50))
    monkeypatch.setattr(Training, "max_unread", 1)

    with pytest.raises(FloatingPointError, match=r"3 updates in a row .* update 5"):
        run.train(TrainConfig(updates=50, validate_every=20, max_skipped_updates=2))


def test_a_skipped_update_leaves_the_running_mean_where_it_was(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    config = TrainConfig(updates=1, ema=0.9, warmup=2)
    first = run.train(config).ema_model
    assert first is not None
    poison(monkeypatch, 1)

    trained = run.train(replace(config, updates=2))

    assert trained.state.skipped == 1
    assert trained.ema_model is not None
    assert not torch.equal(trained.ema_model.embedding.weight, run.model.embedding.weight)
    for name, weight in trained.ema_model.state_dict().items():
        assert torch.equal(weight, first.state_dict()[name]), name


def test_a_model_that_was_looked_at_is_trained_with_dropout(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    modes: list[bool] = []

    def update(model: Transformer, *given: object, **rest: object) -> StepResult:
        modes.append(model.training)
        return train_step(model, *given, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr("transduce.train.loop.train_step", update)
    run.model.eval()

    run.train(TrainConfig(updates=1))

    assert modes == [True]


def test_a_run_that_goes_on_remembers_what_was_skipped(run: Run, monkeypatch: pytest.MonkeyPatch):
    poison(monkeypatch, 1, 3)

    run.train(TrainConfig(updates=3, validate_every=1))
    again = run.train(TrainConfig(updates=4))

    assert again.state.skipped == 2


def test_too_many_bad_updates_in_a_row_stop_the_run_before_they_are_saved(
    run: Run, monkeypatch: pytest.MonkeyPatch
):
    poison(monkeypatch, *range(3, 50))

    with pytest.raises(FloatingPointError, match="3 updates in a row had no finite gradient"):
        run.train(TrainConfig(updates=50, validate_every=2, max_skipped_updates=2))

    newest = list_checkpoints(run.folder / "checkpoints")[-1]
    assert all(weight.isfinite().all() for weight in load_weights(newest).values())


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_it_taken(run: Run):
    straight = run.train(TrainConfig(updates=6, validate_every=2, average_checkpoints=1))
    ended = {
        name: weight.clone() for name, weight in load_weights(straight.checkpoints[-1]).items()
    }
    newest = straight.checkpoints[-1] / "model.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])

    again = run.train(TrainConfig(updates=6, validate_every=2, average_checkpoints=1))

    notes = [event.text for event in run.events if isinstance(event, LogMessage)]
    assert notes[0].startswith(f"skipping a checkpoint: {newest} has ")
    assert notes[1] == "resuming after update 4"
    for name, weight in load_weights(again.checkpoints[-1]).items():
        assert torch.equal(weight, ended[name]), name


def test_a_run_without_one_whole_checkpoint_is_not_begun_again_in_silence(run: Run):
    trained = run.train(TrainConfig(updates=2))
    for checkpoint in trained.checkpoints:
        (checkpoint / "state.json").unlink()

    with pytest.raises(ValueError, match=r"no checkpoint in .* is intact: train anew"):
        run.train(TrainConfig(updates=4))


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_step_in_the_dark_leaves_the_last_good_checkpoint_newest(run: Run, loss: float):
    """The weights became NaN, and the NaN was saved over the good."""
    run.losses = [2.0, loss]

    with pytest.raises(FloatingPointError, match=r"update-00000002 is good, and --resume goes on"):
        run.train(TrainConfig(updates=9, validate_every=2, log_every=7))

    assert [path.name for path in list_checkpoints(run.folder / "checkpoints")] == [
        "update-00000002"
    ]


def test_a_rate_that_breaks_the_model_is_complained_of(run: Run):
    config = TrainConfig(updates=50, learning_rate=1e30, validate_every=30)

    with pytest.raises(FloatingPointError, match=r"lower train\.learning_rate"):
        run.train(config)


def test_a_checkpoint_of_another_corpus_is_refused(run: Run):
    save_state(
        run.folder / "checkpoints",
        TrainState(update=1, epoch=0, epoch_update=1_000),
        model=run.model,
        optimizers=make_optimizers(run.model, TrainConfig()),
    )

    with pytest.raises(ValueError, match="corpus"):
        run.train(TrainConfig(updates=3))


def test_the_running_mean_is_what_is_validated_and_kept(run: Run):
    start = run.model.embedding.weight.detach().clone()

    trained = run.train(TrainConfig(updates=5, validate_every=5, warmup=2, ema=0.9))

    assert trained.ema_model is not None
    assert run.validated_models == [trained.ema_model]
    assert not torch.equal(trained.ema_model.embedding.weight, run.model.embedding.weight)
    assert not torch.equal(trained.ema_model.embedding.weight, start)


def test_a_mean_over_nothing_but_one_point_is_that_point(run: Run):
    still = TrainConfig(
        updates=3, validate_every=3, schedule="linear", learning_rate=1e-12, warmup=1, ema=0.999
    )

    trained = run.train(still)

    assert trained.ema_model is not None
    torch.testing.assert_close(trained.ema_model.embedding.weight, run.model.embedding.weight)


def test_without_a_running_mean_the_weights_themselves_are_validated(run: Run):
    trained = run.train(TrainConfig(updates=3, validate_every=3))

    assert trained.ema_model is None
    assert run.validated_models == [run.model]


def test_the_recipe_says_whether_a_batch_is_read_twice(run: Run, monkeypatch: pytest.MonkeyPatch):
    recorded: list[float] = []

    def update(*given: object, loss: LossSettings, **rest: object) -> StepResult:
        recorded.append(loss.r_drop)
        return train_step(*given, loss=loss, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr("transduce.train.loop.train_step", update)

    run.train(TrainConfig(updates=2, r_drop=5.0))

    assert recorded == [5.0, 5.0]
