"""Links into the explorer: each leads to a step that its page has, and no concept lacks one."""

import re
import sys
from urllib.parse import parse_qs

import pytest
from tests.docs.blocks import PAGES, ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
explorer = pytest.importorskip("explorer", reason="Sphinx is not installed")

PAGE = ROOT / "src" / "transduce" / "web" / "page"
LINKS = sorted(
    {
        link
        for page in PAGES
        for link in re.findall(r"\{explore\}`([^`]+)`", page.read_text("utf-8"))
    }
)


@pytest.mark.parametrize("link", LINKS)
def test_a_link_leads_to_a_step_of_the_explorer(link: str):
    query = parse_qs(explorer.fragment(link))
    code = (PAGE / "steps.js").read_text("utf-8") + (PAGE / "explorer.js").read_text("utf-8")
    parts = re.findall(r'<option value="(\w+)">', (PAGE / "index.html").read_text("utf-8"))

    (step,), (part,) = query["step"], query["part"]
    assert f'id: "{step}"' in code or f'panel("{step}"' in code
    assert part in parts


def test_a_step_that_is_not_there_stops_the_build():
    for link in ("steps", "scores elsewhere"):
        with pytest.raises(ValueError, match="has no step"):
            explorer.fragment(link)


def test_every_concept_of_the_model_has_its_place():
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    second = glossary.split("## The Transformer's terms")[1]
    concepts = re.findall(r"^(.+)\n: ", second, re.MULTILINE)
    page = (ROOT / "docs" / "paper" / "explorer.md").read_text("utf-8")
    table, rest = page.split("## Where each concept is")[1].split("\n\nDropout")

    assert len(concepts) > 15
    rows = dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", table, re.MULTILINE))
    without = [concept for concept in concepts if "{explore}" not in rows.get(concept, "")]
    assert all(concept in f"dropout{rest}" for concept in without), without
    assert without == ["dropout", "teacher forcing", "exposure bias", "BLEU, chrF, TER"]
