"""The plain-Markdown edition has no directive left, and code, plots and tables in their place."""

import re
import sys
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT

pytest.importorskip("sphinx", reason="the site's packages: make docs installs them")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import plain


@pytest.fixture(scope="module")
def edition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plain")
    plain.write(out)
    return out


def test_no_page_has_a_directive_a_role_or_a_comment_of_ours(edition: Path):
    for page in edition.rglob("*.md"):
        text = page.read_text()

        assert re.findall(r"^[`:]{3,}\{", text, re.M) == [], page
        assert "<!--=" not in text, page
        assert "<!-- not run" not in text, page


def test_code_plots_and_tables_are_shown(edition: Path):
    attention = (edition / "paper" / "attention.md").read_text()
    results = (edition / "paper" / "results.md").read_text()

    assert "scores = queries @ keys.mT / math.sqrt(keys.size(-1))" in attention
    assert "![scaling](../plots/scaling.svg)" in attention
    assert "The variance of q · k is d_k" in attention
    assert "| Transformer (4 layers) | semi-supervised | 92.7 |" in results


def test_links_and_pictures_exist(edition: Path):
    for page in edition.rglob("*.md"):
        text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(), flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
