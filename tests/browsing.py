"""Playwright's `expect`, patient; None without Playwright, of which the browser's fixture tells."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

try:
    from playwright.sync_api import expect
except ImportError:
    expect = None
else:
    expect.set_options(timeout=15_000)


def translate_in(page: "Page", text: str) -> str:
    """Enter a text into an exported page and return the translation."""
    assert expect is not None
    state = page.locator("#state")
    page.locator("#q").fill("")
    expect(state).to_have_text("")
    page.locator("#q").fill(text)
    expect(state).to_contain_text("on this device")
    return page.locator("#output").inner_text()
