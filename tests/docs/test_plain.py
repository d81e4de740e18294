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


def test_pages_that_are_bare_in_the_repository_lead_to_their_plain_form(edition: Path):
    """Where a forge would show directives; neither the site nor the plain form has that line."""
    docs = ROOT / "docs"
    bare = [page for page in docs.rglob("*.md") if _directives(page) - {"toctree"}]

    assert len(bare) > 10
    for page in bare:
        line = page.read_text().partition("\n\n")[2].partition("\n")[0]
        assert f"/blob/plain/{page.relative_to(docs)})" in line
        assert line not in (edition / page.relative_to(docs)).read_text()
        assert line not in plain.values.without_comments(page.read_text())


def _directives(page: Path) -> set[str]:
    return set(re.findall(r"^[`:]{3,}\{([\w-]+)\}", page.read_text(), re.M))


def test_code_plots_and_tables_are_shown(edition: Path):
    attention = (edition / "paper" / "attention.md").read_text()
    results = (edition / "paper" / "results.md").read_text()

    assert "scores = queries @ keys.mT / math.sqrt(keys.size(-1))" in attention
    assert "![scaling](../plots/scaling.svg)" in attention
    assert "The variance of q · k is d_k" in attention
    assert "| Transformer (4 layers) | semi-supervised | 92.7 |" in results
    explorer = (edition / "paper" / "explorer.md").read_text()
    assert "This part is on the [site]" in explorer
    assert "built without a trained model" not in explorer


def test_links_and_pictures_exist(edition: Path):
    for page in edition.rglob("*.md"):
        text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(), flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
