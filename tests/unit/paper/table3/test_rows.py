import pytest

from transduce.config import load_recipe
from transduce.model.config import ModelConfig
from transduce.paper.table3.run import Settings, named_rows, quick_settings, scaled
from transduce.recipes.table3 import PREFIX, ROWS, Row, find


def small(row: Row, settings: Settings) -> ModelConfig:
    return scaled(load_recipe(f"{PREFIX}{row.name.lower()}").model, settings, row=row)


def test_widths_and_depths_are_divided_and_heads_stay():
    model = small(find("A3"), Settings(width_divisor=8, depth_divisor=3))

    assert (model.encoder_layers, model.decoder_layers) == (2, 2)
    assert (model.d_model, model.d_ff, model.heads, model.d_k, model.d_v) == (64, 256, 16, 4, 4)


def test_a_rows_own_sizes_are_divided_like_the_others():
    assert small(find("B1"), Settings()).d_k == 4
    assert small(find("C1"), Settings()).encoder_layers == 1
    assert small(find("C7"), Settings()).d_ff == 1024


@pytest.mark.parametrize("divisor", [1, 2, 4])
def test_by_default_no_head_has_fewer_than_16_numbers_and_dropout_and_smoothing_are_in(
    divisor: int,
):
    names = named_rows("", width_divisor=divisor)

    assert {"base", "D1", "D2", "D3", "D4", "E"} <= {*names}
    assert all(small(find(name), Settings(width_divisor=divisor)).d_k >= 16 for name in names)


def test_quick_rows_take_a_few_updates():
    assert quick_settings(Settings()).updates == 4


def test_what_is_no_size_stays():
    assert small(find("D2"), Settings()).dropout == 0.2
    assert small(find("E"), Settings()).positions == "learned"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_stands_to_the_base_row_as_in_the_paper(row: Row):
    full, base = load_recipe(f"{PREFIX}{row.name.lower()}").model, ModelConfig()
    settings = Settings(width_divisor=8, depth_divisor=2)

    row_model, base_model = small(row, settings), small(find("base"), settings)

    for size in ("encoder_layers", "d_model", "d_ff", "d_k", "d_v", "heads"):
        expected = getattr(full, size) / getattr(base, size)
        assert getattr(row_model, size) / getattr(base_model, size) == expected


def test_a_size_that_does_not_divide_is_refused_with_its_row():
    with pytest.raises(ValueError, match=r"row A4 has d_k 16, which --width-divisor 32 does not"):
        small(find("A4"), Settings(width_divisor=32))


def test_a_depth_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match=r"row C1 has N 2, which --depth-divisor 3 does not"):
        small(find("C1"), Settings(depth_divisor=3))


def test_rows_without_names_and_defaults_without_the_base_row_are_refused():
    with pytest.raises(ValueError, match="--rows are names such as base,A1,C5, not ','"):
        named_rows(",")
    with pytest.raises(ValueError, match=r"--width-divisor 8 .* fewer than 16 numbers: give 4"):
        named_rows("", width_divisor=8)
    assert named_rows("base, C5", width_divisor=8) == ("base", "C5")
