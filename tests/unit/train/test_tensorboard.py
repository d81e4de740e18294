"""TensorBoard shows what metrics.jsonl says, once; without the package one line says so."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from transduce.train import metrics_log
from transduce.train.events import Event, LogMessage, Progress, Validated
from transduce.train.metrics_log import check_tensorboard, tensorboard_writer


@dataclass
class FakeWriter:
    """Remembers what it was told, in order."""

    told: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])

    def open(self, folder: Path, update: int) -> "FakeWriter":
        self.told.append(("open", folder, update))
        return self

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.told.append((tag, scalar_value, global_step))

    def flush(self) -> None:
        self.told.append(("flush",))

    def close(self) -> None:
        self.told.append(("close",))


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


FOUND = Validated(update=20, loss=2.5, perplexity=12.2, bleu=31.25, signature="s", best=True)


def test_an_update_gives_four_points(tmp_path: Path):
    writer = FakeWriter()

    with tensorboard_writer(
        tmp_path, wanted=True, on_event=lambda event: None, open=writer.open
    ) as on_event:
        on_event(progress(40))

    assert writer.told[1:-1] == [
        ("train/loss", 1.5, 40),
        ("train/rate", 0.125, 40),
        ("train/tokens_per_second", 701.0, 40),
        ("train/grad_norm", 0.75, 40),
    ]


def test_a_validation_gives_three_points_and_is_written_out(tmp_path: Path):
    writer = FakeWriter()

    with tensorboard_writer(
        tmp_path, wanted=True, on_event=lambda event: None, open=writer.open
    ) as on_event:
        on_event(FOUND)

    assert writer.told[1:-1] == [
        ("validation/loss", 2.5, 20),
        ("validation/perplexity", 12.2, 20),
        ("validation/BLEU", 31.25, 20),
        ("flush",),
    ]


def test_points_from_the_first_update_told_are_made_anew(tmp_path: Path):
    writer = FakeWriter()

    with tensorboard_writer(
        tmp_path, wanted=True, on_event=lambda event: None, open=writer.open
    ) as on_event:
        on_event(LogMessage(text="resuming after update 40"))
        on_event(progress(60))
        on_event(progress(80))

    opened = [told for told in writer.told if told[0] == "open"]
    assert opened == [("open", tmp_path / "tensorboard", 60)]


def test_the_watcher_is_told_everything_as_before(tmp_path: Path):
    heard: list[Event] = []
    events = [LogMessage(text="a note"), progress(20), FOUND]

    with tensorboard_writer(
        tmp_path, wanted=True, on_event=heard.append, open=FakeWriter().open
    ) as on_event:
        for event in events:
            on_event(event)

    assert heard == events


def test_a_run_that_fails_keeps_its_curves(tmp_path: Path):
    writer = FakeWriter()

    def diverge() -> None:
        with tensorboard_writer(
            tmp_path, wanted=True, on_event=lambda event: None, open=writer.open
        ) as on_event:
            on_event(progress(20))
            raise FloatingPointError

    with pytest.raises(FloatingPointError):
        diverge()

    assert writer.told[-1] == ("close",)


def test_where_it_is_not_wanted_nothing_is_opened(tmp_path: Path):
    writer, heard = FakeWriter(), list[Event]()

    with tensorboard_writer(
        tmp_path, wanted=False, on_event=heard.append, open=writer.open
    ) as on_event:
        on_event(progress(20))

    assert (writer.told, heard) == ([], [progress(20)])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metrics_log.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ValueError, match="python -m pip install tensorboard"):
        check_tensorboard()


def test_a_package_that_is_here_is_no_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metrics_log.importlib.util, "find_spec", lambda name: object())

    check_tensorboard()
