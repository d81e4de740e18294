"""`transduce paper figures` and `transduce paper model`, as commands."""

import json
import re
from pathlib import Path

import pytest
from tests.conftest import Run, Transduce, refuses

from transduce.paper import plot
from transduce.paper.figures.run import FIGURES, finding, measurements, select_figures

RESULTS = Path(__file__).parents[4] / "benchmarks" / "results"
_NUMBER = r"\d+(?:[.,]\d+)*(?:e-?\d+)?(?!/)"


def test_figures_are_written_with_their_numbers(transduce: Transduce, tmp_path: Path):
    result = transduce(
        *("paper", "figures", "--quick", "--only", "rate", "--only", "masks"), "--out", tmp_path
    )

    assert result.code == 0, result.err
    assert [line.split(" | ")[0] for line in result.out.splitlines()[2:]] == ["| masks", "| rate"]
    plots = {f"{name}{dark}.{kind}" for name in ("masks", "rate") for dark in ("", "-dark")
             for kind in ("svg", "png")}  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} == plots | {
        "masks.json", "rate.json", "figures.md"
    }  # fmt: skip
    record = json.loads((tmp_path / "rate.json").read_text())
    assert record["quick"] is True
    assert record["numbers"]["curves"][0]["peak_at"] == 4000
    assert json.loads((tmp_path / "masks.json").read_text())["quick"] is False
    page = (tmp_path / "figures.md").read_text()
    assert "](masks.svg)" in page
    assert page.count("A quick run: ") == result.out.count("A quick run: ") == 1


def test_the_page_keeps_figures_of_an_earlier_call_in_the_papers_order(
    transduce: Transduce, tmp_path: Path
):
    pytest.importorskip("matplotlib")
    for name in ("rate", "masks"):
        result = transduce("paper", "figures", "--quick", "--only", name, "--out", tmp_path)
        assert result.code == 0, result.err

    page = (tmp_path / "figures.md").read_text()
    assert page.index("](masks.svg)") < page.index("](rate.svg)")


def test_without_matplotlib_nothing_is_measured(
    transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plot, "find_spec", lambda name: None)

    result = transduce("paper", "figures", "--only", "masks", "--out", tmp_path / "out")

    refuses(result, "pip install 'transduce[plot]'")


def test_another_model_than_the_demos_is_refused_before_anything_is_measured(
    transduce: Transduce, run: Run, tmp_path: Path
):
    pytest.importorskip("matplotlib")
    words = ("paper", "figures", "--quick", "--model", run.folder, "--out", tmp_path / "out")

    refuses(transduce(*words), "give --model a model that `transduce demo` trained")


@pytest.mark.parametrize("name", ["order", "waves", "rate"])
def test_figures_say_the_same_twice(name: str):
    first, second = (FIGURES[name].measure(**FIGURES[name].quick) for _ in range(2))

    assert first == second
    assert finding(name, first) == finding(name, second)


@pytest.mark.parametrize(
    ("kept", "name"),
    [
        (file.parent.name, name)
        for file in sorted(RESULTS.glob("paper-figures*/record.json"))
        for name in json.loads(file.read_text())["found"]
    ],
)
def test_a_finding_has_the_numbers_of_its_record(kept: str, name: str):
    """The committed texts have an earlier wording, and the same numbers in the same order."""
    record = json.loads((RESULTS / kept / "record.json").read_text())["found"][name]

    text = finding(name, measurements(name, record["numbers"]))

    assert re.findall(_NUMBER, text) == re.findall(_NUMBER, record["found"])


def test_the_figure_of_it_comes_last_and_with_a_model_alone():
    assert "it" not in select_figures([], model=False)
    assert "ablation" not in select_figures([], model=False)
    assert select_figures([], model=True)[-2:] == ("it", "ablation")
    assert select_figures(["it", "scaling"], model=True) == ("scaling", "it")
    assert select_figures(["tasks", "making"], model=True) == ("making", "tasks")


@pytest.mark.parametrize(
    ("only", "part"),
    [
        ("nosuch", "'nosuch'"),
        ("it", "--model"),
        ("ablation", "of the demo: --model"),
        ("its", "model: --model MODEL"),
    ],
)
def test_a_figure_that_cannot_be_made_is_refused(
    transduce: Transduce, tmp_path: Path, only: str, part: str
):
    refuses(transduce("paper", "figures", "--only", only, "--out", tmp_path / "x"), part)

    assert not (tmp_path / "x").exists()


def test_a_recipes_model_is_drawn_for_light_and_for_dark_pages(
    transduce: Transduce, tmp_path: Path
):
    result = transduce("paper", "model", "tiny", "--out", tmp_path / "drawn" / "tiny.svg")

    assert result.code == 0, result.err
    assert result.out.startswith("| where | part | shape |")
    files = sorted((tmp_path / "drawn").iterdir())
    assert [file.name for file in files] == ["tiny-dark.svg", "tiny.svg"]
    assert files[0].read_text() != files[1].read_text()


def test_a_runs_model_is_shown_on_a_page(transduce: Transduce, run: Run, tmp_path: Path):
    result = transduce("paper", "model", run.folder, "--out", tmp_path / "mine.html")

    page = (tmp_path / "mine.html").read_text()
    assert result.code == 0, result.err
    assert "<h1>Figure 1 of run</h1>" in page
    assert "2 heads · d_k 16 · d_v 16" in page
    assert "prefers-color-scheme" in page


def test_the_table_goes_into_a_file_of_markdown(transduce: Transduce, tmp_path: Path):
    result = transduce("paper", "model", "--out", tmp_path / "base.md")

    assert (tmp_path / "base.md").read_text().endswith(result.out)


@pytest.mark.parametrize("name", ["nosuch", "no/such/folder"])
def test_what_is_neither_folder_nor_recipe_is_refused(transduce: Transduce, name: str):
    refuses(transduce("paper", "model", name), name)


def test_a_drawing_of_another_kind_is_refused(transduce: Transduce, tmp_path: Path):
    refuses(transduce("paper", "model", "--out", tmp_path / "a.pdf"), ".svg, .html, .md")
