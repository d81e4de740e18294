"""Figure 1 of a model: its parts, read from the live modules, as a table and as a drawing."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from transduce.bundle.bundle import Bundle
from transduce.config import load_recipe
from transduce.model.attention import Attention
from transduce.model.layers import AddNorm, FeedForward, LearnedPositions
from transduce.model.transformer import Transformer
from transduce.paper.report import markdown_table, write_files
from transduce.visualization.page import Section, escape, page, table, text_width

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
            shape=f"{pieces:,} × {width} · times √{width}",
            parameters=pieces * width,
        ),
        positions=_positions(model.positions),
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
    return markdown_table(HEAD, parts_rows(anatomy), numbers=NUMBERS)


def _stack_of(
    layers: Iterable[nn.Module], norm: nn.Module, *, side: Literal["encoder", "decoder"]
) -> Stack:
    first, *others = layers
    return Stack(
        layers=1 + len(others),
        sublayers=tuple(_sublayers(first, side=side)),
        norm=_norm(norm) if isinstance(norm, nn.LayerNorm) else None,
    )


def _sublayers(layer: nn.Module, *, side: Literal["encoder", "decoder"]) -> Iterator[SubLayer]:
    """Every module of a layer with the AddNorm that follows it, in their order."""
    children = list(layer.named_children())
    for (what, inside), (name, around) in zip(children[::2], children[1::2], strict=True):
        assert isinstance(around, AddNorm), f"{name} of {type(layer).__name__} is no AddNorm"
        yield SubLayer(
            part=_part(inside, _ATTENTIONS.get((side, what), "Feed-forward")),
            norm=_norm(around.norm),
            pre=around.pre_norm,
            from_encoder=what == "cross_attention",
        )


def _part(module: nn.Module, name: str) -> Part:
    if isinstance(module, Attention):
        d_k, d_v = (linear.out_features // module.heads for linear in (module.key, module.value))
        near = f" · radius {module.radius}" if module.radius else ""
        heads = "head" if module.heads == 1 else "heads"
        shape = f"{module.heads} {heads} · d_k {d_k} · d_v {d_v}{near}"
        return Part(kind="attention", name=name, shape=shape, parameters=_size(module))
    assert isinstance(module, FeedForward)
    inner, outer = module.inner, module.outer
    function = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}[module.activation.__name__]
    shape = f"{inner.in_features} → {inner.out_features} → {outer.out_features} · {function}"
    return Part(kind="feed", name=name, shape=shape, parameters=_size(module))


def _norm(module: nn.LayerNorm) -> Part:
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


Ink = Literal["light", "dark", "both"]
"""The page it is for; "both" follows the reader's scheme."""


def _style(ink: Ink) -> str:
    """The style sheet of a drawing, with the colours for one kind of page or for both."""
    text = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
    *shapes, light, dark = text.replace("\n ", "").splitlines(keepends=True)
    if ink == "dark":  # what stands within the media query
        return "".join([*shapes, dark.partition("{")[2].replace("}}", "}")])
    return "".join([*shapes, light, dark if ink == "both" else ""])


BOX, LINE = 226, 17
"""Width of a box and height of a line in it."""

Number = int | float
"""Of pixels."""


@dataclass(kw_only=True, slots=True)
class Tower:
    """One side as it grows; y is how high its top is above the floor."""

    middle: Number
    outer: Literal[-1, 1]
    """The side that its residual connections go around: -1 left, 1 right."""
    y: Number = 0
    back: list[str] = field(default_factory=list[str])
    front: list[str] = field(default_factory=list[str])
    crossings: list[Number] = field(default_factory=list[Number])
    """How high the boxes are that the encoder's output goes to."""

    @property
    def anchor(self) -> str:
        """CSS class of text beside the tower, on its outer side."""
        return "start" if self.outer > 0 else "end"

    def wire(self, up: Number, *, head: bool = True) -> None:
        """Go up by so much; the arrow ends at the next box."""
        begin, end = (self.middle, self.y), (self.middle, self.y + up)
        if head:
            self.arrow(begin, end)
        else:
            self.back.append(path([begin, end]))
        self.y += up

    def arrow(self, *points: tuple[Number, Number]) -> None:
        """Draw a polyline that ends in an arrowhead, up, left or right."""
        *before, (x, y) = points
        right, up = (x > before[-1][0]) - (x < before[-1][0]), y > before[-1][1]
        self.back.append(path([*before, (x - 3 * right, y - 3 * up)]))  # not beyond the tip
        shape = "l-4.5 9 h9 z" if up else f"l{-9 * right} -4.5 v9 z"
        self.front.append(f'<path class="head" d="M{x:g} {-y:g} {shape}"/>')

    def box(self, kind: str, lines: Sequence[str], *, aside: str = "") -> None:
        """Add a box on top.

        Args:
            kind: its CSS class.
            lines: its name and further lines.
            aside: faint text after the name.
        """
        x, bottom = self.middle - BOX / 2, self.y
        height = 13 + LINE * len(lines)
        self.y += height
        self.front.append(
            f'<rect class="{kind}" x="{x:g}" y="{-self.y:g}" width="{BOX}" height="{height:g}" '
            f'rx="8"/>'
        )
        baseline = bottom + height / 2 + (len(lines) - 1) * LINE / 2 - 5
        self.front.append(text(self.middle, baseline, lines[0], "name", aside=aside))
        for number, line in enumerate(lines[1:], start=1):
            self.front.append(text(self.middle, baseline - number * LINE, line, "soft"))


def path(points: Sequence[tuple[Number, Number]], *, look: str = "wire") -> str:
    """Draw a polyline through points, whose y increases upwards."""
    steps = " L".join(f"{x:g} {-y:g}" for x, y in points)
    return f'<path class="{look}" d="M{steps}"/>'


def text(x: Number, y: Number, words: str, look: str, *, aside: str = "") -> str:
    """Draw text.

    Args:
        x: in pixels.
        y: of the baseline, increasing upwards.
        words: plain text.
        look: CSS classes.
        aside: fainter text that follows.
    """
    more = f'<tspan class="soft" dx="8">{escape(aside)}</tspan>' if aside else ""
    return f'<text class="{look}" x="{x:g}" y="{-y:g}">{escape(words)}{more}</text>'


WIDTH = 920
LEFT, RIGHT, TRUNK, TIE = 286, 634, 460, 902
"""The middles of the towers, what the encoder's output goes along, what ties the matrices."""
_PADDING, _AROUND = 26, 14

_NAMES = {
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
    left, right = Tower(middle=LEFT, outer=-1), Tower(middle=RIGHT, outer=1)
    _bottom(left, anatomy, reads="source")
    _bottom(right, anatomy, reads="target, shifted right")
    _stack(left, anatomy.encoder)
    _stack(right, anatomy.decoder)
    _crossing(left, right)
    _top(right, anatomy)
    _ties(right, tie=anatomy.tie)
    height = max(right.y + 84, left.y + 270)
    size = f"{anatomy.parameters:,} parameters"
    what = f"d_model {anatomy.d_model} · dropout {anatomy.dropout:g} · {size}"
    drawn = [
        *(*left.back, *right.back, *left.front, *right.front),
        text(24, height - 42, title, "title"),
        text(24, height - 66, what, "soft start"),
        *_shares(anatomy, top=height - 102),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="model" role="img" '
        f'viewBox="0 {-height:g} {WIDTH} {height + 20:g}" width="{WIDTH}" '
        f'style="max-width:100%;height:auto" aria-label="{escape(title)}: {escape(what)}">\n'
        f"<title>{escape(title)}</title>\n"
        f"<style>{_style(ink)}</style>\n"
        f'<rect class="page" x="0" y="{-height:g}" width="{WIDTH}" height="{height + 20:g}"/>\n'
        + "\n".join(drawn)
        + "\n</svg>\n"
    )


def _bottom(tower: Tower, anatomy: Anatomy, *, reads: str) -> None:
    """From the ids to the first layer: embedding, positions, and their sum."""
    tower.front.append(text(tower.middle, tower.y + 6, reads, "name"))
    tower.y += 26
    tower.wire(20)
    tower.box("embedding", _lines(anatomy.embedding))
    tower.wire(26)
    radius, side = 11, tower.outer
    tower.y += radius
    x, y = tower.middle, tower.y
    wave = x + side * 82
    tower.front += [
        f'<circle class="sum" cx="{x}" cy="{-y:g}" r="{radius}"/>',
        path([(x - 6, y), (x + 6, y)]),
        path([(x, y - 6), (x, y + 6)]),
    ]
    tower.arrow((wave, y), (x + side * radius, y))
    tower.front += [
        f'<circle class="sum" cx="{wave}" cy="{-y:g}" r="16"/>',
        f'<path class="wire" d="M{wave - 10} {-y:g} q5 -11 10 0 t10 0"/>',
    ]
    labels = [anatomy.positions.name, anatomy.positions.shape]
    if anatomy.positions.parameters:
        labels.append(_count(anatomy.positions))
    for number, line in enumerate(labels):
        baseline = y + 8.5 * (len(labels) - 2) + 4 - 17 * number
        look = f"soft {tower.anchor}" if number else tower.anchor
        tower.front.append(text(wave + side * 24, baseline, line, look))
    tower.y += radius


def _stack(tower: Tower, stack: Stack) -> None:
    """The layers of a side in one frame."""
    tower.wire(20, head=False)
    begin = tower.y
    tower.wire(8, head=False)
    for sub in stack.sublayers:
        _sublayer(tower, sub)
    tower.wire(14, head=False)
    x = tower.middle - BOX / 2 - _PADDING
    tower.back.insert(
        0,
        f'<rect class="stack" x="{x:g}" y="{-tower.y:g}" width="{BOX + 2 * _PADDING}" '
        f'height="{tower.y - begin:g}" rx="16"/>',
    )
    margin, look = tower.middle + tower.outer * (BOX / 2 + _PADDING + 14), tower.anchor
    middle = (begin + tower.y) / 2
    which = f"layers 1–{stack.layers}" if stack.layers > 1 else "layer 1"
    tower.front += [
        text(margin, middle, f"{stack.layers} ×", f"times {look}"),
        text(margin, middle - 22, which, f"soft {look}"),
        text(margin, middle - 40, f"{stack.parameters:,}", f"soft {look}"),
    ]
    if stack.norm:
        tower.wire(18)
        tower.box("norm", ["Norm"], aside=f"{stack.norm.parameters:,}")


def _sublayer(tower: Tower, sub: SubLayer) -> None:
    """A part, its normalisation before or behind it, and the way around both."""
    tower.wire(12, head=False)
    branch = tower.y
    if sub.pre:
        tower.wire(12)
        tower.box("norm", ["Norm"], aside=f"{sub.norm.parameters:,}")
    _feet(tower, sub)
    begin = tower.y
    tower.box(sub.part.kind, _lines(sub.part))
    if sub.from_encoder:
        tower.crossings.append((begin + tower.y) / 2)
    tower.wire(16)
    if sub.pre:
        tower.box("norm", ["Add"])
    else:
        tower.box("norm", ["Add & Norm"], aside=f"{sub.norm.parameters:,}")
    around = tower.middle + tower.outer * (BOX / 2 + _AROUND)
    edge, end = tower.middle + tower.outer * BOX / 2, tower.y - (13 + LINE) / 2
    tower.arrow((tower.middle, branch), (around, branch), (around, end), (edge, end))


def _feet(tower: Tower, sub: SubLayer) -> None:
    """The arrows into a part: one, or queries, keys and values from one place."""
    if sub.part.kind != "attention" or sub.from_encoder:
        tower.wire(20)
        return
    spread, rise = BOX / 3.4, 26
    x, y = tower.middle, tower.y
    for end in (x - spread, x, x + spread):
        tower.arrow((x, y + 8 if end != x else y), (end, y + 8), (end, y + rise))
    tower.y += rise


def _crossing(left: Tower, right: Tower) -> None:
    """The encoder's output, up and over, and as keys and values into the decoder's layers."""
    edge = right.middle - BOX / 2
    left.wire(24, head=False)
    heights = [left.y, *right.crossings]
    left.back.append(path([(left.middle, left.y), (TRUNK, left.y)]))
    left.back.append(path([(TRUNK, min(heights)), (TRUNK, max(heights))]))
    for y in right.crossings:
        right.arrow((TRUNK, y), (edge, y))
        right.front.append(text(edge - 14, y + 8, "K, V", "soft end"))


def _top(tower: Tower, anatomy: Anatomy) -> None:
    """From the last layer to the probabilities."""
    tower.wire(24)
    begin = tower.y
    lines = _lines(anatomy.linear)
    tower.box("linear", lines if anatomy.linear.parameters else lines[:-1])
    tower.crossings.append((begin + tower.y) / 2)  # where the tie ends
    tower.wire(18)
    tower.box("softmax", ["Softmax"])
    tower.wire(18)
    tower.front.append(text(tower.middle, tower.y + 4, "probabilities of the next piece", "name"))
    tower.y += 22


def _ties(right: Tower, *, tie: str) -> None:
    """What shows which of the two embeddings and the linear map are one matrix."""
    low, high = 46 + (13 + 3 * LINE) / 2, right.crossings[-1]
    left_edge, right_edge, outer = LEFT + BOX / 2, RIGHT - BOX / 2, RIGHT + BOX / 2
    if tie in ("all", "input"):
        right.back.append(path([(left_edge, low), (right_edge, low)], look="tie"))
        middle = (left_edge + right_edge) / 2
        right.front.append(text(middle, low + 8, "one matrix", "soft tied"))
    if tie in ("all", "decoder"):
        corners = [(outer, low), (TIE, low), (TIE, high), (outer, high)]
        right.back.append(path(corners, look="tie"))
        right.front.append(text(TIE - 8, high + 8, "one matrix", "soft tied end"))


def _shares(anatomy: Anatomy, *, top: Number) -> list[str]:
    """Where the parameters are, as bars below the title."""
    counts = Counter[str]()
    for _, part, times in anatomy.parts():
        kind = "embedding" if part.kind in ("positions", "linear") else part.kind
        counts[kind] += times * part.parameters
    most, drawn = max(counts.values()), list[str]()
    for number, (kind, name) in enumerate(_NAMES.items()):
        count = counts[kind]
        y, long = top - 24 * number, 150 * count / most
        share = f"{100 * count / anatomy.parameters:.1f} %"
        drawn += [
            text(24, y - 12, name, "soft start"),
            f'<rect class="{kind}" x="124" y="{-y:g}" width="{max(long, 2):.1f}" height="16" '
            f'rx="3"/>',
            text(124 + long + 8, y - 12, f"{count:,}", "soft start", aside=share),
        ]
    return drawn


def _lines(part: Part) -> list[str]:
    """What a box says: name, shape in as many lines as it needs, parameters."""
    shape: list[str] = []
    for piece in part.shape.split(" · "):
        if shape and text_width(f"{shape[-1]} · {piece}") < BOX - 16:
            shape[-1] += f" · {piece}"
        else:
            shape.append(piece)
    return [part.name, *filter(None, shape), _count(part)]


def _count(part: Part) -> str:
    return f"{part.parameters:,} parameters"


ENDINGS = (".svg", ".html", ".md")


def named_model(model: str) -> tuple[str, Anatomy]:
    """Take a model apart: one in a model's or a run's folder, else that of a recipe's name or file.

    Returns:
        Its name and its parts.

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
    """Write the drawing as SVG (for light pages, and FILE-dark.svg), or a page, or a table.

    Args:
        file: its ending, one of `ENDINGS`, selects the format.
        name: of the model.
        anatomy: its parts.

    Returns:
        The files that were written.

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
