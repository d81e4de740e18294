"""What Figure 1 is drawn with: a tower of boxes that grows upwards, lines, arrows, words.

y goes up, as the data do; it is turned round where SVG is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from transduce.visualization.page import escape

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
        """Put a box on top: a name, faintly something beside it, and lines below it."""
        x, bottom = self.middle - BOX / 2, self.y
        height = 13 + LINE * len(lines)
        self.y += height
        self.front.append(
            f'<rect class="{kind}" x="{x:g}" y="{-self.y:g}" width="{BOX}" height="{height:g}" '
            f'rx="8"/>'
        )
        at = bottom + height / 2 + (len(lines) - 1) * LINE / 2 - 5
        self.front.append(text(self.middle, at, lines[0], "name", aside=aside))
        for number, line in enumerate(lines[1:], start=1):
            self.front.append(text(self.middle, at - number * LINE, line, "soft"))


def path(points: Sequence[tuple[Number, Number]], *, gap: Number = 0, look: str = "wire") -> str:
    """A line through points, whose y goes up; `gap` leaves room for the arrow at its end."""
    *before, (x, y), end = points
    if gap:
        end = (
            end[0] + gap * ((x > end[0]) - (x < end[0])),
            end[1] + gap * ((y > end[1]) - (y < end[1])),
        )
    steps = " L".join(f"{x:g} {-y:g}" for x, y in (*before, (x, y), end))
    return f'<path class="{look}" d="M{steps}"/>'


def arrow(x: Number, y: Number, way: Literal["up", "left", "right"]) -> str:
    """An arrow's head whose tip is at x, y."""
    shape = {
        "up": "l-4.5 9 h9 z",
        "left": "l9 -4.5 v9 z",
        "right": "l-9 -4.5 v9 z",
    }[way]
    return f'<path class="head" d="M{x:g} {-y:g} {shape}"/>'


def text(x: Number, y: Number, words: str, look: str, *, aside: str = "") -> str:
    """Words at x, y, with something fainter behind them."""
    more = f'<tspan class="soft" dx="8">{escape(aside)}</tspan>' if aside else ""
    return f'<text class="{look}" x="{x:g}" y="{-y:g}">{escape(words)}{more}</text>'
