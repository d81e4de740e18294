"""The newcomer's path: every command of docs/start.md that can be run, in order, in one folder."""

from pathlib import Path

from tests.conftest import Transduce
from tests.docs.blocks import ROOT, blocks, run_shell
from tests.unit.visualization.test_page import parsed


def test_the_page_leads_from_two_files_to_a_look_inside(place: Path, transduce: Transduce):
    for file in ("corpus.en", "corpus.de"):
        (place / file).unlink()

    for block in blocks(ROOT / "docs" / "start.md"):
        if block.language == "sh" and not block.not_run:
            run_shell(block.text, transduce)

    assert (place / "runs" / "mine" / "model" / "model.safetensors").is_file()
    assert "it was too tired" in parsed((place / "map.html").read_text()).text


def test_the_page_is_where_the_readme_sends_a_newcomer():
    assert "/docs/start.md)" in (ROOT / "README.md").read_text()
