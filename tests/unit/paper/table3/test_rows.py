import pytest
from tests.conftest import made

from transduce.config import load_recipe
from transduce.model.config import ModelConfig
from transduce.paper.table3.run import Settings, parameters, scaled
from transduce.recipes.table3 import PREFIX, ROWS, Row, find


def small(row: Row, settings: Settings) -> ModelConfig:
    return scaled(load_recipe(f"{PREFIX}{row.name.lower()}").model, settings, row=row)


def test_widths_and_depths_are_divided_and_heads_stay():
    model = small(find("A3"), Settings(width_divisor=8, depth_divisor=3))

    assert (model.encoder_layers, model.decoder_layers) == (2, 2)
    assert (model.d_model, model.d_ff, model.heads, model.d_k, model.d_v) == (64, 256, 16, 4, 4)


def test_a_rows_own_sizes_are_divided_like_the_others():
    assert small(find("B1"), Settings()).d_k == 2
    assert small(find("C1"), Settings()).encoder_layers == 1
    assert small(find("C7"), Settings()).d_ff == 512


def test_what_is_no_size_stays():
    assert small(find("D2"), Settings()).dropout == 0.2
    assert small(find("E"), Settings()).positions == "learned"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_stands_to_the_base_row_as_in_the_paper(row: Row):
    full, base = load_recipe(f"{PREFIX}{row.name.lower()}").model, ModelConfig()
    settings = Settings(width_divisor=8, depth_divisor=2)

    ours, ours_base = small(row, settings), small(find("base"), settings)

    for size in ("encoder_layers", "d_model", "d_ff", "d_k", "d_v", "heads"):
        there = getattr(full, size) / getattr(base, size)
        assert getattr(ours, size) / getattr(ours_base, size) == there


def test_a_size_that_does_not_divide_is_refused_with_its_row():
    with pytest.raises(ValueError, match=r"row A4 has d_k 16, which --width-divisor 32 does not"):
        small(find("A4"), Settings(width_divisor=32))


def test_a_depth_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match=r"row C1 has N 2, which --depth-divisor 3 does not"):
        small(find("C1"), Settings(depth_divisor=3))


def test_parameters_are_those_of_a_model_that_is_built():
    config = ModelConfig(
        vocab_size=19, encoder_layers=2, decoder_layers=3, d_model=14, d_ff=23, heads=3, d_k=5,
        d_v=7, positions="learned", max_positions=11,
    )  # fmt: skip

    assert parameters(config) == made(config).size
