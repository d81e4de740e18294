"""The notebooks run from first cell to last; here their models learn next to nothing."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT

pytest.importorskip("nbclient", reason="the site's packages: make docs installs them")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import notebook
from nbformat import NotebookNode

WALK, OWN = (ROOT / "docs" / f"{name}.ipynb" for name in ("walk", "own"))


@pytest.mark.parametrize("path", [WALK, OWN], ids=lambda path: path.stem)
def test_committed_outputs_are_of_the_committed_sources(path: Path):
    """All cells in order and nothing since; plots as PNG, small, without paths or times."""
    text = path.read_text()
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    outputs = [output for cell in cells for output in cell["outputs"]]
    kinds = [kind for output in outputs for kind in output.get("data", {})]

    assert json.loads(text)["metadata"]["sources"] == notebook.source_hash(read(path))
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    assert kinds.count("image/png") >= 2
    assert {*kinds} <= {"image/png", "text/plain", "text/markdown"}
    assert len(text) < 700_000
    assert not re.search(r"/(tmp|home|root|work|Users)/|execution\"|\"stderr\"|Error", text)


def test_outputs_to_commit_have_no_svg_and_no_temporary_folder():
    cell = notebook.nbformat.v4.new_code_cell("1")
    picture = {"image/svg+xml": "<svg/>", "image/png": "iVBO"}
    cell.outputs = [
        notebook.nbformat.v4.new_output("display_data", picture),
        notebook.nbformat.v4.new_output("stream", text=f"{tempfile.gettempdir()}/walk-a1_/run\n"),
    ]
    made = notebook.with_outputs(notebook.nbformat.v4.new_notebook(cells=[cell]))

    assert made.cells[0].outputs[0].data == {"image/png": "iVBO"}
    assert made.cells[0].outputs[1].text == "WORK/run\n"
    assert made.metadata.sources == notebook.source_hash(made)


@pytest.mark.slow
@pytest.mark.parametrize("path", [WALK, OWN], ids=lambda path: path.stem)
def test_every_cell_runs_and_says_before_training_what_is_committed(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TRANSDUCE_WALK", "quick")

    cells = notebook.executed(path.read_text(), path.parent).cells

    (trained, *_) = [n for n, cell in enumerate(cells) if "run_recipe(" in cell.source]
    assert answers(cells[:trained]) == answers(read(path).cells[:trained])
    assert len(answers(cells[:trained])) >= 2


def read(path: Path) -> NotebookNode:
    return notebook.nbformat.read(path, as_version=4)


def answers(cells: Iterable[NotebookNode]) -> list[str]:
    """Texts that code cells put out, without pictures."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return [
        output.get("text") or output.data.get("text/markdown") or output.data["text/plain"]
        for output in outputs
        if "text" in output or "text/plain" in output.data
    ]


def test_its_code_runs_without_a_notebook(monkeypatch: pytest.MonkeyPatch):
    """The cells up to the training run: what they assert holds."""
    pytest.importorskip("IPython", reason="the site's packages: make docs installs them")
    pytest.importorskip("matplotlib", reason="the plots' package")
    monkeypatch.setenv("TRANSDUCE_WALK", "quick")
    cells = json.loads(WALK.read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    short = sources[: next(n for n, source in enumerate(sources) if "run_recipe" in source)]
    program = "\n".join([*short, "import torch; assert sizes and torch.is_tensor(by_layer)"])

    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stderr[-3000:]


def test_the_second_notebook_runs_without_a_notebook(monkeypatch: pytest.MonkeyPatch):
    """All of it: check, train, look into, evaluate."""
    pytest.importorskip("IPython", reason="the site's packages: make docs installs them")
    pytest.importorskip("matplotlib", reason="the plots' package")
    monkeypatch.setenv("TRANSDUCE_WALK", "quick")
    cells = json.loads(OWN.read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    program = "\n".join([*sources, "assert (work / 'report.html').is_file()"])

    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stderr[-3000:]
    assert "numbers that training never showed are right" in result.stdout
