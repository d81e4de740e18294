"""The page at `/`: plain files beside this one and the attention view's, nothing from elsewhere.

`index.html` is answered at `/`, every other file at `/page/<name>`, all with `POLICY`.
"""

from pathlib import Path
from typing import Final, NamedTuple

from transduce import visualization as view

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""For the header Content-Security-Policy: no inline script or style, no other host."""

INDEX: Final = "index.html"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


class PageFile(NamedTuple):
    """A file of the page."""

    name: str
    content_type: str
    content: bytes


def _file(folder: Path, name: str) -> PageFile:
    return PageFile(name, _TYPES[Path(name).suffix], (folder / name).read_bytes())


def _files() -> dict[str, PageFile]:
    here, shared = Path(__file__).parent, Path(view.__file__).parent
    own = (INDEX, "page.css", "theme.js", "page.js", "ask.js", "words.js", "inside.js")
    lent = ("colours.css", "attention.css", "look.js", "draw.js", "attention.js")
    found = [_file(here, name) for name in own] + [_file(shared, name) for name in lent]
    return {one.name: one for one in found}


FILES: Final = _files()
"""By name; read once, when this package is imported."""
