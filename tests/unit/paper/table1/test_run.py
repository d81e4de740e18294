"""The command in its quick form, and its page."""

import json
import re
from pathlib import Path

import pytest
from tests.conftest import Transduce

from transduce.paper import plot
from transduce.paper.table1 import report as module
from transduce.paper.table1.complexity import QUICK, THREADED
from transduce.paper.table1.layers import Recall
from transduce.paper.table1.report import reached

PLOTS = ("length", "width", "paths", "recall")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib")
    out = tmp_path_factory.mktemp("table1")
    module.table1(out, QUICK, recall(), tell=lambda _: None)
    return out


def recall() -> Recall:
    return Recall(distances=(4, 8), seeds=2, updates=2, batch=3, tested=8)


def test_everything_is_written(made: Path):
    drawn = {
        f"table1-{name}{page}.{kind}"
        for name in PLOTS
        for page in ("", "-dark")
        for kind in ("png", "svg")
    }

    assert {file.name for file in made.iterdir()} == drawn | {"table1.json", "table1.md"}


def test_the_exponents_of_operations_are_the_papers(made: Path):
    growths = json.loads((made / "table1.json").read_text())["growths"]

    result = {
        (growth["kind"], growth["along"]): round(growth["operations"], 9)
        for growth in growths
        if growth["part"] == "mixing"
    }
    assert result == {
        ("self-attention", "n"): 2,
        ("self-attention", "d"): 1,
        ("restricted", "n"): 1,
        ("restricted", "d"): 1,
        **{(kind, "n"): 1 for kind in ("GRU", "LSTM", "convolution")},
        **{(kind, "d"): 2 for kind in ("GRU", "LSTM", "convolution")},
    }


def test_a_whole_gru_has_the_operations_of_self_attention_where_n_is_d(made: Path):
    crossings = json.loads((made / "table1.json").read_text())["crossings"]

    result = {
        (crossing["kind"], crossing["part"]): crossing["operations"] / crossing["d"]
        for crossing in crossings
    }
    assert result == {
        ("GRU", "mixing"): 1.5,
        ("GRU", "whole"): 1.0,
        ("LSTM", "mixing"): 2.0,
        ("LSTM", "whole"): 2.0,
    }


def test_the_page_has_a_row_for_each_layer_type(made: Path):
    page = (made / "table1.md").read_text()

    assert "| self-attention | O(n²·d) | n^2.00 d^1.00 |" in page
    assert "| restricted | O(1) | 4, 4 | O(n/r) | 4, 8 |" in page
    assert "| dilated | O(1) | 1, 1 | O(log_k(n)) | 2, 3 |" in page
    assert "1 thread" in page


def test_the_page_says_that_the_paper_has_convolutions_dearer(made: Path):
    """Two lengths and two widths are timed, so four sizes are compared with each recurrence."""
    page = (made / "table1.md").read_text()

    assert "convolutions are generally more expensive than recurrences" in page
    assert re.search(
        r"less time than the GRU at [0-4] of 4 sizes .* LSTM at [0-4] of 4 sizes", page
    )


def test_the_page_tells_what_a_second_thread_gains(made: Path):
    record = json.loads((made / "table1.json").read_text())
    times = {"self-attention": (0.009, 0.005), "LSTM": (0.02, 0.02), "convolution": (0.008, 0.005)}
    record["threaded"] = [
        {"kind": kind, "n": n, "d": 8, "with_1": item * n, "with_2": two}
        for n in (1, 4)
        for kind, (item, two) in times.items()
    ]

    page = module.page(record)

    assert "| self-attention | 4 | 8 | 36.0 | 5.0 | 7.20 |" in page
    assert "mean of the gains: self-attention 3.60, LSTM 2.00, convolution 3.20. As the" in page


def test_the_page_says_if_a_recurrence_gains_as_much_from_a_second_thread(made: Path):
    record = json.loads((made / "table1.json").read_text())
    record["threaded"] = [
        {"kind": kind, "n": 1, "d": 8, "with_1": 2.0, "with_2": 1.0} for kind in THREADED
    ]

    assert "Two threads do not show what the paper says" in module.page(record)


def test_the_page_explains_no_gains_that_a_second_core_did_not_make(made: Path):
    record = json.loads((made / "table1.json").read_text())
    record["threaded"] = [
        {"kind": kind, "n": 1, "d": 8, "with_1": 1.1, "with_2": 1.0} for kind in THREADED
    ]

    page = module.page(record)

    assert "convolution 1.10. No second core was free" in page
    assert "Two threads do not show" not in page


def test_how_far_a_network_sees():
    usual = Recall()

    assert reached("restricted", usual) == 3 * 16
    assert reached("convolution", usual) == 7**3 - 1
    assert reached("LSTM", usual) is None


def test_without_matplotlib_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plot, "find_spec", lambda name: None)

    with pytest.raises(ValueError, match=r"pip install 'transduce\[plot\]'"):
        module.table1(tmp_path / "out", QUICK, None, tell=lambda _: None)
    assert not (tmp_path / "out").exists()


def test_the_command_prints_the_page(
    transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    calls: list[object] = []
    monkeypatch.setattr(module, "table1", lambda out, *given, tell: calls.append(given) or "page")

    result = transduce("paper", "table1", "--quick", "--no-learning", "--out", str(tmp_path))

    assert (result.code, result.out) == (0, "page\n")
    assert calls == [(QUICK, None)]
