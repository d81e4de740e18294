"""A search for settings: what is drawn, pruned and resumed, with runs that take no time."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import ReferenceType, ref

import pytest
import torch
from tests.conftest import SMALL, Transduce, refuses, write_corpus
from torch import Tensor

from transduce.config import Recipe, load_recipe
from transduce.pipeline import tune
from transduce.pipeline.defaults import RecipeChoice
from transduce.pipeline.tune import PAGE, parse_space, search, trial_rows
from transduce.train.events import Event, LogMessage, Validated

optuna = pytest.importorskip("optuna")
VALIDATIONS = 3


def choose(drawn: Sequence[str]) -> RecipeChoice:
    return RecipeChoice(load_recipe("tiny", drawn), "")


class Runs:
    """Stands in for runs: BLEU rises at each validation, and is best at a dropout of 0.2."""

    def __init__(self, *, killed_at: int = -1) -> None:
        self.killed_at, self.count, self.dropouts = killed_at, 0, list[float]()

    def run_recipe(
        self, recipe: Recipe, out: Path, *, on_event: Callable[[Event], None], **rest: object
    ) -> SimpleNamespace:
        out.mkdir(exist_ok=True)
        self.dropouts.append(dropout := recipe.model.dropout)
        if dropout > 0.55:
            raise FloatingPointError("the loss is nan")
        final = 30 - 100 * abs(dropout - 0.2)
        for step in range(1, VALIDATIONS + 1):
            self.count += 1
            if self.count == self.killed_at:
                raise KeyboardInterrupt
            bleu, file = final * step / VALIDATIONS, out / "metrics.jsonl"
            held = file.read_text().splitlines()[: step - 1] if file.exists() else []
            file.write_text("\n".join([*held, json.dumps({"bleu": bleu})]) + "\n")
            kind = {"perplexity": 2.0, "signature": "", "best": False}
            on_event(Validated(update=step, loss=30 - bleu, bleu=bleu, **kind))  # pyright: ignore[reportArgumentType]
        scores = (SimpleNamespace(name="BLEU", value=final),)
        return SimpleNamespace(validation=SimpleNamespace(scores=scores, loss=30 - final))


def tuned(
    out: Path, monkeypatch: pytest.MonkeyPatch, *, runs: Runs, trials: int = 9, **settings: object
) -> tuple["optuna.Study", list[str]]:
    events = list[Event]()
    monkeypatch.setattr(tune, "run_recipe", runs.run_recipe)
    values = {"metric": "bleu", "seed": 1, "space": parse_space(["model.dropout=0.0:0.6"], [])}
    study = search(choose, out, trials=trials, on_event=events.append, **(values | settings))  # pyright: ignore[reportArgumentType]
    return study, [event.text for event in events if isinstance(event, LogMessage)]


def test_trials_that_fall_behind_are_pruned_and_a_diverging_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    study, messages = tuned(tmp_path, monkeypatch, runs=(runs := Runs()))

    rows = trial_rows(study)
    states = [row[3] for row in rows]
    assert [row[0] for row in rows] == [str(number) for number in range(9)]
    assert states[:4].count("pruned") == 0
    assert "pruned" in states
    assert any("pruned at validation 1" in text for text in messages)
    assert ("fail" in states) == any(dropout > 0.55 for dropout in runs.dropouts)
    assert abs(study.best_params["model.dropout"] - 0.2) < 0.1
    page = (tmp_path / PAGE).read_text()
    assert "best so far" in page
    assert all(row[1] in page for row in rows)
    assert "://" not in page.replace("http://www.w3.org", ""), "self-contained"


@pytest.mark.parametrize("killed_at", [2, 8])
def test_a_killed_search_ends_as_an_uninterrupted_one(
    killed_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    straight, _ = tuned(tmp_path / "straight", monkeypatch, runs=Runs(), trials=6)
    with pytest.raises(KeyboardInterrupt):
        tuned(tmp_path / "killed", monkeypatch, runs=Runs(killed_at=killed_at), trials=6)
    runs = Runs()
    resumed, _ = tuned(tmp_path / "killed", monkeypatch, runs=runs, trials=6)

    assert trial_rows(resumed) == trial_rows(straight)
    assert len(runs.dropouts) == 6 - (killed_at - 1) // VALIDATIONS
    assert len(list((tmp_path / "killed").glob("trial-*"))) == 6


def test_more_trials_go_on_and_other_settings_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tuned(tmp_path, monkeypatch, runs=Runs(), trials=2, metric="loss")
    study, _ = tuned(tmp_path, monkeypatch, runs=(runs := Runs()), trials=3, metric="loss")

    assert len(runs.dropouts) == 1
    assert study.best_value == pytest.approx(min(float(row[2]) for row in trial_rows(study)), 0.01)
    with pytest.raises(ValueError, match="holds a search of other settings"):
        tuned(tmp_path, monkeypatch, runs=Runs(), trials=4, seed=2, metric="loss")


def test_a_search_whose_trials_all_diverge_has_no_best_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    space = parse_space(["model.dropout=0.56:0.6"], [])
    arguments = {"runs": Runs(), "trials": 2, "space": space}

    with pytest.raises(FloatingPointError, match=r"all trials in .* failed: name another --out"):
        tuned(tmp_path, monkeypatch, metric="loss", **arguments)
    with pytest.raises(ValueError, match="holds a search of other settings"):
        tuned(tmp_path, monkeypatch, metric="bleu", **arguments)


class FullMemory(Runs):
    """The first run fails; its weights are part of a reference cycle, as models' are."""

    def __init__(self, error: type[Exception], text: str) -> None:
        super().__init__()
        self.error, self.text = error, text
        self.weights: ReferenceType[Tensor] | None = None

    def run_recipe(self, recipe: Recipe, out: Path, **rest: Any) -> SimpleNamespace:
        if self.weights:
            assert self.weights() is None, "those of the first run are freed"
            return super().run_recipe(recipe, out, **rest)
        model = SimpleNamespace(weights=torch.zeros(7))
        model.itself = model
        self.weights = ref(model.weights)
        raise self.error(self.text)


@pytest.mark.parametrize(
    ("error", "text", "message"),
    [
        (MemoryError, "", "out of memory"),
        (MemoryError, "memory runs out on a single pair", "memory runs out on a single pair"),
        (torch.OutOfMemoryError, "Tried to allocate 2 GiB.\nSee the manual.", "out of memory"),
    ],
)
def test_a_trial_without_memory_fails_and_leaves_none_occupied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], text: str, message: str
):
    space = parse_space(["model.dropout=0.0:0.5"], [])

    study, messages = tuned(
        tmp_path, monkeypatch, runs=FullMemory(error, text), trials=3, space=space
    )

    assert [row[3] for row in trial_rows(study)] == ["fail", "complete", "complete"]
    assert f"trial 0: {message}" in messages


def test_an_error_that_is_a_bug_ends_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        tuned(tmp_path, monkeypatch, runs=FullMemory(RuntimeError, "shapes cannot be multiplied"))


def test_ranges_and_choices():
    ranges = ["train.warmup=100:400", "train.learning_rate=1e-4:1e-2:log"]
    warmup, dropout, rate = "train.warmup", "model.dropout", "train.learning_rate"

    space = parse_space(ranges, ["model.dropout=0.1,0.2"])

    kinds = optuna.distributions
    assert space == {
        dropout: kinds.CategoricalDistribution(["0.1", "0.2"]),
        warmup: kinds.IntDistribution(100, 400),
        rate: kinds.FloatDistribution(1e-4, 1e-2, log=True),
    }
    for wrong in ("100", "a:b", "e:3", "1:2:lin"):
        with pytest.raises(ValueError, match=f"--range {warmup}={wrong} is not KEY=LOW:HIGH"):
            parse_space([f"{warmup}={wrong}"], [])
    with pytest.raises(ValueError, match=f"{dropout} is searched twice"):
        parse_space([f"{dropout}=0.1:0.3"], [f"{dropout}=0.1,0.2"])


def test_a_search_by_command(transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_corpus(tmp_path)
    files = ("--source", tmp_path / "train.src", "--target", tmp_path / "train.rev")
    short = (*SMALL, "--set", "train.updates=20", "--set", "train.validate_every=10")
    call = ("tune", "tiny", *files, *short, "--choice", "model.dropout=0.1,0.3")

    result = transduce(*call, "--trials", "2", "--out", tmp_path / "search")

    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[0].split() == ["trial", "settings", "score", "state"]
    assert [line.split()[-1] for line in lines[1:3]] == ["complete"] * 2
    assert lines[-1].startswith("transduce train tiny --set ")
    best = lines[-2].removeprefix("best: ").partition(",")[0]
    assert (Path(best) / "config.json").is_file()
    refuses(transduce("tune", "tiny"), "nothing to search")
    monkeypatch.setattr("transduce.cli.train.find_spec", lambda name: None)
    refuses(transduce(*call), "transduce tune needs Optuna: pip install 'transduce[tune]'")
