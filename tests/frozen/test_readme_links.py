"""The README's links work on the package index too: absolute, and to files that exist."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
URLS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
BASE, SITE = URLS["Repository"], URLS["Documentation"]
LINKS = sorted(set(re.findall(r"\]\(([^()\s]+)\)", README)))


@pytest.mark.parametrize("link", LINKS)
def test_a_link_is_absolute_and_its_file_exists(link: str):
    """The branch `plain` has the files of docs/ (tests/docs/test_plain.py)."""
    if not link.startswith(BASE):
        assert link.startswith(("https://arxiv.org/", SITE))
        return
    path = re.sub("^/tree/plain$", "/tree/plain/", link.removeprefix(BASE))
    match = re.fullmatch(r"/(?:blob|tree|raw)/(main|plain)/([^#]*)(?:#.*)?", path)

    assert match, f"not a link to a file of {BASE}"
    assert (ROOT / ("docs" if match[1] == "plain" else "") / match[2]).exists()


def test_the_readme_is_short():
    assert README.count("\n") <= 150
