"""Which of the loaded languages a text is in."""

import sys
import time

import pytest
from tests.served import Serve

from transduce.serve.errors import HTTPError
from transduce.serve.model_registry import DetectedLanguage, LanguageDetector, probable_source


def test_without_a_detector_the_only_source_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of the text, so the confidence is 0."""
    monkeypatch.setitem(sys.modules, "lingua", None)

    assert LanguageDetector(["xx"]).detect("Anything.") == [
        DetectedLanguage(language="xx", confidence=0.0)
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


GERMAN = "Der alte Mann liest ein Buch im Garten."


def test_text_in_the_target_language_is_not_taken_for_the_only_source() -> None:
    """It was "en, 100 %"."""
    pytest.importorskip("lingua")

    best = LanguageDetector(["en"], ["de"]).detect(GERMAN)[0]

    assert best.language == "de"
    assert best.confidence > 90


def test_markup_and_addresses_are_not_read_as_language() -> None:
    pytest.importorskip("lingua")
    detector = LanguageDetector(["en", "de"])
    tagged = (
        '<p class="the main content of this page">Hund</p> https://the.example/of/this '
        "<b>the.man@of.this.example</b>"
    )

    assert detector.detect(tagged) == detector.detect("  Hund   ")


ENGLISH = "The old man reads a book in the garden. "


@pytest.mark.parametrize(
    "hidden", ["<style>{}</style>", "<SCRIPT src='a'>{}</script >", "<!--{}-->"]
)
def test_scripts_and_comments_are_not_read_as_language(hidden: str) -> None:
    pytest.importorskip("lingua")
    detector = LanguageDetector(["en", "de"])

    assert detector.detect(hidden.format(ENGLISH * 200) + GERMAN) == detector.detect(GERMAN)


@pytest.mark.parametrize("mentioned", ["<style> ", "<script> ", "<!-- "])
def test_a_tag_that_is_only_mentioned_hides_nothing(mentioned: str) -> None:
    pytest.importorskip("lingua")

    assert LanguageDetector(["en", "de"]).detect(mentioned + GERMAN)[0].language == "de"


def test_the_beginning_of_a_long_text_is_enough() -> None:
    pytest.importorskip("lingua")
    detector = LanguageDetector(["en", "de"])

    assert detector.detect("Hund " * 1000 + ENGLISH * 10) == detector.detect("Hund " * 1000)


def guesses(**confidences: float) -> list[DetectedLanguage]:
    return [
        DetectedLanguage(language=code, confidence=value) for code, value in confidences.items()
    ]


@pytest.mark.parametrize("run", ["a", "<script", "<!--", "<style></style "])
def test_a_long_run_is_searched_in_linear_time(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an address it took half a minute, in which the server answered nobody."""
    monkeypatch.setitem(sys.modules, "lingua", None)
    text, started = run * 100_000, time.perf_counter()

    (guess,) = LanguageDetector(["en"]).detect(text)
    probable_source(text, guesses(de=99.0, en=1.0), ["en"])

    assert guess.language == "en"
    assert time.perf_counter() - started < 3.0


def test_a_short_text_is_in_a_language_that_can_be_translated() -> None:
    """ "proton beam" into German was taken for German and came back as it was."""
    guessed = guesses(de=63.0, en=37.0)

    assert probable_source("proton beam", guessed, ["en"]).language == "en"
    assert probable_source("proton beam", guesses(de=99.0, en=1.0), ["en"]).language == "en"


def test_a_clear_text_stays_in_its_language() -> None:
    assert probable_source(GERMAN, guesses(de=99.0, en=1.0), ["en"]).language == "de"
    assert probable_source(GERMAN, guesses(de=80.0, en=20.0), ["en"]).language == "en"


def test_a_server_of_both_directions_translates_what_may_be_its_target(serve: Serve) -> None:
    pytest.importorskip("lingua")
    served = serve("en-de", "de-en")
    ask = {"q": "proton beam", "source": "auto", "target": "de"}

    assert served.post("/translate", **ask).json()["translatedText"] == "PROTON BEAM"
    german = served.post("/translate", **{**ask, "q": GERMAN}).json()
    assert german["translatedText"] == GERMAN
    assert german["detectedLanguage"]["language"] == "de"
