"""COMET is called as its package wants it; a stand-in replaces the package and its model."""

import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from tests.conftest import Transduce, refuses

from transduce.evaluation.comet import comet

FORCE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


class Scorer:
    """Scores a line by whether it equals its reference."""

    def predict(
        self, rows: Sequence[Mapping[str, str]], *, batch_size: int, gpus: int, progress_bar: bool
    ) -> SimpleNamespace:
        assert (gpus, progress_bar) == (0, False)
        assert all(row["src"].startswith("source") for row in rows)
        scores = [float(row["mt"] == row["ref"]) for row in rows]
        return SimpleNamespace(scores=scores, system_score=sum(scores) / len(scores))


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module in the place of unbabel-comet's."""
    module = ModuleType("comet")

    def load(path: str) -> Scorer:
        assert path.endswith("checkpoints/model.ckpt")
        assert os.environ[FORCE] == "1"
        return Scorer()

    facts = {"__version__": "2.2.7", "__spec__": ModuleSpec("comet", None)}
    module.__dict__.update(facts, load_from_checkpoint=load)
    monkeypatch.setitem(sys.modules, "comet", module)
    return module


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "wmt22-comet-da"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "model.ckpt").touch()
    (folder / "hparams.yaml").touch()
    return folder


@pytest.mark.usefixtures("package")
def test_lines_are_scored_with_their_sources(tmp_path: Path, model: Path, transduce: Transduce):
    for name, lines in {
        "in.en": ["source 1", "source 2", "source 3", "source 4"],
        "out.de": ["a", "b", "c", "x"],
        "ref.de": ["a", "b", "c", "d"],
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))

    result = transduce(
        *("evaluate", "--hypotheses", tmp_path / "out.de", "--source", tmp_path / "in.en"),
        *("--target", tmp_path / "ref.de", "--metric", "comet", "--comet-model", model),
    )

    assert result.code == 0, result.err
    # Of means of four lines, three in four of which are right, 95 % lie from 25 to 100.
    assert result.out == "COMET 75.00 ± 37.50  model:wmt22-comet-da|x100|version:2.2.7\n"
    assert FORCE not in os.environ


def test_a_checkpoint_with_code_is_refused(package: ModuleType, model: Path):
    def load(path: str) -> Scorer:
        raise pickle.UnpicklingError("Weights only load failed: os.system\nmore lines")

    package.__dict__["load_from_checkpoint"] = load

    with pytest.raises(ValueError, match=r"model\.ckpt holds more than weights: .*system$"):
        comet(["source"], ["a"], ["a"], model=model)
    assert FORCE not in os.environ


@pytest.mark.parametrize(
    "error", [RuntimeError("reader failed\nmore lines"), EOFError(), TypeError("not a table")]
)
def test_a_damaged_model_is_refused(package: ModuleType, model: Path, error: Exception):
    def load(path: str) -> Scorer:
        raise error

    package.__dict__["load_from_checkpoint"] = load

    with pytest.raises(ValueError, match=r"comet-da is damaged \([^\n]+\): download it again$"):
        comet(["source"], ["a"], ["a"], model=model)


@pytest.mark.usefixtures("package")
def test_the_environment_is_restored(model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(FORCE, "0")

    comet(["source"], ["a"], ["a"], model=model)

    assert os.environ[FORCE] == "0"


def test_what_is_missing_is_named(
    tmp_path: Path, model: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    line = tmp_path / "line.de"
    line.write_text("a\n")
    files = ("evaluate", "--hypotheses", line, "--target", line)
    wanted = ("--metric", "comet", "--comet-model", model)

    for words in (wanted, wanted[:2], ("--source", line, *wanted[:2]), wanted[2:]):
        refuses(transduce(*files, *words), "--metric comet, --comet-model FOLDER and --source FILE")
    monkeypatch.setitem(sys.modules, "comet", None)
    refuses(transduce(*files, "--source", line, *wanted), "pip install unbabel-comet")


@pytest.mark.usefixtures("package")
def test_another_folder_is_refused(model: Path):
    (model / "hparams.yaml").unlink()

    with pytest.raises(ValueError, match=r"needs hparams\.yaml and checkpoints/model\.ckpt"):
        comet(["source"], ["a"], ["a"], model=model)
