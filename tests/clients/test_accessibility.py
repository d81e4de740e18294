"""Every page for everyone: axe finds nothing serious, a keyboard suffices, a phone has room."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tests.browsing import expect
from tests.clients.conftest import Open
from tests.conftest import Run, Transduce

if TYPE_CHECKING:
    from playwright.sync_api import Page

Findings = Callable[["Page"], list[str]]
SENTENCE = "a dog reads"
SCREENS = [("light", 1280, 800), ("dark", 390, 844)]


def assert_accessible(page: "Page", findings: Findings) -> None:
    """In light on a desk and in dark on a phone; the page itself must not scroll sideways."""
    for scheme, wide, high in SCREENS:
        page.set_viewport_size({"width": wide, "height": high})
        page.emulate_media(color_scheme=scheme)
        assert findings(page) == [], (scheme, wide)
        assert page.evaluate("document.documentElement.scrollWidth") == wide


def test_the_exported_page_with_its_explorer(
    page_file: Path, open_page: Open, findings: Findings, keep: Callable[["Page", str], None]
):
    page = open_page(page_file.as_uri())
    page.locator("#q").fill(SENTENCE)
    expect(page.locator("#step-search")).to_be_visible()
    page.locator("#explorer-part").select_option("decoder")
    page.locator("#explorer-tokens button").nth(3).click()
    page.locator("#step-search summary").first.click()
    page.locator("#step-weights tr:last-child td").first.click()
    page.locator("#step-weights input").fill("0.5")
    page.keyboard.press("Enter")
    expect(page.locator("#edits li")).to_have_count(1)
    page.get_by_role("button", name="Switch every head off in turn").click()
    expect(page.locator("#ablation tr:has(td)").last).to_be_visible()
    expect(page.locator("#ablation-state")).to_have_text("")
    page.locator("#step-weights tr:last-child td").nth(1).click()
    assert_accessible(page, findings)
    keep(page, "explorer-390-dark")


def test_the_page_of_a_server(open_page: Open, address: str, findings: Findings):
    page = open_page(f"{address}?{urlencode({'source': 'en', 'target': 'de', 'q': SENTENCE})}")
    page.locator(".heat rect").first.wait_for()

    page.locator(".word").first.click()
    assert_accessible(page, findings)


def test_a_file_of_attention(
    run: Run, tmp_path: Path, transduce: Transduce, open_page: Open, findings: Findings
):
    out = tmp_path / "map.html"
    done = transduce("view", run.folder, "1 2 3", "--translation", "3 2 1", "--out", out)
    assert done.code == 0, done.err

    assert_accessible(open_page(out.as_uri()), findings)


def test_a_keyboard_is_enough_for_the_explorer(page_file: Path, open_page: Open):
    page = open_page(page_file.as_uri())
    press, focused = page.keyboard.press, page.locator(":focus")
    page.locator("#q").focus()
    page.keyboard.type(SENTENCE)
    # The whole sentence has been translated and its words, with "none", can be swapped.
    expect(page.locator("#swap-first option")).to_have_count(4)

    tab_to(page, "#tour li:nth-child(4) a")
    press("Enter")
    expect(focused).to_have_attribute("id", "title-weights")
    page.emulate_media(color_scheme="dark")  # every step is drawn again, the title keeps the focus
    page.wait_for_timeout(300)
    expect(focused).to_have_attribute("id", "title-weights")
    press("Tab")
    for key in ("ArrowRight", "ArrowDown", "Enter"):
        press(key)
    page.keyboard.type("0.6")
    press("Enter")
    expect(page.locator("#edits li")).to_contain_text("0.60")
    expect(focused).to_have_text("0.60")
    tab_to(page, "#ablation-start")
    press("Enter")
    expect(page.locator("#ablation-state")).to_have_text("")
    expect(focused).to_have_attribute("id", "ablation-start")
    press("Tab")
    press("Tab")
    expect(focused).to_have_text(re.compile("layer ., head ."))
    tab_to(page, "#explorer-tokens li:nth-child(2) button", key="Shift+Tab")
    press("Space")
    expect(focused).to_have_attribute("aria-pressed", "true")
    tab_to(page, "#swap-first")
    press("ArrowDown")
    tab_to(page, "#swap-second")
    press("End")
    expect(page.locator("#edits li")).to_have_count(0)
    tab_to(page, "#reset")
    press("Enter")
    expect(page.locator("#reset")).to_be_hidden()


def test_heat_maps_follow_the_colour_scheme(page_file: Path, open_page: Open):
    page = open_page(page_file.as_uri())
    page.locator("#q").fill(SENTENCE)
    heat = page.locator("#step-embedding canvas")
    light = heat.evaluate("canvas => canvas.toDataURL()")

    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "(light) => document.querySelector('#step-embedding canvas').toDataURL() !== light",
        arg=light,
    )


def tab_to(page: "Page", selector: str, *, key: str = "Tab") -> None:
    """Press Tab until an element has the focus."""
    for _ in range(80):
        page.keyboard.press(key)
        if page.locator(f"{selector}:focus").count():
            return
    raise AssertionError(f"{selector} cannot be reached")
