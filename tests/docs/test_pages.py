"""The pages of the paper's walk claim nothing that is not there, and leave no claim out."""

import re
from pathlib import Path

import pytest
from tests.docs.blocks import PAGES, ROOT
from tests.frozen.test_fidelity import names

WALK = sorted((ROOT / "docs" / "paper").glob("*.md"))
_INCLUDED = re.compile(r"\{literalinclude\} (\S+)\n(?::language: \w+\n)?:pyobject: (\S+)")
SECTIONS = ("3.1", "3.2", "3.3", "3.4", "3.5", "4", "5", "6")


def named() -> list[str]:
    """Tests and files in the pages' backticks; fidelity.md has a test of its own."""
    text = "\n".join(page.read_text() for page in PAGES if page.name != "fidelity.md")
    quoted = re.findall(r"`((?:tests|benchmarks|src)/[\w/]+\.py(?:::\w+)?)`", text)
    return sorted(set(quoted))


@pytest.mark.parametrize("place", named())
def test_a_test_or_file_that_a_page_names_exists(place: str):
    path, _, name = place.partition("::")

    assert (ROOT / path).is_file()
    assert not name or name in names(ROOT / path)


def test_every_numbered_claim_has_its_row():
    rows = re.findall(r"^\| (\d+) \| .+ \| \[", (ROOT / "docs/paper/index.md").read_text(), re.M)

    assert rows == [str(number) for number in range(1, 11)]


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_is_a_heading(section: str):
    titles = [line for page in WALK for line in page.read_text().splitlines() if line[:2] == "# "]

    assert any(re.search(rf"(?<![\d.]){re.escape(section)}(?![\d.])", title) for title in titles)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_numbered_equation_is_named(number: int):
    assert any(f"equation ({number})" in page.read_text() for page in WALK)


def test_code_is_taken_from_the_source_by_its_name():
    included = [(page, *item) for page in WALK for item in _INCLUDED.findall(page.read_text())]

    assert len(included) > 30
    for page, file, name in included:
        assert name in names((page.parent / file).resolve()), f"{page.name}: {name}"


def test_pages_name_no_place_of_this_machine():
    assert not [page for page in PAGES if re.search(r"/(work|root|tmp)/", Path(page).read_text())]


CORRECTED = {
    "98\\.8 %.{0,40}demo's test sentences": "94.6 % by the demo's record",
    "the demo's 97 %": "the notebook trains a model of its own",
    "Not measured yet": "a command that measures only costs was named for scores",
    "fewer numbers than the scores": "1,792 queries against 784 scores, where that path runs",
    "[Ww]hat learns faster wins": "no longer run is behind it",
    "\\b400 TFLOPS": "no such rate for a model of 63 million parameters",
}
"""What pages once said, and why it is not so."""


@pytest.mark.parametrize("statement", CORRECTED)
def test_no_page_repeats_what_was_corrected(statement: str):
    docs, paper = ROOT / "docs", ROOT / "src" / "transduce" / "paper"
    files = [*PAGES, *docs.glob("*.ipynb"), *docs.glob("_ext/*.py"), *paper.rglob("*.*")]
    texts = {file: " ".join(file.read_text("utf-8").split()) for file in files if _is_text(file)}

    assert len(texts) > 60
    assert [file.name for file, text in texts.items() if re.search(statement, text)] == []


def _is_text(file: Path) -> bool:
    return file.suffix in (".md", ".py", ".ipynb", ".toml")
