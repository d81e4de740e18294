"""Copies of this process that search beside it: a core each, and no lock between them.

Threads of one process take turns in Python, and the small operations of decoding spend a good part
of their time waiting for a turn. So a program that has many sentences copies itself (fork), and the
copies compute with the very weights that it has read.
"""

import multiprocessing
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, Pipe
from multiprocessing.context import ForkProcess
from typing import Generic, TypeVar, cast

import torch

from transduce.engines.threads import one_thread

_Job = TypeVar("_Job")
_Done = TypeVar("_Done")

_AT_ONCE, _BYTES = 512, 2
"""Jobs whose numbers are free at one time, and the bytes of one: any pipe has room for them."""

_let = False


def let_fork() -> None:
    """Say that this process is a program that may copy itself.

    For programs, for good, and never a side effect of a library: who else is in a process may hold
    what cannot be copied.
    """
    global _let
    _let = True


def may_fork() -> bool:
    """Whether this process may copy itself now: a copy has but one of its threads."""
    alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    return _let and alone and sys.platform == "linux"


class Helpers(Generic[_Job, _Done]):
    """Some copies of this process, which do what it did when they were made, until it lets them go.

    A later change of weights does not reach them.
    """

    def __init__(self, do: Callable[[_Job], _Done], count: int) -> None:
        self._do = do
        self._lines: list[Connection] = []
        self._free = _Free()
        processes: list[ForkProcess] = []
        context = multiprocessing.get_context("fork")
        for _ in range(count):
            here, there = cast(tuple[Connection, Connection], Pipe())
            self._lines.append(here)
            process = context.Process(
                target=_help,
                args=(do, there),
                kwargs={"free": self._free, "not_mine": self._lines},
                daemon=True,
            )
            process.start()
            there.close()
            processes.append(process)
        self.let_go = weakref.finalize(
            self, _let_go, os.getpid(), self._lines, processes, self._free
        )
        """End them; what is not done yet is not done. They end with this process in any case."""

    def __call__(self, jobs: Sequence[_Job]) -> list[_Done]:
        """Do jobs, one here and one in each copy at a time, with one thread each; keep their order.

        Whoever has done one takes the next, so long ones are best first. What a copy that has died
        should do is done here. When a job fails all copies are let go.
        """
        done: list[_Done] = []
        try:
            with one_thread():
                for first in range(0, len(jobs), _AT_ONCE):
                    done += self._shared_out(jobs[first : first + _AT_ONCE])
        except BaseException:
            self.let_go()
            raise
        return done

    def _shared_out(self, jobs: Sequence[_Job]) -> list[_Done]:
        self._free.put(len(jobs))
        asked = [_ask(line, jobs) for line in self._lines]
        done = {number: self._do(jobs[number]) for number in self._free}
        for line, reached in zip(self._lines, asked, strict=True):
            try:
                said = line.recv() if reached else {}
            except (EOFError, OSError):
                said = {}
            if isinstance(said, Exception):
                raise said
            done |= said
        return [
            done[number] if number in done else self._do(job) for number, job in enumerate(jobs)
        ]


class _Free:
    """Numbers of jobs that nobody has taken yet, in a pipe: each is read by one process.

    Unlike a lock, it holds nobody up when a process dies.
    """

    def __init__(self) -> None:
        self._out, self._in = os.pipe()
        os.set_blocking(self._out, False)

    def put(self, count: int) -> None:
        os.write(self._in, b"".join(number.to_bytes(_BYTES) for number in range(count)))

    def __iter__(self) -> Iterator[int]:
        """Take one after the other, until there is none."""
        while True:
            try:
                number = os.read(self._out, _BYTES)
            except BlockingIOError:
                return
            yield int.from_bytes(number)

    def close(self) -> None:
        os.close(self._out)
        os.close(self._in)


def _ask(line: Connection, job: object) -> bool:
    """Whether somebody was there to be asked."""
    try:
        line.send(job)
    except OSError:
        return False
    return True


def _help(
    do: Callable[[_Job], _Done], line: Connection, *, free: _Free, not_mine: Sequence[Connection]
) -> None:
    """Do what is asked until nobody is there to ask, who is also the one to be interrupted.

    A line has no end while a copy of its other side is open, and this process has such copies.
    """
    for other in not_mine:
        other.close()
    maker = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    with torch.inference_mode():
        while True:
            try:
                jobs = line.recv()
            except (EOFError, OSError):
                return
            try:
                said = {}
                for number in free:
                    if os.getppid() != maker:
                        return
                    said[number] = do(jobs[number])
            except Exception as error:
                said = error
            try:
                line.send(said)
            except OSError:
                return


def _let_go(
    maker: int, lines: Sequence[Connection], processes: Sequence[ForkProcess], free: _Free
) -> None:
    if os.getpid() != maker:  # in a copy, to which the other copies do not belong
        return
    free.close()
    for line in lines:
        line.close()
    for process in processes:
        process.terminate()
        process.join()
