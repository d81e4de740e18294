"""Positional encodings: the sinusoids of section 3.5, or a learned table (Table 3, row E)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def sinusoids(length: int, d_model: int) -> Float[Tensor, "length d_model"]:
    """Return the positional encodings of positions 0 to length - 1, sine and cosine interleaved.

    PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same angle).

    Source:
        Vaswani et al. 2017, section 3.5.

    >>> sinusoids(2, 4)[0].tolist()
    [0.0, 1.0, 0.0, 1.0]
    """
    # Double precision: in single, the angles of far positions would have few digits left.
    positions = torch.arange(length, dtype=torch.float64)[:, None]
    frequencies = torch.exp(
        torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10_000.0) / d_model)
    )
    angles = positions * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


class Positions(nn.Module):
    """Adds the sinusoids to embedded pieces. The table is computed, not stored, and can grow."""

    table: Tensor

    def __init__(self, d_model: int, *, length: int = 512) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(length, d_model), persistent=False)

    def forward(
        self, x: Float[Tensor, "batch length d_model"], *, first: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Add the encodings of positions `first`, `first` + 1, … to `x`."""
        end = first + x.size(1)
        if end > self.table.size(0):
            with torch.inference_mode(False):  # training may need the longer table later
                self.table = sinusoids(2 * end, x.size(2)).to(self.table)
        return x + self.table[first:end]


class LearnedPositions(nn.Module):
    """Adds learned embeddings of positions. The table has an end."""

    def __init__(self, d_model: int, *, rows: int) -> None:
        """Leave the weights uninitialised: `transformer.initialise` draws them."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, d_model))

    def forward(
        self, x: Float[Tensor, "batch length d_model"], *, first: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Add the rows of positions `first`, `first` + 1, … to `x`.

        Raises:
            ValueError: if there are fewer rows; a longer sentence has to be split.
        """
        end, rows = first + x.size(1), self.weight.size(0)
        if end > rows:
            raise ValueError(
                f"a sentence of {end} positions, EOS included, is longer than model.max_positions "
                f"{rows}: split it, or train with more positions or with sinusoids"
            )
        return x + self.weight[first:end]
