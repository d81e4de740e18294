"""The README's links work on the package index too: absolute, and to files that exist."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BASE: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
LINKS = sorted(set(re.findall(r"\]\(([^()\s]+)\)", README)))


@pytest.mark.parametrize("link", LINKS)
def test_a_link_is_absolute_and_its_file_exists(link: str):
    if not link.startswith(BASE):
        assert link.startswith("https://arxiv.org/")
        return
    match = re.fullmatch(r"/(?:blob|tree|raw)/main/([^#]+)(?:#.*)?", link.removeprefix(BASE))

    assert match, f"not a link to a file of {BASE}"
    assert (ROOT / match[1]).exists()


def test_the_readme_is_short():
    assert README.count("\n") <= 150
