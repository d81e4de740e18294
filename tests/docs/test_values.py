"""Measured numbers of the pages come from the records; none is typed."""

import json
import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.docs.blocks import ROOT
from tests.frozen.test_vocabulary import IDIOSYNCRATIC, assigned_names

from transduce.model.config import ModelConfig
from transduce.model.layers import AddNorm
from transduce.paper.plot import save_plot

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import ast

import values

SENTENCE = "It is right in 96.6<!--= demo.exact_match * 100--> % of its sentences.\n"
TABLE = "<!--from: sweep_multi30k.runs-->\n| BLEU |\n|---|\n| {} |\n"


@pytest.mark.parametrize("page", values.TEXTS, ids=lambda page: page.stem)
def test_every_measured_number_is_its_records(page):
    assert values.stale(page.read_text()) == [], "python docs/_ext/values.py --write"


def test_a_typed_number_is_noticed():
    (problem,) = values.stale("It takes 3.7 times as long, in section 3.2.1 with `d_k=6.5`.\n")

    assert problem.number == "3.7"
    assert "names no record" in problem.reason


@pytest.mark.parametrize("text", ["98.8 % of it", "in 26 minutes", "| 41.25 |", "2.5 GB"])
def test_what_looks_measured(text: str):
    assert values.stale(f"{text}\n")


def test_a_number_of_a_sentence_is_written_from_its_record():
    assert values.stale(SENTENCE) == []
    assert values.renewed(SENTENCE.replace("96.6", "97.0")) == SENTENCE
    assert "is 96.6 by" in str(values.stale(SENTENCE.replace("96.6", "97.0"))[0])
    assert "<!--" not in values.without_comments(SENTENCE)


def test_a_table_holds_values_of_its_record_alone():
    assert values.stale(TABLE.format("34.15")) == []
    assert values.stale(TABLE.format("34.16")) != []


def test_a_reason_ends_with_its_section():
    text = "<!--typed: the paper's-->\n28.4 BLEU\n\n## Ours\n\n28.4 BLEU\n"

    assert [problem.line for problem in values.stale(text)] == [6]


def test_a_stale_number_is_a_warning_and_so_ends_the_build(monkeypatch: pytest.MonkeyPatch):
    """`make docs` builds with warnings as errors."""
    logging = pytest.importorskip("sphinx.util.logging", reason="the site's packages")
    readers: list[Callable[[object, str, list[str]], None]] = []
    log, app = Mock(), Mock(connect=lambda event, reader: readers.append(reader))
    monkeypatch.setattr(logging, "getLogger", lambda name: log)
    values.setup(app)
    page = "paper/attention-visualised"
    text = (ROOT / "docs" / f"{page}.md").read_text()

    readers[0](app, page, [text])
    log.warning.assert_not_called()
    read_again_after = {call.args[0] for call in app.env.note_dependency.call_args_list}
    assert str(values.RECORDS / "demo" / "record.json") in read_again_after
    record = values.read_record.__wrapped__
    monkeypatch.setattr(values, "read_record", lambda name: _scaled(record(name)))
    readers[0](app, page, [text])

    assert "is 100.4 by demo.pronouns.accuracy * 100" in str(log.warning.call_args_list)
    assert "sphinx-build -W" in (ROOT / "Makefile").read_text()


def test_a_changed_record_makes_the_pages_stale(monkeypatch: pytest.MonkeyPatch):
    """Had every measurement come out three per cent higher, nearly every number would differ."""
    files = {page: page.read_text() for page in values.TEXTS}
    checked = sum(len(values.stale(_without_records(text))) for text in files.values())
    read = values.read_record.__wrapped__
    monkeypatch.setattr(values, "read_record", lambda name: _scaled(read(name)))

    stale = sum(len(values.stale(text)) for text in files.values())

    assert checked > 400
    assert stale > 0.6 * checked  # ratios stay as they are


def _without_records(text: str) -> str:
    return re.sub(r"<!--(?:from: .*?|= .+?)-->\n?", "", text)


def _scaled(part):
    if isinstance(part, values.Part):
        return values.Part({name: _scaled(part[name]) for name in part})
    if isinstance(part, list):
        return [_scaled(item) for item in part]
    return part * 1.03 if isinstance(part, float) else part


@pytest.mark.parametrize("name", ["walk", "own"])
def test_a_notebook_types_no_measured_number(name: str):
    cells = json.loads((ROOT / "docs" / f"{name}.ipynb").read_text())["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")

    assert [problem for problem in values.stale(text) if "." in problem.number or "%" in text] == []


def test_extensions_have_names_that_say_something():
    trees = [ast.parse(path.read_text()) for path in (ROOT / "docs" / "_ext").glob("*.py")]
    names = {name.strip("_") for tree in trees for name in assigned_names(tree)}

    assert names & IDIOSYNCRATIC == set()


def test_fidelity_names_the_epsilon_of_layer_normalisation():
    norm = AddNorm(ModelConfig(vocab_size=8, d_model=8, heads=1)).norm

    assert norm.eps == 1e-5
    assert "ε of layer normalisation: here 10⁻⁵" in (ROOT / "docs/fidelity.md").read_text()


def test_the_papers_sentences_are_the_papers():
    page = " ".join((ROOT / "docs/paper/attention-visualised.md").read_text().split())

    assert "sentence of the rest of this page is not the paper's" in page
    assert "The Law will never be perfect, but its application should be just" in page


def test_figures_of_a_model_are_of_one_model_and_say_which():
    record = json.loads((values.RECORDS / "paper-figures-model" / "record.json").read_text())
    models = {figure["model"] for figure in record["found"].values()}

    assert set(record["found"]) == {"it", "ablation"}
    assert len(models) == 1
    assert re.fullmatch(r"[0-9a-f]{64}", *models)


PAPER = import_module("paper")
PLOTS = PAPER.plots()


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.stem)
def test_a_plot_is_what_its_record_draws(plot: Path, tmp_path: Path):
    """A plot of an earlier model, or a record of a later one, would show here."""
    record = json.loads(plot.with_name("record.json").read_text())
    if version("matplotlib") != record["versions"]["matplotlib"]:
        pytest.skip("another matplotlib draws other lines")
    draw, height = PLOTS[plot]

    save_plot(tmp_path, plot.stem, draw, height=height)

    for name in (plot.name, f"{plot.stem}-dark.svg"):
        assert (tmp_path / name).read_bytes() == plot.with_name(name).read_bytes()


def test_no_figure_lies_in_two_records():
    records = [path.parent for path in values.RECORDS.glob("paper-figures*/record.json")]
    names = [
        sorted(json.loads((folder / "record.json").read_text())["found"]) for folder in records
    ]
    plots = [
        sorted(p.stem for p in folder.glob("*.svg") if "-dark" not in p.stem) for folder in records
    ]

    assert plots == names
    assert len({name for figures in names for name in figures}) == sum(map(len, names))
