"""Figure 1 drawn from a model's parts, as SVG: the encoder on the left, the decoder on the right.

A tower is laid from the bottom up, box upon box. Data go up the middle; what goes around a
sub-layer, its residual connection, leaves on the outer side, and the encoder's output crosses from
its top to every layer of the decoder.
"""

from collections.abc import Sequence

from transduce.paper.architecture.colours import Ink, style
from transduce.paper.architecture.parts import Anatomy, Layers, Part, SubLayer
from transduce.paper.architecture.tower import BOX, LINE, Number, Tower, arrow, path, text
from transduce.visualization.page import escape, text_width

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
    said = [anatomy.positions.name, anatomy.positions.shape]
    if anatomy.positions.parameters:
        said.append(_count(anatomy.positions))
    for number, line in enumerate(said):
        at = y + 8.5 * (len(said) - 2) + 4 - 17 * number
        tower.front.append(text(wave + side * 24, at, line, f"soft {look}" if number else look))
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
        at = tower.middle + side * (BOX / 2 + _PADDING + 14)
        look = "start" if side > 0 else "end"
        middle = (begin + tower.y) / 2
        last = layers.first + layers.times - 1
        which = f"layers {layers.first}–{last}" if layers.times > 1 else f"layer {last}"
        tower.front += [
            text(at, middle, f"{layers.times} ×", f"times {look}"),
            text(at, middle - 22, which, f"soft {look}"),
            text(at, middle - 40, f"{layers.parameters:,}", f"soft {look}"),
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
