"""Which of the loaded languages a text is in."""

import sys

import pytest

from transduce.serve.model_registry import DetectedLanguage, LanguageDetector
from transduce.serve.requests import HTTPError


def test_one_language_needs_no_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lingua", None)

    assert LanguageDetector(["xx"]).detect("Anything.") == [
        DetectedLanguage(language="xx", confidence=100.0)
    ]


def test_a_text_without_a_letter_is_in_no_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lingua", None)

    assert LanguageDetector(["en", "de"]).detect("😀 12 !") == [
        DetectedLanguage(language="en", confidence=0.0),
        DetectedLanguage(language="de", confidence=0.0),
    ]


def test_without_lingua_a_choice_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "lingua", None)

    with pytest.raises(HTTPError, match=r"pip install 'transduce\[detect\]'") as refused:
        LanguageDetector(["en", "de"]).detect("Hello.")

    assert refused.value.status == 400


def test_languages_are_told_apart_the_likeliest_first() -> None:
    pytest.importorskip("lingua")
    detector = LanguageDetector(["en", "de-AT"])

    first, second = detector.detect("Der alte Mann liest ein Buch im Garten.")

    assert (first.language, second.language) == ("de-AT", "en")
    assert 0 <= second.confidence < first.confidence <= 100


def test_a_word_says_less_than_a_sentence() -> None:
    pytest.importorskip("lingua")
    detector = LanguageDetector(["en", "de"])

    word, sentence = detector.detect("in"), detector.detect("The old man reads a book.")

    assert word[0].confidence < sentence[0].confidence


def test_what_is_no_language_cannot_be_told_apart() -> None:
    pytest.importorskip("lingua")

    with pytest.raises(HTTPError, match="src cannot be detected"):
        LanguageDetector(["en", "src"]).detect("Hello.")
