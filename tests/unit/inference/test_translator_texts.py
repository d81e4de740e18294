"""Whole texts go to the translator at once, and each comes back as one."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.unit.inference.scripted import Scripted

from transduce.cli.translate_documents import translate_document
from transduce.data.tokenizer import Tokenizer
from transduce.documents.formats import read_document
from transduce.documents.markup import RestoredText
from transduce.inference.texts import translate_texts
from transduce.inference.translation import Translation
from transduce.inference.translator import Translator
from transduce.memory.store import Entry, Match
from transduce.model.transformer import Transformer
from transduce.search.config import DecodingConstraints, Request, SearchConfig

SEARCH = SearchConfig(beam=1, max_source=23)


@pytest.fixture
def engine(tokenizer: Tokenizer) -> Scripted:
    """Says the words of its source backwards."""

    def say(request: Request, constraints: DecodingConstraints) -> Sequence[Sequence[int]]:
        words = tokenizer.decode(request.source).split()
        return [tokenizer.encode(" ".join(reversed(words)))]

    return Scripted(say)


@pytest.fixture
def translator(engine: Scripted, tokenizer: Tokenizer, untrained: Transformer) -> Translator:
    return Translator([engine], tokenizer, model=untrained, search=SEARCH)


def test_texts_come_back_in_order(translator: Translator):
    result = translate_texts(translator, ["the old man\n\nred ball\n", "", "a book"], markup="none")

    assert result == [
        RestoredText("man old the\n\nball red\n", ()),
        RestoredText("", ()),
        RestoredText("book a", ()),
    ]


def test_all_texts_are_asked_for_in_one_call(translator: Translator, engine: Scripted):
    translate_texts(translator, ["the old man\nred ball", "a {x} book"])

    assert len(engine.batches) == 1


def test_a_lost_placeholder_is_kept_by_its_runs(translator: Translator):
    (result,) = translate_texts(translator, ["the red ball {x} a book"])

    assert result == RestoredText("ball red the {x} book a", ())


def test_alignments_are_computed_where_tags_need_them_alone(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
):
    aligned: list[str] = []

    def alignment(translation: Translation, *, text: str | None) -> str:
        assert text is None
        aligned.append(translation.source)
        return "0-2 1-1 2-0"

    monkeypatch.setattr(translator, "alignment", alignment)

    (result,) = translate_texts(
        translator, ["<p>the <b>red</b> ball</p><p><i>a book</i></p>"], markup="html"
    )

    assert result.text == "<p>ball <b>red</b> the</p><p><i>book a</i></p>"
    assert aligned == ["the red ball"]


def test_the_models_own_alignment_places_tags(translator: Translator):
    (result,) = translate_texts(translator, ["the <b>red</b> ball"], markup="html")

    assert result.text.count("<b>") == result.text.count("</b>") == 1
    assert result.lost == ()


def test_progress_and_translations_are_told(translator: Translator):
    counts: list[int] = []
    seen: list[Translation] = []

    translate_texts(
        translator, ["red ball\na {x} book"], progress=counts.append, on_translation=seen.append
    )

    assert counts[-1] == 4
    assert [item.source for item in seen] == ["red ball", "a {x} book", "a", "book"]


def test_a_sentence_of_a_memory_has_an_alignment_of_its_own(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
):
    looked_up: list[str] = []

    def remembered(text: str) -> str | None:
        looked_up.append(text)
        return "den Ball rot" if text == "the red ball" else None

    def alignment(translation: Translation, *, text: str | None) -> str:
        return "0-0 1-2 2-1" if text == "den Ball rot" else "0-0 1-1 2-2"

    monkeypatch.setattr(translator, "alignment", alignment)

    (result,) = translate_texts(
        translator, ["<p>the <b>red</b> ball</p>"], markup="html", remembered=remembered
    )

    assert result.text == "<p>den Ball <b>rot</b></p>"
    assert looked_up == ["the red ball"]  # once, and none of the runs


def test_the_model_gets_only_what_the_memory_lacks(translator: Translator, engine: Scripted):
    seen: list[Translation] = []

    (result,) = translate_texts(
        translator,
        ["red ball\na book"],
        on_translation=seen.append,
        remembered={"a book": "ein Buch"}.get,
    )

    assert result.text == "ball red\nein Buch"
    assert [len(batch) for batch in engine.batches] == [1]
    assert [(item.source, item.text) for item in seen] == [
        ("red ball", "ball red"),
        ("a book", "ein Buch"),
    ]


def test_white_space_around_a_text_of_a_memory_stays(translator: Translator, tmp_path: Path):
    document = read_document("a.po", b'msgid "a book\\n"\nmsgstr ""\n')
    entry = Entry(source="a book", target="ein Buch", source_lang="en", target_lang="de")

    translate_document(
        partial(translate_texts, translator),
        document,
        tmp_path / "b.po",
        terms=(),
        engine="",
        memory=lambda text, before: Match(entry, 100),
    )

    assert (tmp_path / "b.po").read_text() == 'msgid "a book\\n"\nmsgstr "ein Buch\\n"\n'


def test_settings_reach_the_translator(translator: Translator):
    with pytest.raises(ValueError, match="beam"):
        translate_texts(translator, ["red"], decode=partial(translator.decode, beam=0))
