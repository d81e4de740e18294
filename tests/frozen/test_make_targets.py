"""Every make target installs the extras that the tests it runs import."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = {
    "argostranslate": "argostranslate",
    "lingua-language-detector": "lingua",
    "prometheus-client": "prometheus_client",
    "python-multipart": "python_multipart",
    "deep-translator": "deep_translator",
}
"""Distributions whose module has another name (else "-" becomes "_")."""
OWN_TARGET = {
    "interop": "test-interop",
    "clients": "test-clients",
    "cluster": "test-cluster",
    "docs": "docs",
}
"""Folders of tests that only their own target must install everything for."""
TARGETS = ("test", "test-long", "test-interop", "test-clients", "test-cluster", "docs")


def optional_modules() -> dict[str, set[str]]:
    """Importable module -> the extras that provide it (required dependencies are left out)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    providers: dict[str, set[str]] = {}
    for extra, requirements in project["optional-dependencies"].items():
        for requirement in requirements:
            name = re.split(r"[<>=!~;\[ ]", requirement)[0]
            module = MODULES.get(name, name.replace("-", "_"))
            providers.setdefault(module, set()).add(extra)
    return providers


def installed_extras(makefile: str) -> dict[str, set[str]]:
    """Target -> extras that its stamps install, prerequisites included."""
    needs: dict[str, set[str]] = {}
    extras: dict[str, set[str]] = {}
    target = ""
    for line in makefile.splitlines():
        rule = re.match(r"(?:\$\(VENV\)/)?([\w.-]+):(?!=) *(.*)$", line)
        if rule:
            target = rule[1]
            needs[target] = set(re.findall(r"\$\(VENV\)/(\.\w+)", rule[2]))
        install = re.search(r'\$\(INSTALL\).*"\.\[([\w,-]+)\]"', line)
        if install and line.startswith("\t"):
            extras.setdefault(target, set()).update(install[1].split(","))

    def total(name: str) -> set[str]:
        return extras.get(name, set()).union(*(total(stamp) for stamp in needs.get(name, ())))

    return {name: total(name) for name in needs}


@cache
def imports(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Modules that a file imports anywhere, and those it passes to pytest.importorskip."""
    imported: set[str] = set()
    skipped_without: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            # A name imported from a package may be a module of it.
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.importorskip":
            skipped_without |= {
                str(name.value) for name in node.args[:1] if isinstance(name, ast.Constant)
            }
    return frozenset(imported), frozenset(skipped_without)


@cache
def module_files() -> dict[str, Path]:
    """Dotted name -> file, for everything that tests import from this repository."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    named: dict[str, Path] = {}
    for path in files:
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts[1:] if parts[0] == "src" else parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def folders(target: str) -> list[Path]:
    """Folders of tests that the target must install everything for."""
    own = [name for name, owner in OWN_TARGET.items() if owner == target]
    if own:
        return [ROOT / "tests" / name for name in own]
    children = (ROOT / "tests").iterdir()
    return [path for path in children if path.is_dir() and path.name not in OWN_TARGET]


def required(target: str) -> dict[str, str]:
    """Optional module -> a file that imports it, reached from the target's tests.

    Modules that src looks up by `find_spec` or `import_module` have a fallback and do not count.
    """
    pending = [path for folder in folders(target) for path in folder.rglob("*.py")]
    reached: set[Path] = set()
    modules: dict[str, str] = {}
    while pending:
        path = pending.pop()
        if path in reached:
            continue
        reached.add(path)
        imported, skipped_without = imports(path)
        for name in imported | skipped_without:
            modules.setdefault(name.split(".")[0], str(path.relative_to(ROOT)))
            if name in module_files():
                pending.append(module_files()[name])
    return modules


def lacking(target: str, makefile: str) -> list[str]:
    """Imports of the target's tests that its extras do not provide, as "module (file)"."""
    extras = installed_extras(makefile)[target]
    providers = optional_modules()
    return sorted(
        f"{module} ({path})"
        for module, path in required(target).items()
        if module in providers and not providers[module] & extras
    )


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_installs_what_its_tests_import(target: str):
    assert lacking(target, (ROOT / "Makefile").read_text()) == []


def test_a_missing_extra_is_noticed():
    makefile = (ROOT / "Makefile").read_text().replace(",detect", "")

    assert any(line.startswith("lingua (") for line in lacking("test", makefile))
