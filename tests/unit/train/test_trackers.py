"""Trackers get what metrics.jsonl says, once; a missing package is named."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NoReturn

import pytest

from transduce.config import load_recipe
from transduce.train import trackers as module
from transduce.train.events import Event, LogMessage, Progress, Validated
from transduce.train.trackers import OPENERS, OpenTracker, Tracker, check_trackers, trackers


@dataclass
class FakeTracker:
    """Records its calls, in order."""

    calls: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])

    def open(self, run: Path, update: int) -> Tracker:
        self.calls.append(("open", run, update))
        return Tracker(self.log, lambda: self.calls.append(("close",)))

    def log(self, values: Mapping[str, float], update: int) -> None:
        self.calls.append((dict(values), update))


def progress(update: int) -> Progress:
    return Progress(
        update=update,
        updates=97,
        epoch=2,
        loss=1.5,
        tokens_per_second=701.0,
        learning_rate=0.125,
        grad_norm=0.75,
        seconds_left=3.0,
    )


FIGURES = {
    "train/loss": 1.5,
    "train/rate": 0.125,
    "train/tokens_per_second": 701.0,
    "train/grad_norm": 0.75,
}
VALIDATED = Validated(
    update=20, loss=2.5, perplexity=12.2, bleu=31.25, signature="s", best=True, accuracy=0.5
)


def test_figures_go_to_every_tracker_from_the_first_update_on(tmp_path: Path):
    first, second, events = FakeTracker(), FakeTracker(), list[Event]()
    openers = {"a": first.open, "b": second.open}
    given = [LogMessage("resuming after update 40"), progress(60), VALIDATED]

    with trackers(tmp_path, ("a", "b"), on_event=events.append, openers=openers) as on_event:
        for event in given:
            on_event(event)

    validation = {
        "validation/loss": 2.5,
        "validation/perplexity": 12.2,
        "validation/BLEU": 31.25,
        "validation/accuracy": 0.5,
    }
    assert first.calls == [("open", tmp_path, 60), (FIGURES, 60), (validation, 20), ("close",)]
    assert second.calls == first.calls
    assert events == given


def test_a_run_that_fails_closes_its_trackers(tmp_path: Path):
    tracker = FakeTracker()

    def diverge() -> None:
        with trackers(
            tmp_path, ("a",), on_event=lambda event: None, openers={"a": tracker.open}
        ) as on_event:
            on_event(progress(20))
            raise FloatingPointError

    with pytest.raises(FloatingPointError):
        diverge()

    assert tracker.calls[-1] == ("close",)


def fail(*_: object) -> NoReturn:
    raise ConnectionError("no route\nto the host")


@pytest.mark.parametrize(
    "opener",
    [
        fail,
        lambda run, update: Tracker(fail, fail),
        lambda run, update: Tracker(lambda values, update: None, fail),
    ],
    ids=["opening", "logging", "closing"],
)
def test_a_tracker_that_fails_is_reported_and_left_out(tmp_path: Path, opener: OpenTracker):
    other, events = FakeTracker(), list[Event]()
    openers = {"a": opener, "b": other.open}

    with trackers(tmp_path, ("a", "b"), on_event=events.append, openers=openers) as on_event:
        on_event(progress(20))
        on_event(VALIDATED)

    messages = [event.text for event in events if isinstance(event, LogMessage)]
    assert messages == ["training continues without train.log_to a: no route"]
    assert [event for event in events if not isinstance(event, LogMessage)] == [
        progress(20),
        VALIDATED,
    ]
    assert len(other.calls) == 4


def test_without_a_tracker_nothing_is_opened(tmp_path: Path):
    tracker, events = FakeTracker(), list[Event]()

    with trackers(tmp_path, (), on_event=events.append, openers={"a": tracker.open}) as on_event:
        on_event(progress(20))

    assert (tracker.calls, events) == ([], [progress(20)])


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_wandb_and_trackio_are_called_by_their_interface(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    calls: list[tuple[str, tuple[object, ...], dict[str, object]]] = []
    fake = ModuleType(name)
    for function in ("init", "log", "finish"):
        monkeypatch.setattr(
            fake, function, lambda *a, f=function, **k: calls.append((f, a, k)), raising=False
        )
    monkeypatch.setitem(sys.modules, name, fake)

    run = tmp_path / "mine"
    run.mkdir()
    tracker = OPENERS[name](run, 1)
    tracker.log({"train/loss": 1.5}, 20)
    tracker.close()
    OPENERS[name](run, 41)

    assert calls.pop() == calls[0]  # of a resumed run
    ids = {"id": (run / "wandb-id.txt").read_text()} if name == "wandb" else {}
    assert calls == [
        ("init", (), {"project": "transduce", "name": "mine", "resume": "allow", **ids}),
        ("log", ({"train/loss": 1.5},), {"step": 20}),
        ("finish", (), {}),
    ]


def test_a_resumed_run_continues_its_run_of_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs, started = list[SimpleNamespace](), list[tuple[str | None, str | None]]()

    def start_run(
        run_id: str | None = None, run_name: str | None = None, tags: Mapping[str, str] = {}
    ) -> None:
        started.append((run_id, run_name))
        if run_id is None:
            info = SimpleNamespace(run_id=f"id-{len(runs)}")
            runs.append(SimpleNamespace(info=info, tags=tags))

    def search_runs(
        filter_string: str, max_results: int, output_format: str
    ) -> list[SimpleNamespace]:
        assert (max_results, output_format) == (1, "list")
        texts = [{f"tags.`{tag}` = '{value}'" for tag, value in run.tags.items()} for run in runs]
        return [run for run, text in zip(runs, texts, strict=True) if filter_string in text]

    fake = ModuleType("mlflow")
    monkeypatch.setattr(fake, "set_experiment", lambda name: None, raising=False)
    monkeypatch.setattr(fake, "start_run", start_run, raising=False)
    monkeypatch.setattr(fake, "search_runs", search_runs, raising=False)
    monkeypatch.setattr(fake, "end_run", lambda: None, raising=False)
    monkeypatch.setitem(sys.modules, "mlflow", fake)

    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
    for name, update in (("mine", 1), ("other", 1), ("mine", 41)):
        OPENERS["mlflow"](tmp_path / name, update).close()

    assert started == [(None, "mine"), (None, "other"), ("id-0", None)]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ValueError, match="python -m pip install mlflow"):
        check_trackers(["mlflow"])
    check_trackers([])


def test_the_former_setting_is_read(tmp_path: Path):
    file = tmp_path / "old.toml"
    for value, names in (("true", ("tensorboard",)), ("false", ())):
        file.write_text(f"[train]\ntensorboard = {value}\n", encoding="utf-8")
        assert load_recipe(file).train.log_to == names


def test_a_tracker_is_one_of_those_known():
    assert load_recipe("tiny", ["train.log_to=mlflow"]).train.log_to == ("mlflow",)
    with pytest.raises(ValueError, match='must be a list with any of "tensorboard", "wandb"'):
        load_recipe("tiny", ["train.log_to=comet"])
