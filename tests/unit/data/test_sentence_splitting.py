"""A text is cut where sentences end, and nothing of it is lost."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.sentence_splitting import COVER, LONGEST, has_words, spans, split

PIECES = st.sampled_from(
    [
        *("A", "dog", " ", "  ", ".", ".", "!", "?", "…", "\n", "\r\n", "\t", '"', ")", "»", "Dr"),
        *("z", "B", "3", "。", "犬", "「", "」", "- ", "1) ", "\u2028", "\u00a0", "e\u0301"),
    ]
)


@given(st.lists(PIECES).map("".join) | st.text())
def test_the_parts_joined_are_the_text(text: str):
    parts = split(text)

    assert "".join(parts) == text
    assert len(parts) % 2 == 1


@given(st.lists(PIECES).map("".join) | st.text())
def test_sentences_have_no_white_space_at_their_ends_and_no_line_end_inside(text: str):
    for sentence in split(text)[1::2]:
        assert sentence
        assert sentence == sentence.strip()
        assert not set(sentence) & set("\n\r\u2028\x85")


@given(st.lists(PIECES).map("".join))
def test_what_stands_between_has_no_words(text: str):
    for between in split(text)[::2]:
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

    assert split(" ".join(sentences))[1::2] == sentences


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
    assert split(text) == ["", text, ""]


def test_chinese_and_japanese_need_no_white_space():
    assert split("犬だ。猫！「はい。」鳥")[1::2] == ["犬だ。", "猫！", "「はい。」", "鳥"]


def test_a_text_without_capitals_begins_sentences_in_small_letters():
    assert split("hi. how are you?")[1::2] == ["hi.", "how are you?"]
    assert split("Hi. how are you?")[1::2] == ["Hi. how are you?"]


def test_a_line_end_ends_a_sentence():
    assert split("a dog\r\nruns\n\n to me ") == ["", "a dog", "\r\n", "runs", "\n\n ", "to me", " "]


def test_a_bullet_is_not_of_the_sentence():
    assert split("- Yes\n * No\n2) Maybe\n-5 degrees")[1::2] == ["Yes", "No", "Maybe", "-5 degrees"]


def test_blank_text_has_no_sentence():
    assert split(" \n\t ") == [" \n\t "]
    assert split("") == [""]


@pytest.mark.parametrize("text", [".", "1. A ", '."', "- ", " "])
def test_the_time_is_linear(text: str):
    def seconds(count: int) -> float:
        begun = time.process_time()
        spans(text * count)
        return time.process_time() - begun

    seconds(100)

    assert seconds(10_000) < 10 * seconds(2_500) + 0.2


def test_what_is_far_too_long_is_cut_at_a_blank():
    text = "ab  " * 3001

    found = [text[start:end] for start, end in spans(text)]

    assert len(found) == 3
    assert all(0 < len(one) <= LONGEST for one in found)
    assert " ".join(found).split() == text.split()
    assert {one[0] + one[-1] for one in found} == {"ab"}


def test_a_word_without_end_is_cut_where_it_must():
    assert [end - start for start, end in spans("a" * (2 * LONGEST + 7))] == [LONGEST, LONGEST, 7]


def test_what_is_covered_is_not_cut_however_long_it_is():
    text = "a" * (LONGEST - 2) + COVER * 5003 + "b" * 11

    assert list(spans(text)) == [(0, LONGEST + 5001), (LONGEST + 5001, len(text))]
