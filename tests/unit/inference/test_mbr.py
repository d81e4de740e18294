"""The candidate that the others agree with most, by the chrF of sacreBLEU."""

import math
import random

import pytest
from sacrebleu.metrics.chrf import CHRF

from transduce.inference.mbr import (
    chrf,
    chrf_matrix,
    expected_chrf,
    normalised_probabilities,
    select_mbr,
)


def test_chrf_is_sacrebleus():
    chance = random.Random(3)
    texts = ["", "a", " a b", "ab" * 7, "Der Hund läuft.", "der  Hund lief"]
    texts += ["".join(chance.choices("abc ", k=length)) for length in (2, 3, 5, 7, 11, 13, 31)]

    table = chrf_matrix(texts)

    metric = CHRF()
    for row, hypothesis in enumerate(texts):
        for column, reference in enumerate(texts):
            expected = metric.sentence_score(hypothesis, [reference]).score
            assert table[row, column] == pytest.approx(expected, abs=1e-9), (hypothesis, reference)


def test_chrf_takes_the_hypothesis_first():
    expected = CHRF().sentence_score("ein Hund", ["ein Hund rennt"]).score

    assert chrf("ein Hund", "ein Hund rennt") == pytest.approx(expected)


def test_the_candidate_in_the_middle_is_chosen():
    assert select_mbr(["abc xyz", "abc def", "ghi def", "abc dex"]) == 1


def test_candidates_are_judged_as_the_hypothesis_not_as_the_truth():
    texts = ["aaaa bbbb", "aaaa bbbb cccc", "aaaa", "bbbb cccc dddd"]
    metric = CHRF()

    means = [sum(metric.sentence_score(a, [b]).score for b in texts) / 4 for a in texts]

    assert expected_chrf(texts).tolist() == pytest.approx(means)


def test_what_was_drawn_twice_counts_twice():
    texts = ["abc", "abcd", "wxyz", "wxyz", "wxyz"]

    assert select_mbr(texts) == 2
    assert select_mbr(texts[:3]) == 1


def test_equal_candidates_are_worth_the_same():
    values = expected_chrf(["abc", "abd", "abc"])

    assert values[0] == values[2]


def test_weights_decide():
    texts = ["abc", "xyz", "uvw"]

    assert select_mbr(texts, [0.2, 0.5, 0.3]) == 1
    assert expected_chrf(texts, [2.0, 5.0, 3.0]).tolist() == pytest.approx([20, 50, 30])


def test_the_first_of_equals_is_chosen():
    assert select_mbr(["abc", "xyz"]) == 0


def test_blank_candidates_do_no_harm():
    assert select_mbr(["", "abc", "abc"]) == 1
    assert select_mbr([""]) == 0


def test_shares_of_tiny_probabilities_are_whole():
    assert normalised_probabilities([-2000.0, -2000.0 + math.log(3)]) == pytest.approx((0.25, 0.75))
