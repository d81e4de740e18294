"""A confidence says how often what has it is right; where nothing was measured there is none."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from transduce.bundle.calibration import Calibration, Confidence
from transduce.inference.confidence import (
    MIN_OBSERVATIONS,
    ScoredWord,
    calibrate,
    fit_calibration,
    fit_sentences,
    fit_words,
    isotonic_regression,
    scored_words,
    word_confidences,
    words_in_reference,
)
from transduce.io.records import read_record

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

LINE = Calibration(log_probs=(-4.0, -2.0, -1.0), worth=(0.1, 0.5, 0.9), observations=307)


def pool(*y: float, weights: list[float] | None = None) -> list[float]:
    x = np.arange(len(y), dtype=np.float64)
    given = np.ones(len(y)) if weights is None else np.array(weights)
    return isotonic_regression(x, np.array(y), weights=given)[1].tolist()


@pytest.mark.parametrize(
    ("log_prob", "expected"),
    [(-3.0, 0.3), (-2.0, 0.5), (-1.5, 0.7), (-99.0, 0.1), (-math.inf, 0.1), (0.0, 0.9)],
)
def test_confidence_lies_on_the_line(log_prob: float, expected: float):
    assert LINE.confidence(log_prob) == pytest.approx(expected)


def test_values_that_rise_are_left_alone():
    assert pool(0.1, 0.2, 0.7) == [0.1, 0.2, 0.7]


def test_values_that_fall_become_their_mean():
    assert pool(0.1, 0.6, 0.4, 0.7) == pytest.approx([0.1, 0.5, 0.7])


def test_a_pool_that_falls_behind_the_one_before_it_joins_it():
    assert pool(0.5, 0.9, 0.1, 0.8) == pytest.approx([0.5, 0.8])
    assert pool(0.5, 0.7, 0.0, 0.8) == pytest.approx([0.4, 0.8])


def test_pools_weigh_their_points():
    assert pool(0.9, 0.3, weights=[1.0, 5.0]) == pytest.approx([0.4])


def test_points_of_one_place_become_one():
    x, y = isotonic_regression(np.zeros(3), np.array([0.1, 0.2, 0.6]), weights=np.ones(3))

    assert (x.tolist(), y.tolist()) == ([0.0], pytest.approx([0.3]))


def test_a_fit_is_the_least_squares_line_that_never_falls():
    chance = np.random.default_rng(7)
    y, weights = chance.random(6), chance.random(6) + 0.1

    x, values = isotonic_regression(np.arange(6.0), y, weights=weights)

    fitted = np.empty(6)  # each point belongs to the block whose mean is nearest from its side
    start = 0
    for place, value in zip(x, values, strict=True):
        end = next(
            e
            for e in range(start + 1, 7)
            if math.isclose(np.average(np.arange(start, e), weights=weights[start:e]), place)
        )
        fitted[start:end] = value
        start = end
    best = float((weights * (fitted - y) ** 2).sum())
    for _ in range(500):
        other = np.sort(fitted + chance.normal(scale=0.1, size=6))
        assert (weights * (other - y) ** 2).sum() >= best - 1e-12


def test_a_calibrated_confidence_means_what_it_says():
    from trust import calibration_error  # type: ignore[reportMissingImports]

    chance = np.random.default_rng(1)
    log_probs = -chance.exponential(size=4000)
    truth = (chance.random(4000) < 0.2 + 0.6 * np.exp(log_probs)).astype(np.float64)

    result = fit_calibration(log_probs[:2000], truth[:2000])

    assert result is not None
    confidences = [result.confidence(log_prob) for log_prob in log_probs[2000:]]
    assert calibration_error(confidences, truth[2000:].tolist()) < 0.05
    assert calibration_error(np.exp(log_probs[2000:]).tolist(), truth[2000:].tolist()) > 0.08


def test_no_value_rests_on_few_observations():
    log_probs = np.linspace(-3.0, 0.0, 2 * MIN_OBSERVATIONS)
    truth = np.zeros(2 * MIN_OBSERVATIONS)
    truth[-1] = 1.0  # the likeliest word of all was right

    result = fit_calibration(log_probs, truth)

    assert result is not None
    assert result.worth == (0.0, 1 / MIN_OBSERVATIONS)
    assert result.observations == 2 * MIN_OBSERVATIONS


def test_too_few_observations_make_no_calibration():
    assert (
        fit_calibration(np.zeros(2 * MIN_OBSERVATIONS - 1), np.ones(2 * MIN_OBSERVATIONS - 1))
        is None
    )


def test_words_that_all_weigh_the_same_have_one_confidence():
    result = fit_calibration(
        np.full(2 * MIN_OBSERVATIONS, -0.5), np.tile([0.0, 1.0], MIN_OBSERVATIONS)
    )

    assert result is not None
    assert result.worth == (0.5,)


def test_a_word_is_as_likely_as_its_unlikeliest_piece():
    result = scored_words(["▁ein", "▁Wind", "hund", ".", "</s>"], [-0.1, -0.2, -3.0, -0.3, -9.0])

    assert result == (ScoredWord("ein", -0.1), ScoredWord("Windhund.", -3.0))


@pytest.mark.parametrize(
    ("words", "reference", "expected"),
    [
        (["der", "Hund"], "der Hund", [True, True]),
        (["Hund", "Hund", "Hund"], "Hund, ein Hund", [True, True, False]),
        (["(Hund)."], "Hund", [True]),  # marks at a word's ends are no part of it
        (["hund"], "Hund", [False]),
        (["don't"], "dont", [False]),
        (["..."], "ja ...", [True]),
        (["."], "ja.", [False]),
        ([], "Hund", []),
    ],
)
def test_a_word_is_right_if_the_reference_still_has_it(
    words: list[str], reference: str, expected: list[bool]
):
    assert words_in_reference(words, reference) == expected


def test_words_are_fitted_on_whether_they_are_right():
    actual = [(ScoredWord("gut", -0.1), ScoredWord("falsch", -5.0))] * MIN_OBSERVATIONS

    result = fit_words(actual, ["gut"] * MIN_OBSERVATIONS)

    assert result is not None
    assert (result.log_probs, result.worth) == ((-5.0, pytest.approx(-0.1)), (0.0, 1.0))


def test_sentences_are_fitted_on_their_chrf():
    translations = ["abc", "xyz"] * MIN_OBSERVATIONS

    result = fit_sentences(
        [-0.5, -2.0] * MIN_OBSERVATIONS, translations, ["abc"] * (2 * MIN_OBSERVATIONS)
    )

    assert result is not None
    assert (result.confidence(-0.5), result.confidence(-2.0)) == (pytest.approx(1.0), 0.0)


def test_a_model_that_was_not_calibrated_has_no_confidence():
    assert word_confidences(Confidence(), ["▁a"], [-0.1]) == ()
    assert Confidence().sentence_confidence([-0.1]) is None


def test_a_blank_translation_has_no_confidence():
    assert Confidence(sentences=LINE).sentence_confidence([]) is None


def test_words_and_sentences_have_their_own_calibration():
    other = Calibration(log_probs=(-1.0,), worth=(0.25,), observations=100)
    both = Confidence(words=LINE, sentences=other)

    result = word_confidences(both, ["▁a", "b", "</s>"], [-0.5, -2.0, -7.0])

    assert result == (("ab", 0.5),)
    assert both.sentence_confidence([-1.0, -3.0]) == 0.25


def test_a_sentence_is_as_likely_as_its_pieces_are_on_average():
    assert Confidence(sentences=LINE).sentence_confidence([-1.0, -3.0]) == pytest.approx(0.5)


def read(folder: Path, text: str) -> Confidence:
    (folder / "confidence.json").write_text(text, encoding="utf-8")
    return read_record(folder / "confidence.json", Confidence)


def test_what_is_written_is_read(tmp_path: Path):
    both = Confidence(words=LINE)

    assert read(tmp_path, both.to_json()) == both


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"log_probs": [-4.0, -4.0, -1.0]}, "rising"),
        ({"log_probs": [-4.0, -2.0]}, "rising"),
        ({"worth": [0.1, 0.5, 1.1]}, "from 0 to 1"),
        ({"worth": [0.1, 0.05, 0.2]}, "rising"),
        ({"worth": [], "log_probs": []}, "rising"),
        ({"worth": ["a", "b", "c"]}, "number"),
        ({"lowest": 0.5}, "lowest"),
        ({"lowest": -3.0}, "lowest"),
        ({"more": 1}, "words.more is unknown"),
    ],
)
def test_a_broken_calibration_is_refused(tmp_path: Path, change: dict[str, object], what: str):
    held = json.loads(Confidence(words=LINE).to_json())
    held["words"] |= change

    with pytest.raises(ValueError, match="is damaged") as refused:
        read(tmp_path, json.dumps(held))

    assert what in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", '{"tags": 1}'])
def test_what_is_no_calibration_at_all_is_refused(tmp_path: Path, text: str):
    with pytest.raises(ValueError, match="is damaged"):
        read(tmp_path, text)


def test_the_calibration_error_is_the_mean_gap():
    from trust import calibration_error  # type: ignore[reportMissingImports]

    assert calibration_error([0.2, 0.8, 0.2, 0.8], [0.0, 1.0, 1.0, 1.0], bins=2) == pytest.approx(
        0.25
    )


def test_below_all_observations_confidence_falls_towards_nothing():
    """Nonsense had the confidence of the least probable translations observed: 0.95."""
    curve = Calibration(log_probs=(-0.1, 0.0), worth=(0.9, 1.0), observations=500, lowest=-0.2)

    assert curve.confidence(-0.2) == pytest.approx(0.9)
    assert curve.confidence(-0.8) == pytest.approx(0.9 / 4)
    assert replace(curve, lowest=None).confidence(-0.8) == pytest.approx(0.9)


def test_a_fit_knows_where_its_observations_end():
    log_probs = np.linspace(-2.0, -0.1, 400)

    curve = fit_calibration(log_probs, np.ones(400))

    assert curve is not None
    assert curve.lowest == pytest.approx(np.percentile(log_probs, 1))


def test_a_source_in_more_pieces_than_any_observed_lowers_confidence():
    confidence = Confidence(sentences=LINE, max_fragmentation=0.5)

    assert confidence.sentence_confidence([-2.0], fragmentation=0.5) == pytest.approx(0.5)
    assert confidence.sentence_confidence([-2.0], fragmentation=1.0) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("log_prob", "split", "unfamiliar"),
    [(-1.0, 0.3, False), (-9.0, 0.3, True), (-1.0, 1.1, True), (-6.0, 0.7, True)],
)
def test_what_leaves_the_observed_range_is_unfamiliar(
    log_prob: float, split: float, unfamiliar: bool
):
    line = replace(LINE, lowest=-4.0)
    confidence = Confidence(sentences=line, max_fragmentation=0.5)

    assert confidence.is_unfamiliar([log_prob], fragmentation=split) is unfamiliar


def test_a_calibration_examines_the_sources():
    confidence = calibrate(
        [["a"]] * 100,
        [[-0.5]] * 100,
        translations=["a"] * 100,
        references=["a"] * 100,
        fragmentations=[0.2] * 99 + [0.4],
    )

    assert confidence.max_fragmentation == pytest.approx(0.202)
