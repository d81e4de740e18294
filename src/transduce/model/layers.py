"""The layers of Figure 1: feed-forward, add & norm, and the two stacks' bricks."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.attention import Attention, KeysValues
from transduce.model.config import ModelConfig
from transduce.model.dropout import Dropout


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every position: section 3.3, equation (2).

    The departures "gelu" and "silu" have x Φ(x) and x sigmoid(x) where the paper has max(0, x).
    """

    def __init__(
        self, d_model: int, d_ff: int, *, activation: Literal["relu", "gelu", "silu"] = "relu"
    ) -> None:
        super().__init__()
        self.activation = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}[activation]
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(
        self, x: Float[Tensor, "batch length d_model"]
    ) -> Float[Tensor, "batch length d_model"]:
        """Apply the two linear maps with the activation between them."""
        return self.outer(self.activation(self.inner(x)))


class AddNorm(nn.Module):
    """The residual connection around one sub-layer, dropout on its output, and the normalisation.

    The paper (section 3.1) is "post": LayerNorm(x + Sublayer(x)). The departure "pre" normalises
    what the sub-layer reads instead: x + Sublayer(LayerNorm(x)).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def forward(
        self, x: Float[Tensor, "batch length d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch length d_model"]:
        """Run `sublayer` on `x` inside its residual connection."""
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward; every position sees all positions of the layer below."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attend = attention(config)
        self.after_attend = AddNorm(config)
        self.feed = feed_forward(config)
        self.after_feed = AddNorm(config)

    def forward(
        self,
        x: Float[Tensor, "batch source d_model"],
        mask: Bool[Tensor, "batch 1 1 source"] | None,
    ) -> Float[Tensor, "batch source d_model"]:
        """Pass one layer up the left side of Figure 1."""
        x = self.after_attend(x, lambda y: self.attend(y, self.attend.remember(y), mask=mask))
        return self.after_feed(x, self.feed)


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the encoder's output, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attend = attention(config)
        self.after_attend = AddNorm(config)
        self.cross = attention(config)
        self.after_cross = AddNorm(config)
        self.feed = feed_forward(config)
        self.after_feed = AddNorm(config)

    def forward(
        self,
        x: Float[Tensor, "rows target d_model"],
        memory: KeysValues,
        mask: Bool[Tensor, "batch 1 1 source"] | None,
        *,
        append: Callable[[KeysValues], KeysValues] | None = None,
    ) -> Float[Tensor, "rows target d_model"]:
        """Pass one layer up the right side of Figure 1.

        Args:
            x: the target so far; `rows` is `batch` in training, batch x beams in search.
            memory: the encoder's output as this layer's `cross` remembers it, one row a sentence.
            mask: True where a source position is a piece and not padding.
            append: in decoding, adds the one new position to all the old ones and returns them;
                None in training, where the causal mask does the same.
        """

        def attend(y: Tensor) -> Tensor:
            seen = self.attend.remember(y)
            return self.attend(y, append(seen) if append else seen, causal=append is None)

        def cross(y: Tensor) -> Tensor:
            # Beams of one sentence are just more queries on its memory, so memory is never copied.
            queries = y.reshape(memory.keys.size(0), -1, y.size(-1))
            return self.cross(queries, memory, mask=mask).view_as(y)

        x = self.after_attend(x, attend)
        x = self.after_cross(x, cross)
        return self.after_feed(x, self.feed)


def attention(config: ModelConfig) -> Attention:
    """Build one multi-head attention of the model's shape."""
    return Attention(
        config.d_model,
        heads=config.heads,
        d_k=config.d_k,
        d_v=config.d_v,
        bias=config.attention_bias,
    )


def feed_forward(config: ModelConfig) -> FeedForward:
    """Build one feed-forward network of the model's shape."""
    return FeedForward(config.d_model, config.d_ff, activation=config.activation)
