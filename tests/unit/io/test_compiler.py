"""C++ of a package is compiled once a processor, and says so."""

import ctypes
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from transduce.cli import main
from transduce.io import compiler
from transduce.io.compiler import LOG, load_compiled

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("g++") is None, reason="needs Linux and g++"
)

SOURCE = 'extern "C" __attribute__((visibility("default"))) int twice(int x) { return 2 * x; }'


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with a source, and an empty cache."""
    folder = tmp_path / "package_with_source"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "twice.cpp").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(compiler, "user_cache", lambda *_, **__: tmp_path / "cache")
    return folder.name


@pytest.fixture
def without_handlers() -> Iterator[None]:
    """The log as it is before a command has run."""
    handlers, level = LOG.handlers[:], LOG.level
    LOG.handlers.clear()
    yield
    LOG.handlers[:] = handlers
    LOG.setLevel(level)


def test_compiling_is_logged_and_happens_once(package: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, LOG.name)

    results = [load_compiled(package, "twice.cpp", {"twice": "i > i"}).library for _ in range(2)]

    assert [library.twice(21) for library in results if library] == [42, 42]
    assert [record.getMessage() for record in caplog.records] == [
        "compiling twice.cpp for this processor: takes seconds, once"
    ]


def test_a_folder_that_may_hold_no_programs_is_named_and_nothing_compiled(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC))
    monkeypatch.setattr(compiler, "_compile", None)  # would fail

    assert load_compiled(package, "twice.cpp", {}) == (
        None,
        f"it cannot be compiled and loaded ({tmp_path / 'cache' / 'kernels'} is mounted with "
        f"noexec: set TRANSDUCE_CACHE to another folder)",
    )


def test_a_library_that_cannot_be_loaded_is_not_the_compilers_fault(
    package: str, monkeypatch: pytest.MonkeyPatch
):
    def fail(path: str) -> None:
        raise OSError("cannot enable executable stack")

    monkeypatch.setattr(ctypes, "CDLL", fail)

    assert load_compiled(package, "twice.cpp", {}) == (
        None,
        "it cannot be compiled and loaded (cannot enable executable stack)",
    )


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.usefixtures("without_handlers")
def test_a_command_says_so_on_a_terminal(
    package: str,
    terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    main(["--version"])
    load_compiled(package, "twice.cpp", {"twice": "i > i"})

    assert ("compiling twice.cpp" in capsys.readouterr().err) == terminal
