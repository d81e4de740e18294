"""Figure 1 of a model: its parts, read from the live modules, as a table and as a drawing."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from transduce.bundle.bundle import Bundle
from transduce.config import load_recipe
from transduce.model.attention import Attention
from transduce.model.layers import AddNorm, FeedForward, LearnedPositions
from transduce.model.transformer import Transformer
from transduce.paper.report import write_files
from transduce.visualization.page import Section, page, table, text_width
from transduce.visualization.template import open_template

Kind = Literal["embedding", "positions", "attention", "feed", "norm", "linear"]

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
class Stack:
    """The layers of a side, all alike, one above the other."""

    layers: int
    sublayers: tuple[SubLayer, ...]
    """Of each layer."""
    norm: Part | None
    """On top of all layers, with pre-normalisation."""

    @property
    def parameters(self) -> int:
        """Of all layers together."""
        each_layer = sum(sub.part.parameters + sub.norm.parameters for sub in self.sublayers)
        return self.layers * each_layer


@dataclass(frozen=True, kw_only=True, slots=True)
class Anatomy:
    """All parts of a model."""

    d_model: int
    dropout: float
    embedding: Part
    positions: Part
    encoder: Stack
    decoder: Stack
    linear: Part
    """With one matrix (`tie`) it is the embedding's, and so no parameters of its own."""
    tie: str = "all"
    """As `ModelConfig.tie`: which of the embeddings and the linear map are one matrix."""

    @property
    def parameters(self) -> int:
        """The sum of all parts; the matrix that is used three times counts once."""
        return sum(times * part.parameters for _, part, times in self.parts())

    def parts(self) -> Iterator[tuple[str, Part, int]]:
        """Every box of the figure from the bottom up: where, what, and how often it is there."""
        sides = ("both",) if self.tie in ("all", "input") else ("source", "target")
        yield from ((side, self.embedding, 1) for side in sides)
        yield "both", self.positions, 1
        for side, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            for sub in stack.sublayers:
                order = (sub.norm, sub.part) if sub.pre else (sub.part, sub.norm)
                yield from ((side, part, stack.layers) for part in order)
            if stack.norm:
                yield side, stack.norm, 1
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
            shape=f"{pieces:,} × {width}"
            + (f" · times √{width}" if config.scale == "embedding" else ""),
            parameters=pieces * width,
        ),
        positions=_part(model.positions),
        encoder=_stack_of(model.encoder, model.encoder_norm, side="encoder"),
        decoder=_stack_of(model.decoder, model.decoder_norm, side="decoder"),
        linear=Part(
            kind="linear",
            name="Linear",
            shape=f"{width} → {config.vocab_size:,}" + (" · with biases" if bias else ""),
            parameters=bias + (pieces * width if model.output_embedding else 0),
        ),
        tie=config.tie,
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
    rule = ["--:" if column in NUMBERS else "---" for column in range(len(HEAD))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (HEAD, rule, *parts_rows(anatomy)))


def _stack_of(
    layers: Iterable[nn.Module], norm: nn.Module, *, side: Literal["encoder", "decoder"]
) -> Stack:
    first, *others = layers
    return Stack(
        layers=1 + len(others),
        sublayers=tuple(_sublayers(first, side=side)),
        norm=_part(norm) if isinstance(norm, nn.LayerNorm) else None,
    )


def _sublayers(layer: nn.Module, *, side: Literal["encoder", "decoder"]) -> Iterator[SubLayer]:
    """Every module of a layer with the AddNorm that follows it, in their order."""
    children = list(layer.named_children())
    for (what, inside), (name, around) in zip(children[::2], children[1::2], strict=True):
        assert isinstance(around, AddNorm), f"{name} of {type(layer).__name__} is no AddNorm"
        yield SubLayer(
            part=_part(inside, _ATTENTIONS.get((side, what), "Feed-forward")),
            norm=_part(around.norm),
            pre=around.pre_norm,
            from_encoder=what == "cross_attention",
        )


def _part(module: nn.Module, name: str = "") -> Part:
    """A module of a layer, or the positional encoding; the name is that of an attention."""
    match module:
        case Attention():
            linears = (module.key, module.value)
            d_k, d_v = (linear.out_features // module.heads for linear in linears)
            near = f" · radius {module.radius}" if module.radius else ""
            heads = "head" if module.heads == 1 else "heads"
            kind, shape = "attention", f"{module.heads} {heads} · d_k {d_k} · d_v {d_v}{near}"
        case FeedForward(inner=inner, outer=outer):
            kind, sizes = "feed", (inner.in_features, inner.out_features, outer.out_features)
            function = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}[module.activation.__name__]
            shape = f"{' → '.join(map(str, sizes))} · {function}"
        case nn.LayerNorm(normalized_shape=(width,)):
            kind, name, shape = "norm", "LayerNorm", f"gain and offset of {width}"
        case _:
            kind, name, shape = "positions", "Positional encoding", "sinusoids"
            if isinstance(module, LearnedPositions):
                shape = "learned, {} × {}".format(*module.weight.shape)
    weights = sum(weight.numel() for weight in module.parameters())
    return Part(kind=kind, name=name, shape=shape, parameters=weights)


Ink = Literal["light", "dark", "both"]
"""The page it is for; "both" follows the reader's scheme."""


def _style(ink: Ink) -> str:
    """The style sheet of a drawing, with the colours for one kind of page or for both."""
    text = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
    *shapes, light, dark = text.replace("\n ", "").splitlines(keepends=True)
    if ink == "dark":  # what stands within the media query
        return "".join([*shapes, dark.partition("{")[2].replace("}}", "}")])
    return "".join([*shapes, light, dark if ink == "both" else ""])


_BOX_TEXT = 210
"""Width in pixels of the text in a box of architecture.svg."""
_SHARES = {
    "embedding": "embedding",
    "attention": "attention",
    "feed": "feed-forward",
    "norm": "norms",
}


def model_svg(anatomy: Anatomy, *, title: str, ink: Ink = "both") -> str:
    """Draw a model.

    Args:
        anatomy: its parts.
        title: plain text above it.
        ink: for light pages, for dark ones, or for whichever it is shown on.
    """
    counts = Counter[str]()
    for _, part, times in anatomy.parts():
        kind = "embedding" if part.kind in ("positions", "linear") else part.kind
        counts[kind] += times * part.parameters
    return open_template(Path(__file__).with_suffix(".svg")).render(
        anatomy=anatomy,
        title=title,
        style=_style(ink),
        lines_of=_lines,
        shares=[(kind, name, counts[kind]) for kind, name in _SHARES.items()],
    )


def _lines(part: Part) -> list[str]:
    """What a box says: name, shape in as many lines as it needs, parameters."""
    shape: list[str] = []
    for piece in part.shape.split(" · "):
        if shape and text_width(f"{shape[-1]} · {piece}") < _BOX_TEXT:
            shape[-1] += f" · {piece}"
        else:
            shape.append(piece)
    return [part.name, *filter(None, shape), f"{part.parameters:,} parameters"]


ENDINGS = (".svg", ".html", ".md")


def named_model(model: str) -> tuple[str, Anatomy]:
    """Return name and parts of a model, by its folder or its run's, or by a recipe's name or file.

    Raises:
        ValueError: if it is none of these, or the folder's model cannot be loaded.
    """
    if Path(model).is_dir():
        folder = Path(model).resolve()
        name = folder.parent.name if folder.name == "model" else folder.name  # a run's
        return name, take_apart(Bundle.load(folder).model)
    recipe = load_recipe(model)
    with torch.device("meta"):  # shapes without numbers
        return recipe.name, take_apart(Transformer(recipe.model))


def write_model(file: Path, name: str, anatomy: Anatomy) -> list[Path]:
    """Write a drawing as SVG (and FILE-dark.svg), a page, or a table, and return the files' paths.

    Args:
        file: its ending, one of `ENDINGS`, selects the format.
        name: of the model.
        anatomy: its parts.

    Raises:
        ValueError: if the file's ending is none of `ENDINGS`.
    """
    title = f"Figure 1 of {name}"
    match file.suffix:
        case ".svg":
            texts = {
                file.name: model_svg(anatomy, title=title, ink="light"),
                f"{file.stem}-dark.svg": model_svg(anatomy, title=title, ink="dark"),
            }
        case ".html":
            sections = [
                Section("Drawn", model_svg(anatomy, title=title)),
                Section("Parts", table(HEAD, parts_rows(anatomy), numbers=NUMBERS)),
            ]
            texts = {file.name: page(title, sections)}
        case ".md":
            texts = {file.name: f"# {title}\n\n{parts_table(anatomy)}\n"}
        case _:
            raise ValueError(f"--out takes a file that ends in {', '.join(ENDINGS)}, not {file}")
    write_files(file.parent, texts)
    return [file.with_name(name) for name in texts]
