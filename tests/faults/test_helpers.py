"""The copies that search beside `transduce translate` say what it would, and never outlive it."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.conftest import Run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux")


def lines(count: int) -> str:
    chance = random.Random(5)
    return "".join(
        " ".join(str(chance.randrange(5)) for _ in range(chance.randint(6, 9))) + "\n"
        for _ in range(count)
    )


def started(run: Run, text: str, folder: Path, *, threads: int) -> subprocess.Popen[bytes]:
    """Translate with so many threads, apart: a job of a script would not hear SIGINT."""
    (folder / "in").write_text(text)
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "transduce", "translate", run.folder, "--engine", "torch"),
            *("-i", folder / "in", "-o", folder / f"out-{threads}"),
        ],
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def children(pid: int) -> list[int]:
    """Those that a process has, as the system counts them."""
    result: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == pid and words[0] != "Z":
            result.append(int(stat.parent.name))
    return result


def until(message: str, seconds: float, what: Callable[[], object]) -> None:
    """Wait for something to be true."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, message
        time.sleep(0.05)


def test_a_text_is_translated_alike_with_and_without_copies(run: Run, tmp_path: Path):
    for threads in (1, 2):
        ended = started(run, lines(300), tmp_path, threads=threads)
        _, error = ended.communicate(timeout=120)
        assert ended.returncode == 0, error

    assert (tmp_path / "out-2").read_bytes() == (tmp_path / "out-1").read_bytes()


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_copies_end_with_the_program_however_it_ends(
    sent: signal.Signals, code: int, run: Run, tmp_path: Path
):
    program = started(run, lines(60_000), tmp_path, threads=2)
    until("no copy was made", 60, lambda: children(program.pid))
    copies = children(program.pid)

    os.kill(program.pid, sent)
    program.communicate(timeout=60)

    assert program.returncode == code
    until("a copy lives on", 30, lambda: not any(Path(f"/proc/{item}").exists() for item in copies))
    assert not (tmp_path / "out-2").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_a_fork_ends_the_program(number: signal.Signals):
    """Python drops an exception that a handler raises while a fork runs its hooks."""
    code = f"""
import os, signal, sys
from transduce.inference.engines.parallel import WorkerPool

signal.signal({number}, lambda *_: sys.exit(3))
os.register_at_fork(after_in_parent=lambda: signal.raise_signal({number}))
WorkerPool(abs, 1)
"""
    program = subprocess.run([sys.executable, "-c", code], timeout=60)

    assert program.returncode == 3
