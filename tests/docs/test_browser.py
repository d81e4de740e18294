"""The built site from a plain static server, in Chromium, as wide as a telephone."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from tests.chromium import browser as browser  # a fixture
from tests.docs.test_site import SITE

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").is_file(), reason="the site is not built: make docs"
)
PHONE = {"width": 390, "height": 844}
_CHECKS = """() => ({
  wider: document.documentElement.scrollWidth - window.innerWidth,
  broken: [...document.images].filter(i => i.offsetParent && i.complete && !i.naturalWidth).length,
  flat: [...document.querySelectorAll("math")].filter(
    m => m.offsetParent && !m.getBoundingClientRect().height).length,
  headings: document.querySelectorAll("h1").length,
})"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        del args


@pytest.fixture
def site_address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_no_page_is_broken_or_wider_than_a_telephone(browser: "Browser", site_address: str):
    context = browser.new_context(viewport=PHONE)
    page, failed = context.new_page(), []
    page.on("response", lambda answer: failed.append(answer.url) if answer.status >= 400 else None)
    result: dict[str, object] = {}
    for file in sorted(SITE.rglob("*.html")):
        name = str(file.relative_to(SITE))
        if "_modules" not in name and name not in ("genindex.html", "search.html"):
            page.goto(f"{site_address}/{name}")
            result[name] = page.evaluate(_CHECKS)
    context.close()

    assert len(result) > 30
    assert failed == []
    sound = {"broken": 0, "flat": 0, "headings": 1}
    for name, checks in result.items():
        assert checks.pop("wider") <= 0, name
        assert checks == sound, name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_plot_has_the_colours_of_its_page(browser: "Browser", site_address: str, scheme: str):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{site_address}/paper/attention-visualised.html")
    shown = page.evaluate(
        "[...document.images].filter(i => i.offsetParent).map(i => i.currentSrc.split('/').pop())"
    )
    context.close()

    assert sorted(shown) == [
        f"{name}{'-dark' * (scheme == 'dark')}.svg"
        for name in ("ablation", "importance", "it", "its", "making", "tasks")
    ]


def test_a_plot_scrolls_on_a_telephone_at_a_legible_size(browser: "Browser", site_address: str):
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    page.goto(f"{site_address}/paper/results.html")
    width, scrolls = page.evaluate("""() => {
      const plot = document.querySelector(".plot");
      const shown = [...plot.querySelectorAll("img")].find(i => i.offsetParent);
      return [shown.getBoundingClientRect().width, getComputedStyle(plot).overflowX];
    }""")
    context.close()

    assert width > 500
    assert scrolls == "auto"
