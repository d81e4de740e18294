"""Programs of benchmarks/: what records hide and what they hold, without measuring."""

import json
import random
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SERVER = """#!/bin/sh
echo "loading $4" >&2
[ "$4" = broken ] && exit 2
echo "ready at http://127.0.0.1:8123/: en-de" >&2
exec sleep 60
"""

Program = Callable[[str], ModuleType]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    """Import a program by its name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    def load(name: str) -> ModuleType:
        monkeypatch.delitem(sys.modules, name, raising=False)
        return import_module(name)

    return load


def test_a_record_hides_paths_but_neither_keys_nor_parts_of_names(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """`--runs runs` used to rename the key "runs", and a folder "." to replace every dot."""
    record = program("record")
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    values = {
        "command": "quality.py --folder /data/set/ --runs runs --set=data.folder=/data/set",
        "runs": [{"file": "runs/1.json", "error": 'File "/data/set/train.en", line 3', "bleu": 4}],
        "note": "neither runs.txt, old-runs, my/runs nor /data/set2, but /data/set.",
    }

    record.write("hidden", values, hide={"/data/set/": "CORPUS", "runs": "RUNS", "": "NOTHING"})

    assert json.loads((tmp_path / "hidden" / "record.json").read_text()) == {
        "command": "quality.py --folder CORPUS/ --runs RUNS --set=data.folder=CORPUS",
        "runs": [{"file": "RUNS/1.json", "error": 'File "CORPUS/train.en", line 3', "bleu": 4}],
        "note": "neither runs.txt, old-runs, my/runs nor /data/set2, but CORPUS.",
    }
    assert record.hide_paths("train.seed=1 . ./a.b", {".": "RUNS"}) == "train.seed=1 RUNS RUNS/a.b"


@pytest.mark.parametrize("resumed", [False, True])
def test_the_time_of_a_resumed_training_is_unknown(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, resumed: bool
):
    quality = program("quality")
    if resumed:
        (tmp_path / "recipe.toml").touch()

    def train(command: list[str], *, check: bool) -> None:
        assert check
        assert ("--resume" in command) == resumed
        assert command[command.index("train.updates=9") - 1] == "--set"
        (tmp_path / "results.json").write_text('{"updates": 9}')
        (tmp_path / "metrics.jsonl").write_text('{"validation_loss": 1.5, "tokens": 7}\n')

    monkeypatch.setattr(quality, "commit", str)
    monkeypatch.setattr(quality, "machine", dict)
    monkeypatch.setattr(subprocess, "run", train)
    arguments = Namespace(recipe="tiny", folder=".", set=["train.updates=9"])
    results = quality.train(arguments, seed=1, run=tmp_path)

    assert results["target_tokens"] == 7
    assert (results["wall_seconds"] is None) == resumed


def test_systems_are_compared_on_processors_of_one_kind(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    equal_time = program("equal_time")
    (tmp_path / "test.de").write_text("ein Hund\n")
    files = {"test": (tmp_path / "test.en", tmp_path / "test.de")}
    own_run = {"shape": {}, "translations": ["ein Hund"], "processor": "A"}
    monkeypatch.setattr(equal_time, "unpacked", lambda *_: files)
    monkeypatch.setattr(equal_time, "python_of", lambda *_: tmp_path)
    monkeypatch.setattr(equal_time, "train_transduce", lambda *_: own_run)
    monkeypatch.setattr(equal_time, "train_peer", lambda *_: own_run)
    monkeypatch.setattr(equal_time, "machine", lambda: {"processor": "A"})
    monkeypatch.setattr(equal_time, "scores", lambda runs, _: {system: {} for system in runs})
    arguments = Namespace(folder=tmp_path, time="1m", peers=["eole"], environments=tmp_path)

    rows = equal_time.measure("toy", tmp_path, arguments)

    assert [row["processor"] for row in rows] == ["A", "A"]
    for origin, names in (
        ({"processor": "B"}, "A, B"),
        ({}, "A, unnamed"),
        ({"processor": "A", "vector_units": ["avx2"]}, "A, A avx2"),
    ):
        peer_run = {"translations": ["ein Hund"], **origin}
        monkeypatch.setattr(equal_time, "train_peer", lambda *_, run=peer_run: run)
        with pytest.raises(SystemExit, match=f"toy: runs of different processors: {names}"):
            equal_time.measure("toy", tmp_path, arguments)
    monkeypatch.setattr(equal_time, "machine", lambda: {"processor": "C"})
    monkeypatch.delattr(equal_time, "train_peer")  # not called
    with pytest.raises(SystemExit, match="toy: runs of different processors: A, C"):
        equal_time.measure("toy", tmp_path, arguments)


def test_a_similar_sentence_differs_by_a_word(program: Program):
    memory, rng = program("memory"), random.Random(1)

    edited = [memory.edit_sentence("w1 w2 w3", rng).split() for _ in range(200)]

    assert ["w1", "w2", "w3"] not in edited
    assert {len(words) for words in edited} == {2, 3, 4}


def test_a_server_is_yielded_when_it_is_ready_and_then_ended(program: Program, tmp_path: Path):
    python = tmp_path / "python"
    python.write_text(SERVER)
    python.chmod(0o755)
    run_server = program("server").run_server

    with run_server("model", "--quiet", python=str(python)) as server:
        assert (server.url, server.port) == ("http://127.0.0.1:8123", 8123)
        assert "loading model" in server.log.read_text()
        assert server.process.poll() is None
    assert server.process.returncode
    broken = run_server("broken", python=str(python))
    with pytest.raises(SystemExit, match="loading broken"), broken:
        pass
