"""The shape of a Transformer, in the paper's letters. Free of torch, so `--help` stays quick."""

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from transduce.io.settings import check_choices


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """The shape of one Transformer. Every default is the paper's base model (Table 3, row "base").

    Raises:
        ValueError: if a value cannot make a model; the message names the field and the value.
    """

    vocab_size: int = 37_000
    """Ids of source, target and output (section 3.4), PAD included; with separate vocabularies
    those of the larger."""

    tie: Literal["all", "decoder", "input", "none"] = "all"
    """Which embeddings are one matrix: "all" is section 3.4 (source, target and output), "decoder"
    ties target and output, "input" source and target, "none" nothing."""

    encoder_layers: int = 6
    decoder_layers: int = 6
    """N in the paper; the two may differ (a shallow decoder translates faster)."""

    d_model: int = 512
    d_ff: int = 2048
    heads: int = 8
    d_k: int = 64
    d_v: int = 64
    """d_k and d_v are d_model / heads everywhere in the paper but in Table 3, rows B."""

    dropout: float = 0.1
    """P_drop: on every sub-layer output and on the embedded input (section 5.4), nowhere else."""

    attention_dropout: float = 0.0
    """Dropout on attention weights; the paper has none. Training only, like the next."""

    relu_dropout: float = 0.0
    """Dropout between the feed-forward's activation and its second map; the paper has none."""

    scale: Literal["embedding", "projection", "none"] = "embedding"
    """What training scales: "embedding" is section 3.4 (embedded pieces times √d_model),
    "projection" the logits by 1 / √d_model, "none" neither. A saved model has the paper's form:
    its weights are scaled instead."""

    norm: Literal["post", "pre"] = "post"
    """"post" is the paper: LayerNorm(x + Sublayer(x)). "pre" departs; see docs/fidelity.md."""

    activation: Literal["relu", "gelu", "silu"] = "relu"
    """Between the feed-forward's two linear maps: "relu" is equation (2), "gelu" x Φ(x), "silu"
    (also named swish) x sigmoid(x)."""

    positions: Literal["sinusoid", "learned"] = "sinusoid"
    """"sinusoid" is section 3.5, "learned" a table of weights (Table 3, row E)."""

    max_positions: int = 257
    """Rows of the learned table: no sentence is longer, EOS counted. Sinusoids have no end."""

    attention_bias: bool = False
    """Whether the four projections of an attention have biases. The paper's have none; models
    imported from elsewhere do."""

    output_bias: bool = False
    """Whether each piece's logit has a bias. The paper's has none; models imported from elsewhere
    do."""

    radius: int = 0
    """How far self-attention sees: the r of Table 1's last row. 0, the paper's models, is all
    positions; attention to the source always sees all."""

    def __post_init__(self) -> None:
        check_choices("model", self)  # first, as the other checks read them
        sizes = ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v")
        for field in sizes:
            if getattr(self, field) < 1:
                raise ValueError(f"model.{field} must be at least 1, not {getattr(self, field)}")
        if self.vocab_size < 4:
            raise ValueError(
                f"model.vocab_size must hold EOS, UNK, PAD and a piece, not {self.vocab_size}"
            )
        if self.max_positions < 2:
            raise ValueError(
                f"model.max_positions must be 2 or more, a piece and EOS, not {self.max_positions}"
            )
        if self.positions == "sinusoid" and self.d_model % 2:
            raise ValueError(f"model.d_model must be even for sinusoids, not {self.d_model}")
        if self.radius < 0:
            raise ValueError(f"model.radius must be 1 or more, or 0 for all, not {self.radius}")
        for field in ("dropout", "attention_dropout", "relu_dropout"):
            if not 0.0 <= getattr(self, field) < 1.0:
                raise ValueError(f"model.{field} must be in [0, 1), not {getattr(self, field)}")
        if self.radius and self.attention_dropout:
            raise ValueError(
                f"model.attention_dropout {self.attention_dropout} is for attention to all "
                f"positions: set it to 0, or model.radius {self.radius} to 0"
            )

    @property
    def pad(self) -> int:
        """The id that pads batches and starts the decoder: the last one; its embedding is zero."""
        return self.vocab_size - 1

    @property
    def embeddings(self) -> int:
        """Matrices with a row for each id: one, or up to three where `tie` separates them.

        >>> [ModelConfig(tie=tie).embeddings for tie in ("all", "decoder", "input", "none")]
        [1, 2, 2, 3]
        """
        return 1 + (self.tie in ("decoder", "none")) + (self.tie in ("input", "none"))

    @property
    def matrices(self) -> int:
        """Number of weights in the matrices, nearly all there are, without building the model."""
        attention = self.d_model * self.heads * 2 * (self.d_k + self.d_v)  # Q, K, V, output
        feed_forward = 2 * self.d_model * self.d_ff
        rows = self.embeddings * self.vocab_size
        rows += self.max_positions if self.positions == "learned" else 0
        return (
            rows * self.d_model
            + self.encoder_layers * (attention + feed_forward)
            + self.decoder_layers * (2 * attention + feed_forward)  # self- and cross-attention
        )

    @property
    def longest(self) -> int:
        """Maximum positions of a source or target, EOS included; sinusoids have no end."""
        return self.max_positions if self.positions == "learned" else sys.maxsize


PRESETS: Mapping[str, Mapping[str, int | float]] = MappingProxyType(
    tomllib.loads(Path(__file__).with_name("presets.toml").read_text("utf-8"))
)
"""Named shapes: their differences from the base model, which is the defaults above."""
