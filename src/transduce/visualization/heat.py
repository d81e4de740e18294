"""One matrix of weights as a heat map: SVG, in a page or as a file of its own.

One rule of shading holds in all pictures, from 0 to 1, so that heads and layers can be compared by
eye. The script of the attention view draws the same in a browser.
"""

import math
from collections.abc import Sequence

from transduce.visualization.page import escape, scrolling, text_width

Matrix = Sequence[Sequence[float]]
"""Rows of weights, a row for each piece that looks, a column for each that is looked at."""

_CELL = 24  # pixels
_LONGEST = 18  # characters of a label
_SLANT = math.radians(60)  # of the columns' labels
_ALONE = (
    "<style>text{font:13px sans-serif;fill:#1b2024}.soft{fill-opacity:.55}.paper{fill:#fff}"
    ".ground{fill:#f2f3f5}.cells rect{fill:#0a4a94}</style>\n"
    '<rect class="paper" width="100%" height="100%"/>\n'
)


def attention_map(
    rows: Sequence[str], columns: Sequence[str], weights: Matrix, *, title: str
) -> str:
    """Draw one matrix of weights as an SVG heat map, in a box in which it can scroll.

    Args:
        rows: the pieces that look, from top to bottom.
        columns: the pieces that they look at.
        weights: a row of shares from 0 to 1 for each of `rows`.
        title: what it shows, plain text.
    """
    drawn = _drawn(rows, columns, weights, title=title, style="")
    return f'<div class="heat">{scrolling(drawn, label=title)}</div>\n'


def attention_svg(
    rows: Sequence[str], columns: Sequence[str], weights: Matrix, *, title: str
) -> str:
    """Draw the same as a file of its own, on white, whatever shows it.

    Args:
        rows: the pieces that look, from top to bottom.
        columns: the pieces that they look at.
        weights: a row of shares from 0 to 1 for each of `rows`.
        title: what it shows, plain text.
    """
    return _drawn(rows, columns, weights, title=title, style=_ALONE) + "\n"


def shade(weight: float) -> str:
    """Opacity of a weight. The square root lets small weights be seen and told apart.

    >>> shade(0.25), shade(0.0)
    ('0.5', '0')
    """
    return f"{math.sqrt(weight):.3f}".rstrip("0").rstrip(".")


def _drawn(
    rows: Sequence[str], columns: Sequence[str], weights: Matrix, *, title: str, style: str
) -> str:
    longest = max(text_width(_short(piece)) for piece in columns)
    left = max(text_width(_short(piece)) for piece in rows) + 8
    top = longest * math.sin(_SLANT) + 14
    width = left + len(columns) * _CELL + longest * math.cos(_SLANT) + 4
    height = top + len(rows) * _CELL + 2
    cells = [
        f'<rect x="{left + column * _CELL:.0f}" y="{top + row * _CELL:.0f}" '
        f'width="{_CELL - 1}" height="{_CELL - 1}" fill-opacity="{shade(weight)}">'
        f"<title>{escape(f'{rows[row]} → {columns[column]}  {weight:.3f}')}</title></rect>"
        for row, line in enumerate(weights)
        for column, weight in enumerate(line)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'width="{width:.0f}" height="{height:.0f}">\n<title>{escape(title)}</title>\n{style}'
        f'<rect class="ground" x="{left:.0f}" y="{top:.0f}" width="{len(columns) * _CELL - 1}" '
        f'height="{len(rows) * _CELL - 1}"/>\n{_labels(rows, columns, left=left, top=top)}\n'
        '<g class="cells">\n' + "\n".join(cells) + "\n</g>\n</svg>"
    )


def _labels(rows: Sequence[str], columns: Sequence[str], *, left: float, top: float) -> str:
    down = [
        f'<text class="row" x="{left - 6:.0f}" y="{top + (at + 0.5) * _CELL + 4.5:.1f}" '
        f'text-anchor="end">{_label(piece)}</text>'
        for at, piece in enumerate(rows)
    ]
    across: list[str] = []
    for at, piece in enumerate(columns):
        place = f"{left + (at + 0.5) * _CELL + 3:.1f} {top - 6:.1f}"
        across.append(
            f'<text class="column" transform="translate({place}) rotate(-60)">'
            f"{_label(piece)}</text>"
        )
    return "\n".join([*down, *across])


def _short(piece: str) -> str:
    return piece if len(piece) <= _LONGEST else f"{piece[: _LONGEST - 1]}…"


def _label(piece: str) -> str:
    """A piece, its mark for a space fainter than its letters."""
    shown = escape(_short(piece))
    return f'<tspan class="soft">▁</tspan>{shown[1:]}' if shown.startswith("▁") else shown
