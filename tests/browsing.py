"""Playwright's `expect`, patient; None without Playwright, of which the browser's fixture tells."""

try:
    from playwright.sync_api import expect
except ImportError:
    expect = None
else:
    expect.set_options(timeout=15_000)
