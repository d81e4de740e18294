"""Augmentation: variations at their rates, by seed, that spell what was drawn."""

import unicodedata
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import Corpus

from transduce.config import Recipe, load_recipe
from transduce.data.augmentation import title_case, vary, with_stray_space, with_typing_errors
from transduce.data.config import AugmentConfig, TokenizerConfig
from transduce.data.corpus import NumberedPair, Pair
from transduce.data.loader import LoadedUpdate
from transduce.data.sampler import SamplerState
from transduce.data.store import Store
from transduce.data.tokenizer import Tokenizer
from transduce.pipeline import prepare
from transduce.pipeline.run_folder import prepare_run

ALL = AugmentConfig(upper_case=0.07, title_case=0.05, typing_errors=0.05, no_end_punctuation=0.2)
PAIR = Pair("a dog runs home quickly, 3 times.", "ein hund rennt schnell heim, 3 mal.")


def test_variations_come_at_their_rates():
    varied = [vary(PAIR, ALL, Random(number)) for number in range(4000)]

    upper = sum(pair.source.isupper() for pair in varied)
    title = sum(pair.target.startswith("Ein Hund Rennt") for pair in varied)
    open_ended = sum(not pair.source.endswith(".") for pair in varied)
    errors = sum(pair.source.lower().rstrip(".") != PAIR.source.rstrip(".") for pair in varied)
    for count, rate in ((upper, 0.07), (title, 0.05), (open_ended, 0.2), (errors, 0.05)):
        assert count == pytest.approx(4000 * rate, abs=4 * (4000 * rate * (1 - rate)) ** 0.5)


def test_case_and_final_punctuation_change_on_both_sides_and_errors_in_the_source_alone():
    both = AugmentConfig(title_case=1.0, no_end_punctuation=1.0, typing_errors=1.0)

    varied = vary(PAIR, both, Random(1))

    assert varied.target == "Ein Hund Rennt Schnell Heim, 3 Mal"
    assert varied.source != "A Dog Runs Home Quickly, 3 Times"
    assert not varied.source.endswith(".")
    for pair in (Pair("one.", "zwei"), Pair("one)", "zwei)"), Pair(".", ".")):
        assert vary(pair, AugmentConfig(no_end_punctuation=1.0), Random(1)) == pair


def test_a_stray_space_and_an_emoji_change_nothing_else():
    for number in range(300):
        text = with_stray_space(PAIR.source, Random(number))
        assert text != PAIR.source
        assert text.replace(" ", "") == PAIR.source.replace(" ", "")
        assert abs(len(text) - len(PAIR.source)) == 1

        varied = vary(PAIR, AugmentConfig(emoji=1.0), Random(number))
        assert varied.source[:-2] == PAIR.source
        assert varied.target[:-2] == PAIR.target
        assert varied.source[-2:] == varied.target[-2:]
        assert unicodedata.category(varied.source[-1]) == "So"
    rates = AugmentConfig(stray_spaces=0.1, emoji=0.05)
    pairs = [vary(PAIR, rates, Random(number)) for number in range(4000)]
    stray = sum(" ".join(PAIR.source.split()) not in pair.source for pair in pairs)
    emoji = sum(pair.target != PAIR.target for pair in pairs)
    for count, rate in ((stray, 0.1), (emoji, 0.05)):
        assert count == pytest.approx(4000 * rate, abs=4 * (4000 * rate * (1 - rate)) ** 0.5)
    assert with_stray_space("word", Random(1)) == "word"


@given(st.text(max_size=80), st.integers(0, 99))
def test_typing_errors_keep_first_letters_numbers_and_the_number_of_words(text: str, seed: int):
    wrong = with_typing_errors(text, Random(seed)).split(" ")

    words = text.split(" ")
    assert len(wrong) == len(words)
    changed = [(word, error) for word, error in zip(words, wrong, strict=True) if word != error]
    assert len(changed) <= max(1, round(len(words) / 10))
    for word, error in changed:
        assert word.isalpha()
        assert error[0] == word[0]
        assert abs(len(error) - len(word)) <= 1
    assert title_case(text).lower().split() == text.lower().split() or not text.isascii()


@dataclass(frozen=True)
class Varied:
    """A corpus with capitals in its vocabulary."""

    corpus: Corpus

    def updates(
        self, config: AugmentConfig, count: int, *, micro: int = 4096
    ) -> list[LoadedUpdate]:
        loader = self.corpus.loader(augment=config, micro_tokens=micro)
        return list(islice(loader.updates(SamplerState()), count))

    def sources(self, updates: list[LoadedUpdate]) -> list[str]:
        rows = [row for update in updates for batch in update.batches for row in batch.source]
        return sorted(self.corpus.tokenizer.decode(row.tolist()) for row in rows)


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Varied:
    words = ["one", "two", "three", "four"]
    pairs = [
        NumberedPair(line, Pair(f"{a} {b}.", f"{b} {a}."))
        for line, (a, b) in enumerate([(a, b) for a in words for b in words], 1)
    ]
    text = [text for _, pair in pairs for side in pair for text in (side, side.upper())]
    tokenizer = Tokenizer.train([*text, "One Two Three Four"], TokenizerConfig(vocab_size=60))
    folder = tmp_path_factory.mktemp("varied") / "store"
    store = Store.write(folder, pairs, tokenizer=tokenizer, max_pieces=20)
    return Varied(Corpus(store=store, tokenizer=tokenizer))


def test_the_loader_varies_text_and_encodes_it_again(varied: Varied):
    upper = varied.updates(AugmentConfig(upper_case=1.0), 1)
    usual = varied.updates(AugmentConfig(), 1)

    assert varied.sources(upper) == [text.upper() for text in varied.sources(usual)]
    assert all(text.isupper() for text in varied.sources(upper))


def test_an_update_is_varied_alike_however_it_is_split_and_wherever_the_run_began(varied: Varied):
    config = AugmentConfig(upper_case=0.3, typing_errors=0.5)
    updates = varied.updates(config, 3)

    loader = varied.corpus.loader(augment=config)
    resumed = next(loader.updates(updates[1].state_after))

    assert varied.sources([resumed]) == varied.sources(updates[2:])
    assert varied.sources(varied.updates(config, 1, micro=40)) == varied.sources(updates[:1])
    assert any(text.isupper() for text in varied.sources(updates))


def test_text_that_does_not_spell_its_pieces_or_grows_too_long_stays(
    varied: Varied, tmp_path: Path
):
    tokenizer = varied.corpus.tokenizer
    pairs = [NumberedPair(1, Pair("one ж two", "two")), NumberedPair(2, Pair("three", "one"))]
    longest = max(len(tokenizer.encode(side)) for _, pair in pairs for side in pair)
    store = Store.write(tmp_path / "s", pairs, tokenizer=tokenizer, max_pieces=longest)
    stored = {tuple(store.source(index).tolist()) for index in range(2)}
    unknown = replace(varied, corpus=Corpus(store=store, tokenizer=tokenizer))

    for update in unknown.updates(AugmentConfig(upper_case=1.0), 2):
        for row in update.batches[0].source.tolist():
            text = tokenizer.decode(row)
            assert tuple(row[: row.index(0)]) in stored or text == "THREE"
            assert "TWO" not in text


def test_the_vocabulary_learns_varied_text(tmp_path: Path):
    def pieces(*overrides: str) -> set[str]:
        recipe = prepare_recipe(tmp_path, overrides)
        run = tmp_path / f"run{len(overrides)}"
        prepared = prepare.prepare(recipe, run, on_event=lambda _: None)
        return set("".join(prepared.tokenizer.pieces(range(prepared.tokenizer.vocab_size))))

    assert "W" not in pieces()
    assert "W" in pieces("augment.upper_case=0.5")


def test_other_variations_prepare_the_corpus_again(tmp_path: Path):
    messages: list[str] = []
    for overrides in ((), ("augment.upper_case=0.5",)):
        recipe = prepare_recipe(tmp_path, overrides)
        prepared = prepare_run(
            recipe, tmp_path / "run", on_event=lambda event: messages.append(str(event))
        )
        assert ("W" in "".join(prepared.tokenizer.pieces(range(36)))) == bool(overrides)

    assert not any("prepared already" in message for message in messages)


def prepare_recipe(folder: Path, overrides: tuple[str, ...]) -> Recipe:
    lines = [f"a word and number {number}\n" for number in range(60)]
    for side in ("en", "de"):
        (folder / f"corpus.{side}").write_text("".join(lines))
    files = ", ".join(f'"{folder}/corpus.{side}"' for side in ("en", "de"))
    return load_recipe("tiny", [f"data.train=[{files}]", "tokenizer.vocab_size=80", *overrides])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"upper_case": 1.1}, "augment.upper_case must be in [0, 1], not 1.1"),
        ({"typing_errors": float("nan")}, "augment.typing_errors must be in [0, 1], not nan"),
        ({"upper_case": 0.6, "title_case": 0.6}, "must not exceed 1 together"),
    ],
)
def test_rates_out_of_range_are_refused(settings: dict[str, float], message: str):
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        AugmentConfig(**settings)
