"""The system's Chromium, for tests of pages.

Without Playwright or a Chromium these tests are skipped, and say so; TRANSDUCE_BROWSER=required
makes that a failure.
"""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PLAIN_HOST = "plain.example"
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def lacking(what: str) -> NoReturn:
    """Skip the test, or fail where browsers are required."""
    if os.environ.get("TRANSDUCE_BROWSER") == "required":
        pytest.fail(f"no browser test: {what}")
    pytest.skip(f"no browser test: {what}")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """The system's Chromium, without a window.

    Not longer than a file needs it: as long as Playwright runs, no test can run a loop of its own.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("playwright is not installed")
    result = next(filter(None, map(shutil.which, _NAMES)), None)
    if result is None:
        lacking(f"none of {', '.join(_NAMES)} is on PATH")
    with sync_playwright() as playwright:
        # This machine under a name that browsers do not take for a secure one.
        rules = f"--host-resolver-rules=MAP {PLAIN_HOST} 127.0.0.1"
        started = playwright.chromium.launch(executable_path=result, args=["--no-sandbox", rules])
        yield started
        started.close()
