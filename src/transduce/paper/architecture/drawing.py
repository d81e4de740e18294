"""The colours and the letters of Figure 1, for light pages and for dark ones, as CSS."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from transduce.paper.architecture.parts import Anatomy, Layers, Part, SubLayer
from transduce.visualization.page import escape, text_width

Ink = Literal["light", "dark", "both"]
"""The page it is for; "both" follows the reader's scheme."""

_LIGHT = (
    "--page:#ffffff;--ink:#1b2024;--soft:#59626b;--wire:#3c444c;--stack:#f5f5f3;--rim:#c9ccd0;"
    "--tie:#175a9f;--attention:#fde2c4;--attention-rim:#c97a22;--feed:#cfe5f7;--feed-rim:#3b7fb8;"
    "--norm:#f3f3c2;--norm-rim:#a3a03a;--embedding:#f8dce2;--embedding-rim:#b8637a;"
    "--linear:#dcdcf6;--linear-rim:#6d6bb5;--softmax:#d6ecd6;--softmax-rim:#56905a;"
    "--other:#e6e8ea;--other-rim:#868e96"
)
_DARK = (
    "--page:#14171c;--ink:#e9ebed;--soft:#aeb6be;--wire:#a5aeb7;--stack:#1d2126;--rim:#444b53;"
    "--tie:#86bdf7;--attention:#5a3a14;--attention-rim:#e0a050;--feed:#173a56;--feed-rim:#69aee6;"
    "--norm:#44430f;--norm-rim:#c9c65a;--embedding:#55222f;--embedding-rim:#e58da3;"
    "--linear:#312f63;--linear-rim:#a3a1ee;--softmax:#1e4423;--softmax-rim:#7cc682;"
    "--other:#2c3238;--other-rim:#868e96"
)
_STYLE = """svg.model{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
.model text{fill:var(--ink);font-size:15px;text-anchor:middle}
.model .name{font-weight:600}
.model .soft{fill:var(--soft);fill-opacity:1;font-size:13px}
.model tspan.soft{font-weight:400}
.model .times{font-size:26px;font-weight:600}
.model .title{font-size:19px;font-weight:650;text-anchor:start}
.model .start{text-anchor:start}.model .end{text-anchor:end}
.model .page{fill:var(--page)}
.model .stack{fill:var(--stack);stroke:var(--rim);stroke-width:1.5}
.model .wire{fill:none;stroke:var(--wire);stroke-width:1.6}
.model .tie{fill:none;stroke:var(--tie);stroke-width:1.6;stroke-dasharray:2 5;stroke-linecap:round}
.model .tied{fill:var(--tie)}
.model .head{fill:var(--wire)}
.model .sum{fill:var(--page);stroke:var(--wire);stroke-width:1.6}
"""
_KINDS = ("attention", "feed", "norm", "embedding", "linear", "softmax", "other")


def style(ink: Ink) -> str:
    """The style sheet of a drawing."""
    boxes = "".join(
        f".model .{kind}{{fill:var(--{kind});stroke:var(--{kind}-rim);stroke-width:1.5}}\n"
        for kind in _KINDS
    )
    colours = f"svg.model{{{_DARK if ink == 'dark' else _LIGHT}}}\n"
    if ink == "both":
        colours += f"@media (prefers-color-scheme:dark){{svg.model{{{_DARK}}}}}\n"
    return _STYLE + boxes + colours


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

    def wire(self, up: Number, *, head: bool = True) -> None:
        """Go up by so much; the arrow ends at the next box."""
        x, begin, end = self.middle, self.y, self.y + up
        self.back.append(path([(x, begin), (x, end - 3 * head)]))
        if head:
            self.front.append(arrow(x, end, "up"))
        self.y = end

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


def path(points: Sequence[tuple[Number, Number]], *, gap: Number = 0, look: str = "wire") -> str:
    """Draw a polyline.

    Args:
        points: x and y, which increases upwards.
        gap: pixels left free for an arrowhead at the end.
        look: CSS class.
    """
    *before, (x, y), end = points
    if gap:
        end = (
            end[0] + gap * ((x > end[0]) - (x < end[0])),
            end[1] + gap * ((y > end[1]) - (y < end[1])),
        )
    steps = " L".join(f"{x:g} {-y:g}" for x, y in (*before, (x, y), end))
    return f'<path class="{look}" d="M{steps}"/>'


def arrow(x: Number, y: Number, way: Literal["up", "left", "right"]) -> str:
    """Draw an arrowhead.

    Args:
        x: of the tip.
        y: of the tip.
        way: direction.
    """
    shape = {
        "up": "l-4.5 9 h9 z",
        "left": "l9 -4.5 v9 z",
        "right": "l-9 -4.5 v9 z",
    }[way]
    return f'<path class="head" d="M{x:g} {-y:g} {shape}"/>'


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
    "embedding": "embedding", "attention": "attention", "feed": "feed-forward",
    "norm": "norms", "other": "other",
}  # fmt: skip


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
    _stack(left, anatomy.encoder, anatomy.encoder_norm)
    _stack(right, anatomy.decoder, anatomy.decoder_norm)
    _crossing(left, right)
    _top(right, anatomy)
    _ties(right)
    height = max(right.y + 84, left.y + 270)
    what = (
        f"d_model {anatomy.d_model} · dropout {anatomy.dropout:g} · "
        f"{anatomy.parameters:,} parameters"
    )
    words = [
        text(24, height - 42, title, "title"),
        text(24, height - 66, what, "soft start"),
    ]
    shares = _shares(anatomy, top=height - 102)
    drawn = [*left.back, *right.back, *left.front, *right.front, *words, *shares]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="model" role="img" '
        f'viewBox="0 {-height:g} {WIDTH} {height + 20:g}" width="{WIDTH}" '
        f'style="max-width:100%;height:auto" aria-label="{escape(title)}: {escape(what)}">\n'
        f"<title>{escape(title)}</title>\n"
        f"<style>{style(ink)}</style>\n"
        f'<rect class="page" x="0" y="{-height:g}" width="{WIDTH}" height="{height + 20:g}"/>\n'
        + "\n".join(drawn)
        + "\n</svg>\n"
    )


def _bottom(tower: Tower, anatomy: Anatomy, *, reads: str) -> None:
    """From the ids to the first layer: embedding, positions, and their sum."""
    tower.front.append(text(tower.middle, tower.y + 6, reads, "name"))
    tower.y += 26
    tower.wire(20)
    part = anatomy.embedding
    tower.box("embedding", _lines(part))
    tower.wire(26)
    radius, side = 11, tower.outer
    tower.y += radius
    x, y = tower.middle, tower.y
    tower.front.append(f'<circle class="sum" cx="{x}" cy="{-y:g}" r="{radius}"/>')
    cross = [[(x - 6, y), (x + 6, y)], [(x, y - 6), (x, y + 6)]]
    tower.front += [path(line) for line in cross]
    wave = x + side * 82
    tower.back.append(path([(wave, y), (x + side * (radius + 3), y)]))
    tower.front += [
        arrow(x + side * radius, y, "left" if side > 0 else "right"),
        f'<circle class="sum" cx="{wave}" cy="{-y:g}" r="16"/>',
        f'<path class="wire" d="M{wave - 10} {-y:g} q5 -11 10 0 t10 0"/>',
    ]
    look = "start" if side > 0 else "end"
    labels = [anatomy.positions.name, anatomy.positions.shape]
    if anatomy.positions.parameters:
        labels.append(_count(anatomy.positions))
    for number, line in enumerate(labels):
        baseline = y + 8.5 * (len(labels) - 2) + 4 - 17 * number
        tower.front.append(
            text(wave + side * 24, baseline, line, f"soft {look}" if number else look)
        )
    tower.y += radius


def _stack(tower: Tower, stack: Sequence[Layers], norm: Part | None) -> None:
    """All layers of a side, those that are alike in one frame."""
    for layers in stack:
        tower.wire(20, head=False)
        begin = tower.y
        tower.wire(8, head=False)
        for sub in layers.sublayers:
            _sublayer(tower, sub)
        tower.wire(14, head=False)
        x = tower.middle - BOX / 2 - _PADDING
        tower.back.insert(
            0,
            f'<rect class="stack" x="{x:g}" y="{-tower.y:g}" width="{BOX + 2 * _PADDING}" '
            f'height="{tower.y - begin:g}" rx="16"/>',
        )
        side = tower.outer
        margin = tower.middle + side * (BOX / 2 + _PADDING + 14)
        look = "start" if side > 0 else "end"
        middle = (begin + tower.y) / 2
        last = layers.first + layers.times - 1
        which = f"layers {layers.first}–{last}" if layers.times > 1 else f"layer {last}"
        tower.front += [
            text(margin, middle, f"{layers.times} ×", f"times {look}"),
            text(margin, middle - 22, which, f"soft {look}"),
            text(margin, middle - 40, f"{layers.parameters:,}", f"soft {look}"),
        ]
    if norm:
        tower.wire(18)
        tower.box("norm", ["Norm"], aside=f"{norm.parameters:,}")


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
    edge = tower.middle + tower.outer * BOX / 2
    end = tower.y - (13 + LINE) / 2
    corner = [(tower.middle, branch), (around, branch), (around, end), (edge, end)]
    tower.back.append(path(corner, gap=3))
    tower.front.append(arrow(edge, end, "left" if tower.outer > 0 else "right"))


def _feet(tower: Tower, sub: SubLayer) -> None:
    """The arrows into a part: one, or queries, keys and values from one place."""
    if sub.part.kind != "attention" or sub.from_encoder:
        tower.wire(20)
        return
    spread, rise = BOX / 3.4, 26
    y, x = tower.y, tower.middle
    for offset in (-spread, 0, spread):
        line = [(x, y), (x + offset, y + 8), (x + offset, y + rise)]
        if offset:
            line = [(x, y + 8), (x + offset, y + 8), (x + offset, y + rise)]
        tower.back.append(path(line, gap=3))
        tower.front.append(arrow(x + offset, y + rise, "up"))
    tower.y += rise


def _crossing(left: Tower, right: Tower) -> None:
    """The encoder's output, up and over, and as keys and values into the decoder's layers."""
    edge = right.middle - BOX / 2
    left.wire(24, head=False)
    top = left.y
    lowest, highest = min(right.crossings), max(right.crossings)
    left.back.append(path([(left.middle, top), (TRUNK, top)]))
    left.back.append(path([(TRUNK, min(lowest, top)), (TRUNK, max(highest, top))]))
    for y in right.crossings:
        right.back.append(path([(TRUNK, y), (edge - 3, y)]))
        right.front.append(arrow(edge, y, "right"))
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


def _ties(right: Tower) -> None:
    """What shows that the two embeddings and the linear map are one matrix."""
    low, high = 46 + (13 + 3 * LINE) / 2, right.crossings[-1]
    left_edge, right_edge = LEFT + BOX / 2, RIGHT - BOX / 2
    outer = RIGHT + BOX / 2
    right.back += [
        path([(left_edge, low), (right_edge, low)], look="tie"),
        path([(outer, low), (TIE, low), (TIE, high), (outer, high)], look="tie"),
    ]
    right.front += [
        text((left_edge + right_edge) / 2, low + 8, "one matrix", "soft tied"),
        text(TIE - 8, high + 8, "one matrix", "soft tied end"),
    ]


def _shares(anatomy: Anatomy, *, top: Number) -> list[str]:
    """Where the parameters are, as bars below the title."""
    counts: dict[str, int] = {}
    for _, part, times in anatomy.parts():
        kind = "embedding" if part.kind in ("positions", "linear") else part.kind
        counts[kind] = counts.get(kind, 0) + times * part.parameters
    most, drawn = max(counts.values()), list[str]()
    for number, kind in enumerate(kind for kind in _NAMES if kind in counts):
        count = counts[kind]
        y, long = top - 24 * number, 150 * count / most
        share = f"{100 * count / anatomy.parameters:.1f} %"
        drawn += [
            text(24, y - 12, _NAMES[kind], "soft start"),
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
