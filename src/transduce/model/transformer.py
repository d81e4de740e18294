"""The Transformer: Figure 1 of the paper, put together."""

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Generic, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from transduce.model.config import ModelConfig
from transduce.model.kernels import Dropout
from transduce.model.layers import DecoderLayer, EncoderLayer, LearnedPositions, Positions
from transduce.model.numpy_transformer import NumpyTransformer, last_norm

Layer = TypeVar("Layer", EncoderLayer, DecoderLayer)


class LayerStack(nn.ModuleList, Generic[Layer]):
    """A ModuleList that tells the type checker what it holds."""

    def __init__(self, layers: Iterable[Layer]) -> None:
        super().__init__(layers)

    def __iter__(self) -> Iterator[Layer]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cast(Iterator[Layer], super().__iter__())


class Transformer(nn.Module):
    """Encoder-decoder Transformer; returns next-token logits for every target position.

    One matrix embeds the source, embeds the target, and makes the logits (section 3.4), unless
    `tie` separates them. Its PAD row is zero and stays zero: PAD fills batches and starts the
    decoder, which is the paper's shift right.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = make_embedding(config)
        if config.positions == "learned":
            self.positions = LearnedPositions(config.d_model, rows=config.max_positions)
        else:
            self.positions = Positions(config.d_model)
        self.dropout = Dropout(config.dropout)
        # One embedding and one table of positions serve both sides.
        self.encoder = LayerStack(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = LayerStack(DecoderLayer(config) for _ in range(config.decoder_layers))
        # Post-norm layers end in a normalisation; a pre-norm stack needs one more at its top.
        pre_norm = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.d_model) if pre_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model) if pre_norm else nn.Identity()
        bias = torch.zeros(config.vocab_size) if config.output_bias else None
        self.output_bias = None if bias is None else nn.Parameter(bias)
        # Departures; None is the paper's one matrix.
        self.source_embedding = (
            make_embedding(config) if config.tie in ("decoder", "none") else None
        )
        self.output_embedding = make_embedding(config) if config.tie in ("input", "none") else None
        initialise(self)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch 1 1 source"] | None,
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target vocab"]:
        """Return the logits of each target piece, given the source and the target before it.

        Args:
            source: ids with EOS, padded.
            source_mask: True where a source position is not padding; None without padding.
            target_in: target ids shifted right: PAD first, without EOS.
        """
        return self.logits(self.hidden_states(source, source_mask, target_in))

    def encode(
        self,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch 1 1 source"] | None,
    ) -> Float[Tensor, "batch source d_model"]:
        """Return the encoder's output: the memory that the decoder attends to.

        Args:
            source: ids with EOS, padded.
            source_mask: True where a source position is not padding; None without padding.
        """
        x = self._embed(self.source_embedding or self.embedding, source, first=0)
        for layer in self.encoder:
            x = layer(x, source_mask)
        return self.encoder_norm(x)

    def decode(
        self,
        memory: Float[Tensor, "batch source d_model"],
        source_mask: Bool[Tensor, "batch 1 1 source"] | None,
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """Return the decoder's output, which `logits` projects.

        Args:
            memory: the encoder's output.
            source_mask: True where a source position is not padding; None without padding.
            target_in: target ids shifted right: PAD first, without EOS.
        """
        x = self.embed(target_in)
        for layer in self.decoder:
            x = layer(x, layer.cross_attention.project_kv(memory), source_mask)
        return self.decoder_norm(x)

    def hidden_states(
        self,
        source: Int[Tensor, "batch source"],
        source_mask: Bool[Tensor, "batch 1 1 source"] | None,
        target_in: Int[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target d_model"]:
        """Encode and decode without the logits, which the loss computes chunk by chunk.

        Args: `source`, `source_mask` and `target_in` as for `forward`.
        """
        return self.decode(self.encode(source, source_mask), source_mask, target_in)

    def embed(
        self, ids: Int[Tensor, "batch length"], *, first: int = 0
    ) -> Float[Tensor, "batch length d_model"]:
        """Embed target ids at positions `first`, …: scaled by √d_model, plus positions, dropout."""
        return self._embed(self.embedding, ids, first=first)

    def _embed(
        self, embedding: nn.Embedding, ids: Int[Tensor, "batch length"], *, first: int
    ) -> Float[Tensor, "batch length d_model"]:
        # Section 3.4: the positions added next have a variance of 1/2, embeddings one of 1/d_model.
        scaled = embedding(ids)
        if self.config.scale == "embedding":
            scaled = scaled * math.sqrt(self.config.d_model)
        return self.dropout(self.positions(scaled, first=first))

    def logits(self, hidden: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        """Multiply `hidden`, the decoder's output, by the output matrix. PAD's logit is zero.

        The departure `output_bias` adds a bias per piece; PAD's then means nothing.
        """
        return F.linear(self.scale_hidden(hidden), self.output_matrix, self.output_bias)

    def scale_hidden(
        self, hidden: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        """Return what the output matrix multiplies: `hidden`, which "projection" scales."""
        if self.config.scale == "projection":
            return hidden * self.config.d_model**-0.5
        return hidden

    @property
    def output_matrix(self) -> Float[Tensor, "vocab d_model"]:
        """The matrix that makes the logits; the target's embedding unless `tie` separates them."""
        return (self.output_embedding or self.embedding).weight

    @property
    def size(self) -> int:
        """Number of parameters; the one matrix that is used three times counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def to_numpy(self) -> NumpyTransformer:
        """Return a twin in NumPy; on a CPU, in single precision, it shares the weights.

        It has the paper's scaling of the embedding: under another, weights are scaled copies.
        """
        state = {name: tensor.detach().cpu().float() for name, tensor in self.state_dict().items()}
        if self.config.scale != "embedding":
            state = with_paper_scaling(state, self.config)
        weights = {name: tensor.numpy() for name, tensor in state.items()}
        return NumpyTransformer(replace(self.config, scale="embedding"), weights)


def with_paper_scaling(state: dict[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Return weights with the same logits where embedded pieces are multiplied by √d_model."""
    root, scaled = config.d_model**0.5, dict(state)
    for name in ("embedding.weight", "source_embedding.weight"):
        if name in state:
            scaled[name] = state[name] / root
    output = "output_embedding.weight"
    if config.scale == "projection" and output in state:
        scaled[output] = state[output] / root
    if config.scale == "none" and output not in state:
        # The shared matrix makes the logits, too: the last normalisation makes up for it.
        for name in last_norm(config):
            scaled[name] = state[name] * root
    return scaled


def make_embedding(config: ModelConfig) -> nn.Embedding:
    """Build a matrix with a row for each id; PAD's gets no gradient from look-ups."""
    return nn.Embedding(config.vocab_size, config.d_model, padding_idx=config.pad)


@torch.no_grad()
def initialise(model: Transformer) -> None:
    """Draw the initial weights from torch's default generator.

    ===========================  ==========================================================
    linear maps                  Xavier uniform, each projection on its own (never fused)
    biases                       zero
    normalisation                gain one, offset zero
    the embeddings               normal with standard deviation d_model^-0.5; PAD row zero
    learned positions            normal with standard deviation 2^-0.5, as sinusoids have it
    ===========================  ==========================================================

    """
    # The order of the draws fixes the weights of a seed: modules() goes in order of definition.
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if "bias" in module.state_dict():
                nn.init.zeros_(module.bias)
    for embedding in (model.embedding, model.source_embedding, model.output_embedding):
        if embedding is not None:
            nn.init.normal_(embedding.weight, std=model.config.d_model**-0.5)
            embedding.weight[model.config.pad].zero_()
    if isinstance(model.positions, LearnedPositions):
        # The magnitude of the sinusoids, beside an embedding whose variance is one once it is
        # scaled. Smaller ones take updates to grow.
        nn.init.normal_(model.positions.weight, std=0.5**0.5)


def from_numpy(twin: NumpyTransformer) -> Transformer:
    """Build the model of these weights, on the CPU, in eval mode; the weights are copied."""
    with _SkipInitialisation():
        model = Transformer(twin.config)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in twin.weights.items()})
    return model.eval()


class _SkipInitialisation(TorchFunctionMode):
    """Skips random initialisation, since the weights are overwritten next.

    This saves a second for a large model and leaves the random number generator unchanged.
    """

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        arguments = kwargs or {}
        if func.__name__ in {"kaiming_uniform_", "uniform_", "normal_"}:
            return arguments.get("tensor", args[0] if args else None)
        return func(*args, **arguments)


def to_device(model: Transformer, device: torch.device | str) -> Transformer:
    """Move a model to a device.

    Raises:
        ValueError: if the device is unknown or unavailable.
    """
    try:
        return model.to(device)
    except (AssertionError, RuntimeError) as error:  # torch raises either, with many lines
        reason = str(error).partition("\n")[0]
        raise ValueError(f"the device {str(device)!r} cannot be used: {reason}") from None


def in_bfloat16(model: Transformer, *, embedding: bool) -> Transformer:
    """Return a copy whose linear maps are bfloat16, and so all activations between them.

    Normalisations, learned positions and, unless requested, the embedding are not copied: they are
    the original's parameters, in its precision, so that their gradients arrive where they belong.
    They compute in float32.

    Args:
        model: in float32; it is not changed.
        embedding: whether the embedding, which also makes the logits, is bfloat16 too: for
            inference. In training its gradient should be accumulated in float32.
    """
    kinds = (nn.Linear, nn.Embedding) if embedding else (nn.Linear,)
    converted = {
        id(weight)
        for module in model.modules()
        if isinstance(module, kinds)
        for weight in module.parameters()
    }
    # deepcopy takes what its memo holds instead of copying it.
    shared = {id(weight): weight for weight in model.parameters() if id(weight) not in converted}
    replica = copy.deepcopy(model, shared)
    for module in replica.modules():
        if isinstance(module, kinds):
            module.bfloat16()
        if isinstance(module, nn.LayerNorm):
            module.register_forward_pre_hook(_to_float32)
            module.register_forward_hook(_to_bfloat16)
    replica.dropout.register_forward_hook(_to_bfloat16)  # the last operation of `embed`
    if embedding and replica.output_bias is not None:
        replica.output_bias = nn.Parameter(replica.output_bias.detach().bfloat16())
    return replica


def _to_float32(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.float() for x in inputs)


def _to_bfloat16(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return output.to(torch.bfloat16)
