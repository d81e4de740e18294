"""A text is cut where sentences end, and nothing of it is lost."""

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.segmentation import (
    MASK,
    MAX_SENTENCE_LENGTH,
    count_words,
    has_words,
    sentence_spans,
    word_spans,
    words,
)

PIECES = st.sampled_from(
    [
        *("A", "dog", " ", "  ", ".", ".", "!", "?", "…", "\n", "\r\n", "\t", '"', ")", "»", "Dr"),
        *("z", "B", "3", "。", "犬", "「", "」", "- ", "1) ", "\u2028", "\u00a0", "e\u0301"),
    ]
)


def split_sentences(text: str) -> list[str]:
    """A separator, a sentence, a separator and so on, which join to the text."""
    edges = [0, *(edge for span in sentence_spans(text) for edge in span), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@given(st.lists(PIECES).map("".join) | st.text())
def test_the_parts_joined_are_the_text(text: str):
    parts = split_sentences(text)

    assert "".join(parts) == text
    assert len(parts) % 2 == 1


@given(st.lists(PIECES).map("".join) | st.text())
def test_sentences_have_no_white_space_at_their_ends_and_no_line_end_inside(text: str):
    for sentence in split_sentences(text)[1::2]:
        assert sentence
        assert sentence == sentence.strip()
        assert not set(sentence) & set("\n\r\u2028\x85")


@given(st.lists(PIECES).map("".join))
def test_what_stands_between_has_no_words(text: str):
    for between in split_sentences(text)[::2]:
        assert not has_words(re.sub(r"\d{1,3}\)\s", "", between))  # marks of a list


@pytest.mark.parametrize(
    "text",
    [
        "A dog runs.|It barks!|Why?|Nobody knows…|Well",
        'He said "Go."|Then he left.',
        "»Komm!«|Er kam.",
        "„Komm!“|Er kam.",
        "Il dit : « Bonjour. »|Puis il part.",
        "¿Qué?|¡Nada!|Bien.",
        "(It is so.)|Nobody knew.",
        "Really?!|Yes...|No.",
        "He came at 5 p.m.|The dog slept.",
        "I live in the U.S.|It is big.",
        "Vitamin C.|It is good.",
        "It is so.[1][23]|Nobody knew.",
        "He lived in 1999.|Then he died.",
        "No.|He did not.",
        "It costs 3.14.|Not more.",
        "See https://a.b/c.d?x=1.|Then go.",
        "क्या हाल है।|मैं ठीक हूँ।",
    ],
)
def test_sentences_end(text: str):
    sentences = text.split("|")

    assert split_sentences(" ".join(sentences))[1::2] == sentences


@pytest.mark.parametrize(
    "text",
    [
        "Mr. Brown met Dr. Ho at St. Mary.",
        "z. B. Hunde und z.B. Katzen",
        "Das Tier, d. h. der Hund, i. d. R. mit Leine",
        "J. S. Bach and C. P. E. Bach",
        "am 3. Mai und am 24. Dezember",
        "Im 19. Jahrhundert war es so.",
        "No. 5 and Fig. 3, Nr. 7, S. 11, Hauptstr. 5",
        "e.g. Dogs, i.e. Animals",
        "rund 3 Mio. Euro",
        "It costs 3.14 or 1,000.50 Euro",
        "Yahoo! is a name",
        '"Go!" he said',
        "And ... so on",
        "1. Item",
        "M. Dupont est là",
    ],
)
def test_a_point_need_not_end_a_sentence(text: str):
    assert split_sentences(text) == ["", text, ""]


def test_chinese_and_japanese_need_no_white_space():
    assert split_sentences("犬だ。猫！「はい。」鳥")[1::2] == ["犬だ。", "猫！", "「はい。」", "鳥"]


def test_a_text_without_capitals_begins_sentences_in_small_letters():
    assert split_sentences("hi. how are you?")[1::2] == ["hi.", "how are you?"]
    assert split_sentences("Hi. how are you?")[1::2] == ["Hi. how are you?"]


def test_a_line_end_ends_a_sentence():
    assert split_sentences("a dog\r\nruns\n\n to me ") == [
        "",
        "a dog",
        "\r\n",
        "runs",
        "\n\n ",
        "to me",
        " ",
    ]


def test_a_bullet_is_not_of_the_sentence():
    assert split_sentences("- Yes\n * No\n2) Maybe\n-5 degrees")[1::2] == [
        "Yes",
        "No",
        "Maybe",
        "-5 degrees",
    ]


def test_blank_text_has_no_sentence():
    assert split_sentences(" \n\t ") == [" \n\t "]
    assert split_sentences("") == [""]


@pytest.mark.parametrize("text", [".", "1. A ", '."', "- ", " ", "? ", "! ", "。 "])
def test_the_time_is_linear(text: str):
    def seconds(count: int) -> float:
        begun = time.process_time()
        sentence_spans(text * count)
        return time.process_time() - begun

    seconds(100)

    assert seconds(10_000) < 10 * seconds(2_500) + 0.2


def test_what_is_far_too_long_is_cut_at_a_blank():
    text = "ab  " * 3001

    result = [text[start:end] for start, end in sentence_spans(text)]

    assert len(result) == 3
    assert all(0 < len(item) <= MAX_SENTENCE_LENGTH for item in result)
    assert " ".join(result).split() == text.split()
    assert {item[0] + item[-1] for item in result} == {"ab"}


def test_a_word_without_end_is_cut_where_it_must():
    assert [end - start for start, end in sentence_spans("a" * (2 * MAX_SENTENCE_LENGTH + 7))] == [
        MAX_SENTENCE_LENGTH,
        MAX_SENTENCE_LENGTH,
        7,
    ]


def test_what_is_covered_is_not_cut_however_long_it_is():
    text = "a" * (MAX_SENTENCE_LENGTH - 2) + MASK * 5003 + "b" * 11

    assert list(sentence_spans(text)) == [
        (0, MAX_SENTENCE_LENGTH + 5001),
        (MAX_SENTENCE_LENGTH + 5001, len(text)),
    ]


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

    assert [text[start:end] for start, end in word_spans(text)] == words(text)


def test_words_are_counted_over_all_lines():
    assert count_words(["a dog", "a cat"]) == {"a": 2, "dog": 1, "cat": 1}


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("A thing . . . was odd. . . . Then", ["A thing . . . was odd. . . .", "Then"]),
        ("It ended. . . .", ["It ended. . . ."]),
        ("raak. ...en toen", ["raak.", "...en toen"]),
        ("! ? What", ["! ? What"]),
        ('"Stairs [...]" (Smith 55).', ['"Stairs [...]" (Smith 55).']),
        ("At N°. 1026 it is. Go", ["At N°. 1026 it is.", "Go"]),
        ("እንደምን አለህ፧መልካም።እባክሽ", ["እንደምን አለህ፧", "መልካም።", "እባክሽ"]),
    ],
)
def test_points_without_words_are_no_sentences(text: str, sentences: list[str]):
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences
