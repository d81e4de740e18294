"""Compiling the kernels, and going without them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from transduce.io import compiler
from transduce.model.cpp_library import load_kernels

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are compiled on Linux")
needs_compiler = pytest.mark.skipif(
    load_kernels().library is None, reason=f"no compiled kernels: {load_kernels().reason}"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache, of the user and of the process."""
    monkeypatch.setenv("TRANSDUCE_CACHE", str(tmp_path / "cache"))
    load_kernels.cache_clear()
    yield tmp_path / "cache" / "kernels"
    load_kernels.cache_clear()


@needs_compiler
def test_a_library_is_compiled_once(cache: Path, monkeypatch: pytest.MonkeyPatch):
    assert load_kernels().library is not None
    (kept,) = cache.iterdir()
    assert kept.suffix == ".so"

    load_kernels.cache_clear()
    monkeypatch.setattr(compiler, "_compile", None)  # would fail
    assert load_kernels().library is not None


@needs_compiler
def test_a_folder_that_others_can_write_to_is_not_used(cache: Path):
    load_kernels()
    kept = damage(cache)
    cache.chmod(0o777)
    load_kernels.cache_clear()

    assert load_kernels().library is not None
    assert kept.read_bytes() == b"not a library"


@needs_compiler
def test_a_damaged_library_is_compiled_anew(cache: Path):
    load_kernels()
    kept = damage(cache)
    load_kernels.cache_clear()

    assert load_kernels().library is not None
    assert kept.read_bytes() != b"not a library"


@needs_compiler
def test_a_cache_that_cannot_be_written_does_without(tmp_path: Path):
    (tmp_path / "cache").write_text("a file")

    assert load_kernels().library is not None


def test_without_a_compiler_there_is_a_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")

    assert load_kernels() == (None, "g++ is not installed")


def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\n[ $1 = --version ] || { echo out of luck >&2; exit 1; }\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    assert load_kernels() == (None, "g++ could not compile it (out of luck)")


@needs_compiler
def test_kernels_share_the_threads_of_torch():
    """Two OpenMP runtimes in a process would compete for the cores."""
    code = (
        "from transduce.model.cpp_library import load_kernels; load_kernels();"
        "maps = open('/proc/self/maps').read().split('\\n');"
        "print(len({line.split()[-1] for line in maps if 'gomp' in line or 'iomp' in line}))"
    )
    output = subprocess.check_output([sys.executable, "-c", code], text=True)

    assert output == "1\n"


def damage(cache: Path) -> Path:
    """Replace the library in the cache; the old file is loaded in this process."""
    (kept,) = cache.iterdir()
    damaged = kept.with_name("damaged")
    damaged.write_bytes(b"not a library")
    return damaged.replace(kept)
