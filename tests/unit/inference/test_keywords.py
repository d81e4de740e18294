"""Translator.translate takes the words that users of other toolkits know; wrong ones are mended."""

import inspect

import pytest
from tests.unit.inference.scripted import Scripted, constant

from transduce.data.tokenizer import Tokenizer
from transduce.inference.glossary import Term
from transduce.inference.translator import Translator
from transduce.model.transformer import Transformer
from transduce.search.config import DecodingConstraints, SamplingConfig, SearchConfig

SENTENCES = ["the old man", "bread"]


@pytest.fixture
def translator(untrained: Transformer, tokenizer: Tokenizer) -> Translator:
    search = SearchConfig(beam=3, extra=4, max_source=23)
    return Translator.from_parts(untrained, tokenizer, search=search)


def test_a_sentence_needs_no_list(translator: Translator):
    assert translator.translate("bread", num_beams=4) == translator.translate(
        ["bread"], num_beams=4
    )


def test_keywords_arrive_at_the_engine(untrained: Transformer, tokenizer: Tokenizer):
    engine = Scripted(constant(tokenizer, "Ball"))
    translator = Translator([engine], tokenizer, model=untrained, search=SearchConfig())

    translator.translate(
        "a ball",
        no_repeat_ngram_size=5,
        min_new_tokens=2,
        max_new_tokens=19,
        do_sample=True,
        temperature=0.5,
        top_k=7,
        top_p=0.9,
        seed=3,
    )

    sampling = SamplingConfig(temperature=0.5, top_k=7, top_p=0.9, seed=3)
    assert engine.constraints == [
        DecodingConstraints(no_repeat=5, min_length=2, max_length=19, sampling=sampling)
    ]


def test_more_translations_widen_the_models_beam(translator: Translator):
    (widened,) = translator.translate("bread", num_return_sequences=5)

    assert (widened,) == tuple(translator.translate("bread", num_beams=5, num_return_sequences=5))
    assert len(widened.others) == 4


def test_samples_are_as_many_as_are_returned(translator: Translator):
    drawn = translator.translate("bread", do_sample=True, num_return_sequences=2, seed=5)

    assert drawn == translator.translate(
        "bread", do_sample=True, num_beams=2, num_return_sequences=2, seed=5
    )
    assert drawn != translator.translate("bread", do_sample=True, num_return_sequences=2, seed=6)


def test_a_glossary_can_be_a_mapping(translator: Translator):
    forced = translator.translate("a ball", glossary={"ball": "Milch"})

    assert "Milch" in forced[0].text
    assert forced == translator.translate("a ball", glossary=[Term("ball", "Milch")])


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("num_beam", "num_beams"),
        ("beam_size", "num_beams"),
        ("alpha", "length_penalty"),
        ("lenght_penalty", "length_penalty"),
        ("max_length", "max_new_tokens"),
        ("n_best", "num_return_sequences"),
        ("retry_loop", "retry_loops"),
    ],
)
def test_an_unknown_keyword_is_answered_with_the_similar_one(
    translator: Translator, wrong: str, right: str
):
    with pytest.raises(TypeError, match=f"keyword argument '{wrong}': did you mean '{right}'"):
        translator.translate(SENTENCES, **{wrong: 2})


def test_a_keyword_like_no_other_is_answered_with_all(translator: Translator):
    with pytest.raises(TypeError, match="'xyz': there are num_beams, length_penalty"):
        translator.translate(SENTENCES, **{"xyz": 2})


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"num_beams": 0}, "num_beams must be at least 1, not 0"),
        ({"length_penalty": -1.0}, "length_penalty must be finite and at least 0"),
        ({"num_return_sequences": 0}, "num_return_sequences must be from 1"),
        ({"num_beams": 2, "num_return_sequences": 3}, "num_return_sequences must be from 1"),
        ({"mbr": True, "num_return_sequences": 2}, "num_return_sequences must be 1, not 2"),
        ({"max_new_tokens": 3, "min_new_tokens": 3}, "max_new_tokens must be above min_new"),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size must not be negative"),
        ({"temperature": 0.5}, "need do_sample=True"),
        ({"top_k": -1, "do_sample": True}, "top_k must not be negative"),
        ({"top_p": 2.0, "do_sample": True}, "top_p must be above 0"),
    ],
)
def test_an_error_names_the_keyword(
    translator: Translator, keywords: dict[str, object], message: str
):
    with pytest.raises(ValueError, match=message):
        translator.translate(SENTENCES, **keywords)


def test_help_explains_every_keyword():
    parameters = inspect.signature(Translator.translate).parameters
    text = inspect.getdoc(Translator.translate) or ""

    assert all(f"{name}: " in text for name in parameters if name != "self")
