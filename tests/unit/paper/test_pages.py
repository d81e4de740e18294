"""Committed pages of the paper's tables are what their programs write of the committed records."""

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


def test_an_interrupted_run_keeps_its_finished_rows_and_takes_those_that_were_kept(
    paper: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    kept, work = tmp_path / "paper-table3" / "outcomes", tmp_path / "work"
    kept.mkdir(parents=True)
    (kept / "base-seed-1.json").write_text("of another machine")

    def run(command: list[str]) -> None:
        assert (work / "outcomes" / "base-seed-1.json").read_text() == "of another machine"
        (work / "outcomes" / "base-seed-2.json").write_text("of this one")
        raise KeyboardInterrupt

    monkeypatch.setattr(paper, "RESULTS", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["paper.py", "table3", "--work", str(work)])
    with pytest.raises(KeyboardInterrupt):
        paper.main()

    assert {file.name: file.read_text() for file in kept.iterdir()} == {
        "base-seed-1.json": "of another machine",
        "base-seed-2.json": "of this one",
    }
