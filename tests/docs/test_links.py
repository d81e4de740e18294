"""Links of the README and the pages lead somewhere, as the repository's web view shows them."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.docs.blocks import PAGES, ROOT

_LINK = re.compile(
    r"(?<!!)\[(?:[^\[\]]|`[^`]*`|\[[^\]]*\])*\]\(([^()\s]+(?:\([^()]*\))?[^()\s]*)\)"
)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[str]:
    return _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))


@cache
def anchors(page: Path) -> frozenset[str]:
    """What headings are called, as both GitHub and MyST make it of their words."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


EXTERNAL = sorted({link for page in PAGES for link in links(page) if "://" in link})
INTERNAL = sorted({(page, link) for page in PAGES for link in links(page) if "://" not in link})


@pytest.mark.parametrize(
    ("page", "link"), INTERNAL, ids=[f"{page.name}-{link}" for page, link in INTERNAL]
)
def test_a_link_within_leads_to_a_file_and_a_heading(page: Path, link: str):
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page

    assert target.exists()
    assert target.is_relative_to(ROOT)
    assert not anchor or anchor in anchors(target)


@pytest.mark.parametrize("link", EXTERNAL)
def test_a_link_to_elsewhere_is_one(link: str):
    parts = urlsplit(link)

    assert parts.scheme == "https"
    assert "." in parts.netloc
    assert parts.netloc == parts.netloc.lower()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_one_title(page: Path):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)

    assert len(re.findall(r"^# .", text, re.MULTILINE)) == 1
