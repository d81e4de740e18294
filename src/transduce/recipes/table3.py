"""Table 3 as data: every row of the paper's variations, by its differences from the base model.

`transduce train table3-c5` trains a row in its original size, `transduce paper table3` all of them
scaled down. The paper does not number the rows of a group; here they are counted from the top.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

Settings = Mapping[str, int | float | str]


class Row(NamedTuple):
    """A row of Table 3."""

    name: str
    differs: str
    """What the paper prints in the row, in its letters."""
    perplexity: float
    """Published: per word-piece, on newstest2013."""
    bleu: float
    """Published: on newstest2013, tokenised."""
    millions: int | None = None
    """Published: parameters; None where the paper leaves it blank, as in the base row."""
    model: Settings = MappingProxyType({})
    """Settings of `ModelConfig` that differ from the base model's."""
    train: Settings = MappingProxyType({})
    """Settings of `TrainConfig` that differ."""


_ROWS = tomllib.loads(Path(__file__).with_name("paper").joinpath("table3.toml").read_text("utf-8"))
ROWS: Final = tuple(Row(**row) for row in _ROWS["rows"])
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
