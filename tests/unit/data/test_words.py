"""Words are what people see as words, in every script; repetitions are what no writer means."""

import pytest

from transduce.data.words import count_words, repetition, spans, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't stop!", ["Don", "'", "t", "stop", "!"]),
        ("3.5 a_b saftig-grün", ["3", ".", "5", "a_b", "saftig", "-", "grün"]),
        ("cafe\u0301 noir", ["cafe\u0301", "noir"]),  # an accent of its own
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # vowel signs are no letters to Python
        ("我喜歡 C", ["我", "喜", "歡", "C"]),
        ("テスト。ok", ["テ", "ス", "ト", "。", "ok"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("한국어 좋아", ["한국어", "좋아"]),
        (" \t\u3000", []),
        ("", []),
    ],
)
def test_words_of_many_scripts(text: str, expected: list[str]):
    assert words(text) == expected


def test_spans_are_where_the_words_stand():
    text = "Ein Hund, cafe\u0301 我們!"

    assert [text[start:end] for start, end in spans(text)] == words(text)


def test_words_are_counted_over_all_lines():
    assert count_words(["a dog", "a cat"]) == {"a": 2, "dog": 1, "cat": 1}


@pytest.mark.parametrize(
    ("line", "piece"),
    [
        ("a dog dog dog runs", "dog"),
        ("big red big red big red car", "big red"),
        ("on and on and on and on", "on and"),
        ("a b c a b c a b c", "a b c"),
        ("a b c d a b c d a b c d", "a b c d"),
        ("a b c d x a b c d y z a b c d", "a b c d"),
        (". . . . . .", ". ."),
    ],
)
def test_a_piece_three_times_is_a_repetition(line: str, piece: str):
    assert repetition(line.split()) == tuple(piece.split())


@pytest.mark.parametrize(
    "line",
    [
        "a dog dog runs",
        "big red big red car",
        "a b c d a b c d",
        "a b c d e a b c d e x a b c f",
        "the man sees the dog and the cat and the bird",
        "well . . . yes",
        "a b c d e a b c d e",
        "",
    ],
)
def test_twice_or_apart_is_no_repetition(line: str):
    assert repetition(line.split()) is None


def test_what_the_reference_repeats_too_is_no_fault():
    line = ["no", "no", "no", "he", "said"]

    assert repetition(line, ["nay", "no", "no", "no"]) is None
    assert repetition(line, ["no", "no", "he", "said"]) == ("no",)
