"""Loops and blow-ups are seen, and what people write is not taken for one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.inference.repetition import (
    NO_REPEAT,
    detect_repetition,
    is_improvement,
    novel_log_prob,
    retry_constraints,
)
from transduce.search.config import DecodingConstraints


def pieces(text: str) -> list[str]:
    """Each word a piece; "+" joins a piece to the one before it."""
    return [word.removeprefix("+") if word[0] == "+" else f"▁{word}" for word in text.split()]


SOURCE = pieces("a man walks along the river with his dog and his wife")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("der der der der Mann", '"der" ×4)'),
        ("ein Hund und ein Hund und ein Hund und", '"ein Hund und" ×3)'),
        ("Straßen +hun +d Straßen +hun +d Straßen +hun +d", '"Straßenhund" ×3)'),
        ("a +b +c +d +e +f x a +b +c +d +e +f y a +b +c +d +e +f", '"abcdef" ×3, not in a row)'),
        ("- - - - - - - - -", '"-" ×9)'),
        ("0 +. 0 +. 0 +. 0 +. 0 +.", '"0." ×5)'),
    ],
)
def test_a_loop_is_seen(target: str, message: str):
    assert detect_repetition(SOURCE, [*pieces(target), "</s>"]) == f"repetition ({message}"


def test_of_two_loops_the_first_is_named():
    target = pieces("der der der der die die die die")

    assert detect_repetition(SOURCE, target) == 'repetition ("der" ×4)'


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("no no no no no", "nein nein nein nein nein"),
        ("no no no", "nein nein nein nein"),  # one more is no loop
        ("he is very very good", "er ist sehr sehr sehr gut"),
        ("wait …", "warte . . ."),
        ("---", "- - - - - - - -"),
        ("one billion", "1 +000 +000 +000"),
        ("1 +000 +000 +000 +000 +000 +000 +000 +000 +000", "1" + " +000" * 9),
        ("room 1 , room 2 , room 3", "Zimmer 1 , Zimmer 2 , Zimmer 3"),
        ("my great - great - great - great - aunt", "meine Ur +ur +ur +ur +gro +ß +tante"),
        ("dog and dog", "ein Hund und ein Hund und ein Hund"),
        ("a", "ein"),
        ("", ""),
    ],
)
def test_what_people_write_is_no_loop(source: str, target: str):
    assert detect_repetition(pieces(source), pieces(target)) == ""


def test_a_list_in_the_source_may_be_a_list_in_the_translation():
    source = pieces("turn left at the next light , " * 3)
    target = pieces("an der nächsten Ampel links , " * 4)

    assert detect_repetition(source, target) == ""


def test_more_of_a_list_than_the_source_has_is_a_loop():
    source = pieces("turn left at the next light , " * 3)
    target = pieces("an der nächsten Ampel links , " * 5)

    assert detect_repetition(source, target) == 'repetition ("an der nächsten Ampel links ," ×5)'


def test_a_blow_up_is_seen_where_nothing_repeats():
    longest = [f"▁{place}" for place in range(3 * 2 + 20)]

    assert detect_repetition(["▁a", "▁dog", "</s>"], [*longest, "</s>"]) == ""
    assert detect_repetition(["▁a", "▁dog", "</s>"], [*longest, "▁x", "</s>"]) == (
        "too long (27 pieces for a source of 2)"
    )


def test_the_remedy_forbids_repeats_and_keeps_the_other_wishes():
    assert retry_constraints(DecodingConstraints(min_length=5)) == DecodingConstraints(
        min_length=5, no_repeat=NO_REPEAT
    )


def test_a_weaker_wish_is_made_stronger():
    assert retry_constraints(DecodingConstraints(no_repeat=7)) == DecodingConstraints(
        no_repeat=NO_REPEAT
    )


@pytest.mark.parametrize("count", range(1, NO_REPEAT + 1))
def test_there_is_no_remedy_twice(count: int):
    assert retry_constraints(DecodingConstraints(no_repeat=count)) is None


@given(st.lists(st.sampled_from(["▁a", "b", "▁c"]), max_size=40))
def test_what_the_remedy_allows_is_no_loop(drawn: list[str]):
    result: list[str] = []
    for piece in drawn:  # as a search does it: what would repeat a run is not said
        runs = [result[start : start + NO_REPEAT] for start in range(len(result) - NO_REPEAT + 1)]
        if [*result, piece][-NO_REPEAT:] not in runs:
            result.append(piece)

    assert not detect_repetition(SOURCE, result).startswith("repetition")


def test_a_second_try_without_fault_is_better():
    assert is_improvement(SOURCE, pieces("der Mann"), loss=0.2)


@pytest.mark.parametrize("second", ["x x x x", ""])
def test_a_second_try_that_is_no_cure_is_not_better(second: str):
    assert not is_improvement(SOURCE, [*pieces(second), "</s>"], loss=-1.0)


def test_what_repeats_does_not_count_and_is_nothing_to_lose_where_it_is_most():
    assert novel_log_prob([5, 5, 6, 7], [-2.0, -0.1, -4.0, -6.0]) == -4.0
    assert novel_log_prob([5, 6, 5, 6, 5, 6, 7], [-0.1] * 7) == -math.inf


def test_a_second_try_of_improbable_pieces_is_noise():
    assert not is_improvement(SOURCE, pieces("der Mann"), loss=0.3)
