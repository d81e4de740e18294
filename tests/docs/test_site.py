"""The built site: nothing in it comes from another host, and nothing in it leads nowhere.

`make docs` builds it and then runs this; `make test` passes it over where it is not built.
"""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.docs.blocks import ROOT

SITE = ROOT / "docs" / "_build" / "html"
_LOADS = {"img": "src", "script": "src", "source": "src", "iframe": "src", "use": "href"}
_RELATIONS = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "manifest"}

pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").is_file(), reason="the site is not built: make docs"
)


class Page(HTMLParser):
    """What a page loads, where it leads, and the places in it that can be led to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.loads: set[str] = set()
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        result = {name: value or "" for name, value in attrs}
        self.ids |= {result["id"]} if "id" in result else set()
        if tag in _LOADS and result.get(_LOADS[tag]):
            self.loads.add(result[_LOADS[tag]])
        if tag == "link" and _RELATIONS & set(result.get("rel", "").split()):
            self.loads.add(result["href"])
        if tag == "a" and "href" in result:
            self.links.add(result["href"])


@cache
def page(file: Path) -> Page:
    return Page(file)


def pages() -> list[Path]:
    return sorted(SITE.rglob("*.html"))


def test_no_page_loads_anything_from_another_host():
    loads = {load for file in pages() for load in page(file).loads}

    assert len(loads) > 5
    assert [load for load in loads if urlsplit(load).netloc] == []


def test_no_style_loads_anything_from_another_host():
    styles = [path.read_text() for path in SITE.rglob("*.css")]

    assert not [
        item for style in styles for item in re.findall(r"(?:@import|url\()[^;)]*//", style)
    ]


def test_every_link_within_leads_to_a_file_and_a_place_in_it():
    lost: list[str] = []
    for file in pages():
        for link in page(file).links:
            parts = urlsplit(link)
            # A fragment of the explorer is a query, which tests/docs/test_explorer.py checks.
            if parts.scheme or parts.netloc or parts.path.endswith("live.html"):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            place = unquote(parts.fragment)
            if not target.is_file() or (
                place and target.suffix == ".html" and place not in page(target).ids
            ):
                lost.append(f"{file.relative_to(SITE)}: {link}")

    assert lost == []


def test_no_page_shows_an_equation_as_tex():
    shown = [file for file in pages() if "paper/" in str(file)]
    text = "".join(file.read_text() for file in shown)

    assert text.count("<math") > 30
    assert r"\frac" not in text


def test_every_plot_says_what_was_found_and_from_which_record():
    text = " ".join((SITE / "paper" / "attention.html").read_text().split())

    assert "one head has both right in 12 %" in text
    assert "median loss of 5 seeds" in text
    assert text.count("Record:") >= 3


def test_no_page_calls_a_result_not_measured_yet():
    assert [file.name for file in pages() if "Not measured yet" in file.read_text()] == []


def test_no_heading_or_title_shows_markup():
    shown = [
        re.sub(r"<[^>]+>", "", text)
        for file in (SITE / "paper").glob("*.html")
        for text in re.findall(r"<(?:h\d|strong)[^>]*>(.*?)</", file.read_text(), re.S)
    ]

    assert any("above n*" in text for text in shown)
    assert [text for text in shown if "**" in text] == []


def test_every_plot_has_its_words_and_a_dark_twin():
    for file in (SITE / "paper").glob("*.html"):
        images = re.findall(r"<img [^>]*>", file.read_text())
        plots = [image for image in images if "only-" in image]

        assert all(re.search(r'alt="[^"]{10,}"', image) for image in plots)
        assert sum("only-dark" in plot for plot in plots) == sum(
            "only-light" in plot for plot in plots
        )
