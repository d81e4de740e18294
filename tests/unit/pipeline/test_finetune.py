"""A model to start from keeps what it knows: its shape, its vocabulary, its numbers."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from tests.exports import CONFIG, bundle_of, two_vocabularies

from transduce.bundle.bundle import Bundle, Provenance
from transduce.config import explicit_settings, load_recipe
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.corpus import Pair
from transduce.data.languages import LanguagePair
from transduce.data.tokenizer import UNK, Tokenizer
from transduce.data.tokenizer_extension import extend_tokenizer
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.pipeline.finetune import StartModel, adopt_model, extend_vocabulary
from transduce.pipeline.training_pairs import corpus_files
from transduce.search.config import SearchConfig

NEW = ["der Żubr lehnt am Fluss", "a Żubr leans on the river"] * 3


@pytest.fixture
def start(untrained: Transformer, tokenizer: Tokenizer) -> StartModel:
    bundle = Bundle(
        model=untrained,
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de", target_name="German"),
        search=SearchConfig(beam=3, alpha=0.875),
        provenance=Provenance(),
    )
    return StartModel(name="runs/first", sha256="a checksum", bundle=bundle)


def followed(start: StartModel, *settings: str, recipe: str = "finetune"):
    chosen = load_recipe(recipe, settings)
    return adopt_model(
        chosen,
        start,
        explicit=explicit_settings(recipe, settings),
        by_hand=explicit_settings(None, settings),
    )


def test_the_shape_is_the_models(start: StartModel):
    shape = start.bundle.model.config

    assert followed(start).model == shape
    assert followed(start, recipe="base").model == replace(shape, dropout=ModelConfig().dropout)


def test_dropout_may_differ(start: StartModel):
    assert followed(start, "model.dropout=0.375").model.dropout == 0.375


def test_the_vocabulary_is_the_models(start: StartModel):
    recipe = followed(start, recipe="base")

    assert (recipe.tokenizer.kind, recipe.tokenizer.vocab_size) == (
        "bpe",
        start.bundle.tokenizer.vocab_size,
    )


def test_an_extended_vocabulary_counts_what_is_added(start: StartModel):
    recipe = followed(start, "tokenizer.extend=13")

    size = start.bundle.tokenizer.vocab_size + 13
    assert (recipe.tokenizer.vocab_size, recipe.model.vocab_size) == (size, size)


@pytest.mark.parametrize(
    "setting",
    [
        "model.d_model=24",
        'model.norm="pre"',
        "model.preset=tiny",
        "tokenizer.vocab_size=98",
        "tokenizer.kind=unigram",
        "tokenizer.character_coverage=0.99",
    ],
)
def test_a_setting_that_contradicts_the_model_is_refused_by_name(start: StartModel, setting: str):
    key = "model.encoder_layers" if "preset" in setting else setting.partition("=")[0]

    with pytest.raises(ValueError, match=rf"^{key} cannot be .* in runs/first, .* leave it out"):
        followed(start, setting)


def test_a_setting_that_says_what_the_model_has_is_no_contradiction(start: StartModel):
    followed(start, "model.d_model=22", 'tokenizer.kind="bpe"')


def test_what_two_rooms_contradict_in_is_refused_with_the_models_shape(start: StartModel):
    shape = replace(start.bundle.model.config, positions="learned", max_positions=51)
    start = replace(start, bundle=replace(start.bundle, model=Transformer(shape)))

    with pytest.raises(ValueError, match=r"model\.max_positions 51"):
        followed(start)

    assert followed(start, "data.max_pieces=50").model == shape


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], ("en", "de", "German")),
        (['languages.source="en"', 'languages.target="de"'], ("en", "de", "German")),
        (['languages.source="en"', 'languages.target="fr"'], ("en", "fr", "")),
    ],
    ids=["nothing said", "the same", "others"],
)
def test_languages_are_the_models_unless_others_are_said(
    start: StartModel, settings: Sequence[str], expected: tuple[str, ...]
):
    result = followed(start, *settings).languages

    assert (result.source, result.target, result.target_name) == expected


def test_languages_are_those_of_the_first_direction_unless_others_are_said(start: StartModel):
    tokenizer = Tokenizer.train(NEW, TokenizerConfig(vocab_size=60), tags=["<2zh>", "<2en>"])
    bundle = bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer)
    named = Languages(source="zh", target="en", source_name="Chinese", target_name="English")
    pairs = (LanguagePair("zh", "en"), LanguagePair("en", "zh"))
    both = replace(start, bundle=replace(bundle, languages=named, directions=pairs))
    back, same = (
        f'data.directions=[{{source="{a}", target="{b}", train=["a.tsv"]}}]'
        for a, b in (("en", "zh"), ("zh", "en"))
    )

    assert followed(both, back).languages == Languages(source="en", target="zh")
    assert followed(both, same).languages == named
    others = ('languages.source="en"', 'languages.target="yue"')
    assert followed(both, back, *others).languages == Languages(source="en", target="yue")


def test_search_is_the_models_unless_it_is_said(start: StartModel):
    assert followed(start).search == start.bundle.search
    assert followed(start, "search.beam=5").search == SearchConfig(beam=5)


def test_a_recipe_that_followed_once_stays_as_it_is(start: StartModel):
    """As when a run is gone on with, which writes every setting to its recipe.toml."""
    recipe = followed(start, "tokenizer.extend=13", "search.beam=5")
    every = {f"{room}.{key}" for room in ("model", "search", "languages") for key in ("dropout",)}

    assert (
        adopt_model(recipe, start, explicit=every | {"search.beam"}, by_hand=frozenset()) == recipe
    )


def test_the_same_vocabulary_leaves_the_weights_as_they_are(start: StartModel):
    grown = extend_vocabulary(start.bundle, start.bundle.tokenizer)

    actual, initial = grown.model.state_dict(), start.bundle.model.state_dict()
    assert all(torch.equal(actual[name], initial[name]) for name in initial)


@torch.no_grad()
def test_old_text_has_the_same_logits_and_the_new_pieces_theirs_behind(start: StartModel):
    old = start.bundle
    new = extend_vocabulary(old, extend_tokenizer(old.tokenizer, NEW, count=11))
    more = new.tokenizer.vocab_size - old.tokenizer.vocab_size
    ids = old.tokenizer.encode("the old man reads a book")
    source, target = torch.tensor([ids]), torch.tensor([ids[:3]])

    before = old.model(source, None, torch.cat([torch.tensor([[old.tokenizer.pad]]), target], 1))
    after = new.model(source, None, torch.cat([torch.tensor([[new.tokenizer.pad]]), target], 1))

    assert more == 11
    kept = slice(0, old.tokenizer.pad)
    torch.testing.assert_close(after[..., kept], before[..., kept], rtol=1e-6, atol=1e-6)
    assert after[..., old.tokenizer.pad : -1].abs().min() > 0
    assert after[..., -1].abs().max() == 0  # PAD's logit is zero, wherever PAD is


def test_pad_stays_zero_at_the_new_end(start: StartModel):
    new = extend_vocabulary(start.bundle, extend_tokenizer(start.bundle.tokenizer, NEW, count=11))

    weight = new.model.embedding.weight
    assert new.model.embedding.padding_idx == new.tokenizer.pad == len(weight) - 1
    assert weight[-1].abs().max() == 0
    assert weight[:-1].abs().sum(dim=1).min() > 0


def test_a_new_row_is_the_mean_of_the_rows_that_spelled_it(start: StartModel):
    old = start.bundle.tokenizer
    new = extend_vocabulary(
        start.bundle, extend_tokenizer(old, ["the river leans", "leans"], count=11)
    )
    piece = new.tokenizer.pieces(new.tokenizer.encode("leans"))[0]
    assert piece == "▁leans"

    row = new.model.embedding.weight[new.tokenizer.encode("leans")[0]]

    spelled = start.bundle.model.embedding.weight[old.encode("leans")]
    torch.testing.assert_close(row, spelled.mean(dim=0))


def test_a_character_that_nothing_spelled_starts_from_the_mean_of_all_pieces(start: StartModel):
    old = start.bundle.tokenizer
    new = extend_vocabulary(start.bundle, extend_tokenizer(old, ["ж"], count=1))

    row = new.model.embedding.weight[old.pad]

    every = start.bundle.model.embedding.weight[UNK + 1 : -1]
    torch.testing.assert_close(row, every.mean(dim=0))


def test_growing_costs_a_run_none_of_its_random_numbers(start: StartModel):
    torch.manual_seed(3)
    before = torch.get_rng_state()

    extend_vocabulary(start.bundle, extend_tokenizer(start.bundle.tokenizer, NEW, count=11))

    assert torch.equal(torch.get_rng_state(), before)


def test_a_bias_of_the_logits_grows_with_the_vocabulary(start: StartModel):
    model = Transformer(replace(start.bundle.model.config, output_bias=True)).eval()
    torch.nn.init.normal_(model.output_bias, generator=torch.Generator().manual_seed(3))
    old = replace(start.bundle, model=model)

    new = extend_vocabulary(
        old, extend_tokenizer(old.tokenizer, ["the river leans", "leans"], count=11)
    )

    bias, before = new.model.output_bias, model.output_bias
    spelled = before[old.tokenizer.encode("leans")]
    torch.testing.assert_close(bias[new.tokenizer.encode("leans")], spelled.mean()[None])
    assert torch.equal(bias[: old.tokenizer.pad], before[:-1])
    assert bias[-1] == before[-1]


@pytest.fixture
def imported() -> StartModel:
    tokenizer = two_vocabularies()
    config = replace(CONFIG, vocab_size=tokenizer.vocab_size)
    return StartModel(name="opus", sha256="a checksum", bundle=bundle_of(config, tokenizer))


def test_an_imported_vocabulary_is_followed(imported: StartModel):
    recipe = followed(imported)

    assert recipe.tokenizer.vocab_size == recipe.model.vocab_size
    assert recipe.model.vocab_size == imported.bundle.tokenizer.vocab_size


def test_an_imported_vocabulary_is_not_extended(imported: StartModel):
    with pytest.raises(
        ValueError, match=r"^tokenizer\.extend cannot add to the vocabulary of opus"
    ):
        followed(imported, "tokenizer.extend=13")


def test_an_imported_model_starts_as_it_is(imported: StartModel):
    assert extend_vocabulary(imported.bundle, imported.bundle.tokenizer) is imported.bundle


@pytest.mark.parametrize("tag", ["<2de>", ">>deu<<"])
@pytest.mark.parametrize("code", ["de", "deu"])
def test_training_text_begins_with_the_tag_that_the_model_has(tag: str, code: str):
    tokenizer = Tokenizer.train(NEW, TokenizerConfig(vocab_size=60), tags=[tag])
    bundle = bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer)
    start = StartModel(name="both", sha256="a checksum", bundle=bundle)

    recipe = followed(start, f'data.directions=[{{source="en", target="{code}", train=["a.tsv"]}}]')

    (part,) = corpus_files(recipe)
    source = part.tagged(Pair("the river", "der Fluss")).source
    assert tokenizer.encode(source) == [tokenizer.tags[tag], *tokenizer.encode("the river")]
