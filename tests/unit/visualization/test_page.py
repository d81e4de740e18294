"""A page is one sound file: nothing from elsewhere, and no text that turns into markup."""

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from transduce.visualization.page import Section, page, table

NASTY = "<b>&\" 'x'"
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Sound(HTMLParser):
    """Knows the elements that are open and fails where one is closed that is not the innermost."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(markup: str) -> Sound:
    sound = Sound()
    sound.feed(markup)
    sound.close()
    assert sound.open == []
    return sound


def example() -> str:
    sections = [Section(f"{NASTY} {number}", "<p>said</p>", NASTY) for number in range(5)]
    return page(NASTY, sections, lead=NASTY)


def test_every_element_of_a_page_is_closed():
    parsed(example())


def test_titles_and_leads_stay_text():
    assert parsed(example()).text.count(NASTY) == 2 + 1 + 5 * 3
    assert "<b>" not in example()


def test_a_page_names_no_other_host():
    assert re.findall(r"https?:|//\w|@import|url\(", example()) == []


def test_a_page_forbids_the_browser_to_fetch_anything():
    assert "default-src 'none'" in example()


def test_a_page_has_colours_for_a_dark_scheme():
    assert "color-scheme: light dark" in example()
    assert "light-dark(" in example()


def test_a_page_uses_no_colour_that_is_not_defined():
    shown = example()
    used = set(re.findall(r"var\((--[\w-]+)\)", shown))

    set_later = {"--w", "--columns"}  # by the element, or by the script
    assert used - set_later - set(re.findall(r"(--[\w-]+):", shown)) == set()


def test_a_long_page_begins_with_links_to_its_sections():
    assert re.findall(r'href="#([^"]+)"', example()) == re.findall(r'h2 id="([^"]+)"', example())


def test_a_short_page_has_no_links():
    assert "<nav" not in page("short", [Section("one", "<p>said</p>")])


def test_cells_and_headers_of_a_table_stay_text():
    found = table([NASTY, "b"], [[NASTY, "1"]])

    assert parsed(found).text.count(NASTY) == 2


def test_the_columns_of_numbers_are_marked():
    found = table(["name", "value"], [["a", "1.0"], ["b", "2.0"]], numbers=[1])

    assert re.findall(r'class="number">([^<]*)<', found) == ["value", "1.0", "2.0"]


def test_a_row_with_too_few_cells_is_a_bug():
    with pytest.raises(AssertionError, match="a cell for every header"):
        table(["a", "b"], [["1"]])


def test_pages_and_pictures_need_no_torch():
    code = (
        "import sys, transduce.visualization.page, transduce.visualization.chart;"
        "import transduce.visualization.attention_view;"
        "sys.exit('torch' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
