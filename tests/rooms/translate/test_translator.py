"""What a person gives comes back in order, whole, and the same whatever it was batched with."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from transduce.bundle import Bundle, Provenance
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import PLAIN, Request, Wishes
from transduce.text.config import Languages
from transduce.text.tokenizer import Tokenizer
from transduce.translate.translator import Translator

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
    together = 1

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.batches: list[list[tuple[int, ...]]] = []

    def refuses(self, requests: Sequence[Request], config: SearchConfig, wishes: Wishes) -> str:
        return ""

    def search(
        self,
        requests: Sequence[Request],
        config: SearchConfig,
        wishes: Wishes = PLAIN,
        *,
        detail: bool = True,
    ) -> list[list[Hypothesis]]:
        sources = [request.source for request in requests]
        self.batches.append(sources)
        return [
            [
                Hypothesis.scored(
                    (*source, self.tokenizer.EOS),
                    [-0.5 - rank] * (len(source) + 1),
                    alpha=config.alpha,
                    finished=True,
                )
                for rank in range(config.beam)
            ]
            for source in sources
        ]


@pytest.fixture
def echo(tokenizer: Tokenizer) -> Echo:
    return Echo(tokenizer)


@pytest.fixture
def echoing(echo: Echo, translator: Translator, monkeypatch: pytest.MonkeyPatch) -> Translator:
    monkeypatch.setattr(translator._searcher, "_engines", (echo,))
    return translator


def test_translations_come_in_the_order_of_the_sentences(echoing: Translator):
    found = echoing.translate(SENTENCES, batch_tokens=60)

    assert [one.source for one in found] == SENTENCES
    assert [one.text for one in found] == [sentence.strip() for sentence in SENTENCES]


def test_a_sentence_fares_the_same_alone_and_among_others(translator: Translator):
    together = translator.translate(SENTENCES)

    alone = [translator.translate([sentence])[0] for sentence in SENTENCES]
    assert [one.text for one in alone] == [one.text for one in together]
    assert [one.score for one in alone] == pytest.approx([one.score for one in together], abs=1e-4)


def test_a_blank_line_gives_an_empty_text_without_the_model(echoing: Translator, echo: Echo):
    found = echoing.translate(["", " ", "\t\u2028\n"])

    assert [(one.text, one.pieces, one.parts) for one in found] == [("", (), 1)] * 3
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
    (found,) = echoing.translate([" the\u2028old\tman\x07 "])

    assert found.text == "the old man"


def test_a_long_line_is_cut_where_words_begin(echoing: Translator, echo: Echo):
    line = "zwei Kinder spielen mit einem roten Ball im Garten am Fluss"

    (found,) = echoing.translate([line])

    parts = [part for batch in echo.batches for part in batch]
    assert found.parts == len(parts) > 1
    assert found.text == line
    assert all(len(part) <= 23 for part in parts)
    assert all(echo.tokenizer.pieces(part)[0].startswith("▁") for part in parts)


def test_a_cut_is_as_late_as_it_can_be(echoing: Translator, echo: Echo, tokenizer: Tokenizer):
    words = "am Garten"
    room = len(tokenizer.encode(words))
    echoing.search = dataclasses.replace(SEARCH, max_source=room)

    (found,) = echoing.translate([f"{words} {words}"])

    assert echo.batches == [[tuple(tokenizer.encode(words))]]
    assert (found.text, found.parts) == (f"{words} {words}", 2)


def test_a_word_too_long_for_the_model_is_cut_between_pieces(echoing: Translator, echo: Echo):
    (found,) = echoing.translate(["z" * 60])

    assert found.parts == 3
    assert found.text.replace(" ", "") == "z" * 60


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

    (found,) = translator.translate([line])

    assert found.parts > 1
    assert len(found.pieces) <= found.parts * 11


def test_a_line_of_as_many_pieces_as_positions_for_them_and_eos_stays_whole(
    untrained: Transformer, tokenizer: Tokenizer
):
    line = "zwei Kinder spielen"
    rows = len(tokenizer.encode(line)) + 1
    for given, parts in ((rows, 1), (rows - 1, 2)):
        model = ending(untrained, rows=given)

        (found,) = Translator.from_parts(model, tokenizer, search=SEARCH).translate([line])

        assert found.parts == parts


def test_a_part_is_scored_for_each_piece(translator: Translator):
    for one in translator.translate(SENTENCES):
        assert len(one.pieces) == len(one.log_probs)
        assert all(log_prob <= 0 for log_prob in one.log_probs)


def test_the_others_are_the_next_best(translator: Translator):
    (found,) = translator.translate(["the old man"], nbest=3)

    assert len(found.others) == 2
    assert found.score >= found.others[0].score >= found.others[1].score


def test_the_others_of_a_long_line_combine_its_parts(echoing: Translator):
    echoing.search = dataclasses.replace(SEARCH, max_source=5)

    (found,) = echoing.translate(["the old man reads"], nbest=3)

    assert found.parts > 1
    assert found.score > found.others[0].score >= found.others[1].score


@pytest.mark.parametrize("nbest", [0, 4])
def test_more_translations_than_beams_are_refused(translator: Translator, nbest: int):
    with pytest.raises(
        ValueError, match=f"^nbest must be from 1 to the beam, which is 3, not {nbest}"
    ):
        translator.translate(["bread"], nbest=nbest)


def test_the_beam_is_named_when_it_is_out_of_range(translator: Translator):
    with pytest.raises(ValueError, match=r"^search\.beam must be at least 1, not 0"):
        translator.translate(["bread"], beam=0)


def test_a_setting_of_the_call_wins_over_the_models_own(echoing: Translator):
    (found,) = echoing.translate(["bread"], beam=7, alpha=0.0, nbest=7)

    assert len(found.others) == 6
    assert found.score == pytest.approx(sum(found.log_probs))


def test_what_is_no_text_is_named_by_its_line(translator: Translator):
    with pytest.raises(TypeError, match=r"^line 2 is no text but NoneType$"):
        translator.translate(iter(["bread", None]))  # type: ignore[list-item]


def test_a_single_sentence_is_not_taken_for_its_letters(translator: Translator):
    with pytest.raises(TypeError, match="takes a list of sentences"):
        translator.translate("bread")


def test_sentences_may_come_one_by_one(echoing: Translator):
    found = echoing.translate(sentence for sentence in SENTENCES)

    assert len(found) == len(SENTENCES)


def test_no_sentences_have_no_translations(translator: Translator):
    assert translator.translate([]) == []


def test_progress_ends_with_all_sentences_done(echoing: Translator):
    told: list[int] = []
    long = "zwei Kinder spielen mit einem roten Ball im Garten am Fluss"

    echoing.translate([*SENTENCES, long], batch_tokens=60, progress=told.append)

    assert told == sorted(told)
    assert (told[0], told[-1]) == (2, len(SENTENCES) + 1)


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

    assert loaded.translate(SENTENCES, nbest=3) == translator.translate(SENTENCES, nbest=3)
