"""What a person gives comes back in order, whole, and the same whatever it was batched with."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tests.conftest import Transduce
from tests.unit.conftest import LINES
from tests.unit.inference.scripted import Scripted, constant

from transduce.bundle.bundle import Bundle, Provenance
from transduce.bundle.calibration import Calibration, Confidence
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.inference.glossary import Term
from transduce.inference.translator import Translator
from transduce.model.transformer import Transformer
from transduce.search.config import (
    UNCONSTRAINED,
    DecodingConstraints,
    Request,
    SamplingConfig,
    SearchConfig,
)
from transduce.search.hypothesis import Hypothesis

SEARCH = SearchConfig(beam=3, extra=4, max_source=23)
SENTENCES = [
    "the old man",
    "",
    "a red ball in the garden",
    "zwei Kinder",
    " \t ",
    "bread",
    "the old man",
]


@pytest.fixture
def translator(untrained: Transformer, tokenizer: Tokenizer) -> Translator:
    return Translator.from_parts(untrained, tokenizer, search=SEARCH)


class Echo:
    """An engine that repeats its source, and remembers the batches it was given."""

    name = "echo"
    preferred_batches = 1

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.batches: list[list[tuple[int, ...]]] = []

    def unsupported_reason(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> str:
        return ""

    def search(
        self,
        requests: Sequence[Request],
        config: SearchConfig,
        constraints: DecodingConstraints = UNCONSTRAINED,
        *,
        token_scores: bool = True,
    ) -> list[list[Hypothesis]]:
        sources = [request.source for request in requests]
        self.batches.append(sources)
        return [
            [
                Hypothesis.scored(
                    (*source, self.tokenizer.EOS),
                    [-0.5 - rank] * (len(source) + 1),
                    alpha=config.alpha,
                    eos=self.tokenizer.EOS,
                )
                for rank in range(config.beam)
            ]
            for source in sources
        ]

    def score(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[tuple[float, ...]]:
        raise AssertionError("all hypotheses have token scores")


@pytest.fixture
def echo(tokenizer: Tokenizer) -> Echo:
    return Echo(tokenizer)


@pytest.fixture
def echoing(echo: Echo, translator: Translator, monkeypatch: pytest.MonkeyPatch) -> Translator:
    monkeypatch.setattr(translator._searcher, "_engines", (echo,))
    return translator


def test_translations_come_in_the_order_of_the_sentences(echoing: Translator):
    result = echoing.translate(SENTENCES, batch_tokens=60)

    assert [item.source for item in result] == SENTENCES
    assert [item.text for item in result] == [sentence.strip() for sentence in SENTENCES]


def test_a_sentence_fares_the_same_alone_and_among_others(translator: Translator):
    together = translator.translate(SENTENCES)

    alone = [translator.translate([sentence])[0] for sentence in SENTENCES]
    assert [item.text for item in alone] == [item.text for item in together]
    assert [item.score for item in alone] == pytest.approx(
        [item.score for item in together], abs=1e-4
    )


def test_a_blank_line_gives_an_empty_text_without_the_model(echoing: Translator, echo: Echo):
    result = echoing.translate(["", " ", "\t\u2028\n"])

    assert [(item.text, item.pieces, item.parts) for item in result] == [("", (), 1)] * 3
    assert echo.batches == []


def test_a_batch_stays_within_its_tokens_and_equal_sentences_are_searched_once(
    echoing: Translator, echo: Echo
):
    echoing.translate(SENTENCES, batch_tokens=60)

    assert len(echo.batches) > 1
    assert sum(map(len, echo.batches)) == 4
    for batch in echo.batches:
        assert len(batch) == 1 or len(batch) * 3 * (max(map(len, batch)) + 1) <= 60


def test_text_is_tidied_as_in_training(echoing: Translator):
    (result,) = echoing.translate([" the\u2028old\tman\x07 "])

    assert result.text == "the old man"


def test_a_long_line_is_cut_where_words_begin(echoing: Translator, echo: Echo):
    line = "zwei Kinder spielen mit einem roten Ball im Garten am Fluss"

    (result,) = echoing.translate([line])

    parts = [part for batch in echo.batches for part in batch]
    assert result.parts == len(parts) > 1
    assert result.text == line
    assert all(len(part) <= 23 for part in parts)
    assert all(echo.tokenizer.pieces(part)[0].startswith("▁") for part in parts)


def test_a_cut_is_as_late_as_it_can_be(echoing: Translator, echo: Echo, tokenizer: Tokenizer):
    words = "am Garten"
    room = len(tokenizer.encode(words))
    echoing.search = dataclasses.replace(SEARCH, max_source=room)

    (result,) = echoing.translate([f"{words} {words}"])

    assert echo.batches == [[tuple(tokenizer.encode(words))]]
    assert (result.text, result.parts) == (f"{words} {words}", 2)


def test_a_word_too_long_for_the_model_is_cut_between_pieces(echoing: Translator, echo: Echo):
    (result,) = echoing.translate(["z" * 60])

    assert result.parts == 3
    assert result.text.replace(" ", "") == "z" * 60


def test_parts_in_a_script_without_spaces_are_joined_without_one(untrained: Transformer):
    lines = ["我喜歡狗", "zwei Kinder"] * 7
    tokenizer = Tokenizer.train(lines, TokenizerConfig(vocab_size=31))
    search = dataclasses.replace(SEARCH, max_source=3)
    translator = Translator([Echo(tokenizer)], tokenizer, model=untrained, search=search)
    line = "狗喜歡我我喜歡狗狗狗 zwei Kinder"

    (result,) = translator.translate([line])

    assert result.parts == 4
    assert result.text == line


def test_a_long_line_of_the_longest_length_stays_whole(echoing: Translator, tokenizer: Tokenizer):
    line = "zwei Kinder spielen mit einem roten Ball"
    echoing.search = dataclasses.replace(SEARCH, max_source=len(tokenizer.encode(line)))

    assert echoing.translate([line])[0].parts == 1


def test_a_long_line_is_refused_by_its_number_where_that_is_set(echoing: Translator, echo: Echo):
    echoing.search = dataclasses.replace(SEARCH, long="refuse", max_source=5)

    with pytest.raises(ValueError, match=r"^line 102 has \d+ pieces, more than .*max_source 5:"):
        echoing.translate(["bread", "a red ball in the garden"], first_line=101)
    assert echo.batches == []


def ending(untrained: Transformer, *, rows: int) -> Transformer:
    """The untrained model with a learned table of so many positions."""
    config = dataclasses.replace(
        untrained.config, positions="learned", max_positions=rows, d_model=21
    )
    return Transformer(config).eval()


def test_a_line_with_more_pieces_than_the_model_has_positions_is_split(
    untrained: Transformer, tokenizer: Tokenizer
):
    translator = Translator.from_parts(
        ending(untrained, rows=11), tokenizer, search=dataclasses.replace(SEARCH, extra=50)
    )
    line = "zwei Kinder spielen mit einem roten Ball"
    assert len(tokenizer.encode(line)) > 10

    (result,) = translator.translate([line])

    assert result.parts > 1
    assert len(result.pieces) <= result.parts * 11


def test_a_line_of_as_many_pieces_as_positions_for_them_and_eos_stays_whole(
    untrained: Transformer, tokenizer: Tokenizer
):
    line = "zwei Kinder spielen"
    rows = len(tokenizer.encode(line)) + 1
    for given, parts in ((rows, 1), (rows - 1, 2)):
        model = ending(untrained, rows=given)

        (result,) = Translator.from_parts(model, tokenizer, search=SEARCH).translate([line])

        assert result.parts == parts


def test_a_part_is_scored_for_each_piece(translator: Translator):
    for item in translator.translate(SENTENCES):
        assert len(item.pieces) == len(item.log_probs)
        assert all(log_prob <= 0 for log_prob in item.log_probs)


def test_the_others_are_the_next_best(translator: Translator):
    (result,) = translator.translate(["the old man"], num_return_sequences=3)

    assert len(result.others) == 2
    assert result.score >= result.others[0].score >= result.others[1].score


def test_the_others_of_a_long_line_combine_its_parts(echoing: Translator):
    echoing.search = dataclasses.replace(SEARCH, max_source=5)

    (result,) = echoing.translate(["the old man reads"], num_return_sequences=3)

    assert result.parts > 1
    assert result.score > result.others[0].score >= result.others[1].score


@pytest.mark.parametrize("nbest", [0, 4])
def test_more_translations_than_beams_are_refused(translator: Translator, nbest: int):
    with pytest.raises(
        ValueError,
        match=f"^num_return_sequences must be from 1 to the beam, which is 3, not {nbest}",
    ):
        translator.translate(["bread"], num_beams=3, num_return_sequences=nbest)


def test_the_beam_is_named_when_it_is_out_of_range(translator: Translator):
    with pytest.raises(ValueError, match=r"^num_beams must be at least 1, not 0"):
        translator.translate(["bread"], num_beams=0)


def test_a_setting_of_the_call_wins_over_the_models_own(echoing: Translator):
    (result,) = echoing.translate(
        ["bread"], num_beams=7, length_penalty=0.0, num_return_sequences=7
    )

    assert len(result.others) == 6
    assert result.score == pytest.approx(sum(result.log_probs))


def test_what_is_no_text_is_named_by_its_line(translator: Translator):
    with pytest.raises(TypeError, match=r"^line 2 is not a string but NoneType$"):
        translator.translate(iter(["bread", None]))  # type: ignore[list-item]


def test_a_single_sentence_is_not_taken_for_its_letters(translator: Translator):
    assert translator.translate("bread") == translator.translate(["bread"])
    with pytest.raises(TypeError, match="takes a list of sentences"):
        translator.decode("bread")


def test_sentences_may_come_one_by_one(echoing: Translator):
    result = echoing.translate(sentence for sentence in SENTENCES)

    assert len(result) == len(SENTENCES)


def test_no_sentences_have_no_translations(translator: Translator):
    assert translator.translate([]) == []


def test_progress_ends_with_all_sentences_done(echoing: Translator):
    counts: list[int] = []
    long = "zwei Kinder spielen mit einem roten Ball im Garten am Fluss"

    echoing.translate([*SENTENCES, long], batch_tokens=60, progress=counts.append)

    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (2, len(SENTENCES) + 1)


def test_a_loaded_translator_says_what_the_one_in_memory_says(
    translator: Translator, untrained: Transformer, tokenizer: Tokenizer, tmp_path: Path
):
    bundle = Bundle(
        model=untrained,
        tokenizer=tokenizer,
        languages=Languages(),
        search=SEARCH,
        provenance=Provenance(),
    )
    bundle.save(tmp_path / "model")

    loaded = Translator.load(tmp_path / "model")

    assert loaded.translate(SENTENCES, num_beams=2) == translator.translate(SENTENCES, num_beams=2)


def scripted(
    engine: Scripted,
    untrained: Transformer,
    tokenizer: Tokenizer,
    *,
    sure: Confidence | None = None,
) -> Translator:
    """A translator that asks this engine first, and torch for what it alone can do."""
    torch_engine = TorchEngine(untrained, pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu")
    return Translator(
        [engine, torch_engine], tokenizer, model=untrained, search=SEARCH, confidence=sure
    )


def test_one_prefix_is_that_of_every_translation(translator: Translator):
    result = translator.translate(["the old man", "", "bread"], prefix="ein Buch")

    assert [item.text.startswith("ein Buch") for item in result] == [True, False, True]
    assert result[1].text == ""


def test_of_many_prefixes_each_sentence_has_its_own(translator: Translator):
    result = translator.translate(["the old man", "bread"], prefix=["ein Buch", "Milch"])

    assert result[0].text.startswith("ein Buch")
    assert result[1].text.startswith("Milch")


def test_as_many_prefixes_as_sentences_are_wanted(translator: Translator):
    with pytest.raises(ValueError, match=r"^1 prefixes for 2 sentences: give one per sentence"):
        translator.translate(["the old man", "bread"], prefix=["ein"])


def test_a_forced_piece_keeps_the_ln_p_that_the_model_gives_it(translator: Translator):
    (result,) = translator.translate(["the old man"], prefix="ein Buch")

    (scored,) = translator.score(["the old man"], ["ein Buch"])
    forced = len(scored.pieces) - 1
    assert result.pieces[:forced] == scored.pieces[:forced]
    assert result.log_probs[:forced] == pytest.approx(scored.log_probs[:forced], abs=1e-5)


def test_wishes_go_to_the_engine(untrained: Transformer, tokenizer: Tokenizer):
    engine = Scripted(constant(tokenizer, "Ball"))
    constraints = DecodingConstraints(
        no_repeat=5, min_length=2, max_length=19, sampling=SamplingConfig(top_k=7)
    )

    scripted(engine, untrained, tokenizer).decode(["a ball"], constraints=constraints)

    assert engine.constraints == [constraints]


def test_what_is_agreed_on_is_given_alone(untrained: Transformer, tokenizer: Tokenizer):
    engine = Scripted(constant(tokenizer, "Milch am Fluss", "ein Buch", "ein Buch"))

    (result,) = scripted(engine, untrained, tokenizer).translate(["a book"], mbr=True)

    assert (result.text, result.others) == ("ein Buch", ())


def test_of_a_long_line_each_part_is_agreed_on(untrained: Transformer, tokenizer: Tokenizer):
    engine = Scripted(constant(tokenizer, "Milch am Fluss", "ein Buch", "ein Buch"))
    translator = scripted(engine, untrained, tokenizer)
    translator.search = dataclasses.replace(SEARCH, max_source=7)

    (result,) = translator.translate(["a red ball in the garden"], mbr=True)

    assert result.text == " ".join(["ein Buch"] * result.parts)
    assert result.parts > 1


def test_an_n_best_list_is_not_agreed_on(translator: Translator):
    with pytest.raises(
        ValueError, match=r"returns one translation: num_return_sequences must be 1, not 2$"
    ):
        translator.translate(["bread"], num_return_sequences=2, mbr=True)


@pytest.mark.parametrize("mend", [True, False])
def test_a_loop_is_flagged_and_mended_unless_that_is_switched_off(
    untrained: Transformer, tokenizer: Tokenizer, mend: bool
):
    loop, other = (tokenizer.encode(text) for text in ("und und und und und", "ein Buch"))
    engine = Scripted(lambda request, constraints: [other if constraints.no_repeat else loop])

    (result,) = scripted(engine, untrained, tokenizer).translate(["a book"], retry_loops=mend)

    assert result.text == ("ein Buch" if mend else "und und und und und")
    assert result.flag == ('repetition ("und" ×5)' if mend else "")
    assert result.mended == mend


def test_a_term_is_said_by_a_real_model(translator: Translator):
    terms = (Term("man", "Milch"), Term("ball", "Brot"))
    plain = translator.translate(SENTENCES)
    assert not any(word in item.text.split() for item in plain for word in ("Milch", "Brot"))

    result = translator.translate(SENTENCES, glossary=terms)

    for item, before in zip(result, plain, strict=True):
        for term in terms:
            called = term.source in item.source.split()
            assert (term.target in item.text.split()) == called
            if not called and not any(other.source in item.source for other in terms):
                assert item.text == before.text


def test_a_term_counts_as_applied_by_a_model_that_lower_cases(
    untrained: Transformer, tmp_path: Path, transduce: Transduce
):
    config = TokenizerConfig(vocab_size=untrained.config.vocab_size, lower_case=True)
    model = saved(untrained, Tokenizer.train(LINES, config), tmp_path / "model")
    (tmp_path / "terms.tsv").write_text("man\tMilch\n")
    glossary = ("--glossary", tmp_path / "terms.tsv", "--max-length", 40)

    result = transduce("translate", model, *glossary, stdin=b"the old man\n")

    assert "milch" in result.out.split()
    assert result.err.endswith("glossary: 1 of 1 terms applied\n")


def test_a_glossary_is_refused_before_the_first_line_where_torch_was_left_out(
    untrained: Transformer, tokenizer: Tokenizer
):
    engine = Scripted(constant(tokenizer, "Ball"))
    translator = Translator([engine], tokenizer, model=untrained, search=SEARCH)

    with pytest.raises(ValueError, match=r"^a glossary needs the torch engine: choose engine auto"):
        translator.translate(["bread"], glossary={"ball": "Ball"})
    assert engine.batches == []


LINE = Calibration(log_probs=(-1.0, 0.0), worth=(0.0, 1.0), observations=100)


def test_confidence_is_told_from_ln_p(untrained: Transformer, tokenizer: Tokenizer):
    engine = Scripted(constant(tokenizer, "ein Buch"))
    sure = Confidence(words=LINE, sentences=LINE)

    (result,) = scripted(engine, untrained, tokenizer, sure=sure).translate(["a book"])

    mean = sum(result.log_probs) / len(result.log_probs)
    assert result.confidence == pytest.approx(1 + mean)
    assert result.words == (("ein", pytest.approx(1 + mean)), ("Buch", pytest.approx(1 + mean)))


@pytest.mark.parametrize(("source", "unfamiliar"), [("a book", False), ("猫猫猫猫", True)])
def test_a_source_unlike_the_validation_set_is_unfamiliar(
    source: str, unfamiliar: bool, untrained: Transformer, tokenizer: Tokenizer
):
    engine = Scripted(constant(tokenizer, "ein Buch"))
    sure = Confidence(sentences=LINE, max_fragmentation=0.9)

    (result,) = scripted(engine, untrained, tokenizer, sure=sure).translate([source])

    assert result.unfamiliar is unfamiliar


def test_without_detail_there_is_neither_ln_p_nor_confidence(
    untrained: Transformer, tokenizer: Tokenizer
):
    engine = Scripted(constant(tokenizer, "ein Buch"))
    sure = Confidence(words=LINE, sentences=LINE)

    (result,) = scripted(engine, untrained, tokenizer, sure=sure).translate(
        ["a book"], token_scores=False
    )

    assert engine.token_scores == [False]
    assert (result.log_probs, result.confidence, result.words) == ((), None, ())


def test_ln_p_of_some_parts_alone_is_none(
    untrained: Transformer, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    engine = Scripted(constant(tokenizer, "ein Buch"))
    translator = scripted(engine, untrained, tokenizer, sure=Confidence(words=LINE, sentences=LINE))
    translator.search = dataclasses.replace(SEARCH, max_source=7)
    quick = engine.search

    def partly(requests: Sequence[Request], *rest: object, **named: object) -> object:
        result = quick(requests, SEARCH)
        result[0][0] = dataclasses.replace(result[0][0], log_probs=())
        return result

    monkeypatch.setattr(engine, "search", partly)

    (result,) = translator.translate(["a red ball in the garden"], token_scores=False)

    assert result.parts > 1
    assert (result.log_probs, result.confidence) == ((), None)


def test_a_model_that_nobody_calibrated_has_no_confidence(translator: Translator):
    (result,) = translator.translate(["bread"])

    assert (result.confidence, result.words) == (None, ())


def test_an_alignment_links_each_word_of_the_translation(translator: Translator):
    (result,) = translator.translate(["the old man"], prefix="ein Buch")

    links = [tuple(map(int, link.split("-"))) for link in translator.alignment(result).split()]

    assert [target for _, target in links] == list(range(len(result.text.split())))
    assert all(0 <= source < 3 for source, _ in links)


def test_another_translation_of_the_source_is_aligned_in_its_place(translator: Translator):
    (result,) = translator.translate(["the red ball"])

    assert translator.alignment(result, text=result.text) == translator.alignment(result)
    words = "ein anderer ganz langer Text"
    links = [link.split("-") for link in translator.alignment(result, text=words).split()]
    assert {int(target) for _, target in links} <= {*range(len(words.split()))}
    assert len(links) > len(result.text.split())


def test_a_blank_line_and_one_in_parts_have_no_alignment(translator: Translator):
    long = "zwei Kinder spielen mit einem roten Ball im Garten am Fluss"

    blank, parts = translator.translate([" ", long])

    assert parts.parts > 1
    assert [translator.alignment(item) for item in (blank, parts)] == ["", ""]


def test_a_score_is_told_as_a_whole_and_by_the_piece(translator: Translator):
    (scored,) = translator.score(["the old man"], ["ein Buch"])

    assert scored.pieces == ("▁ein", "▁B", "u", "ch", "</s>")
    assert scored.log_prob == pytest.approx(sum(scored.log_probs))
    assert scored.mean == pytest.approx(scored.log_prob / 5)


def test_a_blank_target_is_scored_as_eos_alone(translator: Translator):
    (scored,) = translator.score(["bread"], [" "])

    assert scored.pieces == ("</s>",)
    assert scored.log_prob < 0


def test_sides_of_unequal_number_are_not_scored(translator: Translator):
    with pytest.raises(ValueError, match=r"^there are 2 source lines but 1 targets: line n must"):
        translator.score(["a", "b"], ["a"])


@pytest.fixture
def short(untrained: Transformer, tokenizer: Tokenizer) -> Translator:
    """A translator of six positions."""
    config = dataclasses.replace(untrained.config, positions="learned", max_positions=6)
    search = dataclasses.replace(SEARCH, extra=40)
    return Translator.from_parts(Transformer(config).eval(), tokenizer, search=search)


def test_a_line_that_exceeds_the_positions_is_not_scored_but_named(short: Translator):
    with pytest.raises(ValueError, match=r"^line 8 has a side of \d+ pieces .* 6 positions \(EOS"):
        short.score(["ein"] * 3, ["ein", "ein Buch und ein Buch", "ein"], first_line=7)


def test_a_source_that_exceeds_the_positions_as_written_has_no_alignment(short: Translator):
    (result,) = short.translate(["ein"])

    written = dataclasses.replace(result, source="ein Buch und ein Buch")  # without placeholders

    assert short.alignment(result)
    assert short.alignment(written) == ""


def test_a_beginning_of_all_positions_has_no_alternatives(short: Translator):
    with pytest.raises(ValueError, match=r"a beginning of \d+ pieces does not fit .* at most 6"):
        short.alternatives("ein", "ein Buch und ein Buch")


def test_alternatives_are_the_likeliest_next_pieces_each_carried_on(translator: Translator):
    ways = translator.alternatives("the old man", after="ein", count=5)

    assert len(ways) == 5
    assert [way.probability for way in ways] == sorted(
        (way.probability for way in ways), reverse=True
    )
    assert 0 < math.fsum(way.probability for way in ways) <= 1
    assert all(way.text.startswith("ein") for way in ways)


def test_where_the_translation_may_end_that_is_an_alternative(
    translator: Translator, tokenizer: Tokenizer
):
    ways = translator.alternatives("bread", after="ein Buch", count=tokenizer.vocab_size)

    (end,) = [way for way in ways if way.piece == "</s>"]
    assert end.text == "ein Buch"
    assert len(ways) == tokenizer.vocab_size - 1
    assert math.fsum(way.probability for way in ways) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("sentence", "after", "count", "message"),
    [
        (" ", "", 5, "alternatives need a sentence of 1 to 23 pieces, not 0"),
        ("z" * 60, "", 5, "alternatives need a sentence of 1 to 23 pieces"),
        ("bread", "☃", 5, "no translation can begin with"),
        ("bread", "ein " * 20_011, 5, "a beginning of [0-9]+ pieces does not fit"),
        ("bread", "", 0, "next pieces must be at least 1"),
    ],
)
def test_alternatives_to_what_cannot_be_looked_into_are_refused(
    translator: Translator, sentence: str, after: str, count: int, message: str
):
    with pytest.raises(ValueError, match=message):
        translator.alternatives(sentence, after, count=count)


def saved(model: Transformer, tokenizer: Tokenizer, folder: Path) -> Path:
    Bundle(
        model=model,
        tokenizer=tokenizer,
        languages=Languages(),
        search=SEARCH,
        provenance=Provenance(),
    ).save(folder)
    return folder


@pytest.fixture
def two(untrained: Transformer, tokenizer: Tokenizer, tmp_path: Path) -> list[Path]:
    """Two models of one vocabulary."""
    other = Transformer(untrained.config).eval()
    with torch.no_grad():
        for parameter, given in zip(other.parameters(), untrained.parameters(), strict=True):
            parameter.copy_(given * 1.5)
    return [
        saved(untrained, tokenizer, tmp_path / "one"),
        saved(other, tokenizer, tmp_path / "other"),
    ]


def test_several_models_decide_together_by_the_mean_of_their_probabilities(two: list[Path]):
    together = Translator.load(two[0], ensemble=two[1:])

    (both,) = together.score(["the old man"], ["ein Buch"])

    scores = [Translator.load(path).score(["the old man"], ["ein Buch"])[0] for path in two]
    means = [
        math.log((math.exp(a) + math.exp(b)) / 2)
        for a, b in zip(scores[0].log_probs, scores[1].log_probs, strict=True)
    ]
    assert both.log_probs == pytest.approx(means, abs=1e-5)
    assert together.engine_description == "engine: torch (ensemble of 2 models)"
    assert together.translate(["the old man"])[0].text


def test_models_of_other_vocabularies_do_not_decide_together(
    two: list[Path], untrained: Transformer, tmp_path: Path
):
    lines = ["quite another text", "of as many pieces"] * 7
    foreign = Tokenizer.train(lines, TokenizerConfig(vocab_size=31))
    config = dataclasses.replace(untrained.config, vocab_size=foreign.vocab_size)
    third = saved(Transformer(config), foreign, tmp_path / "third")

    with pytest.raises(
        ValueError, match=rf"^{third} has another vocabulary than {two[0]}: .*same tokenizer.model$"
    ):
        Translator.load(two[0], ensemble=[two[1], third])


@pytest.mark.parametrize(
    "options",
    [{"engine": name} for name in ("ctranslate2", "native", "typo")] + [{"compute_type": "int8"}],
)
def test_what_several_models_cannot_do_is_refused(two: list[Path], options: dict[str, str]):
    with pytest.raises(ValueError, match=r"^an ensemble "):
        Translator.load(two[0], ensemble=two[1:], **options)  # type: ignore[arg-type]
