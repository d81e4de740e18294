"""Self-contained HTML pages: one file that loads nothing from any other host.

The style sheets beside this file are embedded in every page. A page follows the reader's light or
dark scheme and any width; wide content scrolls in its own box.
"""

import html
import unicodedata
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

STYLES = ("colours.css", "page.css", "attention.css")
"""The embedded style sheets."""

_CONTENTS_SECTIONS = 4  # a page with this many sections begins with links to them
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Content-Security-Policy: nothing can be fetched, whatever text is embedded."""


class Section(NamedTuple):
    """A part of a page with a heading."""

    title: str
    html: str
    """Content as markup: from `table`, a chart, or escaped text."""
    lead: str = ""
    """Plain text below the heading."""


def page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """Assemble a complete HTML file.

    Args:
        title: plain text.
        sections: from top to bottom.
        lead: plain text below the title.
    """
    folder = Path(__file__).parent
    style = "\n".join((folder / name).read_text(encoding="utf-8") for name in STYLES)
    contents = ""
    if len(sections) >= _CONTENTS_SECTIONS:
        links = "".join(
            f'<li><a href="#section-{number}">{escape(section.title)}</a></li>'
            for number, section in enumerate(sections, start=1)
        )
        contents = f'<nav aria-label="Contents"><ol>{links}</ol></nav>\n'
    body = "\n".join(
        f'<section aria-labelledby="section-{number}">\n'
        f'<h2 id="section-{number}">{escape(section.title)}</h2>\n'
        f"{_lead(section.lead)}{section.html}</section>"
        for number, section in enumerate(sections, start=1)
    )
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
    """Make a table of plain text in a box that scrolls sideways.

    Args:
        headers: one per column.
        rows: their cells, as many as there are headers.
        numbers: indices of numeric columns, which are right-aligned.
    """
    assert all(len(row) == len(headers) for row in rows), "a cell for every header"
    classes = [' class="number"' if column in numbers else "" for column in range(len(headers))]

    def cells(row: Sequence[str], tag: str) -> str:
        pairs = zip(classes, row, strict=True)
        return "".join(f"<{tag}{css_class}>{escape(cell)}</{tag}>" for css_class, cell in pairs)

    head = f"<thead><tr>{cells(headers, 'th')}</tr></thead>"
    body = "\n".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return scroll_box(f"<table>\n{head}\n<tbody>\n{body}\n</tbody>\n</table>", label="Table")


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


def _lead(text: str) -> str:
    return f'<p class="lead">{escape(text)}</p>\n' if text else ""
