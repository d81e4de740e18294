"""Heads of any model removed: what is lost on text, and what each looks at."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Run, Transduce, refuses
from tests.unit.paper.figures.test_resolve import bundle as bundle  # a fixture

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import Pair
from transduce.data.tokenizer import Tokenizer
from transduce.evaluation.perplexity import evaluate_perplexity
from transduce.model.trace import trace
from transduce.paper.figures.ablation import HeadName, without_heads
from transduce.paper.figures.coreference import two_readings
from transduce.paper.figures.importance import (
    PLACES,
    ImportanceResult,
    measure_importance,
    places_of,
)
from transduce.paper.figures.run import finding

PAIRS = [pair for reading in two_readings(31) for pair in (reading.first, reading.second)]


@pytest.fixture(scope="module")
def result(bundle: Bundle) -> ImportanceResult:
    return measure_importance(bundle, pairs=PAIRS, count=60)


def loss(bundle: Bundle, *heads: HeadName) -> float:
    with without_heads(bundle.model, heads):
        return evaluate_perplexity(bundle.model, bundle.tokenizer, pairs=PAIRS[:60]).per_token


def test_the_loss_is_that_of_validation_with_and_without_a_head(
    bundle: Bundle, result: ImportanceResult
):
    complete = loss(bundle)

    assert (result.sentences, len(result.heads)) == (60, 3 * (2 + 1 + 1))
    assert result.loss == pytest.approx(complete, rel=1e-5)
    for head in result.heads:
        lost = loss(bundle, head.head) - complete
        assert head.lost.value == pytest.approx(lost, abs=1e-5)
        assert head.lost.low <= head.lost.value <= head.lost.high


def test_heads_that_nothing_is_lost_without_are_removed_together(
    bundle: Bundle, result: ImportanceResult
):
    assert result.idle == tuple(head.head for head in result.heads if head.lost.low <= 0)
    assert result.idle_lost
    assert result.idle_lost.value == pytest.approx(
        loss(bundle, *result.idle) - loss(bundle), abs=1e-5
    )


def test_places_are_those_of_the_head_that_is_named(bundle: Bundle):
    ids, target = (
        [*bundle.tokenizer.encode(text), Tokenizer.EOS]
        for text in (PAIRS[0].source, PAIRS[0].target)
    )
    traced = trace(bundle.weights, ids, target)

    heads = {head.head: head for head in measure_importance(bundle, pairs=PAIRS, count=1).heads}

    places = heads[HeadName("cross", 1, 2)].places
    weights = traced.cross[0, 1]
    assert places[3] == pytest.approx(weights[:, -1].mean())
    assert places[1] == pytest.approx(np.trace(weights[:, :-1]) / len(target))
    start = heads[HeadName("decoder", 1, 3)].places[3]
    assert start == pytest.approx(traced.decoder[0, 2, :, 0].mean())
    before = heads[HeadName("encoder", 2, 1)].places[0]
    assert before == pytest.approx(np.trace(traced.encoder[1, 0, :, :-1], -1) / len(ids))


def test_places_add_up_to_all_weight_where_there_are_no_others():
    weights = np.array([[[[0.25, 0.5, 0.25], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]]]])

    shares = places_of(weights, edge=-1)[0, 0]

    assert shares.tolist() == pytest.approx([0.75 / 3, 0.75 / 3, 0.5 / 3, 1.0 / 3])
    assert len(shares) == len(PLACES)


def test_the_finding_names_heads_and_places(result: ImportanceResult):
    text = finding("importance", result)

    assert "loss on 60 test sentences" in text
    assert any(place in text for place in PLACES)
    assert "removed together, cost" in text


def test_a_runs_own_test_text_is_taken(transduce: Transduce, run: Run, tmp_path: Path):
    pytest.importorskip("matplotlib")
    actual = transduce(
        *("paper", "figures", "--quick", "--only", "importance"),
        *("--model", run.folder, "--out", tmp_path),
    )

    assert actual.code == 0, actual.err
    assert json.loads((tmp_path / "importance.json").read_text())["numbers"]["sentences"] == 6


def test_a_model_without_text_is_refused(
    transduce: Transduce, run: Run, bundle: Bundle, tmp_path: Path
):
    words = ("paper", "figures", "--only", "importance", "--out", tmp_path / "out")

    refuses(transduce(*words, "--model", run.folder / "model"), "a prepared corpus")
    with pytest.raises(ValueError, match="needs test text: give --model a run that has some"):
        measure_importance(bundle, pairs=list[Pair]())
