"""Nothing that is loaded can run code: no unpickler and no evaluator stands in the source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import transduce

SOURCE = Path(transduce.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "code"}
HARMLESS = {"pickle.UnpicklingError"}
"""An error's name."""
YAML = {"yaml.parse", "yaml.safe_dump", "yaml.SafeLoader", "yaml.ScalarNode"}
"""Parse events and write; none constructs objects."""
CALLS = {"eval", "exec", "compile", "__import__"}
IMPORTER = "export/marian_files.py"


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call by the last part of its name, and by "module.name" where it has one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func), node


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_file_of_the_source_unpickles_and_evaluates_nothing(file: Path):
    tree, name = ast.parse(file.read_text(encoding="utf-8")), file.relative_to(SOURCE).as_posix()

    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    harmless = {name.partition(".")[0] for name in HARMLESS & used}
    assert not MODULES & set(imports(tree)) - harmless
    assert not {name for name in used - HARMLESS if name.partition(".")[0] in harmless}
    for called, node in calls(tree):
        assert called not in CALLS, f"line {node.lineno}"
        keywords = {item.arg: ast.unparse(item.value) for item in node.keywords}
        if called.startswith("yaml."):
            assert called in YAML
            assert keywords.get("Loader", "yaml.SafeLoader") == "yaml.SafeLoader"
        if called == "torch.load":
            assert (name, keywords.get("weights_only")) == (IMPORTER, "True")
        if called in ("np.load", "numpy.load"):
            assert keywords.get("allow_pickle") == "False"
        if called in ("torch.jit.load", "torch.package.PackageImporter"):
            pytest.fail(f"line {node.lineno}: {called} can run what it loads")


def test_the_importer_is_the_one_place_that_reads_a_pickle_and_it_is_looked_at():
    tree = ast.parse((SOURCE / IMPORTER).read_text(encoding="utf-8"))

    assert [name for name, _ in calls(tree) if name == "torch.load"] == ["torch.load"]
