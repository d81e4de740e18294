"""The recipes of the paper's four models say the paper's numbers: sections 5 and 6.1, Table 3."""

from dataclasses import replace

import pytest
import torch

from transduce.config import load_recipe
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.train.config import TrainConfig

MODELS = ("wmt14-base-de", "wmt14-base-fr", "wmt14-big-de", "wmt14-big-fr")


@pytest.mark.parametrize("name", MODELS)
def test_the_regime_is_the_papers(name: str):
    big, recipe = "big" in name, load_recipe(name)

    result = replace(
        TrainConfig(), updates=300_000 if big else 100_000, average_checkpoints=20 if big else 5
    )
    assert replace(recipe.train, validate_every=result.validate_every) == result
    assert (result.warmup, result.label_smoothing, result.optimizer) == (4_000, 0.1, "adam")
    assert (result.beta1, result.beta2, result.epsilon, result.learning_rate) == (
        0.9,
        0.98,
        1e-9,
        1.0,
    )
    assert recipe.batch.tokens == 25_000


@pytest.mark.parametrize("name", MODELS)
def test_checkpoints_are_ten_minutes_of_the_papers_machine_apart(name: str):
    seconds_an_update = 1.0 if "big" in name else 0.4  # section 5.2

    assert load_recipe(name).train.validate_every * seconds_an_update == 600


@pytest.mark.parametrize("name", MODELS)
def test_the_search_is_the_papers(name: str):
    search = load_recipe(name).search

    assert search == SearchConfig()
    assert (search.beam, search.alpha, search.limit(17)) == (4, 0.6, 67)


@pytest.mark.parametrize(
    ("name", "pieces", "dropout", "parameters"),
    [
        ("wmt14-base-de", 37_000, 0.1, 63_045_632),
        ("wmt14-base-fr", 32_000, 0.1, 60_485_632),
        ("wmt14-big-de", 37_000, 0.3, 214_171_648),
        ("wmt14-big-fr", 32_000, 0.1, 209_051_648),
    ],
)
def test_the_model_is_that_of_table_3_at_its_vocabulary(
    name: str, pieces: int, dropout: float, parameters: int
):
    model = load_recipe(name).model

    wide = {"d_model": 1024, "d_ff": 4096, "heads": 16} if "big" in name else {}
    assert model == ModelConfig(vocab_size=pieces, dropout=dropout, **wide)
    with torch.device("meta"):
        assert sum(weight.numel() for weight in Transformer(model).parameters()) == parameters


@pytest.mark.parametrize("name", MODELS)
def test_choices_are_made_on_newstest2013_and_scores_measured_on_newstest2014(name: str):
    recipe = load_recipe(name)
    target = name[-2:]

    assert (recipe.languages.source, recipe.languages.target) == ("en", target)
    assert recipe.data.folder == f"data/wmt14-en-{target}"
    assert recipe.data.train == ("train.en.gz", f"train.{target}.gz")
    assert recipe.data.validation == ("newstest2013.en", f"newstest2013.{target}")
    assert recipe.data.test == ("newstest2014.en", f"newstest2014.{target}")


@pytest.mark.parametrize("name", MODELS)
def test_the_vocabulary_is_byte_pair_encoding_of_both_sides(name: str):
    tokenizer = load_recipe(name).tokenizer

    assert (tokenizer.kind, tokenizer.byte_fallback) == ("bpe", False)
