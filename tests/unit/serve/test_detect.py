"""Which of the loaded languages a text is in."""

import sys

import pytest

from transduce.serve.detect import Detected, Detector
from transduce.serve.refusal import Refusal


def test_one_language_needs_no_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lingua", None)

    assert Detector(["xx"]).detect("Anything.") == [Detected("xx", 100.0)]


def test_a_text_without_a_letter_is_in_no_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lingua", None)

    assert Detector(["en", "de"]).detect("😀 12 !") == [Detected("en", 0.0), Detected("de", 0.0)]


def test_without_lingua_a_choice_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "lingua", None)

    with pytest.raises(Refusal, match=r"pip install 'transduce\[detect\]'") as refused:
        Detector(["en", "de"]).detect("Hello.")

    assert refused.value.status == 400


def test_languages_are_told_apart_the_likeliest_first() -> None:
    pytest.importorskip("lingua")
    detector = Detector(["en", "de-AT"])

    first, second = detector.detect("Der alte Mann liest ein Buch im Garten.")

    assert (first.language, second.language) == ("de-AT", "en")
    assert 0 <= second.confidence < first.confidence <= 100


def test_a_word_says_less_than_a_sentence() -> None:
    pytest.importorskip("lingua")
    detector = Detector(["en", "de"])

    word, sentence = detector.detect("in"), detector.detect("The old man reads a book.")

    assert word[0].confidence < sentence[0].confidence


def test_what_is_no_language_cannot_be_told_apart() -> None:
    pytest.importorskip("lingua")

    with pytest.raises(Refusal, match="src cannot be told"):
        Detector(["en", "src"]).detect("Hello.")
