"""The parts of a model as in Figure 1, read from its live modules.

Consecutive identical layers are listed once with their number.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from torch import nn

from transduce.model.attention import Attention
from transduce.model.layers import AddNorm, FeedForward, LearnedPositions
from transduce.model.transformer import Transformer
from transduce.paper.report import markdown_table

Kind = Literal["embedding", "positions", "attention", "feed", "norm", "linear", "other"]

_ATTENTIONS = {
    ("encoder", "self_attention"): "Self-attention",
    ("decoder", "self_attention"): "Masked self-attention",
    ("decoder", "cross_attention"): "Attention to the encoder",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One box of the figure."""

    kind: Kind
    name: str
    shape: str
    """What its matrices are, in a few words."""
    parameters: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SubLayer:
    """A part inside its residual connection."""

    part: Part
    norm: Part
    pre: bool
    """Whether the normalisation comes before it; else after the sum, as in the paper."""
    from_encoder: bool
    """Whether its keys and values are the encoder's output."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layers:
    """Layers that are alike, one above the other."""

    first: int
    """Counted from 1."""
    times: int
    sublayers: tuple[SubLayer, ...]

    @property
    def parameters(self) -> int:
        """Of all of them together."""
        return self.times * sum(sub.part.parameters + sub.norm.parameters for sub in self.sublayers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Anatomy:
    """All parts of a model."""

    d_model: int
    dropout: float
    embedding: Part
    positions: Part
    encoder: tuple[Layers, ...]
    """From the bottom up."""
    encoder_norm: Part | None
    decoder: tuple[Layers, ...]
    decoder_norm: Part | None
    linear: Part
    """Its matrix is the embedding's, and so no parameters of its own."""

    @property
    def parameters(self) -> int:
        """The sum of all parts; the matrix that is used three times counts once."""
        return sum(times * part.parameters for _, part, times in self.parts())

    def parts(self) -> Iterator[tuple[str, Part, int]]:
        """Every box of the figure from the bottom up: where, what, and how often it is there."""
        yield "both", self.embedding, 1
        yield "both", self.positions, 1
        for side, stack, norm in (
            ("encoder", self.encoder, self.encoder_norm),
            ("decoder", self.decoder, self.decoder_norm),
        ):
            for layers in stack:
                for sub in layers.sublayers:
                    order = (sub.norm, sub.part) if sub.pre else (sub.part, sub.norm)
                    yield from ((side, part, layers.times) for part in order)
            if norm:
                yield side, norm, 1
        yield "output", self.linear, 1


def take_apart(model: Transformer) -> Anatomy:
    """List the parts of a model."""
    config = model.config
    pieces, width = model.embedding.weight.shape
    bias = 0 if model.output_bias is None else model.output_bias.numel()
    return Anatomy(
        d_model=width,
        dropout=model.dropout.p,
        embedding=Part(
            kind="embedding",
            name="Embedding",
            shape=f"{pieces:,} × {width} · times √{width}",
            parameters=pieces * width,
        ),
        positions=_positions(model.positions),
        encoder=_layers(model.encoder, side="encoder"),
        encoder_norm=_norm(model.encoder_norm),
        decoder=_layers(model.decoder, side="decoder"),
        decoder_norm=_norm(model.decoder_norm),
        linear=Part(
            kind="linear",
            name="Linear",
            shape=f"{width} → {config.vocab_size:,}" + (" · with biases" if bias else ""),
            parameters=bias,
        ),
    )


HEAD = ("where", "part", "shape", "layers", "parameters of one", "of all")
NUMBERS = (3, 4, 5)
"""Columns that hold numbers."""


def parts_rows(anatomy: Anatomy) -> list[tuple[str, ...]]:
    """All parts from the bottom up, under `HEAD`; the last row is their sum."""
    rows: list[tuple[str, ...]] = []
    for where, part, times in anatomy.parts():
        single, total = f"{part.parameters:,}", f"{part.parameters * times:,}"
        if part.kind == "linear" and not part.parameters:
            single = total = "the embedding's"
        rows.append((where, part.name, part.shape, f"{times}", single, total))
    return [*rows, ("", "all", "", "", "", f"{anatomy.parameters:,}")]


def parts_table(anatomy: Anatomy) -> str:
    """Format the parts as a Markdown table."""
    return markdown_table(HEAD, parts_rows(anatomy), numbers=NUMBERS)


def _layers(
    stack: Iterable[nn.Module], *, side: Literal["encoder", "decoder"]
) -> tuple[Layers, ...]:
    groups: list[Layers] = []
    first = 1
    for sublayers, layers in groupby(tuple(_sublayers(layer, side=side)) for layer in stack):
        times = len(list(layers))
        groups.append(Layers(first=first, times=times, sublayers=sublayers))
        first += times
    return tuple(groups)


def _sublayers(layer: nn.Module, *, side: Literal["encoder", "decoder"]) -> Iterator[SubLayer]:
    """Every module of a layer with the AddNorm that follows it, in their order."""
    waiting: tuple[str, nn.Module] | None = None
    for name, child in layer.named_children():
        if not isinstance(child, AddNorm):
            assert waiting is None, f"{name} of {type(layer).__name__} has no AddNorm before it"
            waiting = name, child
            continue
        assert waiting is not None, f"{name} of {type(layer).__name__} stands around nothing"
        what, inside = waiting
        norm = _norm(child.norm)
        assert norm is not None
        yield SubLayer(
            part=_part(inside, _ATTENTIONS.get((side, what), type(inside).__name__)),
            norm=norm,
            pre=child.pre_norm,
            from_encoder=what == "cross_attention",
        )
        waiting = None


def _part(module: nn.Module, name: str) -> Part:
    if isinstance(module, Attention):
        d_k, d_v = (linear.out_features // module.heads for linear in (module.key, module.value))
        near = f" · radius {module.radius}" if module.radius else ""
        heads = "head" if module.heads == 1 else "heads"
        shape = f"{module.heads} {heads} · d_k {d_k} · d_v {d_v}{near}"
        return Part(kind="attention", name=name, shape=shape, parameters=_size(module))
    if isinstance(module, FeedForward):
        inner, outer = module.inner, module.outer
        function = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}[module.activation.__name__]
        shape = f"{inner.in_features} → {inner.out_features} → {outer.out_features} · {function}"
        return Part(kind="feed", name="Feed-forward", shape=shape, parameters=_size(module))
    return Part(kind="other", name=name, shape="", parameters=_size(module))


def _norm(module: nn.Module) -> Part | None:
    if not isinstance(module, nn.LayerNorm):
        return None
    shape = f"gain and offset of {module.normalized_shape[0]}"
    return Part(kind="norm", name="LayerNorm", shape=shape, parameters=_size(module))


def _positions(module: nn.Module) -> Part:
    if isinstance(module, LearnedPositions):
        rows, width = module.weight.shape
        shape = f"learned, {rows} × {width}"
    else:
        shape = "sinusoids"
    return Part(kind="positions", name="Positional encoding", shape=shape, parameters=_size(module))


def _size(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())
