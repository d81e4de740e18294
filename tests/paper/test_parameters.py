"""Table 3's last column: parameters by the formula, as the printed figures are rounded."""

import pytest
import torch

from transduce.model.config import PRESETS, ModelConfig
from transduce.model.transformer import Transformer


def count(config: ModelConfig) -> tuple[int, int]:
    """All parameters of a model, and those without the embedding; only shapes are made."""
    with torch.device("meta"):
        model = Transformer(config)
    every = sum(weight.numel() for weight in model.parameters())
    return every, every - model.embedding.weight.numel()


def formula(config: ModelConfig) -> int:
    """Parameters without the embedding: four matrices an attention, two an FFN, and norms."""
    c = config
    attention = 2 * c.d_model * c.heads * (c.d_k + c.d_v)
    feed = 2 * c.d_model * c.d_ff + c.d_ff + c.d_model
    norm = 2 * c.d_model
    encoder = attention + feed + 2 * norm
    decoder = 2 * attention + feed + 3 * norm
    return c.encoder_layers * encoder + c.decoder_layers * decoder


def test_the_base_model_at_37000_pieces():
    assert count(ModelConfig()) == (63_045_632, 44_101_632)


def test_the_big_model_at_37000_pieces():
    assert count(ModelConfig(**PRESETS["big"])) == (214_171_648, 176_283_648)


def test_the_big_model_is_the_papers():
    big = ModelConfig(**PRESETS["big"])

    assert (big.encoder_layers, big.decoder_layers) == (6, 6)
    assert (big.d_model, big.d_ff, big.heads, big.dropout) == (1024, 4096, 16, 0.3)


@pytest.mark.parametrize(
    ("row", "printed"),
    [
        (ModelConfig(d_k=16), 58),
        (ModelConfig(d_k=32), 60),
        (ModelConfig(encoder_layers=2, decoder_layers=2), 36),
        (ModelConfig(encoder_layers=4, decoder_layers=4), 50),
        (ModelConfig(encoder_layers=8, decoder_layers=8), 80),
        (ModelConfig(d_ff=1024), 53),
        (ModelConfig(d_ff=4096), 90),
    ],
    ids=["B16", "B32", "C2", "C4", "C8", "C1024", "C4096"],
)
def test_rows_b_and_c_differ_from_the_base_row_as_printed(row: ModelConfig, printed: int):
    """The printed figures, 65 for the base among them, are rounded millions."""
    difference = (count(row)[0] - count(ModelConfig())[0]) / 1e6

    assert difference == pytest.approx(printed - 65, abs=1.0)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_free_size_counts_as_the_formula_says(norm: str):
    config = ModelConfig(
        vocab_size=19, encoder_layers=2, decoder_layers=3, d_model=14, d_ff=23, heads=3, d_k=5,
        d_v=7, norm=norm,
    )  # fmt: skip

    final = 2 * 2 * 14 if norm == "pre" else 0
    assert count(config) == (formula(config) + final + 19 * 14, formula(config) + final)
