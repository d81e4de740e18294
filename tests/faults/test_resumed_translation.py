"""`translate -o` of a large file that is killed goes on, and gives the bytes of one undisturbed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import Transduce, refuses
from tests.faults.damaging import tiny_bundle

OPTIONS = ("--beam", "1", "--engine", "torch", "--as-is", "--max-length", "3")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tiny_bundle().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    lines = (f"a dog {'ab'[number % 2]} {number % 7}\n" for number in range(1300))
    (tmp_path / "in.txt").write_text("".join(lines))
    return tmp_path / "in.txt"


def killed(model: Path, text: Path, out: Path) -> None:
    """Start a translation and kill it after its first commit."""
    with text.open("rb") as stdin:  # `-` and a file name are one input
        process = subprocess.Popen(
            [
                *(sys.executable, "-c"),
                "import sys, time, transduce.cli.translate as t, transduce.io.resumable as r\n"
                "t._CHUNK, commit = 500, r.LineOutput.commit\n"
                "def slow(*given): commit(*given); time.sleep(9 * (given[0].done >= 1000))\n"
                "r.LineOutput.commit = slow\n"
                "sys.exit(t.app(sys.argv[1:]))",
                *("translate", str(model), "-o", str(out), *OPTIONS),
            ],
            stdin=stdin,
            stderr=subprocess.PIPE,
        )
        progress, end = out.with_name(f".{out.name}.progress"), time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            if progress.exists() and '"lines": 1000' in progress.read_text():
                break
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL


def test_a_killed_translation_goes_on(
    model: Path, text: Path, tmp_path: Path, transduce: Transduce
):
    transduce("translate", model, "-i", text, "-o", tmp_path / "undisturbed", *OPTIONS)
    out = tmp_path / "out"
    killed(model, text, out)
    assert not out.exists()

    refuses(
        transduce("translate", model, "-i", text, "-o", out, *OPTIONS, "--alpha", 1),
        "out was begun with another alpha",
        ".out.progress",
    )
    result = transduce("translate", model, "-i", text, "-o", out, *OPTIONS)

    assert (result.code, result.out) == (0, "")
    assert f"continuing {out} at line 1,001" in result.err
    assert out.read_bytes() == (tmp_path / "undisturbed").read_bytes()
    assert not list(tmp_path.glob(".*"))
