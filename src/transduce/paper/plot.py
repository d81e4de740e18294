"""Plots as files: for light pages and for dark ones, as SVG and as PNG. matplotlib draws them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Ink:
    """Colours of a plot on one kind of page, from plot-light.mplstyle or plot-dark.mplstyle."""

    paper: str
    text: str
    faint: str
    """Grid lines, and what is only there to compare with."""
    lines: tuple[str, ...]


MARKERS = ("o", "s", "^", "D", "v", "P")
"""One a line, so that none is told by its colour alone; the styles have the same."""

Draw = Callable[["Figure", Ink], None]


class LineStyle(TypedDict):
    """Style of one of several lines, as matplotlib keywords."""

    color: str
    marker: str


def line_style(number: int, ink: Ink) -> LineStyle:
    """Return the style of line `number` (from 0): colour and marker both differ."""
    return LineStyle(color=ink.lines[number], marker=MARKERS[number])


def log_axis(axes: "Axes", ticks: Sequence[int]) -> None:
    """Make the horizontal axis logarithmic, to base 2, with these numbers below it."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])


def save_plot(folder: Path, name: str, draw: Draw, *, height: float = 4.2) -> None:
    """Draw `name`.svg and .png for light pages, `name`-dark.svg and .png for dark ones.

    Args:
        folder: where they go; it is made when it is missing.
        name: of the files, without an ending.
        draw: puts axes on the figure it is given and draws with the ink it is given.
        height: in inches; the width is 6.8, that of a page, where text has its size.

    Raises:
        ValueError: if matplotlib is not installed; it says how to install it.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.style import context
        from PIL import Image
    except ImportError:
        raise ValueError("plots need matplotlib: pip install 'transduce[plot]'") from None
    folder.mkdir(parents=True, exist_ok=True)
    style = Path(__file__).with_suffix(".mplstyle")
    for page, ending in (("light", ""), ("dark", "-dark")):
        with context([style, style.with_stem(f"plot-{page}")]):
            figure = Figure(figsize=(6.8, height), layout="constrained")
            draw(figure, _ink())
            # Without a date a figure drawn again is the same file.
            figure.savefig(folder / f"{name}{ending}.svg", dpi=144, metadata={"Date": None})
            with BytesIO() as png:
                figure.savefig(png, format="png", dpi=144)
                # A plot has few colours: with a palette of them its file is a third as large.
                palette = Image.open(png).convert("RGB").quantize(256, dither=Image.Dither.NONE)
                palette.save(folder / f"{name}{ending}.png", optimize=True)


def _ink() -> Ink:
    from matplotlib import rcParams

    paper, text, faint = (
        f"#{rcParams[key].lstrip('#')}" for key in ("figure.facecolor", "text.color", "grid.color")
    )
    lines = rcParams["axes.prop_cycle"].by_key()["color"]
    return Ink(paper=paper, text=text, faint=faint, lines=tuple(lines))
