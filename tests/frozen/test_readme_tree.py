"""The tree in the README is the tree: every package has its line, and every line its package."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^(?P<indent>(?:│   |    )*)(?:├── |└── )(?P<name>\S+)(?P<about> .*)?$")
DETAILED = {"model", "inference"}
"""Packages whose subpackages have lines of their own."""


def readme_tree() -> dict[str, str]:
    """Path -> description, from the block that starts with `src/transduce/`."""
    readme = (ROOT / "README.md").read_text()
    lines = readme.partition("\nsrc/transduce/\n")[2].partition("```")[0].strip("\n").split("\n")
    described: dict[str, str] = {}
    parents: list[str] = []
    for line in lines:
        match = LINE.match(line)
        assert match, f"not a line of the tree: {line!r}"
        parents = [*parents[: len(match["indent"]) // 4], match["name"]]
        described["".join(parents)] = (match["about"] or "").strip()
    return described


def package_tree() -> set[str]:
    """Packages with a trailing slash, and the modules at the top but for dunder ones."""
    package = ROOT / "src" / "transduce"
    modules = {path.name for path in package.glob("*.py") if not path.name.startswith("__")}
    packages = {path.parent.relative_to(package) for path in package.glob("*/**/__init__.py")}
    top_level = {f"{path}/" for path in packages if len(path.parts) == 1}
    nested = {f"{path}/" for path in packages if len(path.parts) == 2 and path.parts[0] in DETAILED}
    return modules | top_level | nested


def test_the_readme_shows_every_package():
    assert readme_tree().keys() == package_tree()


def test_the_readme_describes_every_package():
    assert [name for name, about in readme_tree().items() if not about] == []
