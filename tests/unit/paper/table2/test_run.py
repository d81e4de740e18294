from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import SHAPE, Transduce, refuses
from tests.gpu.device import CONFIG

from transduce.config import load_recipe
from transduce.evaluation.metrics import Score
from transduce.model.cpp_library import load_kernels
from transduce.paper.table2 import run as module
from transduce.paper.table2.report import page, write
from transduce.paper.table2.run import (
    PUBLISHED,
    RUNS,
    Assumed,
    SentenceLengths,
    Speed,
    account,
    measure,
    project_here,
    table2,
)
from transduce.train.precision import choose_precision
from transduce.train.step import StepResult, train_step

LENGTHS = SentenceLengths(11, 7)


def test_a_model_is_timed():
    result = measure(SHAPE, LENGTHS, tokens=21, updates=1, threads=1)

    assert result.tokens_per_second > 0.0
    assert result.step_seconds > 0.0
    assert (result.threads, result.device) == (1, "cpu")


def test_a_model_is_timed_as_it_is_trained(monkeypatch: pytest.MonkeyPatch):
    given: list[tuple[object, object]] = []

    def step(*arguments: Any, **settings: Any) -> StepResult:
        given.append((settings["replica"], settings["passes"]))
        return train_step(*arguments, **settings)

    monkeypatch.setattr(module, "train_step", step)

    measure(CONFIG, LENGTHS, tokens=21, updates=1, threads=1)

    precision = choose_precision(load_recipe("base").train, torch.device("cpu")).name
    replica, passes = given[-1]
    assert bool(replica) == (precision == "bfloat16")
    assert bool(passes) == (load_kernels().library is not None)


def test_hours_here_are_those_of_all_updates():
    counted = account(RUNS[0], SHAPE, tokens=70, lengths=LENGTHS)
    speed = Speed(tokens_per_second=35.0, step_seconds=0.5, threads=2, device="cpu")

    result = project_here(counted, speed, Assumed(hour_price=0.2))

    assert result.hours == pytest.approx(100_000 * (70 / 35.0 + 0.5) / 3600)
    assert result.price == pytest.approx(0.2 * result.hours)
    assert result.where == "this machine, 2 threads"


def test_a_price_below_zero_is_refused():
    with pytest.raises(ValueError, match="--hour-price must be 0 or more"):
        Assumed(hour_price=-1.0)


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Nothing is timed."""
    monkeypatch.setattr(module, "measure", lambda *arguments, **options: Speed(35.0, 0.5, 2, "cpu"))
    scores = (
        Score(name="BLEU", value=26.5, signature="tok:13a"),
        Score(name="tokenised BLEU", value=27.3, signature="Moses tokens"),
    )
    assumed = Assumed(hour_price=0.2, gpu_tflops=4.0)
    return table2(assumed, quick=True, scores=scores, on_event=lambda event: None)


def test_the_page_does_the_papers_arithmetic(record: dict[str, object]):
    text = page(record)

    assert "12 h x 3600 x 8 GPUs x 9.5e12 = 3.28e+18, published as 3.3e+18" in text
    assert "and not what the models need: the matrix products are" in text
    assert "84 h x 3600 x 8 GPUs x 9.5e12 = 2.30e+19, published as 2.3e+19" in text


def test_the_page_labels_both_scores(record: dict[str, object]):
    text = page(record)

    assert "| BLEU | 26.50 | `tok:13a` |" in text
    assert "| tokenised BLEU | 27.30 | `Moses tokens` |" in text


def test_a_quick_run_is_no_measurement(record: dict[str, object]):
    """Records of earlier versions do not say whether they are of one."""
    assert record["quick"]
    assert "A quick run: " in page(record)
    del record["quick"]
    assert "A quick run: " not in page(record)


def test_published_results_are_the_papers():
    base, big = PUBLISHED[-2:]

    assert base[1:] == (27.3, 38.1, 3.3e18, 3.3e18)
    assert big[1:] == (28.4, 41.8, 2.3e19, 2.3e19)


def test_the_account_is_written_as_json_and_as_markdown(record: dict[str, object], tmp_path: Path):
    text = write(record, tmp_path / "new")

    assert '"estimated": 3.2832e+18' in (tmp_path / "new" / "table2.json").read_text()
    assert (tmp_path / "new" / "table2.md").read_text() == text


def test_translations_without_references_are_refused(transduce: Transduce):
    refuses(transduce("paper", "table2", "--hypotheses", "a.de"), "--references")


def test_a_sentence_of_one_piece_is_refused(transduce: Transduce, tmp_path: Path):
    result = transduce("paper", "table2", "--mean-length", 1, "--out", tmp_path)

    refuses(result, "--mean-length must be 2 pieces or more")


def test_a_negative_number_of_threads_is_refused(transduce: Transduce, tmp_path: Path):
    result = transduce("paper", "table2", "--threads=-1", "--out", tmp_path / "out")

    refuses(result, "--threads")
    assert not (tmp_path / "out").exists()


def test_translations_are_scored_both_ways(
    transduce: Transduce, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    pytest.importorskip("sacremoses")
    monkeypatch.setattr(  # an update of the big model takes seconds
        "transduce.paper.table2.run.measure",
        lambda _, lengths, **options: measure(SHAPE, lengths, **options),
    )
    (tmp_path / "a.de").write_text("Der Zug fährt ab.\n", encoding="utf-8")

    files = ("--hypotheses", tmp_path / "a.de", "--references", tmp_path / "a.de")
    result = transduce("paper", "table2", "--quick", *files, "--out", tmp_path / "out")

    assert "| BLEU | 100.00 |" in result.out
    assert "| tokenised BLEU | 100.00 |" in result.out
