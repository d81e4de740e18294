"""The Transformer: Figure 1 of the paper, put together."""

import math
from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.config import ModelConfig
from transduce.model.cpu.dropout import Dropout
from transduce.model.incremental_decoder import IncrementalDecoder
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.positions import LearnedPositions, Positions


class OutputProjectionInputs(NamedTuple):
    """Two tensors whose product is the logits."""

    hidden: Float[Tensor, "*batch width"]
    matrix: Float[Tensor, "vocab width"]


class Transformer(nn.Module):
    """An encoder-decoder that reads source ids and says the logits of each next target id.

    One matrix embeds the source, embeds the target, and makes the logits (section 3.4). Its PAD
    row is zero and stays zero: PAD fills batches and starts the decoder, which is the paper's shift
    right.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model, padding_idx=config.pad)
        self.positions = positions(config)
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        # Post-norm layers end in a normalisation; a pre-norm stack needs one more at its top.
        pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if pre else nn.Identity()
        bias = torch.zeros(config.vocab_size) if config.output_bias else None
        self.output_bias = None if bias is None else nn.Parameter(bias)
        initialise(self)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch 1 1 source"] | None,
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target vocab"]:
        """Return the logits of each target piece, given the source and the target before it."""
        return self.logits(self.decode(self.encode(source, source_mask), source_mask, target_in))

    def encode(
        self,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch 1 1 source"] | None,
    ) -> Float[Tensor, "batch source d_model"]:
        """Return the encoder's output: the memory that the decoder reads."""
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, source_mask)
        return self.encoder_norm(x)

    def decode(
        self,
        memory: Float[Tensor, "batch source d_model"],
        source_mask: Bool[Tensor, "batch 1 1 source"] | None,
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """Return the decoder's output: the hidden states that `logits` projects."""
        x = self.embed(target_in)
        for layer in self.decoder_layers():
            x = layer(x, layer.cross_attention.project_kv(memory), source_mask)
        return self.decoder_norm(x)

    def hidden_states(
        self,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch 1 1 source"] | None,
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """Return both stacks' output without the logits, which the loss makes chunk by chunk."""
        return self.decode(self.encode(source, source_mask), source_mask, target_in)

    def embed(
        self, ids: Int[Tensor, "batch length"], *, first: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Embed ids at positions `first`, …: scaled by √d_model, positions added, dropout."""
        scaled = self.embedding(ids) * math.sqrt(self.config.d_model)
        return self.dropout(self.positions(scaled, first=first))

    def logits(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """Multiply by the shared matrix: the one place that makes logits. PAD's is always zero.

        The departure `output_bias` adds a number a piece; PAD's then means nothing.
        """
        return F.linear(hidden, self.embedding.weight, self.output_bias)

    def output_projection_inputs(
        self, hidden: Float[Tensor, "*batch d_model"]
    ) -> OutputProjectionInputs:
        """The factors of the logits, for a loss that multiplies them itself, chunk by chunk.

        An output bias becomes one more column of the matrix, which a 1 beside `hidden` reads.
        """
        if self.output_bias is None:
            return OutputProjectionInputs(hidden, self.embedding.weight)
        ones = hidden.new_ones(*hidden.shape[:-1], 1)
        columns = [self.embedding.weight, self.output_bias[:, None]]
        return OutputProjectionInputs(torch.cat([hidden, ones], -1), torch.cat(columns, -1))

    @property
    def size(self) -> int:
        """Number of weights; the one matrix that is used three times counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def decoder_layers(self) -> Iterable[DecoderLayer]:
        """The decoder's layers, bottom up; torch's ModuleList does not say what it holds."""
        return cast(Iterable[DecoderLayer], self.decoder)

    def start_decoding(
        self,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch 1 1 source"] | None,
        *,
        beams: int = 1,
    ) -> IncrementalDecoder:
        """Read the source once; return the state that search advances, `beams` rows a sentence."""
        memory = self.encode(source, source_mask)
        layers = list(self.decoder_layers())
        return IncrementalDecoder(
            layers,
            embed=lambda ids, first: self.embed(ids, first=first),
            logits=lambda x: self.logits(self.decoder_norm(x)),
            memories=[layer.cross_attention.project_kv(memory) for layer in layers],
            mask=source_mask,
            beams=beams,
        )


def positions(config: ModelConfig) -> Positions | LearnedPositions:
    """Build what adds positions: one for both sides, as the one embedding is for both."""
    if config.positions == "learned":
        return LearnedPositions(config.d_model, rows=config.max_positions)
    return Positions(config.d_model)


@torch.no_grad()
def initialise(model: Transformer) -> None:
    """Draw the initial weights from torch's default generator.

    ===========================  ==========================================================
    linear maps                  Xavier uniform, each projection on its own (never fused)
    biases                       zero
    normalisation                gain one, offset zero
    the embedding                normal with standard deviation d_model^-0.5; PAD row zero
    learned positions            normal with standard deviation 2^-0.5, as sinusoids have it
    ===========================  ==========================================================

    So a learned place is as loud beside its piece, whose variance is one once it is scaled, as the
    sinusoid whose place it takes. Fainter ones have to be found first, and that costs updates.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if "bias" in module.state_dict():
                nn.init.zeros_(module.bias)
    nn.init.normal_(model.embedding.weight, std=model.config.d_model**-0.5)
    model.embedding.weight[model.config.pad].zero_()
    if isinstance(model.positions, LearnedPositions):
        nn.init.normal_(model.positions.weight, std=0.5**0.5)
