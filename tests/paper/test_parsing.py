"""The recipes of section 6.3 say the paper's numbers, and what the paper left open is named."""

import pytest
import torch

from transduce.config import load_recipe
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig

BOTH = ("table4-wsj", "table4-semi")


@pytest.mark.parametrize("name", BOTH)
def test_the_parser_has_four_layers_of_width_1024(name: str):
    model = load_recipe(name).model

    assert (model.encoder_layers, model.decoder_layers, model.d_model) == (4, 4, 1024)


@pytest.mark.parametrize(("name", "pieces"), [("table4-wsj", 16_000), ("table4-semi", 32_000)])
def test_the_vocabulary_has_16000_pieces_or_32000(name: str, pieces: int):
    assert load_recipe(name).tokenizer.vocab_size == pieces


@pytest.mark.parametrize("name", BOTH)
def test_the_search_has_a_beam_of_21_alpha_0_3_and_300_pieces_more_than_the_input(name: str):
    search = load_recipe(name).search

    assert (search.beam, search.alpha, search.limit(17)) == (21, 0.3, 317)


@pytest.mark.parametrize("name", BOTH)
def test_all_other_parameters_are_those_of_the_base_model(name: str):
    recipe, base = load_recipe(name), load_recipe("base")

    chosen = {"dropout", "vocab_size", "encoder_layers", "decoder_layers", "d_model", "d_k", "d_v"}
    for field in set(ModelConfig.__slots__) - chosen:
        assert getattr(recipe.model, field) == getattr(base.model, field), field
    for field in set(TrainConfig.__slots__) - {"learning_rate", "warmup"}:
        assert getattr(recipe.train, field) == getattr(base.train, field), field
    assert recipe.model.d_k == recipe.model.d_v == recipe.model.d_model // recipe.model.heads
    assert recipe.batch == base.batch


@pytest.mark.parametrize(
    ("name", "parameters"), [("table4-wsj", 100_335_616), ("table4-semi", 116_719_616)]
)
def test_the_parsers_parameters(name: str, parameters: int):
    with torch.device("meta"):
        model = Transformer(load_recipe(name).model)

    assert sum(weight.numel() for weight in model.parameters()) == parameters


@pytest.mark.parametrize("name", BOTH)
def test_a_long_tree_is_not_taken_for_a_bad_translation(name: str):
    data = load_recipe(name).data

    assert (data.max_pieces, data.max_ratio) == (512, 1000.0)
