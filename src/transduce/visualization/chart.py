"""Charts as inline SVG that follows the page: its colours, its scheme, its width.

A chart is as wide as its box. Places along the width are percentages, those along the height are
pixels, so that text keeps its size on a phone; the labels of the axes stand in the margins.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from transduce.visualization.page import escape, text_width

_HEIGHT = 260
_COLOURS = 6  # that page.css knows; a seventh series begins anew
_DOTS = 40  # a line of up to so many points shows each as a dot
_BAR, _GAP = 18, 14
_BESIDE = 14  # characters; a longer label stands above its bars


class Series(NamedTuple):
    """A line of a chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


class Group(NamedTuple):
    """Bars of one colour, one for each label of the chart."""

    name: str
    values: Sequence[float]


class Axis(NamedTuple):
    """What an axis spans, and the values that are written on it."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Say how far along the axis a value lies, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)

    @property
    def labels(self) -> tuple[str, ...]:
        """The ticks as text, all with the decimals that the finest of them needs."""
        step = min((b - a for a, b in zip(self.ticks, self.ticks[1:], strict=False)), default=1.0)
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return tuple(_signed(f"{tick:,.{decimals}f}") for tick in self.ticks)


def axis(values: Sequence[float], *, whole: bool) -> Axis:
    """Choose round ticks: 1, 2 or 5 times a power of ten apart.

    Args:
        values: what has to fit; at least one.
        whole: whether the axis begins and ends on a tick, or with the values.

    >>> axis([0.3, 4.2], whole=True)
    Axis(low=0.0, high=5.0, ticks=(0.0, 1.0, 2.0, 3.0, 4.0, 5.0))
    """
    low, high = float(min(values)), float(max(values))
    if low == high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(s for s in (power / 5, power / 2, power, power * 2) if (high - low) / s <= 6)
    near = 1e-9  # what rounding may have added or taken
    if whole:
        first, last = math.floor(low / step + near), math.ceil(high / step - near)
    else:
        first, last = math.ceil(low / step - near), math.floor(high / step + near)
    ticks = tuple(round(number * step, 12) for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks) if whole else Axis(low, high, ticks)


def line_chart(series: Sequence[Series], *, x_label: str, y_label: str, title: str) -> str:
    """Draw lines over one pair of axes. Points that are no finite number are left out.

    Args:
        series: lines, named in the legend where there is more than one.
        x_label: what the horizontal axis counts.
        y_label: what the vertical axis measures.
        title: what the chart shows, plain text.
    """
    lines = [_finite(one) for one in series]
    if not any(lines):
        return _empty(title)
    across = axis([x for line in lines for x, _ in line], whole=False)
    up = axis([y for line in lines for _, y in line], whole=True)
    left = _width(up.labels) + 10
    marks = [_text("0", -14.0, y_label, dx=-left, soft=True)]
    for tick, label in zip(up.ticks, up.labels, strict=True):
        y = _HEIGHT * (1 - up.place(tick))
        kind = "axis" if tick == up.low else "grid"
        marks.append(f'<line class="{kind}" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
        marks.append(_text("0", y + 4.5, label, dx=-8.0, anchor="end"))
    marks += _below(across, _HEIGHT, x_label)
    for number, (one, line) in enumerate(zip(series, lines, strict=True)):
        colour = f"s{number % _COLOURS}"
        points = [(100 * across.place(x), _HEIGHT * (1 - up.place(y))) for x, y in line]
        marks.append(_path(points, colour))
        if len(line) <= _DOTS:
            for point, (x, y) in zip(points, line, strict=True):
                told = f"{one.name}: {_figures(y)} at {_figures(x)}"
                marks.append(_dot(*point, colour, told=told))
    margins = _margins(top=30, right=_width(across.labels) / 2, left=left)
    key = '<line class="key {}" x1="0" x2="28" y1="6" y2="6"/>'
    legend = _legend([one.name for one in series], key)
    return _figure(title, legend + _svg(title, marks, margins, _HEIGHT))


def bar_chart(labels: Sequence[str], groups: Sequence[Group], *, y_label: str, title: str) -> str:
    """Draw lying bars, one of each group for every label, with its value at its end.

    Args:
        labels: what the bars belong to, from top to bottom.
        groups: as many values as there are labels; a value that is no finite number has no bar.
        y_label: what the length of a bar measures.
        title: what the chart shows, plain text.
    """
    assert all(len(group.values) == len(labels) for group in groups), "a value for every label"
    values = [float(one) for group in groups for one in group.values if math.isfinite(one)]
    if not values:
        return _empty(title)
    along = axis([0.0, *values], whole=True)
    beside = max(map(len, labels)) <= _BESIDE
    head = 0 if beside else 22
    each = head + len(groups) * _BAR + _GAP
    height = len(labels) * each
    marks = [_upright(100 * along.place(tick), height, tick == 0) for tick in along.ticks]
    marks += _below(along, height, y_label)
    decimals = max(map(_decimals, values))
    for row, label in enumerate(labels):
        top = row * each + head + _GAP / 2
        if beside:
            middle = top + len(groups) * _BAR / 2 + 4.5
            marks.append(_text("0", middle, label, dx=-10.0, anchor="end"))
        else:
            marks.append(_text("0", top - 6, label, dx=4.0))
        for number, group in enumerate(groups):
            told = f"{group.name}, {label}" if group.name else label
            bar = _Bar(float(group.values[row]), decimals, told=told, number=number)
            marks.append(bar.drawn(along, top))
    left = _width(labels) + 14 if beside else 14.0
    right = _width([_decimal(value, decimals) for value in values]) + 8
    margins = _margins(top=0, right=right, left=left)
    key = '<rect class="bar {}" width="12" height="12"/>'
    legend = _legend([group.name for group in groups], key)
    return _figure(title, legend + _svg(title, marks, margins, height))


def _finite(series: Series) -> list[tuple[float, float]]:
    points = [(float(x), float(y)) for x, y in zip(series.x, series.y, strict=True)]
    return [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]


class _Bar(NamedTuple):
    """One bar with its value."""

    value: float
    decimals: int
    told: str
    number: int

    def drawn(self, along: Axis, top: float) -> str:
        if not math.isfinite(self.value):
            return ""
        left, right = sorted((100 * along.place(0.0), 100 * along.place(self.value)))
        y, said = top + self.number * _BAR, _decimal(self.value, self.decimals)
        return (
            f'<rect class="bar s{self.number % _COLOURS}" x="{left:.2f}%" y="{y + 1:.1f}" '
            f'width="{right - left:.2f}%" height="{_BAR - 3}">'
            f"<title>{escape(self.told)}: {said}</title></rect>"
            + _text(f"{right:.2f}%", y + _BAR / 2 + 4, said, dx=6.0)
        )


def _below(along: Axis, height: int, label: str) -> list[str]:
    """The ticks and the label of the horizontal axis."""
    marks = [_text("50%", height + 42.0, label, anchor="middle", soft=True)]
    for tick, text in zip(along.ticks, along.labels, strict=True):
        place = 100 * along.place(tick)
        marks.append(_text(f"{place:.2f}%", height + 19.0, text, anchor="middle"))
    return marks


def _upright(place: float, height: int, zero: bool) -> str:
    kind = "axis" if zero else "grid"
    return f'<line class="{kind}" x1="{place:.2f}%" x2="{place:.2f}%" y1="0" y2="{height}"/>'


def _path(points: Sequence[tuple[float, float]], colour: str) -> str:
    """A line in a frame that is stretched with the chart while the line keeps its thickness."""
    shown = " ".join(f"{10 * x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<svg x="0" y="0" width="100%" height="{_HEIGHT}" viewBox="0 0 1000 {_HEIGHT}" '
        f'preserveAspectRatio="none" overflow="visible"><polyline class="line {colour}" '
        f'vector-effect="non-scaling-stroke" points="{shown}"/></svg>'
    )


def _dot(x: float, y: float, colour: str, *, told: str) -> str:
    return (
        f'<circle class="dot {colour}" cx="{x:.2f}%" cy="{y:.1f}" r="3.5">'
        f"<title>{escape(told)}</title></circle>"
    )


def _margins(*, top: int, right: float, left: float) -> str:
    """The style of a chart that leaves room for its labels; those of the lower axis take 50px."""
    wide = f"calc(100% - {left + right:.0f}px)"
    return f"margin: {top}px {right:.0f}px 50px {left:.0f}px; width: {wide}"


def _text(
    x: str, y: float, text: str, *, dx: float = 0.0, anchor: str = "start", soft: bool = False
) -> str:
    kind = ' class="soft"' if soft else ""
    place = f'x="{x}" y="{y:.1f}" dx="{dx:.0f}"'
    return f'<text{kind} {place} text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, marks: Sequence[str], margins: str, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
        f'aria-label="{escape(title)}" height="{height}" style="{margins}">\n'
        f"<title>{escape(title)}</title>\n" + "\n".join(marks) + "\n</svg>\n"
    )


def _legend(names: Sequence[str], key: str) -> str:
    """What each colour stands for, where there is more than one; `key` holds {} for the colour."""
    items = [
        f'<li><svg width="28" height="12" aria-hidden="true">{key.format(f"s{at % _COLOURS}")}'
        f"</svg>{escape(name)}</li>"
        for at, name in enumerate(names)
    ]
    return f'<ul class="legend">{"".join(items)}</ul>\n' if len(names) > 1 else ""


def _figure(title: str, content: str) -> str:
    return f"<figure>\n<figcaption>{escape(title)}</figcaption>\n{content}</figure>\n"


def _empty(title: str) -> str:
    return _figure(title, "<p>No values.</p>\n")


def _width(texts: Sequence[str]) -> float:
    return max(map(text_width, texts))


def _figures(value: float) -> str:
    return _decimal(value, _decimals(value))


def _decimals(value: float) -> int:
    """Places behind the point for four figures in all, without zeros at the end; at most five."""
    most = min(5, max(0, 3 - math.floor(math.log10(abs(value))))) if value else 0
    return len(f"{value:.{most}f}".rstrip("0").partition(".")[2]) if most else 0


def _decimal(value: float, decimals: int) -> str:
    return _signed(f"{value:,.{decimals}f}")


def _signed(text: str) -> str:
    """A true minus sign, and none before a zero."""
    return text.replace("-", "−") if text.strip("-0.,") else text.replace("-", "")
