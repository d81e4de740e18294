"""A page: one HTML file that holds all it needs and asks no other host for anything.

Its style lies beside this file and is written into every page. It follows the reader's
light or dark scheme and any width; what is too wide scrolls in its own box.
"""

import html
import unicodedata
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

_CONTENTS = 4
"""From so many sections on, a page begins with links to them."""

STYLES = ("colours.css", "page.css", "attention.css")
"""The files beside this one that a page's looks are in."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Nothing is fetched, whatever comes to stand in a page."""


class Section(NamedTuple):
    """A part of a page under its own heading."""

    title: str
    html: str
    """Its content, as markup: from `table`, from a chart, or escaped text."""
    lead: str = ""
    """Plain text under the heading."""


def page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """Put a whole HTML file together.

    Args:
        title: of the page, plain text.
        sections: from top to bottom.
        lead: plain text under the title.
    """
    folder = Path(__file__).parent
    style = "\n".join((folder / name).read_text(encoding="utf-8") for name in STYLES)
    links = [
        f'<li><a href="#section-{number}">{escape(section.title)}</a></li>'
        for number, section in enumerate(sections, start=1)
    ]
    contents = ""
    if len(sections) >= _CONTENTS:
        contents = f'<nav aria-label="Contents"><ol>{"".join(links)}</ol></nav>\n'
    body = "\n".join(_section(number, one) for number, one in enumerate(sections, start=1))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<main>
<header>
<h1>{escape(title)}</h1>
{_lead(lead)}</header>
{contents}{body}
</main>
</body>
</html>
"""


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[int] = ()
) -> str:
    """A table of plain text, in a box in which it can scroll sideways.

    Args:
        headers: one a column.
        rows: their cells, as many as there are headers.
        numbers: columns, counted from 0, that are set flush right, in digits of one width.
    """
    assert all(len(row) == len(headers) for row in rows), "a cell for every header"

    kinds = [' class="number"' if column in numbers else "" for column in range(len(headers))]

    def cells(row: Sequence[str], tag: str) -> str:
        pairs = zip(kinds, row, strict=True)
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in pairs)

    head = f"<thead><tr>{cells(headers, 'th')}</tr></thead>"
    body = "\n".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return scrolling(f"<table>\n{head}\n<tbody>\n{body}\n</tbody>\n</table>", label="Table")


def scrolling(content: str, *, label: str) -> str:
    """Put markup into a box of its own in which it can scroll, by keyboard too."""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">\n'
        f"{content}\n</div>\n"
    )


def escape(text: str) -> str:
    """Make plain text safe in markup and in attributes.

    >>> escape('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(text, quote=True)


def text_width(text: str) -> float:
    """Estimate the pixels that text takes in a drawing, on the generous side.

    The reader's font is not known, and room has to be left before the text is drawn.

    >>> text_width("piece"), text_width("注意")
    (37.5, 30.0)
    """
    return sum(15.0 if unicodedata.east_asian_width(one) in "WF" else 7.5 for one in text)


def _section(number: int, section: Section) -> str:
    name = f"section-{number}"
    return (
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(section.title)}</h2>\n'
        f"{_lead(section.lead)}{section.html}</section>"
    )


def _lead(text: str) -> str:
    return f'<p class="lead">{escape(text)}</p>\n' if text else ""
