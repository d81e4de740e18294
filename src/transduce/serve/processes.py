"""Several processes of one server: a supervisor that starts, watches and ends them.

The supervisor binds the address and answers no request. Its workers, each with its own models,
accept the connections of the same socket: a connection that waits when a worker is killed is
accepted by another, and a worker that ends unexpectedly is replaced. What clients come back for
(`ClientStore`) and the metrics lie in a folder that is deleted at the end.
"""

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NamedTuple

from transduce.serve.errors import LOG
from transduce.serve.server import log_to_stderr, stop_signals_handled
from transduce.serve.settings import ServerSettings

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable by which prometheus_client adds up the metrics of processes."""

_MAX_PAUSE_S = 60.0  # before a replacement of a process that could not start

Work = Callable[[ServerSettings, socket.socket, Callable[[str], None]], int]
"""Serves with some settings at a socket, reports what is served once ready, returns the exit code;
a function of a module, because a new interpreter calls it."""


class Worker(NamedTuple):
    """A process that serves, and a queue that gets a line when it is ready."""

    process: BaseProcess
    ready: "SimpleQueue[str]"


def supervise(
    work: Work, settings: ServerSettings, *, bound: socket.socket, on_ready: Callable[[str], None]
) -> int:
    """Serve with several processes until a signal arrives; return the largest of their exit codes.

    Args:
        work: what each of them does.
        settings: their number, and all else.
        on_ready: called with a worker's line once all are ready.
    """
    log_to_stderr()
    with _shared_folder() as folder:
        supervisor = _Supervisor(
            work, replace(settings, store_path=folder / "clients.sqlite"), bound
        )
        with stop_signals_handled(supervisor.collect_signal):
            return supervisor.run(on_ready)


class _Supervisor:
    """The workers, and the signals to pass on to them."""

    def __init__(self, work: Work, settings: ServerSettings, bound: socket.socket) -> None:
        self._work, self._settings, self._bound = work, settings, bound
        self._signals: list[int] = []
        self._stopping = False
        self._pause_s = 0.0
        self._workers = [self._start() for _ in range(settings.processes)]
        self._ready: list[Worker] = []  # those that became ready, also if they have ended
        self._codes: list[int] = []

    def collect_signal(self, number: int, frame: FrameType | None) -> None:
        """Store a signal for the next look at the workers."""
        self._signals.append(number)

    def run(self, on_ready: Callable[[str], None]) -> int:
        """Watch the workers until all have ended; return the largest exit code."""
        while self._workers:
            wait([worker.process.sentinel for worker in self._workers], timeout=0.2)
            while self._signals:  # a second one ends the workers at once
                self._stop()
                self._signals.pop()
            ended = [worker for worker in self._workers if worker.process.exitcode is not None]
            for worker in [worker for worker in self._workers if not worker.ready.empty()]:
                line = worker.ready.get()
                self._ready.append(worker)
                self._pause_s = 0.0
                if len(self._ready) == self._settings.processes:
                    on_ready(line)
            for worker in ended:
                self._workers.remove(worker)
                self._replace(worker, worker.process.exitcode or 0)
        return max(self._codes, default=0)

    def _start(self) -> Worker:
        context = multiprocessing.get_context("spawn")
        ready: SimpleQueue[str] = context.SimpleQueue()
        process = context.Process(
            target=_run_worker, args=(self._work, self._settings, self._bound, ready, self._pause_s)
        )
        process.start()
        return Worker(process, ready)

    def _stop(self) -> None:
        self._stopping = True
        self._bound.close()  # else connections that no worker accepts would wait
        for worker in self._workers:
            worker.process.terminate()

    def _replace(self, worker: Worker, code: int) -> None:
        """Start another worker in the place of one that ended unexpectedly, unless it is futile."""
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(worker.process.pid)
        started = len(self._ready) >= self._settings.processes
        if not self._stopping and started:
            if worker not in self._ready:
                self._pause_s = min(max(1.0, 2 * self._pause_s), _MAX_PAUSE_S)
            when = f" in {self._pause_s:g} s" if self._pause_s else ""
            LOG.warning("WARNING: a process ended with %d; another one is started%s", code, when)
            self._workers.append(self._start())
        elif not self._stopping:  # the others would fail for the same reason
            self._codes.append(code if code > 0 else 1)
            self._stop()
        elif worker in self._ready:
            self._codes.append(code if code >= 0 else 128 - code)


@contextmanager
def _shared_folder() -> Generator[Path]:
    """Make the folder of what workers share, and tell prometheus_client in the workers."""
    with TemporaryDirectory(prefix="transduce-serve-") as folder:
        os.environ[METRICS_FOLDER] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ[METRICS_FOLDER]


def _run_worker(
    work: Work,
    settings: ServerSettings,
    bound: socket.socket,
    ready: "SimpleQueue[str]",
    pause_s: float,
) -> None:
    """Serve in this new process after a pause, until a signal or the end of the supervisor."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()  # Ctrl-C is for the supervisor, which passes it on once
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        rmtree(os.environ[METRICS_FOLDER], ignore_errors=True)  # open files stay usable
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
    time.sleep(pause_s)
    sys.exit(work(settings, bound, ready.put))
