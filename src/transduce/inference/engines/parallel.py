"""Parallel decoding on a CPU for the torch engine: threads, and forked worker processes.

Threads share Python's global interpreter lock (GIL), and decoding's many small operations spend
much of their time waiting for it. So a program that has many sentences forks worker processes, one
per core, which compute with the weights that it has loaded.
"""

import multiprocessing
import os
import signal
import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe
from multiprocessing.context import ForkProcess
from types import FrameType
from typing import Generic, TypeVar, cast

import torch

from transduce.inference.engines.forking import preserve_thread_count

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")

if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    # OpenMP's threads do not survive a fork: a child that used more than its own would wait for
    # them for ever, in a translation or already in loading a model.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


@contextmanager
def single_thread() -> Generator[None]:
    """Compute with one thread; restore the number afterwards."""
    with preserve_thread_count():
        torch.set_num_threads(1)
        yield


def run_in_threads(jobs: Sequence[Callable[[], _Result]]) -> list[_Result]:
    """Run jobs: a single one in this thread, several in parallel with one core each."""
    if len(jobs) < 2 or (threads := torch.get_num_threads()) < 2:
        return [job() for job in jobs]

    def run(job: Callable[[], _Result]) -> _Result:
        with torch.inference_mode():  # is set per thread
            return job()

    executor = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    with preserve_thread_count(), executor as pool:  # partly, the setting is process-wide
        return list(pool.map(run, jobs))


class WorkerPool(Generic[_Job, _Result]):
    """Forked workers that run one function with the state it had at the fork.

    Later changes of weights do not reach them.
    """

    def __init__(self, run: Callable[[_Job], _Result], count: int) -> None:
        self._run = run
        self._connections: list[Connection] = []
        processes: list[ForkProcess] = []
        fork = multiprocessing.get_context("fork").Process
        for _ in range(count):
            local, remote = cast(tuple[Connection, Connection], Pipe())
            self._connections.append(local)
            process = fork(target=_serve, args=(run, remote, self._connections), daemon=True)
            with _delayed_signals():
                process.start()
            remote.close()
            processes.append(process)
        self.shutdown = weakref.finalize(
            self, _shut_down, os.getpid(), self._connections, processes
        )
        """Terminate the workers and their jobs. They also end with this process."""

    def __call__(self, jobs: Sequence[_Job]) -> list[_Result]:
        """Run jobs in order, one here and one per worker at a time, with one thread each.

        Jobs of a worker that has died are run here. If a job fails, the pool is shut down.
        """
        results: list[_Result] = []
        size = len(self._connections) + 1
        try:
            with single_thread():
                for first in range(0, len(jobs), size):
                    results += self._run_round(jobs[first : first + size])
        except BaseException:
            self.shutdown()
            raise
        return results

    def _run_round(self, jobs: Sequence[_Job]) -> list[_Result]:
        local_job, *remote_jobs = jobs
        workers = list(zip(self._connections, remote_jobs, strict=False))
        for connection, job in workers:
            with suppress(OSError):  # it has died
                connection.send(job)
        results = [self._run(local_job)]
        for connection, job in workers:
            try:
                reply = connection.recv()
            except (EOFError, OSError):
                reply = None
            if isinstance(reply, Exception):
                raise reply
            results.append(self._run(job) if reply is None else reply[0])
        return results


@contextmanager
def _delayed_signals() -> Generator[None]:
    """Call the handlers of SIGINT and SIGTERM after a fork.

    Python drops an exception that one raises while `os.fork` runs its hooks.
    """
    received: list[int] = []
    handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
    if threading.current_thread() is threading.main_thread():  # which runs the handlers
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(handler := signal.getsignal(number)):
                handlers[number] = handler
                signal.signal(number, lambda number, _: received.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in received:
            handlers[number](number, None)


def _serve(
    run: Callable[[_Job], _Result], connection: Connection, inherited: Sequence[Connection]
) -> None:
    """Run jobs until the parent, which handles interrupts, is gone.

    A pipe reaches its end only when all copies of its other side are closed: so close the
    `inherited` ones.
    """
    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    with torch.inference_mode(), suppress(EOFError, OSError):  # of the pipe: the parent is gone
        while True:
            job = connection.recv()
            try:
                reply = (run(job),)
            except Exception as error:
                reply = error
            connection.send(reply)


def _shut_down(
    owner: int, connections: Sequence[Connection], processes: Sequence[ForkProcess]
) -> None:
    if os.getpid() != owner:  # in a worker, which does not own the others
        return
    for connection in connections:
        connection.close()
    for process in processes:
        process.terminate()
        process.join()
