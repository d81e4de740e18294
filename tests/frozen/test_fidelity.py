"""docs/fidelity.md claims nothing that is not there: each file, name and test in it exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "fidelity.md"


def claims() -> list[str]:
    """Everything in the page's backticks that is a file of ours, with or without a name in it."""
    quoted = re.findall(r"`([^`\n]+)`", PAGE.read_text(encoding="utf-8"))
    return sorted({item for item in quoted if re.fullmatch(r"[\w/]+\.py(::[\w.]+)?", item)})


@cache
def names(file: Path) -> set[str]:
    """The functions, classes, methods, fields and constants of a file; members as Class.member."""
    result: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        result |= named(node)
        if isinstance(node, ast.ClassDef):
            result |= {f"{node.name}.{member}" for part in node.body for member in named(part)}
    return result


def named(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return {target.id for target in targets if isinstance(target, ast.Name)}


def test_the_page_claims_many_things():
    assert len(claims()) > 50


@pytest.mark.parametrize("claim", claims())
def test_what_the_page_names_exists(claim: str):
    path, _, name = claim.partition("::")
    file = ROOT / path if path.startswith("tests/") else ROOT / "src" / "transduce" / path

    assert file.is_file()
    assert not name or name in names(file)
