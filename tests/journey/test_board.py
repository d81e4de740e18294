"""TensorBoard through the command line: where it is missing the first line says so."""

from pathlib import Path

import pytest
from tests.conftest import SMALL, Run, Transduce, write_corpus

from transduce.train import trackers


def test_without_the_package_a_run_ends_before_it_begins(
    transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_corpus(tmp_path)
    files = ("--source", tmp_path / "train.src", "--target", tmp_path / "train.rev")
    monkeypatch.setattr(trackers.importlib.util, "find_spec", lambda name: None)

    wanted = ("--set", "train.log_to=tensorboard", "--out", tmp_path / "run")
    result = transduce("train", *files, *SMALL, *wanted)

    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "python -m pip install tensorboard" in result.err
    assert not (tmp_path / "run").exists()


def test_a_run_may_go_on_with_it_or_without(run: Run, transduce: Transduce):
    result = transduce(
        "train", "--resume", "--out", run.folder, "--set", "train.log_to=tensorboard"
    )

    assert result.code == 0
