"""What is trained where nobody says: by the size of the corpus, and what is set by hand wins."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.conftest import Transduce
from tests.sentences import sentences, write_sides

from transduce.config import load_recipe, shipped_recipes, to_toml
from transduce.data.config import CorpusConfig, Languages
from transduce.data.corpus import Pair
from transduce.data.tokenizer import Tokenizer
from transduce.pipeline import defaults
from transduce.pipeline.defaults import (
    CORPUS_DEFAULTS,
    CorpusSize,
    RecipeChoice,
    choose_recipe,
    measure_corpus,
    recipe_for_corpus,
    with_first_message,
)
from transduce.train.events import Event, LogMessage
from transduce.train.optimizer import learning_rates


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    source, target = write_sides(tmp_path, "train", sentences(211))
    return f'data.train=["{source}", "{target}"]'


def measured(*files: Path, source: str = "source", target: str = "target") -> CorpusSize:
    """The size of a corpus."""
    corpus = CorpusConfig(train=tuple(map(str, files)))
    languages = Languages(source=source, target=target)
    return measure_corpus(replace(load_recipe("tiny"), data=corpus, languages=languages))


def chosen(
    monkeypatch: pytest.MonkeyPatch, corpus: str, *settings: str, pairs: int, tokens: int
) -> RecipeChoice:
    """The choice for a corpus of another size than the one that is there."""
    monkeypatch.setattr(defaults, "measure_corpus", lambda recipe: CorpusSize(pairs, tokens))
    return recipe_for_corpus([corpus, *settings])


def test_pairs_are_counted_and_target_tokens_estimated(tmp_path: Path):
    files = write_sides(tmp_path, "train", [Pair("a", "Ein Hund läuft."), Pair("b", "Ja.")])

    size = measured(*files)

    assert size[:2] == (2, round(1.3 * 4) + 2)


def test_files_that_name_languages_are_measured_in_those_of_the_run(tmp_path: Path):
    rows = [{"en": "a", "de": "ein Hund"}, {"en": "b", "de": ""}]
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    assert measured(file, source="en", target="de")[:2] == (1, round(1.3 * 2) + 1)
    settings = [f'data.train=["{file}"]', 'languages.source="en"', 'languages.target="de"']
    assert recipe_for_corpus(settings).summary.startswith("1 pairs: ")


def test_where_no_spaces_stand_letters_are_counted(tmp_path: Path):
    files = write_sides(tmp_path, "train", [Pair("a small dog", "的" * 60)])

    assert measured(*files)[:2] == (1, 11)


@pytest.fixture
def words(tmp_path: Path) -> str:
    """A corpus of single words, as of transliteration."""
    spelled = [Pair(f"{number:x}a", f"{number:b}z") for number in range(90)]
    source, target = write_sides(tmp_path, "words", spelled)
    return f'data.train=["{source}", "{target}"]'


def test_words_to_spell_get_a_vocabulary_of_characters(words: str):
    choice = recipe_for_corpus([words])

    assert choice.recipe.tokenizer.kind == "char"
    assert choice.recipe.tokenizer.vocab_size == len(set("0123456789abcdefz")) + 4
    assert "a vocabulary of characters (1.0 words a line)" in choice.summary
    assert choice.recipe.train.r_drop == 0


@pytest.mark.parametrize("setting", ["tokenizer.vocab_size=80", 'tokenizer.kind="unigram"'])
def test_a_vocabulary_set_by_hand_stays(words: str, setting: str):
    assert recipe_for_corpus([words, setting]).recipe.tokenizer.kind != "char"


def test_sentences_without_spaces_are_not_spelled(tmp_path: Path):
    """They have one word a line, too, but many characters."""
    pairs = [Pair(f"{chr(0x4E00 + i)}的", f"{chr(0x5000 + i)}。") for i in range(200)]
    source, target = write_sides(tmp_path, "unspaced", pairs)

    choice = recipe_for_corpus([f'data.train=["{source}", "{target}"]'])

    assert choice.recipe.tokenizer.kind == "bpe"


def test_sentences_of_few_letters_without_spaces_are_not_spelled(tmp_path: Path):
    """As in Thai and Lao; a word on one side may have as many letters."""
    thai, lao = ("".join(chr(first + i % 40) for i in range(30)) for first in (0x0E01, 0x0E81))
    for name, pair, kind in (("a", Pair(thai, lao), "bpe"), ("b", Pair("12345", thai), "char")):
        source, target = write_sides(tmp_path, name, [pair] * 30)

        choice = recipe_for_corpus([f'data.train=["{source}", "{target}"]'])

        assert choice.recipe.tokenizer.kind == kind


def test_tags_have_pieces_besides_the_characters(words: str):
    source, target = json.loads(words.partition("=")[2])
    tables = (
        f'{{source="{a}", target="{b}", train=["{first}", "{second}"]}}'
        for a, b, first, second in (("en", "de", source, target), ("de", "en", target, source))
    )
    also = f'data.also=[{{source="en", target="de", train=["{source}", "{target}"]}}]'
    directions = f"data.directions=[{', '.join(tables)}]"
    fewer = recipe_for_corpus([words]).recipe.tokenizer.vocab_size

    assert recipe_for_corpus([directions]).recipe.tokenizer.vocab_size == fewer + 2
    assert recipe_for_corpus([directions, also]).recipe.tokenizer.vocab_size == fewer + 4


@pytest.fixture
def chinese(tmp_path: Path) -> str:
    """A corpus of 1,400 Chinese characters, in lines of ten."""
    lines = ["".join(chr(0x4E00 + i + j) for j in range(10)) for i in range(0, 1400, 10)]
    source, target = write_sides(tmp_path, "chinese", [Pair("a dog", line) for line in lines])
    return f'data.train=["{source}", "{target}"]'


def test_of_many_characters_the_rarest_are_spelled_as_bytes(chinese: str, corpus: str):
    choice = recipe_for_corpus([chinese])

    assert choice.recipe.tokenizer.byte_fallback
    assert choice.recipe.tokenizer.character_coverage == 0.9995
    assert "pieces (rare ones of the many characters" in choice.summary
    Tokenizer.train(["a dog", *(chr(0x4E00 + i) for i in range(1400))], choice.recipe.tokenizer)
    assert not recipe_for_corpus([corpus]).recipe.tokenizer.byte_fallback


def test_of_many_characters_a_large_corpus_spells_the_rarest_too(
    monkeypatch: pytest.MonkeyPatch, corpus: str
):
    size = CorpusSize(800_000, 9_000_000, characters=4_000)
    monkeypatch.setattr(defaults, "measure_corpus", lambda recipe: size)

    recipe, why, _ = recipe_for_corpus([corpus])

    assert (recipe.name, recipe.tokenizer.vocab_size) == ("base", 37_000)
    assert (recipe.tokenizer.byte_fallback, recipe.tokenizer.character_coverage) == (True, 0.9995)
    assert "pieces (rare ones of the many characters" in why


@pytest.mark.parametrize(
    "setting",
    [
        'tokenizer.kind="char"',
        'tokenizer.kind="word"',
        "tokenizer.vocab_size=200",
        "tokenizer.byte_fallback=false",
    ],
)
def test_characters_are_not_spelled_as_bytes_against_a_setting(chinese: str, setting: str):
    tokenizer = recipe_for_corpus([chinese, setting]).recipe.tokenizer

    assert not tokenizer.byte_fallback
    assert tokenizer.character_coverage == 1.0


def test_no_more_is_read_than_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(defaults, "_LARGEST", 3)
    source, target = write_sides(tmp_path, "train", sentences(5))
    target.write_text(target.read_text() + "a line too many\n")

    assert measured(source, target).pairs == 3


@pytest.mark.parametrize(
    ("pairs", "row"), [(1_999, 0), (2_000, 1), (7_999, 1), (29_000, 2), (163_000, 3)]
)
def test_the_size_chooses_a_row(monkeypatch: pytest.MonkeyPatch, corpus: str, pairs: int, row: int):
    recipe = chosen(monkeypatch, corpus, pairs=pairs, tokens=15 * pairs).recipe

    wanted = CORPUS_DEFAULTS[row]
    assert recipe.tokenizer.vocab_size == recipe.model.vocab_size == wanted.vocab_size
    assert (recipe.model.dropout, recipe.batch.tokens) == (wanted.dropout, wanted.tokens)
    assert recipe.train.r_drop == wanted.r_drop
    assert recipe.train.updates == pytest.approx(wanted.epochs * 15 * pairs / wanted.tokens, abs=50)
    assert recipe.model.d_model == load_recipe("tiny").model.d_model


def test_a_large_corpus_gets_the_paper_and_is_told_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, corpus: str
):
    recipe, why, _ = chosen(monkeypatch, corpus, pairs=800_000, tokens=9_000_000)

    assert (recipe.name, recipe.model) == ("base", load_recipe("base").model)
    assert why.startswith("800,000 pairs: 6+6 layers of width 512, 37,000 pieces")
    assert "it needs a GPU" in why


def test_a_corpus_of_tens_of_millions_gets_the_wider_model(
    monkeypatch: pytest.MonkeyPatch, corpus: str
):
    recipe, why, _ = chosen(monkeypatch, corpus, pairs=12_000_000, tokens=9_000_000)

    assert (recipe.name, recipe.model) == ("big", load_recipe("big").model)
    assert why.startswith("12,000,000 pairs or more: 6+6 layers of width 1024, 37,000 pieces")
    assert "width pays with data" in why


def test_words_are_counted_in_no_more_pairs_than_the_table_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(defaults, "_MEASURED", 2)
    files = write_sides(tmp_path, "train", [Pair("a", "Ein Hund läuft.")] * 5)

    assert measured(*files)[:3] == (5, 10, 3.0)


@pytest.mark.parametrize("length", ["train.epochs=3", "train.time=9m"])
def test_a_run_has_one_length(length: str):
    with pytest.raises(ValueError, match="are both lengths of the run: leave one out"):
        choose_recipe(None, [length, "train.updates=7"])


def test_epochs_of_a_recipe_set_its_updates(corpus: str):
    recipe, _, plan = choose_recipe("tiny", [corpus, "train.epochs=3"])
    assert plan

    train = plan.schedule(recipe, updates_per_epoch=100).train

    assert (train.updates, train.warmup, train.validate_every) == (300, 75, 250)
    recipe, why, plan = choose_recipe(None, [corpus, "train.epochs=3"])
    assert plan
    assert plan.schedule(recipe, updates_per_epoch=20).train.updates == 60
    assert "updates for 3 epochs," in why


@pytest.mark.parametrize(
    ("settings", "factor", "warmup"),
    [((), 1.0, 4000), (("train.learning_rate=0.5",), 0.5, 75), (("train.warmup=300",), 1.0, 300)],
)
def test_a_shortened_warm_up_of_the_paper_s_schedule_keeps_its_peak_unless_set_by_hand(
    settings: tuple[str, ...], factor: float, warmup: int
):
    """With the same factor, a warm-up of 75 has 7.3 times the peak of one of 4,000."""
    recipe, _, plan = choose_recipe("base", ["train.epochs=3", *settings])
    assert plan

    begun = plan.schedule(recipe, updates_per_epoch=100)

    rates = [learning_rates(n, config=begun.train, d_model=512)[0] for n in range(1, 301)]
    assert max(rates) == pytest.approx(factor * (512 * warmup) ** -0.5)
    assert plan.resume(recipe, begun=begun) == begun
    assert plan.schedule(recipe, updates_per_epoch=1).train.updates == 3, "of any factor"


@pytest.mark.parametrize("length", ["train.updates=7", "train.epochs=3"])
def test_a_length_by_hand_replaces_the_time_of_a_recipe(length: str, tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text(to_toml(load_recipe("base", ["train.time=1h"])))

    recipe, _, plan = choose_recipe(str(file), [length])

    assert recipe == choose_recipe("base", ["name=base", length]).recipe
    assert (plan is None) == (length == "train.updates=7")
    assert choose_recipe(str(file), ["train.time=", length]).recipe == recipe


def test_updates_by_hand_replace_the_epochs_of_a_recipe_that_begins(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text(to_toml(load_recipe("base", ["train.epochs=3"])))
    recipe, _, plan = choose_recipe(str(file), ["train.updates=7"])
    assert plan

    begun = plan.schedule(recipe, updates_per_epoch=100)

    assert begun == load_recipe("base", ["train.updates=7"])
    assert plan.resume(recipe, begun=begun) == begun


def test_a_small_corpus_is_still_trained_for_some_hundred_updates(corpus: str):
    recipe = recipe_for_corpus([corpus, "batch.tokens=4096"]).recipe

    assert recipe.train.updates == 300
    assert recipe.train.warmup == 20
    assert recipe.train.validate_every == 12


def test_the_line_says_what_was_chosen_and_why(monkeypatch: pytest.MonkeyPatch, corpus: str):
    row = CORPUS_DEFAULTS[2]

    why = chosen(monkeypatch, corpus, pairs=29_000, tokens=464_000).summary

    assert why == (
        f"29,000 pairs: 4+4 layers of width 128, {row.vocab_size:,} pieces, dropout "
        f"{row.dropout:g} and R-Drop {row.r_drop:g}, updates for {row.epochs} epochs, since "
        f"{row.reason}; name a recipe or --set to choose otherwise"
    )


@pytest.mark.parametrize(
    "target",
    [
        lambda random: "".join(
            random.choice("天地玄黄宇宙洪荒日月盈昃") for _ in range(20)
        ),  # no spaces
        lambda random: " ".join(random.choice("abcdefghij") for _ in range(20)),  # characters
    ],
)
def test_the_epochs_that_are_told_are_those_that_come(
    target: Callable[[Random], str], tmp_path: Path, transduce: Transduce
):
    """From words, the tokens of such text were guessed a fifth too many, or a third of them."""
    random = Random(1)
    pairs = [Pair(f"{target(random)} {n}", target(random)) for n in range(600)]
    source, target_file = write_sides(tmp_path, "train", pairs)
    out = tmp_path / "run"

    result = transduce("prepare", "--source", source, "--target", target_file, "--out", out)

    assert result.code == 0, result.err
    epochs = re.search(r"updates for (\d+) epochs", result.err)
    facts = json.loads((out / "prepared" / "prepared.json").read_text())
    train = load_recipe(out / "recipe.toml").train
    assert epochs
    assert train.updates / facts["updates_per_epoch"] == pytest.approx(int(epochs[1]), rel=0.03)
    assert (train.warmup, train.validate_every) == (
        min(train.updates // 15, 200),
        train.updates // 25,
    )


def test_a_plan_keeps_what_is_set_by_hand(corpus: str):
    recipe, _, plan = recipe_for_corpus([corpus, "train.warmup=3"])
    assert plan

    train = plan.schedule(recipe, updates_per_epoch=100).train

    assert (train.updates, train.warmup, train.validate_every) == (12_000, 3, 480)
    recipe, _, plan = recipe_for_corpus([corpus, "train.updates=7"])
    assert plan
    assert plan.schedule(recipe, updates_per_epoch=100) == recipe


def test_a_run_keeps_the_schedule_that_it_was_begun_with(corpus: str):
    recipe, _, plan = recipe_for_corpus([corpus])
    begun = load_recipe("tiny", [corpus, "train.updates=900", "train.warmup=70"])
    assert plan

    train = plan.resume(recipe, begun=begun).train

    assert (train.updates, train.warmup, train.validate_every) == (900, 70, 250)


def test_what_is_set_wins_and_the_line_says_it(corpus: str):
    by_hand = ("model.dropout=0.05", "tokenizer.vocab_size=97", "train.validate_every=31")

    recipe, why, _ = recipe_for_corpus([corpus, *by_hand])

    assert (recipe.model.dropout, recipe.tokenizer.vocab_size) == (0.05, 97)
    assert recipe.train.validate_every == 31
    assert "97 pieces, dropout 0.05 and R-Drop 2, updates for 120 epochs, at least 300" in why


def test_without_dropout_there_is_no_r_drop(corpus: str):
    """Its two passes would be the same."""
    assert recipe_for_corpus([corpus]).recipe.train.r_drop == CORPUS_DEFAULTS[0].r_drop > 0
    assert recipe_for_corpus([corpus, "model.dropout=0"]).recipe.train.r_drop == 0
    assert recipe_for_corpus([corpus, "train.r_drop=0"]).recipe.train.r_drop == 0


def test_warmup_and_validations_follow_the_updates_that_are_set(corpus: str):
    train = recipe_for_corpus([corpus, "train.updates=7"]).recipe.train

    assert (train.updates, train.warmup, train.validate_every) == (7, 1, 1)


def test_updates_follow_the_tokens_of_one_that_are_set(
    monkeypatch: pytest.MonkeyPatch, corpus: str
):
    row = CORPUS_DEFAULTS[2]

    setting = f"batch.tokens={2 * row.tokens}"
    recipe = chosen(monkeypatch, corpus, setting, pairs=29_000, tokens=464_000).recipe

    assert recipe.train.updates == round(row.epochs * 464_000 / row.tokens / 2, -2)


def test_a_preset_that_is_set_is_a_shape_of_its_own(corpus: str):
    model = recipe_for_corpus([corpus, "model.preset=base"]).recipe.model

    assert (model.encoder_layers, model.d_model) == (6, 512)
    assert model.dropout == CORPUS_DEFAULTS[0].dropout


@pytest.mark.parametrize("setting", ["train.updates=many", "batch.tokens=-3", "train.updates=1.5"])
def test_a_setting_that_cannot_be_has_its_own_error(corpus: str, setting: str):
    with pytest.raises(ValueError, match=setting.partition("=")[0]):
        recipe_for_corpus([corpus, setting])


def test_a_line_that_is_not_utf8_is_left_to_the_reading(tmp_path: Path):
    files = write_sides(tmp_path, "train", [Pair("A dog.", "sch\udcf6n"), Pair("B", "C")])

    assert measured(*files).pairs == 2


def test_without_a_corpus_there_is_nothing_to_say():
    assert recipe_for_corpus() == RecipeChoice(load_recipe("tiny"), "")


def test_a_recipe_that_is_named_is_taken_as_it_is(corpus: str):
    assert choose_recipe("multi30k", [corpus]) == RecipeChoice(
        load_recipe("multi30k", [corpus]), ""
    )


def test_the_line_comes_before_the_first_event_and_once():
    events: list[Event] = []

    on_event = with_first_message("chosen", events.append)
    assert events == []
    on_event(LogMessage(text="a"))
    on_event(LogMessage(text="b"))

    assert events == [LogMessage(text="chosen"), LogMessage(text="a"), LogMessage(text="b")]


def test_no_line_is_no_event():
    events: list[Event] = []

    with_first_message("", events.append)(LogMessage(text="a"))

    assert events == [LogMessage(text="a")]


def test_rows_rise():
    bounds = [row.below for row in CORPUS_DEFAULTS]

    assert bounds == sorted(set(bounds))


@pytest.mark.parametrize(
    ("settings", "tuned"),
    [((), True), (("search.alpha=0.6",), False), (("train.tune_length_penalty=false",), False)],
)
@pytest.mark.parametrize("pairs", [5_000, 800_000])
def test_the_length_penalty_is_chosen_on_validation_unless_it_is_set(
    monkeypatch: pytest.MonkeyPatch, corpus: str, settings: tuple[str, ...], tuned: bool, pairs: int
):
    recipe = chosen(monkeypatch, corpus, *settings, pairs=pairs, tokens=20 * pairs).recipe

    assert recipe.train.tune_length_penalty == tuned


@pytest.mark.parametrize("name", shipped_recipes())
def test_recipes_keep_their_length_penalty(name: str):
    assert not load_recipe(name).train.tune_length_penalty
