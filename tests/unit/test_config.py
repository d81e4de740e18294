"""One file in, a complete recipe out; and the other way round."""

import re
from pathlib import Path

import pytest

from transduce.config import (
    RENAMED,
    differences,
    explicit_settings,
    load_recipe,
    shipped_recipes,
    to_toml,
)
from transduce.model.config import ModelConfig


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_recipe_written_out_is_the_same_recipe(name: str, tmp_path: Path):
    recipe = load_recipe(name)

    again = load_recipe(write(tmp_path / "again.toml", to_toml(recipe)))

    assert again == recipe


TABLE_4 = ("table4-wsj", "table4-semi", "table4-small")


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_shipped_recipe_has_its_name_and_says_how_it_is_run(name: str):
    text = Path(__file__).parents[2].joinpath("src/transduce/recipes", f"{name}.toml").read_text()

    assert load_recipe(name).name == name
    assert text.startswith("# ")
    own = {"demo": "demo", **dict.fromkeys(TABLE_4, "paper table4")}
    assert f"transduce {own.get(name, f'train {name}')}" in text


def test_an_empty_recipe_is_the_paper(tmp_path: Path):
    recipe = load_recipe(write(tmp_path / "mine.toml", ""))

    assert recipe.name == "mine"
    assert recipe.model == ModelConfig(vocab_size=recipe.tokenizer.vocab_size)
    assert (recipe.train.optimizer, recipe.train.schedule) == ("adam", "paper")


def test_a_recipe_may_begin_with_a_byte_order_mark(tmp_path: Path):
    (tmp_path / "mine.toml").write_text("[train]\nseed = 5\n", encoding="utf-8-sig")

    assert load_recipe(tmp_path / "mine.toml").train.seed == 5


def test_a_preset_is_a_shape_and_keys_beside_it_win(tmp_path: Path):
    text = '[model]\npreset = "tiny"\nheads = 2\n'

    model = load_recipe(write(tmp_path / "mine.toml", text)).model

    assert (model.encoder_layers, model.d_model, model.heads) == (4, 128, 2)


def test_a_preset_over_a_recipe_changes_its_shape_only():
    model = load_recipe("multi30k", ["model.preset=base"]).model

    assert (model.encoder_layers, model.d_model, model.d_k) == (6, 512, 64)
    assert model.norm == load_recipe("multi30k").model.norm


def test_the_base_and_big_recipes_are_those_of_the_paper():
    base, big = load_recipe("base"), load_recipe("big")

    assert base.model == ModelConfig(vocab_size=37_000)
    assert (base.batch.tokens, base.train.updates, base.train.average_checkpoints) == (
        25_000,
        100_000,
        5,
    )
    assert (big.model.d_model, big.model.d_ff, big.model.heads) == (1024, 4096, 16)
    assert (big.model.dropout, big.train.updates, big.train.average_checkpoints) == (
        0.3,
        300_000,
        20,
    )
    assert base.train.warmup == big.train.warmup == 4000


def test_what_a_recipe_does_not_say_it_takes_from_the_one_it_extends(tmp_path: Path):
    write(tmp_path / "parent.toml", "[train]\nupdates = 7\nwarmup = 3\n")
    child = write(tmp_path / "child.toml", 'extends = "parent.toml"\n[train]\nwarmup = 5\n')

    recipe = load_recipe(child)

    assert (recipe.name, recipe.train.updates, recipe.train.warmup) == ("child", 7, 5)


def test_a_recipe_that_extends_itself_is_refused(tmp_path: Path):
    write(tmp_path / "a.toml", 'extends = "b.toml"\n')
    write(tmp_path / "b.toml", 'extends = "a.toml"\n')

    with pytest.raises(ValueError, match="extends itself"):
        load_recipe(tmp_path / "a.toml")


def test_a_recipe_that_extends_itself_through_two_folders_is_refused(tmp_path: Path):
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "mine.toml", f'extends = "../{other}/mine.toml"\n')

    with pytest.raises(ValueError, match="extends itself"):
        load_recipe(tmp_path / "a" / "mine.toml")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("train.learning_rate=5e-1", 0.5),
        ("train.learning_rate=.7", 0.7),
        ("train.learning_rate=2", 2.0),
        ("train.updates=1_000", 1000),
        ("model.norm=pre", "pre"),
        ('model.norm="pre"', "pre"),
        ("data.folder=2024", "2024"),
        ("data.folder=a=b", "a=b"),
        ('data.train=["a.en", "a.de"]', ("a.en", "a.de")),
        ("data.train=pairs.tsv", ("pairs.tsv",)),
        (r"tokenizer.protect=['code', '\d{4}']", ("code", r"\d{4}")),
        ('tokenizer.protect="[A-Z]"', ("[A-Z]",)),
        ("tokenizer.protect=[A-Z]{3}", ("[A-Z]{3}",)),
    ],
)
def test_a_setting_is_read_as_people_type_it(setting: str, value: object):
    section, _, key = setting.partition("=")[0].partition(".")

    recipe = load_recipe("base", [setting])

    assert getattr(getattr(recipe, section), key) == value


def test_the_later_of_two_settings_wins():
    assert load_recipe("tiny", ["train.seed=3", "train.seed=5"]).train.seed == 5


def test_a_section_that_is_no_table_is_explained(tmp_path: Path):
    with pytest.raises(ValueError, match=r"^train must be a table .*not 3$"):
        load_recipe(write(tmp_path / "mine.toml", "train = 3\n"))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("tokenizer.protect=5", "tokenizer.protect must be a list of texts such as ["),
        ("tokenizer.protect=[code,url]", "protect is not a list in TOML: [code,url]; put"),
        (r'tokenizer.protect=["code", "\d{4}"]', "\"tokenizer.protect=['a', 'b']\""),
        ("data.train=[a.en,a.de]", "data.train is not a list in TOML: [a.en,a.de]"),
        ("data.directions=5", "data.directions must be a list of tables, not 5"),
        ("data.directions=[{targt=1}]", "the nearest known one is data.directions.target"),
        ("data.also=[{targt=1}]", "the nearest known one is data.also.target"),
    ],
)
def test_a_wrong_setting_has_a_hint_that_fits(setting: str, message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        load_recipe("tiny", [setting])


def test_differences_are_named_key_by_key():
    result = differences(
        load_recipe("tiny"), load_recipe("tiny", ["train.seed=2", "search.beam=1"])
    )

    assert list(result) == ["train.seed", "search.beam"]


def test_no_positions_are_refused_with_the_reason():
    result = (
        "model.positions: without positions the model would be a bag of words; "
        'choose one of "sinusoid", "learned"'
    )
    with pytest.raises(ValueError, match=f"^{result}$"):
        load_recipe("base", ["model.positions=none"])


def test_truth_is_said_in_words():
    assert load_recipe("base", ["tokenizer.byte_fallback=true"]).tokenizer.byte_fallback

    with pytest.raises(
        ValueError, match=r'^tokenizer\.byte_fallback must be true or false, not "yes"$'
    ):
        load_recipe("base", ["tokenizer.byte_fallback=yes"])


def test_learned_positions_must_hold_the_longest_pair_and_its_eos():
    settings = ["model.positions=learned", "model.max_positions=40"]
    assert load_recipe("tiny", [*settings, "data.max_pieces=39"]).model.longest == 40

    with pytest.raises(
        ValueError, match=r"^model\.max_positions 40 .*data\.max_pieces 40 .* to 41 .* to 39$"
    ):
        load_recipe("tiny", [*settings, "data.max_pieces=40"])


def test_the_defaults_of_learned_positions_and_of_the_corpus_go_together():
    assert load_recipe("base", ["model.positions=learned"]).model.longest == 257


@pytest.mark.parametrize(
    ("old", "new"), [names for names in RENAMED.items() if "tensorboard" not in names[0]]
)
def test_the_former_name_of_a_setting_is_read(tmp_path, old, new):
    section, _, name = new.partition(".")
    value = True if name == "fsdp" else 0.09 if name == "subword_sampling" else 1
    text = str(value).lower()
    mine = write(tmp_path / "mine.toml", f"[{section}]\n{old.partition('.')[2]} = {text}\n")

    assert getattr(getattr(load_recipe(mine), section), name) == value
    assert explicit_settings(mine) == {new}


def test_a_recipe_of_an_earlier_version_may_have_a_setting_that_is_gone(tmp_path):
    mine = write(tmp_path / "mine.toml", "[train]\ncompile = false\nseed = 7\n")

    assert load_recipe(mine).train.seed == 7
    assert explicit_settings(mine) == {"train.seed"}
    with pytest.raises(ValueError, match=r"unknown setting train\.compile"):
        load_recipe("tiny", ["train.compile=true"])


def test_a_recipe_with_new_names_over_one_with_former_ones_wins(tmp_path):
    write(tmp_path / "old.toml", "[train]\nrate = 0.5\naverage = 3\n")
    mine = write(tmp_path / "mine.toml", 'extends = "old.toml"\n[train]\nlearning_rate = 0.7\n')

    train = load_recipe(mine).train

    assert (train.learning_rate, train.average_checkpoints) == (0.7, 3)


def test_both_names_of_a_setting_in_one_recipe_are_refused(tmp_path):
    mine = write(tmp_path / "mine.toml", "[train]\nrate = 0.5\nlearning_rate = 0.7\n")

    with pytest.raises(ValueError, match=r"former name of train\.learning_rate: leave it out"):
        load_recipe(mine)


def test_characters_have_no_other_segmentation():
    with pytest.raises(ValueError, match=r"batch\.subword_sampling 0\.1 has nothing to resample"):
        load_recipe("tiny", ["tokenizer.kind=char", "batch.subword_sampling=0.1"])

    assert load_recipe("tiny", ["tokenizer.kind=char"]).tokenizer.kind == "char"


def test_an_unknown_kind_of_vocabulary_is_refused_with_those_known():
    with pytest.raises(ValueError, match='one of "bpe", "unigram", "char", "word"'):
        load_recipe("tiny", ["tokenizer.kind=syllable"])
