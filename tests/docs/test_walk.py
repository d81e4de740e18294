"""The notebooks run from first cell to last; here their models learn next to nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT

WALK, OWN = (ROOT / "docs" / f"{name}.ipynb" for name in ("walk", "own"))


@pytest.mark.parametrize("notebook", [WALK, OWN], ids=lambda path: path.stem)
def test_no_answers_are_committed(notebook: Path):
    cells = json.loads(notebook.read_text())["cells"]

    assert all(not cell.get("outputs") for cell in cells)
    assert all(cell.get("execution_count") is None for cell in cells)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["walk", "own"])
def test_every_cell_runs(name: str, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("nbclient", reason="the site's packages: make docs installs them")
    monkeypatch.setenv("TRANSDUCE_WALK", "quick")
    program = (
        "import sys; from pathlib import Path; sys.path.insert(0, 'docs/_ext'); import notebook; "
        f"notebook.executed(Path('docs/{name}.ipynb').read_text(), Path('docs'))"
    )

    said = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert said.returncode == 0, said.stderr[-3000:]


def test_its_code_runs_without_a_notebook(monkeypatch: pytest.MonkeyPatch):
    """The cells up to the training run: what they assert holds."""
    pytest.importorskip("IPython", reason="the site's packages: make docs installs them")
    pytest.importorskip("matplotlib", reason="the plots' package")
    monkeypatch.setenv("TRANSDUCE_WALK", "quick")
    cells = json.loads(WALK.read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    short = sources[: next(n for n, source in enumerate(sources) if "run_recipe" in source)]
    program = "\n".join([*short, "import torch; assert sizes and torch.is_tensor(by_layer)"])

    said = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert said.returncode == 0, said.stderr[-3000:]


def test_the_second_notebook_runs_without_a_notebook(monkeypatch: pytest.MonkeyPatch):
    """All of it: check, train, look into, evaluate."""
    pytest.importorskip("IPython", reason="the site's packages: make docs installs them")
    pytest.importorskip("matplotlib", reason="the plots' package")
    monkeypatch.setenv("TRANSDUCE_WALK", "quick")
    cells = json.loads(OWN.read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    program = "\n".join([*sources, "assert (work / 'report.html').is_file()"])

    said = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert said.returncode == 0, said.stderr[-3000:]
    assert "numbers that training never showed are right" in said.stdout
