"""The tree in the README is the tree: every file has its line, and every line its file."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^(?P<indent>(?:│   |    )*)(?:├── |└── )(?P<name>\S+)(?P<about> .*)?$")


def tree_of(readme: str) -> dict[str, str]:
    """Path → what the README says about it, from the block that starts with `src/transduce/`."""
    lines = readme.partition("\nsrc/transduce/\n")[2].partition("```")[0].strip("\n").split("\n")
    said: dict[str, str] = {}
    above: list[str] = []
    for line in lines:
        found = LINE.match(line)
        assert found, f"not a line of the tree: {line!r}"
        above = [*above[: len(found["indent"]) // 4], found["name"]]
        said["".join(above)] = (found["about"] or "").strip()
    return said


def tree_on_disk() -> set[str]:
    """Folders with a slash behind; the empty `__init__.py` of a room goes without saying."""
    package = ROOT / "src" / "transduce"
    files = {str(path.relative_to(package)) for path in package.rglob("*.py")}
    files = {name for name in files if not name.endswith("/__init__.py")}
    return files | {f"{path.parent.relative_to(package)}/" for path in package.glob("*/*.*")}


def test_the_readme_shows_every_file():
    shown = tree_of((ROOT / "README.md").read_text())
    held = {name for name in tree_on_disk() if "__pycache__" not in name}

    assert held - shown.keys() == set()
    assert shown.keys() - held == set()


def test_the_readme_says_what_every_file_is():
    shown = tree_of((ROOT / "README.md").read_text())

    assert [name for name, about in shown.items() if not about] == []
