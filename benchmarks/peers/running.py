"""Run a program in a subprocess; return its output and peak memory."""

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
"""Folder of the programs that measure a system."""

LIMIT = 900.0
"""Seconds after which a process is killed."""


class Failed(Exception):
    """A program returned no result; the message is one line."""


def arrange(threads: int) -> None:
    """Remove environment variables about memory and threads, for all subprocesses.

    Args:
        threads: Threads of each process; 0 leaves the number to torch, which uses all cores.
    """
    for name in list(os.environ):
        if name.startswith(("MALLOC_", "OMP_", "MKL_", "LD_PRELOAD")):
            del os.environ[name]
    if threads:
        os.environ["OMP_NUM_THREADS"] = str(threads)


def run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[dict[str, float], int]:
    """Run a program; return the JSON it prints, and the peak MB of its largest process."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = subprocess.Popen(
            command,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        with ended(process.pid):
            _, status, usage = os.wait4(process.pid, 0)  # includes its children
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (stdout, stderr):
            file.seek(0)
        if process.returncode == -signal.SIGKILL:
            raise Failed(f"killed: out of memory, or slower than {LIMIT:.0f} s")
        if process.returncode:
            raise Failed(f"does not run: {why(stderr.read())}")
        return json.loads(stdout.read().splitlines()[-1]), round(usage.ru_maxrss / 1024)


def run_own(program: str, *words: str) -> dict[str, float]:
    """Run one of `PROGRAMS` with this Python; it must succeed."""
    return run([sys.executable, str(PROGRAMS / program), *words], {})[0]


@contextlib.contextmanager
def ended(group: int) -> Iterator[None]:
    """Kill a process group after LIMIT seconds, or when this process is interrupted."""

    def kill(*_: object) -> None:
        os.killpg(group, signal.SIGKILL)

    previous_handler = signal.signal(signal.SIGALRM, kill)
    signal.alarm(round(LIMIT))
    try:
        yield
    except BaseException:
        kill()
        raise
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous_handler)
