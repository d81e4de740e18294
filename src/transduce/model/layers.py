"""The layers of Figure 1: feed-forward, add & norm, encoder and decoder layer; positions.

Positional encodings are the sinusoids of section 3.5, or a learned table (Table 3, row E).
"""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model import numpy_transformer
from transduce.model.attention import Attention, KeyValue
from transduce.model.config import ModelConfig
from transduce.model.kernels import Dropout, drop


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every position: section 3.3, equation (2).

    The departures "gelu" and "silu" use x Φ(x) and x sigmoid(x) instead of max(0, x).
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: Literal["relu", "gelu", "silu"] = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.activation = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}[activation]
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Apply the two linear maps with the activation between them."""
        hidden = self.activation(self.inner(x))
        return self.outer(drop(hidden, self.dropout) if self.training else hidden)


class AddNorm(nn.Module):
    """The residual connection around one sub-layer, dropout on its output, and the normalisation.

    The paper (section 3.1) is "post": LayerNorm(x + Sublayer(x)). The departure "pre" normalises
    the sub-layer's input instead: x + Sublayer(LayerNorm(x)).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)
        self.pre_norm = config.norm == "pre"

    def forward(
        self, x: Float[Tensor, "batch length d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch length d_model"]:
        """Run `sublayer` on `x` inside its residual connection."""
        if self.pre_norm:  # a path from top to bottom that no normalisation is on
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward; every position attends to all positions.

    The departure `radius` restricts it to nearby ones.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = make_attention(config, radius=config.radius)
        self.self_attention_norm = AddNorm(config)
        self.feed_forward = make_feed_forward(config)
        self.feed_forward_norm = AddNorm(config)

    def forward(
        self,
        x: Float[Tensor, "batch source d_model"],
        mask: Bool[Tensor, "batch 1 1 source"] | None,
    ) -> Float[Tensor, "batch source d_model"]:
        """Compute one layer of the left side of Figure 1."""
        x = self.self_attention_norm(x, lambda y: self.self_attention(y, mask=mask))
        return self.feed_forward_norm(x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        # The order of definition fixes the initial weights of a seed and the optimizer's state.
        self.self_attention = make_attention(config, radius=config.radius)
        self.self_attention_norm = AddNorm(config)
        self.cross_attention = make_attention(config)  # never restricted
        self.cross_attention_norm = AddNorm(config)
        self.feed_forward = make_feed_forward(config)
        self.feed_forward_norm = AddNorm(config)

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: KeyValue,
        mask: Bool[Tensor, "batch 1 1 source"] | None,
    ) -> Float[Tensor, "batch target d_model"]:
        """Compute one layer of the right side of Figure 1.

        Args:
            x: the target.
            memory: the encoder's output, projected by this layer's cross-attention.
            mask: True where a source position is not padding.
        """
        x = self.self_attention_norm(x, lambda y: self.self_attention(y, causal=True))
        x = self.cross_attention_norm(x, lambda y: self.cross_attention(y, memory, mask=mask))
        return self.feed_forward_norm(x, self.feed_forward)


def make_attention(config: ModelConfig, *, radius: int = 0) -> Attention:
    """Build a multi-head attention of the model's shape; a `radius` of 0 is unrestricted."""
    return Attention(
        config.d_model,
        heads=config.heads,
        d_k=config.d_k,
        d_v=config.d_v,
        bias=config.attention_bias,
        radius=radius,
        dropout=config.attention_dropout,
    )


def make_feed_forward(config: ModelConfig) -> FeedForward:
    """Build a feed-forward network of the model's shape."""
    return FeedForward(
        config.d_model, config.d_ff, activation=config.activation, dropout=config.relu_dropout
    )


def sinusoids(length: int, d_model: int) -> Float[Tensor, "length d_model"]:
    """Return the positional encodings of section 3.5; see `numpy_transformer.sinusoids`."""
    return torch.from_numpy(numpy_transformer.sinusoids(length, d_model))


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
        return x + self.rows(end)[first:]

    def rows(self, length: int) -> Float[Tensor, "length d_model"]:
        """Return the encodings of the first positions; the table grows if it is too short."""
        table = self.table
        if length > table.size(0):
            with torch.inference_mode(False):  # training may need the longer table later
                table = sinusoids(2 * length, table.size(1)).to(table)
            if len(table) > len(self.table):  # another thread may have stored a longer table
                self.table = table
        return table[:length]


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
        end = first + x.size(1)
        numpy_transformer.check_length(end, rows=self.weight.size(0))
        return x + self.weight[first:end]
