"""Self-contained HTML pages with tables and charts: one file that loads nothing from another host.

The style sheets beside this file are embedded in every page. A page follows the reader's light or
dark scheme and any width; wide content scrolls in its own box.

Charts are inline SVG that follows the page's colours, scheme and width, drawn without matplotlib,
which a plain install lacks. Horizontal positions are percentages and vertical ones pixels, so that
text keeps its size at any width; the axis labels lie in the margins.
"""

import html
import math
import unicodedata
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.visualization.template import open_template

STYLES = ("colours.css", "page.css", "attention.css")
"""The embedded style sheets."""

_CONTENTS_SECTIONS = 4  # a page with this many sections begins with links to them
_HEIGHT = 260
_COLOURS = 6  # classes s0 to s5 of page.css; a seventh series reuses the first
_MAX_DOTS = 40  # points of a line that are still drawn as dots
_BAR, _GAP = 18, 14
_MAX_SIDE_LABEL = 14  # characters; a longer label is placed above its bars


class Section(NamedTuple):
    """A part of a page with a heading."""

    title: str
    html: str
    """Content as markup: from `table`, a chart, or escaped text."""
    lead: str = ""
    """Plain text below the heading."""


def page(title: str, sections: Sequence[Section], *, lead: str = "", refresh: int = 0) -> str:
    """Assemble a complete HTML file.

    Args:
        title: plain text.
        sections: from top to bottom.
        lead: plain text below the title.
        refresh: seconds after which a browser loads the file again; 0: never.
    """
    folder = Path(__file__).parent
    style = "\n".join((folder / name).read_text(encoding="utf-8") for name in STYLES)
    return open_template(folder / "page.html").render(
        title=title,
        sections=sections,
        lead=lead,
        refresh=refresh,
        style=style,
        contents=len(sections) >= _CONTENTS_SECTIONS,
    )


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int] = ()
) -> str:
    """Make a table of plain text in a box that scrolls sideways.

    Args:
        headers: one per column.
        rows: their cells, as many as there are headers.
        numbers: indices of numeric columns, which are right-aligned.
    """
    assert all(len(row) == len(headers) for row in rows), "a cell for every header"
    template = open_template(Path(__file__).with_name("table.html"))
    return template.render(headers=headers, rows=rows, numbers=numbers)


def scroll_box(content: str, *, label: str) -> str:
    """Wrap markup in a box that scrolls, also by keyboard."""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">\n'
        f"{content}\n</div>\n"
    )


def escape(text: str) -> str:
    """Escape plain text for markup and attributes.

    >>> escape('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(text, quote=True)


def text_width(text: str) -> float:
    """Estimate the width of text in a drawing, in pixels, on the generous side.

    The reader's font is unknown when the drawing is laid out.

    >>> text_width("piece"), text_width("注意")
    (37.5, 30.0)
    """
    return sum(15.0 if unicodedata.east_asian_width(char) in "WF" else 7.5 for char in text)


class Series(NamedTuple):
    """A line of a chart."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


class BarSeries(NamedTuple):
    """Bars of one colour, one per label of the chart."""

    name: str
    values: Sequence[float]


class Axis(NamedTuple):
    """The range of an axis and its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def position(self, value: float) -> float:
        """Map a value to its position along the axis, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)

    @property
    def labels(self) -> tuple[str, ...]:
        """The ticks as text, all with the decimals that the tick spacing needs."""
        step = min((b - a for a, b in zip(self.ticks, self.ticks[1:], strict=False)), default=1.0)
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return tuple(_format(tick, decimals) for tick in self.ticks)


def make_axis(values: Sequence[float], *, extend_to_ticks: bool) -> Axis:
    """Choose ticks that are 1, 2 or 5 times a power of ten apart.

    Args:
        values: the values to cover; at least one.
        extend_to_ticks: whether the axis begins and ends on a tick, or with the values.

    >>> make_axis([0.3, 4.2], extend_to_ticks=True)
    Axis(low=0.0, high=5.0, ticks=(0.0, 1.0, 2.0, 3.0, 4.0, 5.0))
    """
    low, high = float(min(values)), float(max(values))
    if low == high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(s for s in (power / 5, power / 2, power, power * 2) if (high - low) / s <= 6)
    tolerance = 1e-9  # for rounding errors
    if extend_to_ticks:
        first, last = math.floor(low / step + tolerance), math.ceil(high / step - tolerance)
    else:
        first, last = math.ceil(low / step - tolerance), math.floor(high / step + tolerance)
    decimals = 3 - math.floor(math.log10(step))  # enough for a step however small
    ticks = tuple(round(number * step, decimals) for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks) if extend_to_ticks else Axis(low, high, ticks)


def line_chart(series: Sequence[Series], *, x_label: str, y_label: str, title: str) -> str:
    """Draw lines over a common pair of axes. Non-finite points are omitted.

    Args:
        series: the lines, named in a legend if there are several.
        x_label: label of the horizontal axis.
        y_label: label of the vertical axis.
        title: plain text.
    """
    lines = [
        [(float(x), float(y)) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(x + y)]
        for line in series
    ]
    if not any(lines):
        return _figure(title, "<p>No values.</p>\n")
    x_axis = make_axis([x for line in lines for x, _ in line], extend_to_ticks=False)
    y_axis = make_axis([y for line in lines for _, y in line], extend_to_ticks=True)
    left = max(map(text_width, y_axis.labels)) + 10
    marks = [_text("0", -14.0, y_label, dx=-left, soft=True)]
    for tick, label in zip(y_axis.ticks, y_axis.labels, strict=True):
        y = _HEIGHT * (1 - y_axis.position(tick))
        css_class = "axis" if tick == y_axis.low else "grid"
        marks.append(f'<line class="{css_class}" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
        marks.append(_text("0", y + 4.5, label, dx=-8.0, anchor="end"))
    marks += _x_axis_labels(x_axis, x_label, y=_HEIGHT)
    for number, line in enumerate(lines):
        colour = f"s{number % _COLOURS}"
        points = [(100 * x_axis.position(x), _HEIGHT * (1 - y_axis.position(y))) for x, y in line]
        marks.append(_polyline(points, colour))
        if len(line) <= _MAX_DOTS:
            for (left_percent, top), (x, y) in zip(points, line, strict=True):
                values = f"{_format(y, _decimals(y))} at {_format(x, _decimals(x))}"
                marks.append(
                    f'<circle class="dot {colour}" cx="{left_percent:.2f}%" cy="{top:.1f}" '
                    f'r="3.5"><title>{escape(f"{series[number].name}: {values}")}</title></circle>'
                )
    margins = _margins(top=30, right=max(map(text_width, x_axis.labels)) / 2, left=left)
    key = '<line class="key {}" x1="0" x2="28" y1="6" y2="6"/>'
    legend = _legend([line.name for line in series], key)
    return _figure(title, legend + _svg(title, marks, margins=margins, height=_HEIGHT))


def bar_chart(
    labels: Sequence[str], series: Sequence[BarSeries], *, y_label: str, title: str
) -> str:
    """Draw horizontal bars, one of each series per label, with the value at the end of the bar.

    Args:
        labels: from top to bottom.
        series: as many values as labels; a non-finite value has no bar.
        y_label: label of the values.
        title: plain text.
    """
    assert all(len(bars.values) == len(labels) for bars in series), "a value for every label"
    values = [float(value) for bars in series for value in bars.values if math.isfinite(value)]
    if not values:
        return _figure(title, "<p>No values.</p>\n")
    axis = make_axis([0.0, *values], extend_to_ticks=True)
    decimals = max(map(_decimals, values))
    side_labels = max(map(len, labels)) <= _MAX_SIDE_LABEL
    label_height = 0 if side_labels else 22
    group_height = label_height + len(series) * _BAR + _GAP
    height = len(labels) * group_height
    marks: list[str] = []
    for tick in axis.ticks:
        x, css_class = f"{100 * axis.position(tick):.2f}%", "grid" if tick else "axis"
        marks.append(f'<line class="{css_class}" x1="{x}" x2="{x}" y1="0" y2="{height}"/>')
    marks += _x_axis_labels(axis, y_label, y=height)
    for row, label in enumerate(labels):
        top = row * group_height + label_height + _GAP / 2
        if side_labels:
            middle = top + len(series) * _BAR / 2 + 4.5
            marks.append(_text("0", middle, label, dx=-10.0, anchor="end"))
        else:
            marks.append(_text("0", top - 6, label, dx=4.0))
        for number, bars in enumerate(series):
            value = float(bars.values[row])
            if math.isfinite(value):
                name = f"{bars.name}, {label}" if bars.name else label
                begin, end = sorted((100 * axis.position(0.0), 100 * axis.position(value)))
                y, text = top + number * _BAR, _format(value, decimals)
                marks.append(
                    f'<rect class="bar s{number % _COLOURS}" x="{begin:.2f}%" y="{y + 1:.1f}" '
                    f'width="{end - begin:.2f}%" height="{_BAR - 3}">'
                    f"<title>{escape(name)}: {text}</title></rect>"
                    + _text(f"{end:.2f}%", y + _BAR / 2 + 4, text, dx=6.0)
                )
    left = max(map(text_width, labels)) + 14 if side_labels else 14.0
    right = max(text_width(_format(value, decimals)) for value in values) + 8
    margins = _margins(top=0, right=right, left=left)
    key = '<rect class="bar {}" width="12" height="12"/>'
    legend = _legend([bars.name for bars in series], key)
    return _figure(title, legend + _svg(title, marks, margins=margins, height=height))


def _x_axis_labels(axis: Axis, label: str, *, y: int) -> list[str]:
    """Draw the tick labels and the label of the horizontal axis."""
    marks = [_text("50%", y + 42.0, label, anchor="middle", soft=True)]
    for tick, text in zip(axis.ticks, axis.labels, strict=True):
        marks.append(_text(f"{100 * axis.position(tick):.2f}%", y + 19.0, text, anchor="middle"))
    return marks


def _polyline(points: Sequence[tuple[float, float]], colour: str) -> str:
    """Draw a line in a frame that stretches with the chart, at constant stroke width."""
    coordinates = " ".join(f"{10 * x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<svg x="0" y="0" width="100%" height="{_HEIGHT}" viewBox="0 0 1000 {_HEIGHT}" '
        f'preserveAspectRatio="none" overflow="visible"><polyline class="line {colour}" '
        f'vector-effect="non-scaling-stroke" points="{coordinates}"/></svg>'
    )


def _margins(*, top: int, right: float, left: float) -> str:
    """Return a style that reserves space for the labels; those of the x axis need 50px."""
    width = f"calc(100% - {left + right:.0f}px)"
    return f"margin: {top}px {right:.0f}px 50px {left:.0f}px; width: {width}"


def _text(
    x: str, y: float, text: str, *, dx: float = 0.0, anchor: str = "start", soft: bool = False
) -> str:
    css_class = ' class="soft"' if soft else ""
    return (
        f'<text{css_class} x="{x}" y="{y:.1f}" dx="{dx:.0f}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _svg(title: str, marks: Sequence[str], *, margins: str, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
        f'aria-label="{escape(title)}" height="{height}" style="{margins}">\n'
        f"<title>{escape(title)}</title>\n" + "\n".join(marks) + "\n</svg>\n"
    )


def _legend(names: Sequence[str], key: str) -> str:
    """Make a legend if there are several names; `key` has {} for the colour class."""
    items = [
        f'<li><svg width="28" height="12" aria-hidden="true">{key.format(f"s{index % _COLOURS}")}'
        f"</svg>{escape(name)}</li>"
        for index, name in enumerate(names)
    ]
    return f'<ul class="legend">{"".join(items)}</ul>\n' if len(names) > 1 else ""


def _figure(title: str, content: str) -> str:
    return f"<figure>\n<figcaption>{escape(title)}</figcaption>\n{content}</figure>\n"


def _decimals(value: float) -> int:
    """Return the decimals for four significant figures without trailing zeros, at most five."""
    limit = min(5, max(0, 3 - math.floor(math.log10(abs(value))))) if value else 0
    return len(f"{value:.{limit}f}".rstrip("0").partition(".")[2]) if limit else 0


def _format(value: float, decimals: int) -> str:
    """Format a number with a true minus sign, and none before a zero."""
    text = f"{value:,.{decimals}f}"
    return text.replace("-", "−") if text.strip("-0.,") else text.replace("-", "")
