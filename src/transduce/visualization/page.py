"""Self-contained HTML pages with tables and charts: one file that loads nothing from another host.

The style sheets beside this file are embedded in every page. A page follows the reader's light or
dark scheme and any width; wide content scrolls in its own box.

Charts are inline SVG that follows the page's colours, scheme and width, drawn without matplotlib,
which a plain install lacks. Horizontal positions are percentages and vertical ones pixels, so that
text keeps its size at any width; the axis labels lie in the margins.
"""

import math
import unicodedata
from collections.abc import Collection, Sequence
from html import escape
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
    """Choose ticks that are 1, 2 or 5 times a power of ten apart, to cover one value or more.

    The axis begins and ends with the values, or with `extend_to_ticks` on a tick.

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
        return _no_values(title)
    x_axis = make_axis([x for line in lines for x, _ in line], extend_to_ticks=False)
    y_axis = make_axis([y for line in lines for _, y in line], extend_to_ticks=True)
    points = [
        [
            (
                100 * x_axis.position(x),
                _HEIGHT * (1 - y_axis.position(y)),
                f"{name}: {_format(y, _decimals(y))} at {_format(x, _decimals(x))}",
            )
            for x, y in line
        ]
        for (name, _, _), line in zip(series, lines, strict=True)
    ]
    return _chart(
        title,
        [line.name for line in series],
        x_axis=x_axis,
        x_label=x_label,
        y_axis=y_axis,
        y_label=y_label,
        height=_HEIGHT,
        top=30,
        right=max(map(text_width, x_axis.labels)) / 2,
        left=max(map(text_width, y_axis.labels)) + 10,
        lines=points,
        dots=_MAX_DOTS,
    )


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
        return _no_values(title)
    axis = make_axis([0.0, *values], extend_to_ticks=True)
    decimals = max(map(_decimals, values))
    side_labels = max(map(len, labels)) <= _MAX_SIDE_LABEL
    label_height = 0 if side_labels else 22
    group_height = label_height + len(series) * _BAR + _GAP
    rows: list[tuple[object, ...]] = []
    for row, label in enumerate(labels):
        top = row * group_height + label_height + _GAP / 2
        bars: list[dict[str, object]] = []
        for number, bar_series in enumerate(series):
            value = float(bar_series.values[row])
            if math.isfinite(value):
                begin, end = sorted((100 * axis.position(0.0), 100 * axis.position(value)))
                bars.append(
                    {
                        "series": number,
                        "name": f"{bar_series.name}, {label}" if bar_series.name else label,
                        "value": _format(value, decimals),
                        "begin": begin,
                        "end": end,
                        "top": top + number * _BAR,
                    }
                )
        middle = top + len(series) * _BAR / 2 + 4.5
        label_place = (middle, -10.0, "end") if side_labels else (top - 6, 4.0, "start")
        rows.append((label, *label_place, bars))
    return _chart(
        title,
        [bars.name for bars in series],
        x_axis=axis,
        x_label=y_label,
        height=len(labels) * group_height,
        top=0,
        right=max(text_width(_format(value, decimals)) for value in values) + 8,
        left=max(map(text_width, labels)) + 14 if side_labels else 14.0,
        bars=rows,
        bar_height=_BAR,
    )


def _chart(title: str, names: Sequence[str], **values: object) -> str:
    """Render the template with the series' names and what the chart has."""
    template = open_template(Path(__file__).with_name("chart.html"))
    return template.render(
        {"y_axis": None, "lines": (), "bars": (), "colours": _COLOURS, "zip": zip, **values},
        title=title,
        names=names,
    )


def _no_values(title: str) -> str:
    return f"<figure>\n<figcaption>{escape(title)}</figcaption>\n<p>No values.</p>\n</figure>\n"


def _decimals(value: float) -> int:
    """Return the decimals for four significant figures without trailing zeros, at most five."""
    limit = min(5, max(0, 3 - math.floor(math.log10(abs(value))))) if value else 0
    return len(f"{value:.{limit}f}".rstrip("0").partition(".")[2]) if limit else 0


def _format(value: float, decimals: int) -> str:
    """Format a number with a true minus sign, and none before a zero."""
    text = f"{value:,.{decimals}f}"
    return text.replace("-", "−") if text.strip("-0.,") else text.replace("-", "")
