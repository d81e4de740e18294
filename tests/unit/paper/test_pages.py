"""Committed pages of the paper's tables are what their programs write of the committed records."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_committed_pages_have_todays_wording(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "paper", raising=False)
    from paper import pages  # pyright: ignore[reportMissingImports]

    texts = pages()

    assert len(texts) >= 3
    assert [page.name for page, text in texts.items() if page.read_text() != text] == []
