"""What the site adds to Sphinx: equations, records, commands, notebooks."""

import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from tests.docs.blocks import PAGES, ROOT

for package in ("sphinx", "myst_parser", "nbclient"):
    pytest.importorskip(package, reason="the site's packages: make docs installs them")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import commands  # noqa: E402
import docstrings  # noqa: E402
import exercises  # noqa: E402
import mathml  # noqa: E402
import measured  # noqa: E402
import notebook  # noqa: E402


def test_an_equation_becomes_mathml():
    made = ElementTree.fromstring(mathml.mathml(r"\frac{QK^{T}}{\sqrt{d_k}}", block=True))

    assert made.tag.endswith("math")
    assert made.get("display") == "block"
    assert {"mfrac", "msqrt"} <= {part.tag.rpartition("}")[2] for part in made.iter()}


def test_every_equation_of_the_pages_can_be_read():
    equations = [tex for page in PAGES for tex in page.read_text().split("$$")[1::2]]

    assert len(equations) >= 15
    for tex in equations:
        assert mathml.mathml(tex, block=True).startswith("<math")


def test_every_command_has_its_help_on_the_page():
    names = commands.command_names()

    assert {"train", "translate", "paper figures"} <= {*names}
    assert "Usage: transduce train" in commands.help_of("train")


def test_every_mutation_is_an_exercise_with_its_solution_folded():
    every = exercises.mutations().MUTATIONS
    first = every[0]
    text = exercises.exercise(first.claim, first.file, (first.old, "a < b"), first.test)

    assert len(every) >= 25
    assert "<b>Claim 1, the softmax.</b>" in text
    assert "a &lt; b" in text
    assert text.index("<details>") < text.index(first.test)


def test_a_docstring_is_no_markup():
    assert (
        docstrings.plain("((5 + |Y|) / 6)^α, `a * b` * c") == r"((5 + \|Y\|) / 6)^α, `a * b` \* c"
    )


def test_a_record_within_a_page_has_no_titles_of_its_own():
    made = measured.table_of("# Table 1\n\n## Times\n\n| n |\n|---|\n\n![a plot](times.svg)\n")

    assert made == "\n**Times**\n\n| n |\n|---|\n"


def test_a_star_in_a_records_title_is_no_emphasis():
    made = measured.table_of("## The crossing: from n* on\n")

    assert made == r"**The crossing: from n\* on**"


def test_a_committed_plot_has_the_sentence_of_its_record():
    finding = measured.finding_of(ROOT / "benchmarks/results/paper-figures/heads.svg")

    assert "both right in 100 %" in finding.text
    assert "by `transduce paper figures" in finding.source
    assert "2026-" in finding.source


def test_a_plot_that_is_not_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(measured, "_RECORDS", tmp_path)
    monkeypatch.setattr(measured, "_DRAWN", tmp_path)

    assert measured.plot_named("masks") is None


def test_a_dark_plot_is_no_plot_of_its_own(tmp_path: Path):
    for name in ("one.svg", "one-dark.svg"):
        (tmp_path / name).touch()

    assert [path.name for path in measured.plots_of(tmp_path)] == ["one.svg"]


def test_a_notebook_becomes_a_page_with_its_answers():
    cells = [
        SimpleNamespace(cell_type="markdown", source="# A walk"),
        _cell("print(2)", {"output_type": "stream", "text": "2\n"}),
        _cell("3", {"output_type": "execute_result", "data": {"text/plain": "3"}}),
    ]

    page = notebook.as_myst(SimpleNamespace(cells=cells), Path("nowhere"))

    assert page.startswith("# A walk\n\n```python\nprint(2)\n```\n\n")
    assert page.count(":class: answer") == 2


def _cell(source: str, output: dict[str, object]) -> SimpleNamespace:
    answer = notebook.NotebookNode(output)
    return SimpleNamespace(cell_type="code", source=source, metadata={}, outputs=[answer])
