"""Protected text is a placeholder for the model, and itself in the translation."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from tests.unit.inference.scripted import Scripted

from transduce.data.config import TokenizerConfig
from transduce.data.corpus import Pair
from transduce.data.tokenizer import Tokenizer
from transduce.evaluation.scoring import encode_pairs
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.inference.translator import Translator
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.search.config import DecodingConstraints, Request, SearchConfig

LINES = ["set row_count to seven", "setze row_count auf sieben", "see the manual", "siehe Handbuch"]
SENTENCE = "set my_table.size to https://a.example/x"


@pytest.fixture(scope="module")
def protecting() -> Tokenizer:
    config = TokenizerConfig(vocab_size=300, byte_fallback=True, protect=("code", "url"))
    return Tokenizer.train(LINES * 5, config)


Spoken = Callable[[Sequence[int]], Sequence[int]]


def translator_of(tokenizer: Tokenizer, answer: Spoken) -> tuple[Translator, Scripted]:
    """A translator whose engine answers each source by a function of its ids."""
    shape = ModelConfig(
        vocab_size=tokenizer.vocab_size, encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8,
        heads=1, d_k=8, d_v=8,
    )  # fmt: skip

    def say(request: Request, constraints: DecodingConstraints) -> list[list[int]]:
        return [list(answer(request.source))]

    engine = Scripted(say)
    model, search = Transformer(shape), SearchConfig(beam=1)
    return Translator([engine], tokenizer, model=model, search=search), engine


def is_masked(tokenizer: Tokenizer, request: Request) -> bool:
    return not tokenizer.placeholders.keys().isdisjoint(request.source)


def test_the_model_reads_placeholders_and_the_text_comes_back(protecting: Tokenizer):
    translator, engine = translator_of(protecting, lambda ids: ids)

    (translation,) = translator.translate([SENTENCE])

    assert translation.text == SENTENCE
    ((request,),) = engine.batches
    assert is_masked(protecting, request)
    assert "my_table" not in protecting.decode(request.source)
    assert protecting.decode(translation.ids) == SENTENCE, "ids spell the text, too"


def test_a_translation_that_lost_a_placeholder_is_made_again_from_plain_text(protecting: Tokenizer):
    translator, engine = translator_of(
        protecting, lambda ids: [id for id in ids if id not in protecting.placeholders]
    )

    (translation, other) = translator.translate([SENTENCE, "see the manual"])

    assert translation.text == SENTENCE
    assert other.text == "see the manual"
    first, second = engine.batches
    assert sum(is_masked(protecting, request) for request in first) == 1
    assert not any(is_masked(protecting, request) for request in second)
    assert len(second) == 1, "only the sentence that lost it"


def test_plain_text_that_is_too_long_is_then_split_even_if_long_lines_are_refused(
    protecting: Tokenizer,
):
    translator, _ = translator_of(
        protecting, lambda ids: [id for id in ids if id not in protecting.placeholders]
    )
    limit = len(protecting.encode(SENTENCE)) - 1
    translator.search = replace(translator.search, max_source=limit, long="refuse")

    (translation,) = translator.translate([SENTENCE])

    assert translation.parts == 2


def test_a_doubled_placeholder_is_not_shown(protecting: Tokenizer):
    translator, _ = translator_of(protecting, lambda ids: [*ids, *ids])

    (translation,) = translator.translate([SENTENCE])

    assert translation.text.count("https://a.example/x") == 2, "from plain text, as the model says"


def test_placeholders_that_the_source_lacks_are_deleted(protecting: Tokenizer):
    symbol = next(iter(protecting.placeholders))
    translator, _ = translator_of(protecting, lambda ids: [*ids, symbol])

    (translation,) = translator.translate(["see the manual"])

    assert translation.text == "see the manual"


def test_own_patterns_are_protected_for_one_call(protecting: Tokenizer):
    translator, engine = translator_of(protecting, lambda ids: ids)

    (translation,) = translator.translate(["set seven"], protect=["sev.n"])

    assert translation.text == "set seven"
    ((request,),) = engine.batches
    assert is_masked(protecting, request)


def test_a_sentence_with_a_prefix_is_translated_as_it_is(protecting: Tokenizer):
    """The prefix may name what a placeholder would hide."""
    translator, engine = translator_of(protecting, lambda ids: ids)

    translator.translate(["set row_count"], prefix="row_count")

    ((request,),) = engine.batches
    assert not is_masked(protecting, request)


def test_other_models_refuse_own_patterns(tokenizer: Tokenizer):
    translator, engine = translator_of(tokenizer, lambda ids: ids)

    with pytest.raises(ValueError, match=r"train it with tokenizer\.protect"):
        translator.translate(["the old man"], protect=["code"])

    translator.translate(["the old man"])
    ((request,),) = engine.batches
    assert request.source == tuple(tokenizer.encode("the old man"))


def test_a_tokenizer_keeps_its_patterns(protecting: Tokenizer):
    again = Tokenizer.from_bytes(protecting.to_bytes())

    assert again.protection.patterns == ("code", "url")
    assert len(again.placeholders) == 16
    assert again.decode(again.encode("a b")) == "a b"


def test_a_given_translation_is_scored_with_placeholders_as_perplexity_is(protecting: Tokenizer):
    model, target = translator_of(protecting, lambda ids: ids)[0].model, f"{SENTENCE}, sieben"
    assert isinstance(model, Transformer)
    engine = TorchEngine(model, pad=protecting.pad, eos=protecting.EOS, device="cpu")

    (scored,) = Translator.from_parts(model, protecting, search=SearchConfig()).score(
        [SENTENCE], [target]
    )

    (expected,) = engine.score(encode_pairs([Pair(SENTENCE, target)], protecting))
    assert scored.log_probs == pytest.approx(expected, abs=1e-4)
    assert {"my_table.size", "https://a.example/x"} <= {*scored.pieces}
