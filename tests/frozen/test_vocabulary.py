"""The field's words: names say what a thing is; docs use standard terms."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "transduce"
BENCHMARKS = ROOT / "benchmarks"
TESTS = ROOT / "tests"
IDIOSYNCRATIC = frozenset(
    [
        "one",
        "found",
        "said",
        "at",
        "each",
        "ours",
        "theirs",
        "whole",
        "here",
        "asked",
        "told",
        "there",
        "beside",
    ]
)
"""Everyday words that were names and say nothing about what they name."""
SHARED_CLASS_NAMES: frozenset[str] = frozenset()
"""Names that more than one public class has. To be emptied, never extended."""
TERMS = (
    *("atomic", "batch size", "beam search", "byte-pair encoding", "checkpoint", "data parallel"),
    *("deterministic", "early stopping", "fine-tuning", "gradient accumulation", "hyperparameter"),
    *("inference", "knowledge distillation", "kv cache", "label smoothing", "learning rate"),
    *("length penalty", "log-probability", "mixed precision", "nucleus sampling", "reproducible"),
    *("teacher forcing", "warmup", "weight tying"),
)
"""What users search for: each has to occur in the prose of the README or the docs."""


def package(path: Path) -> str:
    if not path.is_relative_to(SOURCE):
        return path.relative_to(ROOT).parts[0]
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def trees(folder: Path = SOURCE) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py"))}


def assigned_names(tree: ast.AST) -> list[str]:
    """Names of variables, attributes, parameters, functions and classes, one per assignment."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.append(node.attr)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
    return names


def idiosyncratic_counts() -> Counter[str]:
    counts: Counter[str] = Counter()
    for path, tree in {**trees(), **trees(BENCHMARKS), **trees(TESTS)}.items():
        counts[package(path)] += sum(
            name.strip("_") in IDIOSYNCRATIC for name in assigned_names(tree)
        )
    return +counts


@cache
def prose() -> str:
    """README and docs without code blocks, lower-case, with white space folded."""
    pages = [ROOT / "README.md"]
    pages += [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
    text = "\n".join(page.read_text() for page in pages)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return " ".join(text.lower().split())


def test_no_name_is_idiosyncratic():
    assert idiosyncratic_counts() == {}, f"rename what is called {', '.join(sorted(IDIOSYNCRATIC))}"


def test_a_class_name_names_one_class():
    names = Counter(
        node.name
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    shared = {name for name, count in names.items() if count > 1}

    assert shared == SHARED_CLASS_NAMES, "one class name, one class"


@pytest.mark.parametrize("term", TERMS)
def test_the_docs_use_the_standard_term(term: str):
    assert term in prose()
