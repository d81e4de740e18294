"""Scoring er, sie and es, on hypotheses written by hand."""

from pathlib import Path

import pytest

from transduce.demo.corpus import Case, pronoun_in, read_cases, score_pronouns, write_cases

CASES = (
    Case(line=0, pronoun="es", first="es", second="sie", unseen=False, majority="er"),
    Case(line=2, pronoun="sie", first="es", second="sie", unseen=True, majority="er"),
    Case(line=3, pronoun="er", first="er", second="sie", unseen=True, majority="er"),
    Case(line=4, pronoun="es", first="er", second="es", unseen=True, majority="er"),
)
HYPOTHESES = (
    "Das Tier überquerte die Straße nicht, weil es zu müde war.",
    "Er schläft, weil er müde ist.",
    "Das Tier überquerte die Straße nicht, weil es zu breit war.",
    "Der Hund wollte nicht auf die Mauer klettern, weil er zu alt war.",
    "Der Hund fraß das Brot nicht, es war zu hart.",
)


def test_a_pronoun_counts_where_it_follows_weil_and_its_absence_is_an_error():
    score = score_pronouns(HYPOTHESES, CASES)

    assert (score.cases, score.accuracy) == (4, 0.5)


def test_the_unseen_combinations_are_counted_apart():
    score = score_pronouns(HYPOTHESES, CASES)

    assert (score.unseen_cases, score.unseen_accuracy) == (3, 1 / 3)


def test_the_baselines_look_at_no_hypothesis():
    score = score_pronouns(["" for _ in HYPOTHESES], CASES)

    assert (score.accuracy, score.always_first, score.majority) == (0.0, 0.5, 0.25)
    assert score.majority_pronoun == "er"


def test_no_unseen_case_is_no_error():
    score = score_pronouns(HYPOTHESES, CASES[:1])

    assert (score.unseen_cases, score.unseen_accuracy) == (0, 0.0)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Sie lief nicht, weil es regnete.", "es"),
        ("Sie glaubt, dass er schläft.", None),
        ("Der Hund schlief nicht, weil erst alt war.", None),
        ("Der Hund schlief nicht, weil der Hund alt war.", None),
    ],
)
def test_only_a_whole_word_behind_weil_is_a_pronoun(sentence: str, expected: str | None):
    assert pronoun_in(sentence) == expected


def test_cases_are_read_as_they_were_written(tmp_path: Path):
    write_cases(tmp_path, CASES)

    assert read_cases(tmp_path) == CASES
