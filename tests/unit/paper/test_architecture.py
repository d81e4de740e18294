"""A model taken apart and drawn: every weight counted once, every change seen."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
import torch
from tests.conftest import SHAPE

from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.paper.architecture import model_svg, parts_table, take_apart

ODD = {
    "paper": SHAPE,
    "pre-norm": replace(SHAPE, norm="pre"),
    "learned": replace(SHAPE, positions="learned", max_positions=11),
    "biases": replace(SHAPE, attention_bias=True, output_bias=True),
    "near": replace(SHAPE, radius=3, activation="gelu"),
}


def on_paper(config: ModelConfig) -> Transformer:
    with torch.device("meta"):
        return Transformer(config)


@pytest.mark.parametrize("config", ODD.values(), ids=ODD)
def test_the_parts_hold_every_weight_once(config: ModelConfig):
    model = on_paper(config)

    assert take_apart(model).parameters == model.size


@pytest.mark.parametrize("config", ODD.values(), ids=ODD)
def test_the_drawing_is_xml_that_holds_every_part(config: ModelConfig):
    anatomy = take_apart(on_paper(config))

    result = "".join(ET.fromstring(model_svg(anatomy, title="a < b")).itertext())

    for _, part, _ in anatomy.parts():
        for piece in part.shape.split(" · "):
            assert piece in result or part.kind == "norm"
    assert "2 ×" in result
    assert "3 ×" in result
    assert f"{anatomy.parameters:,} parameters" in result


def test_pre_norm_stands_before_its_part_and_once_more_on_top():
    anatomy = take_apart(on_paper(ODD["pre-norm"]))

    kinds = [part.kind for where, part, _ in anatomy.parts() if where == "encoder"]
    assert kinds == ["norm", "attention", "norm", "feed", "norm"]


def test_a_radius_is_of_self_attention_alone():
    anatomy = take_apart(on_paper(ODD["near"]))

    shapes = [part.shape for _, part, _ in anatomy.parts() if part.kind == "attention"]
    assert ["radius 3" in shape for shape in shapes] == [True, True, False]


@pytest.mark.parametrize(("scale", "scaled"), [("embedding", True), ("projection", False)])
def test_embeddings_are_scaled_as_the_recipe_says(scale: str, scaled: bool):
    anatomy = take_apart(on_paper(replace(SHAPE, scale=scale)))

    assert ("times √14" in anatomy.embedding.shape) == scaled


def test_the_table_sums_up_the_base_model():
    table = parts_table(take_apart(on_paper(ModelConfig())))

    assert table.splitlines()[-1].endswith(" 63,045,632 |")
    assert (
        "| encoder | Feed-forward | 512 → 2048 → 512 · ReLU | 6 | 2,099,712 | 12,598,272 |" in table
    )


@pytest.mark.parametrize(("ink", "follows"), [("light", 0), ("dark", 0), ("both", 1)])
def test_a_drawing_for_both_follows_the_readers_scheme(ink: str, follows: int):
    drawn = model_svg(take_apart(on_paper(SHAPE)), title="tiny", ink=ink)

    assert drawn.count("prefers-color-scheme") == follows
