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
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Pipe
from multiprocessing.context import ForkProcess
from typing import Generic, TypeVar, cast

import torch

from transduce.inference.engines.threads import one_thread
from transduce.io.machine import keep_freed_memory

_Job = TypeVar("_Job")
_Done = TypeVar("_Done")

_let = False


def as_program() -> None:
    """Say that this process is a program that translates: it may copy itself, and holds its memory.

    For good, and never a side effect of a library: who else is in a process may hold what cannot be
    copied, or need the memory. The blocks of a step are as large as those of the step before.
    """
    global _let
    _let = True
    keep_freed_memory()


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
        processes: list[ForkProcess] = []
        context = multiprocessing.get_context("fork")
        for _ in range(count):
            here, there = cast(tuple[Connection, Connection], Pipe())
            self._lines.append(here)
            process = context.Process(
                target=_help, args=(do, there), kwargs={"not_mine": self._lines}, daemon=True
            )
            process.start()
            there.close()
            processes.append(process)
        self.let_go = weakref.finalize(self, _let_go, os.getpid(), self._lines, processes)
        """End them; what is not done yet is not done. They end with this process in any case."""

    def __call__(self, jobs: Sequence[_Job]) -> list[_Done]:
        """Do jobs, one here and one in each copy at a time, with one thread each; keep their order.

        What a copy that has died should do is done here. When a job fails they are all let go.
        """
        done: list[_Done] = []
        size = len(self._lines) + 1
        try:
            with one_thread():
                for first in range(0, len(jobs), size):
                    done += self._round(jobs[first : first + size])
        except BaseException:
            self.let_go()
            raise
        return done

    def _round(self, jobs: Sequence[_Job]) -> list[_Done]:
        mine, *others = jobs
        asked = [_ask(line, job) for line, job in zip(self._lines, others, strict=False)]
        done = [self._do(mine)]
        for line, job, reached in zip(self._lines, others, asked, strict=False):
            try:
                said = line.recv() if reached else None
            except (EOFError, OSError):
                said = None
            if isinstance(said, Exception):
                raise said
            done.append(self._do(job) if said is None else said[0])
        return done


def _ask(line: Connection, job: object) -> bool:
    """Whether somebody was there to be asked."""
    try:
        line.send(job)
    except OSError:
        return False
    return True


def _help(do: Callable[[_Job], _Done], line: Connection, *, not_mine: Sequence[Connection]) -> None:
    """Do what is asked until nobody is there to ask, who is also the one to be interrupted.

    A line has no end while a copy of its other side is open, and this process has such copies.
    """
    for other in not_mine:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    with torch.inference_mode():
        while True:
            try:
                job = line.recv()
            except (EOFError, OSError):
                return
            try:
                said = (do(job),)
            except Exception as error:
                said = error
            try:
                line.send(said)
            except OSError:
                return


def _let_go(maker: int, lines: Sequence[Connection], processes: Sequence[ForkProcess]) -> None:
    if os.getpid() != maker:  # in a copy, to which the other copies do not belong
        return
    for line in lines:
        line.close()
    for process in processes:
        process.terminate()
        process.join()
