"""Plots as files: for light pages and for dark ones, as SVG and as PNG. matplotlib draws them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Ink:
    """Colours of a plot on one kind of page."""

    paper: str
    text: str
    faint: str
    """Grid lines, and what is only there to compare with."""
    lines: tuple[str, ...]


_LIGHT = Ink(
    paper="#ffffff",
    text="#1c1e21",
    faint="#c9ced6",
    lines=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
)
"""Lines are those of Okabe and Ito, which colour-blind readers tell apart."""
_DARK = Ink(
    paper="#14171c",
    text="#e7e9ec",
    faint="#3d434d",
    lines=("#56b4e9", "#f08a3c", "#2fc79a", "#e39cc4", "#f0b93a", "#9fd3f2"),
)

MARKERS = ("o", "s", "^", "D", "v", "P")
"""One a line, so that none is told by its colour alone."""

Draw = Callable[["Figure", Ink], None]


class LineStyle(TypedDict):
    """Style of one of several lines, as matplotlib keywords."""

    color: str
    marker: str


def line_style(number: int, ink: Ink) -> LineStyle:
    """Return the style of line `number` (from 0): the colours repeat with other markers."""
    turn, colour = divmod(number, len(ink.lines))
    return LineStyle(color=ink.lines[colour], marker=MARKERS[(number + turn) % len(MARKERS)])


def log_axis(axes: "Axes", ticks: Sequence[int]) -> None:
    """Make the horizontal axis logarithmic, to base 2, with these numbers below it."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])


def require_matplotlib() -> None:
    """Refuse to plot where matplotlib is not installed; called before anything is measured.

    Raises:
        ValueError: it says how to install it.
    """
    if find_spec("matplotlib") is None:
        raise ValueError("plots need matplotlib: pip install 'transduce[plot]'")


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
    require_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.style import context
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for ink, ending in ((_LIGHT, ""), (_DARK, "-dark")):
        with context([Path(__file__).with_suffix(".mplstyle"), _colours(ink)]):
            figure = Figure(figsize=(6.8, height), layout="constrained")
            draw(figure, ink)
            # Without a date a figure drawn again is the same file.
            figure.savefig(folder / f"{name}{ending}.svg", dpi=144, metadata={"Date": None})
            with BytesIO() as png:
                figure.savefig(png, format="png", dpi=144)
                # A plot has few colours: with a palette of them its file is a third as large.
                palette = Image.open(png).convert("RGB").quantize(256, dither=Image.Dither.NONE)
                palette.save(folder / f"{name}{ending}.png", optimize=True)


def _colours(ink: Ink) -> dict[str, object]:
    """The settings of matplotlib that take an ink's colours."""
    from matplotlib.rcsetup import cycler

    paper = ("figure.facecolor", "savefig.facecolor", "axes.facecolor")
    text = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor")
    return {
        **dict.fromkeys(paper, ink.paper),
        **dict.fromkeys((*text, "xtick.color", "ytick.color"), ink.text),
        "grid.color": ink.faint,
        "axes.prop_cycle": cycler(color=ink.lines, marker=MARKERS),
    }
