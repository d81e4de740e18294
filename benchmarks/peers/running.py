"""Run a program in a process of its own: what it prints, and how large it grew."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from peers.environments import why

PROGRAMS = Path(__file__).parent
"""Where the programs are that measure one system each."""

LIMIT = 900.0
"""Seconds after which a process is given up."""


class Failed(Exception):
    """Why a program gave no result, in one line."""


def arrange(threads: int) -> None:
    """Take away what a shell may have set about memory and threads, for all that is run.

    Args:
        threads: of each process; 0 leaves it to torch, which takes all cores.
    """
    for name in list(os.environ):
        if name.startswith(("MALLOC_", "OMP_", "MKL_", "LD_PRELOAD")):
            del os.environ[name]
    if threads:
        os.environ["OMP_NUM_THREADS"] = str(threads)


def run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[dict[str, float], int]:
    """Run a program; return the JSON that it prints, and the megabytes of its largest process."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=errors,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        with ended(process.pid):
            _, status, usage = os.wait4(process.pid, 0)  # with those that it waited for
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, errors):
            file.seek(0)
        if process.returncode == -signal.SIGKILL:
            raise Failed(f"killed: out of memory, or slower than {LIMIT:.0f} s")
        if process.returncode:
            raise Failed(f"does not run: {why(errors.read())}")
        return json.loads(out.read().splitlines()[-1]), round(usage.ru_maxrss / 1024)


def with_ours(program: str, *words: str) -> dict[str, float]:
    """Run one of `PROGRAMS` with our own Python; it has to run."""
    return run([sys.executable, str(PROGRAMS / program), *words], {})[0]


@contextlib.contextmanager
def ended(group: int) -> Iterator[None]:
    """Kill a group of processes when it takes too long, and when this one is interrupted."""

    def kill(*_: object) -> None:
        os.killpg(group, signal.SIGKILL)

    before = signal.signal(signal.SIGALRM, kill)
    signal.alarm(round(LIMIT))
    try:
        yield
    except BaseException:
        kill()
        raise
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
