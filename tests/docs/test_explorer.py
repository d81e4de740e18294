"""Links into the explorer: each leads to a step that its page has, and no concept lacks one."""

import json
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from tests.docs.blocks import PAGES, ROOT

from transduce.web.page import run_in_node

sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "benchmarks")]
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


def test_the_recorded_training_ends_with_a_model_that_writes_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if (node := shutil.which("node")) is None:
        pytest.skip("Node.js is not installed")
    import watching  # type: ignore[reportMissingImports]  # benchmarks/watching.py

    monkeypatch.setattr(explorer, "WATCHED", tmp_path / "training" / "training.html")
    explorer.write_training()
    numbers = [7, 42, 101, 860, 342_007, 999_999]
    job = {"sentences": [watching.english(number) for number in numbers]}
    answer = run_in_node(node, explorer.WATCHED, job)
    record = json.loads((explorer.RECORD / "record.json").read_text("utf-8"))
    description = json.loads((explorer.RECORD / "page.json").read_text("utf-8"))

    texts = [translation["text"] for translation in answer["translations"]]
    assert texts == [watching.german(number) for number in numbers]
    assert texts[-2] == "dreihundertzweiundvierzigtausendsieben"
    assert len(description["history"]["updates"]) == record["checkpoints"] > 15
    assert description["weights"]["sha256"] == record["weights_sha256"]
    assert record["weights_bytes"] < 1_500_000
