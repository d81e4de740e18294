"""Table 3 as data: every row of the paper's variations, by its differences from the base model.

`transduce train table3-c5` trains a row in its original size, `transduce paper table3` all of them
scaled down. The paper does not number the rows of a group; here they are counted from the top.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

Settings = Mapping[str, int | float | str]


class Row(NamedTuple):
    """A row of Table 3."""

    name: str
    differs: str
    """What the paper prints in the row, in its letters."""
    model: Settings
    """Settings of `ModelConfig` that differ from the base model's."""
    train: Settings
    """Settings of `TrainConfig` that differ."""
    perplexity: float
    """Published: per word-piece, on newstest2013."""
    bleu: float
    """Published: on newstest2013, tokenised."""
    millions: int | None
    """Published: parameters; None where the paper leaves it blank, as in the base row."""


def _heads(name: str, heads: int, perplexity: float, bleu: float) -> Row:
    width = 512 // heads
    shape: dict[str, int | float | str] = {"heads": heads, "d_k": width, "d_v": width}
    return Row(name, f"h {heads}, d_k = d_v = {width}", shape, {}, perplexity, bleu, None)


def _depth(name: str, layers: int, perplexity: float, bleu: float, millions: int) -> Row:
    shape: dict[str, int | float | str] = {"encoder_layers": layers, "decoder_layers": layers}
    return Row(name, f"N {layers}", shape, {}, perplexity, bleu, millions)


def _width(name: str, width: int, perplexity: float, bleu: float, millions: int) -> Row:
    head = width // 8
    shape: dict[str, int | float | str] = {"d_model": width, "d_k": head, "d_v": head}
    differs = f"d_model {width}, d_k = d_v = {head}"
    return Row(name, differs, shape, {}, perplexity, bleu, millions)


ROWS: Final = (
    Row("base", "", {}, {}, 4.92, 25.8, 65),
    _heads("A1", 1, 5.29, 24.9),
    _heads("A2", 4, 5.00, 25.5),
    _heads("A3", 16, 4.91, 25.8),
    _heads("A4", 32, 5.01, 25.4),
    Row("B1", "d_k 16", {"d_k": 16}, {}, 5.16, 25.1, 58),
    Row("B2", "d_k 32", {"d_k": 32}, {}, 5.01, 25.4, 60),
    _depth("C1", 2, 6.11, 23.7, 36),
    _depth("C2", 4, 5.19, 25.3, 50),
    _depth("C3", 8, 4.88, 25.5, 80),
    _width("C4", 256, 5.75, 24.5, 28),
    _width("C5", 1024, 4.66, 26.0, 168),
    Row("C6", "d_ff 1024", {"d_ff": 1024}, {}, 5.12, 25.4, 53),
    Row("C7", "d_ff 4096", {"d_ff": 4096}, {}, 4.75, 26.2, 90),
    Row("D1", "P_drop 0", {"dropout": 0.0}, {}, 5.77, 24.6, None),
    Row("D2", "P_drop 0.2", {"dropout": 0.2}, {}, 4.95, 25.5, None),
    Row("D3", "ε_ls 0", {}, {"label_smoothing": 0.0}, 4.67, 25.3, None),
    Row("D4", "ε_ls 0.2", {}, {"label_smoothing": 0.2}, 5.47, 25.7, None),
    Row("E", "learned positions", {"positions": "learned"}, {}, 4.92, 25.7, None),
    Row(
        "big",
        "d_model 1024, d_ff 4096, h 16, P_drop 0.3, 300K updates",
        {"d_model": 1024, "d_ff": 4096, "heads": 16, "dropout": 0.3},
        {"updates": 300_000},
        4.33,
        26.4,
        213,
    ),
)
"""Source: Vaswani et al. 2017, Table 3."""

PREFIX: Final = "table3-"

RECIPES: Mapping[str, Row] = MappingProxyType({f"{PREFIX}{row.name.lower()}": row for row in ROWS})
"""The rows by the names that recipes have."""


def find(name: str) -> Row:
    """Find a row by its name, in any case.

    Raises:
        ValueError: if there is none of that name.

    >>> find("c5").differs
    'd_model 1024, d_k = d_v = 128'
    """
    row = RECIPES.get(f"{PREFIX}{name.lower()}")
    if row is None:
        raise ValueError(
            f"Table 3 has no row {name!r}: there are {', '.join(row.name for row in ROWS)}"
        )
    return row


def recipe(row: Row) -> dict[str, object]:
    """Return a row's recipe: the paper's base model with the row's differences.

    Checkpoints are not averaged (section 6.2).
    """
    return {
        "name": f"{PREFIX}{row.name.lower()}",
        "extends": "base",
        "data": {"duplicates": "keep"},
        "model": dict(row.model),
        "train": {"average_checkpoints": 1, **row.train},
    }
