"""A sentence is traced as the bundle would translate it, or with the translation it is given."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import SHAPE, Transduce, made
from tests.unit.conftest import LINES
from tests.unit.visualization.test_page import parsed

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.languages import LanguagePair
from transduce.data.tokenizer import Tokenizer
from transduce.inference.translator import Translator
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.visualization.attention_page import MAX_PIECES, attention_page, trace_attention
from transduce.visualization.attention_view import START

SENTENCE = "the old man reads"


@pytest.fixture
def bundle(untrained: Transformer, tokenizer: Tokenizer) -> Bundle:
    return Bundle(
        model=untrained,
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(beam=3, extra=4),
        provenance=Provenance(),
    )


def test_without_a_target_the_models_own_translation_is_traced(bundle: Bundle):
    translator = Translator.from_parts(bundle.model, bundle.tokenizer, search=bundle.search)
    expected = translator.translate([SENTENCE], retry_loops=False)[0]

    traced = trace_attention(bundle, SENTENCE)

    assert traced.target_pieces == expected.pieces
    assert traced.log_probs == pytest.approx(expected.log_probs, abs=1e-4)
    assert (traced.source, traced.text) == (SENTENCE, expected.text)


def test_a_sentence_in_capitals_is_viewed_as_it_is_translated(
    bundle: Bundle, tmp_path: Path, transduce: Transduce
):
    bundle.save(tmp_path / "model")
    (translation,) = Translator.from_bundle(bundle, engine="torch").translate([SENTENCE.upper()])
    out = tmp_path / "map.json"

    result = transduce("view", tmp_path / "model", SENTENCE.upper(), "--out", out)

    assert result.code == 0, result.err
    viewed = json.loads(out.read_text(encoding="utf-8"))
    traced = trace_attention(bundle, translation.recased)
    assert viewed["source"] == translation.recased != ""
    assert viewed["source_pieces"] == list(traced.source_pieces)
    assert viewed["text"] == traced.text


def test_pieces_and_weights_are_of_one_size(bundle: Bundle):
    traced = trace_attention(bundle, SENTENCE, "der alte Mann")

    source, target = len(traced.source_pieces), len(traced.target_pieces)
    assert (traced.source_pieces[-1], traced.target_pieces[-1]) == ("</s>", "</s>")
    assert traced.target_read == (START, *traced.target_pieces[:-1])
    for layers, rows, columns in (
        (traced.encoder, source, source),
        (traced.decoder, target, target),
        (traced.cross, target, source),
    ):
        assert (len(layers[0]), len(layers[0][0])) == (3, rows)
        assert {len(row) for layer in layers for head in layer for row in head} == {columns}
    assert (len(traced.encoder), len(traced.decoder), len(traced.cross)) == (2, 1, 1)


def test_the_page_shows_both_sentences_as_text(bundle: Bundle):
    bundle.languages = Languages(source="en", target="de", target_name="Elvish")

    text = parsed(attention_page(bundle, '<b>&" the', "der </script>")).text

    assert '<b>&" the' in text
    assert "Elvish" in text
    assert "the given translation" in text


@pytest.mark.parametrize(
    ("tag", "languages"),
    [
        ("<2de>", "English and the given translation in de"),
        ("<2en>", "de or fr and the given translation in English"),
    ],
)
def test_the_page_of_several_directions_names_the_languages_of_the_tag(tag: str, languages: str):
    """Of a tag's source languages each may be that of the sentence."""
    tokenizer = Tokenizer.train(LINES, TokenizerConfig(vocab_size=97), tags=["<2de>", "<2en>"])
    bundle = Bundle(
        model=made(replace(SHAPE, vocab_size=tokenizer.vocab_size)),
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de", source_name="English"),
        search=SearchConfig(),
        provenance=Provenance(),
        directions=tuple(map(LanguagePair, ("en", "de", "fr"), ("de", "en", "en"))),
    )

    text = parsed(attention_page(bundle, f"{tag} ein Ball", "a ball")).text

    assert f"A sentence in {languages}" in text


def test_the_page_says_how_likely_each_piece_is(bundle: Bundle):
    traced = trace_attention(bundle, SENTENCE, "der")

    shown = attention_page(bundle, SENTENCE, "der")

    nats = -sum(traced.log_probs)
    assert f"{nats:.2f} nats in total" in shown


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (" \t", None, "the sentence is blank"),
        (SENTENCE, "", "the target is blank"),
        ("the " * (MAX_PIECES + 1), None, "shorten it"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    bundle: Bundle, source: str, target: str | None, message: str
):
    with pytest.raises(ValueError, match=message):
        trace_attention(bundle, source, target)
