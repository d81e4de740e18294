"""Committed pages of the paper's tables are what their programs write of the committed records."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/paper.py."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "paper", raising=False)
    return import_module("paper")


def test_committed_pages_have_todays_wording(paper: ModuleType):
    texts = paper.pages()

    assert len(texts) >= 3
    assert [page.name for page, text in texts.items() if page.read_text() != text] == []


class _Interrupted:
    """A command that finishes a row, goes on, finishes another, and is interrupted."""

    kept: Path
    work: Path

    def __init__(self, command: list[str]) -> None:
        assert (self.work / "outcomes" / "base-seed-1.json").read_text() == "of another machine"
        self.rows = 1

    def __enter__(self) -> "_Interrupted":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def poll(self) -> None:
        pass

    def wait(self, seconds: float) -> None:
        if self.rows == 2:
            assert (self.kept / "base-seed-2.json").read_text() == "of this one"
        self.rows += 1
        (self.work / "outcomes" / f"base-seed-{self.rows}.json").write_text("of this one")
        raise subprocess.TimeoutExpired("", seconds) if self.rows == 2 else KeyboardInterrupt


def test_rows_are_kept_as_they_are_finished_and_those_that_were_kept_are_taken(
    paper: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    kept, work = tmp_path / "paper-table3" / "outcomes", tmp_path / "work"
    kept.mkdir(parents=True)
    (kept / "base-seed-1.json").write_text("of another machine")
    monkeypatch.setattr(_Interrupted, "kept", kept, raising=False)
    monkeypatch.setattr(_Interrupted, "work", work, raising=False)
    monkeypatch.setattr(paper, "RESULTS", tmp_path)
    monkeypatch.setattr(subprocess, "Popen", _Interrupted)
    monkeypatch.setattr(sys, "argv", ["paper.py", "table3", "--work", str(work)])
    with pytest.raises(KeyboardInterrupt):
        paper.main()

    assert {file.name: file.read_text() for file in kept.iterdir()} == {
        "base-seed-1.json": "of another machine",
        "base-seed-2.json": "of this one",
        "base-seed-3.json": "of this one",
    }


def test_rows_of_another_corpus_are_not_handed_over(
    paper: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """A value that an earlier version did not write is no difference."""
    kept, work = tmp_path / "paper-table3" / "outcomes", tmp_path / "work" / "outcomes"
    for folder, corpus in ((kept, "a"), (work, "b")):
        folder.mkdir(parents=True)
        (folder / "settings.json").write_text(json.dumps({"pairs": 5, "corpus_sha256": corpus}))
    (kept / "base-seed-1.json").touch()
    monkeypatch.setattr(paper, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["paper.py", "table3", "--work", str(work.parent)])

    with pytest.raises(SystemExit, match="holds rows of another corpus or other settings"):
        paper.main()
    assert [file.name for file in work.iterdir()] == ["settings.json"]
    (work / "settings.json").write_text('{"pairs": 5}')
    paper.copy_missing(kept, work)
    assert (work / "base-seed-1.json").exists()


class _Finished:
    """A command that has ended."""

    returncode = 0

    def __init__(self, command: list[str]) -> None:
        Path(command[-1]).mkdir(exist_ok=True)

    def __enter__(self) -> "_Finished":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def poll(self) -> int:
        return 0


@pytest.mark.parametrize("resumed", [False, True])
def test_the_duration_of_a_resumed_command_is_unknown(
    paper: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, resumed: bool
):
    """It used to be that of the last call."""
    records: list[dict[str, object]] = []
    (tmp_path / "paper-table1").mkdir()
    work = tmp_path / "work"
    if resumed:
        work.mkdir()
        (work / "checkpoint").touch()
    monkeypatch.setattr(paper, "RESULTS", tmp_path)
    monkeypatch.setattr(paper, "header", lambda *_: {})
    monkeypatch.setattr(paper, "write", lambda name, record, **_: records.append(record))
    monkeypatch.setattr(subprocess, "Popen", _Finished)
    monkeypatch.setattr(sys, "argv", ["paper.py", "table1", "--work", str(work)])
    paper.main()

    assert (records[0]["seconds"] is None) == resumed
