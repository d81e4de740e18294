"""Capitals and title case are translated as running text, and come back in their case."""

import json
from pathlib import Path

import pytest
from tests.unit.inference.scripted import Scripted
from tests.unit.inference.test_masking import translator_of

from transduce.bundle.bundle import Bundle
from transduce.bundle.calibration import Calibration, Confidence
from transduce.cli import main
from transduce.data.config import TokenizerConfig
from transduce.data.corpus import Pair
from transduce.data.tokenizer import Tokenizer
from transduce.evaluation.scoring import translate_pairs, translate_with
from transduce.inference.decode import Extras
from transduce.inference.glossary import Term
from transduce.inference.recasing import Recasing, recase
from transduce.inference.texts import translate_texts
from transduce.inference.translator import Translator
from transduce.search.config import SearchConfig

LINES = [
    "Click the button to close the window.",
    "The dog of Anna runs in Paris, and the dog's ball is well-known.",
    "Close the door. Open a window and see www.a.example in a day",
    "In Paris the iPhone of the NATO is open to dogs.",
]

LINE = Calibration(log_probs=(-1.0, 0.0), worth=(0.0, 1.0), observations=100)


@pytest.fixture(scope="module")
def english() -> Tokenizer:
    config = TokenizerConfig(vocab_size=420, byte_fallback=True, protect=("number",))
    return Tokenizer.train([*LINES * 20, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "日本語"], config)


@pytest.fixture
def translator(english: Tokenizer) -> Translator:
    """It repeats what it reads."""
    return translator_of(english, lambda ids: ids)[0]


@pytest.mark.parametrize(
    ("text", "expected", "style"),
    [
        ("CLICK THE BUTTON.", "Click the button.", "capitals"),
        ("“CLICK THE BUTTON.”", "“Click the button.”", "capitals"),
        ('(CLICK) "THE" BUTTON', '(Click) "the" button', "capitals"),
        ("CLOSE THE DOOR. OPEN THE WINDOW", "Close the door. Open the window", "capitals"),
        ("Click The Button", "Click the button", "every word"),
        ("Close the Window", "Close the window", "title"),
        ("Close A Window To See A Dog", "Close a window to see a dog", "every word"),
        ("THE DOG'S BALL IS WELL-KNOWN", "The dog's ball is well-known", "capitals"),
        ("THE DOG RUNS IN PARIS", "The dog runs in Paris", "capitals"),
        ("The NATO Is Well-known", "The NATO is well-known", "every word"),
        ("Click Open The Window And www.A.Example", None, "every word"),
        ("CLOSE THE WINDOW AND SEE www.a.example", None, "capitals"),
        ("CLOSE <b>THE WINDOW</b>", "Close <b>the window</b>", "capitals"),
        ("<2de> CLOSE THE WINDOW", "<2de> Close the window", "capitals"),
        ("<2de>CLICKING", "<2de>Clicking", "capitals"),
        (">>deu<< CLOSE THE WINDOW", ">>deu<< Close the window", "capitals"),
    ],
)
def test_a_sentence_is_read_in_its_usual_case(
    text: str, expected: str | None, style: str, english: Tokenizer
):
    recasing = recase(text, english)

    assert recasing.style == style
    if expected is None:
        before, address = text.rsplit(" ", 1)
        expected = f"{before.capitalize()} {address}"
    assert recasing.text == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Click the button to close the window.",
        "NATO",
        "Window",
        "DOGS",  # an abbreviation, as far as can be told
        "In Paris",  # as many pieces as in lower case
        "日本語 WINDOW",
        "日本語",
        "CLOSE the window",
        "the Window Button",
        "WINDOW is the Button of the dog",
        ("CLICK THE BUTTON " * 118).strip(),  # would take time, and is no sentence
    ],
)
def test_other_sentences_stay(text: str, english: Tokenizer):
    assert recase(text, english) == Recasing(text)


def test_a_busy_machine_is_no_reason_to_refuse_a_sentence(
    english: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.data.protection.time", None)  # no clock, so no time limit

    assert recase("CLICK THE BUTTON", english).text == "Click the button"


def test_a_model_of_lower_case_text_reads_capitals_already():
    config = TokenizerConfig(vocab_size=120, byte_fallback=False, lower_case=True)
    tokenizer = Tokenizer.train(LINES * 5, config)

    assert recase("CLICK THE BUTTON", tokenizer) == Recasing("CLICK THE BUTTON")


def test_capitals_that_the_vocabulary_lacks_count_however_few_pieces_they_are():
    lower = [line.lower() for line in LINES]
    tokenizer = Tokenizer.train(lower * 5, TokenizerConfig(vocab_size=120))

    assert len(tokenizer.encode("BUTTONHOLES")) < len(tokenizer.encode("buttonholes"))
    assert recase("BUTTONHOLES", tokenizer).text == "buttonholes"


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("capitals", "KLICK' AUF DEN KNOPF: www.a.example, read_me <b>UND</b> Dackel"),
        ("every word", "Klick' Auf Den Knopf: www.a.example, read_me <b>Und</b> Dackel"),
        ("title", "Klick' auf den Knopf: www.a.example, read_me <b>und</b> Dackel"),
        ("", "klick' auf den Knopf: www.a.example, read_me <b>und</b> Dackel"),
    ],
)
def test_a_translation_gets_the_case_of_its_source(style: str, expected: str):
    text = "klick' auf den Knopf: www.a.example, read_me <b>und</b> Dackel"

    assert Recasing("", style, ("Dackel",)).restore(text) == expected  # pyright: ignore


def test_terms_match_as_they_are_written_and_keep_the_case_of_their_target(english: Tokenizer):
    terms = (Term("BALL", "Dackel"), Term("dog", "Hund"))

    recasing = recase("THE BALL OF THE DOG", english, terms=terms)

    assert recasing.text == "The BALL of the dog"
    assert recasing.restore("der Dackel vom Hund") == "DER Dackel VOM HUND"


def test_a_translator_recases(translator: Translator):
    texts = ["CLICK THE BUTTON.", "Click the button."]

    capitals, plain = translator.translate(texts, num_beams=1)

    assert capitals.text == "CLICK THE BUTTON."
    assert capitals.ids == plain.ids
    assert (capitals.recased, plain.recased) == ("Click the button.", "")
    assert capitals.source == "CLICK THE BUTTON."
    assert translator.alignment(capitals) == translator.alignment(plain)


def test_recasing_can_be_turned_off_and_a_prefix_turns_it_off(translator: Translator):
    (as_is,) = translator.translate("CLICK THE BUTTON.", recase=False)
    (begun,) = translator.translate("CLICK THE BUTTON.", prefix="CLICK")
    (decoded,) = translator.decode(["CLICK THE BUTTON."], extras=Extras(recase=False))

    assert as_is.recased == begun.recased == decoded.recased == ""
    assert as_is.text == "CLICK THE BUTTON."


def test_alternatives_are_recased_too(translator: Translator, english: Tokenizer):
    engine = Scripted(lambda request, constraints: [list(request.source)] * 2)
    search = SearchConfig(beam=2)
    translator = Translator([engine], english, model=translator.model, search=search)

    (translation,) = translator.translate("CLICK THE BUTTON", num_return_sequences=2)

    assert [other.text for other in translation.others] == ["CLICK THE BUTTON"]


def test_placeholders_stay(english: Tokenizer):
    translator, engine = translator_of(english, lambda ids: ids)

    (translation,) = translator.translate("CLOSE 25 DOORS OF THE WINDOW")

    assert translation.text == "CLOSE 25 DOORS OF THE WINDOW"
    assert translation.recased == "Close 25 doors of the window"
    ((request,),) = engine.batches
    assert not english.placeholders.keys().isdisjoint(request.source)


def test_confidence_is_of_the_text_that_was_translated(english: Tokenizer):
    translator, _ = translator_of(english, lambda ids: ids)
    translator.confidence = Confidence(words=LINE, sentences=LINE, max_fragmentation=0.3)

    translation, as_is = (
        translator.translate("CLICK THE BUTTON", recase=r)[0] for r in (True, False)
    )

    assert as_is.unfamiliar
    assert not translation.unfamiliar
    assert [word for word, _ in translation.words] == ["CLICK", "THE", "BUTTON"]


def test_sentences_of_documents_are_recased_one_by_one(translator: Translator):
    (text,) = translate_texts(translator, ["CLICK THE BUTTON. See the window."])

    assert text.text == "CLICK THE BUTTON. See the window."


@pytest.mark.parametrize(("option", "recased"), [((), "Click the button."), (("--as-is",), "")])
def test_the_command_line_recases_unless_told_to_translate_as_is(
    option: tuple[str, ...],
    recased: str,
    tmp_path: Path,
    translator: Translator,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    (tmp_path / "manifest.json").touch()  # its checksum goes into the state of an output
    monkeypatch.setattr(Translator, "load", lambda *_, **__: translator)

    assert main(["translate", str(tmp_path), "CLICK THE BUTTON.", "--json", *option]) == 0

    assert json.loads(capfd.readouterr().out)["recased"] == recased


@pytest.mark.parametrize("as_is", [False, True])
def test_scores_are_of_what_translate_writes(
    as_is: bool, translator: Translator, english: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    for maker in ("from_bundle", "from_parts"):
        monkeypatch.setattr(Translator, maker, lambda *_, **__: translator)
    bundle, model, pair = object.__new__(Bundle), translator.model, Pair("CLICK THE BUTTON.", "")
    options = {"pairs": [pair], "search": SearchConfig(beam=1), "retry_loops": not as_is}

    written = translate_with(bundle, [pair.source], as_is=as_is)
    tested = translate_pairs(model, english, **options)  # pyright: ignore

    expected = "" if as_is else "Click the button."
    assert [line.recased for line in (*written, *tested)] == [expected] * 2
