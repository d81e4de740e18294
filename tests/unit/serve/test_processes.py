"""The supervisor of several processes: which of them it replaces, and when."""

import multiprocessing
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

import pytest

pytest.importorskip("uvicorn")

from transduce.serve import processes
from transduce.serve.settings import ServerSettings


@dataclass
class Process:
    """A process that has ended, or does once it is terminated."""

    exitcode: int | None
    pid = sentinel = 0

    def start(self) -> None:
        pass

    def terminate(self) -> None:
        self.exitcode = 0


def test_a_process_that_cannot_start_is_replaced_after_growing_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    killed, failed, running = (True, -9), (False, 3), (True, None)
    courses = [killed, *[failed] * 8, killed, failed, running]
    pauses: list[float] = []

    def make_process(target: object, args: tuple[object, ...]) -> Process:
        *_, ready, pause_s = args
        assert isinstance(ready, SimpleQueue)
        assert isinstance(pause_s, float)
        pauses.append(pause_s)
        becomes_ready, exitcode = courses.pop(0)
        if becomes_ready:
            ready.put("en-de")
        if not courses:
            supervisor.collect_signal(signal.SIGTERM, None)
        return Process(exitcode)

    context = SimpleNamespace(Process=make_process, SimpleQueue=SimpleQueue)
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: context)
    monkeypatch.setattr(processes, "wait", lambda *_, **__: [])
    monkeypatch.setenv(processes.METRICS_FOLDER, str(tmp_path))
    with socket.socket() as bound:
        supervisor = processes._Supervisor(lambda *_: 0, ServerSettings(), bound)
        assert supervisor.run(lambda line: None) == 0
        assert bound.fileno() == -1  # no connection waits for a process

    assert pauses == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 0, 1]
    assert caplog.text.count("WARNING: a process ended with 3; another one is started in 1 s") == 2
    assert "a process ended with -9; another one is started\n" in caplog.text
