"""Copies of a process do its jobs, and never outlive it."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines import forking as helpers
from transduce.inference.engines import torch_engine
from transduce.inference.engines.forking import can_fork, enable_worker_processes
from transduce.inference.engines.parallel import WorkerPool
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.transformer import Transformer
from transduce.search.config import DecodingConstraints, Request, SamplingConfig, SearchConfig
from transduce.search.hypothesis import Hypothesis

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux"),
    pytest.mark.usefixtures("two_threads"),
]


def who(job: int) -> tuple[int, int, int]:
    if job < 0:
        raise ValueError(f"{job} is below zero")
    return job, os.getpid(), torch.get_num_threads()


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_each_job_is_done_once_in_order_with_one_thread_in_processes_that_take_turns():
    crew = WorkerPool(who, 2)

    jobs, pids, threads = zip(*crew([1, 2, 3, 4, 5]), strict=True)

    assert jobs == (1, 2, 3, 4, 5)
    assert pids[0] == os.getpid()
    assert len(set(pids)) == 3
    assert pids[3:] == pids[:2]
    assert set(threads) == {1}
    assert torch.get_num_threads() == 2
    crew.shutdown()


def test_copies_that_nobody_holds_any_more_end():
    crew = WorkerPool(who, 1)
    (_, mine, _), (_, other, _) = crew([1, 2])

    del crew

    assert mine == os.getpid()
    assert not alive(other)


def test_a_failure_in_a_copy_is_raised_here_and_ends_them_all():
    crew = WorkerPool(who, 2)
    _, *others = (pid for _, pid, _ in crew([1, 2, 3]))

    with pytest.raises(ValueError, match="-2 is below zero"):
        crew([1, -2, 3])

    assert not crew.shutdown.alive
    assert not any(alive(pid) for pid in others)
    assert torch.get_num_threads() == 2


def test_what_a_copy_that_died_should_do_is_done_here():
    crew = WorkerPool(who, 1)
    (_, mine, _), (_, other, _) = crew([1, 2])
    os.kill(other, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while crew([1, 2])[1][1] != mine:
        assert time.monotonic() < deadline, "the killed one still answers"

    assert [(job, pid) for job, pid, _ in crew([3, 4])] == [(3, mine), (4, mine)]
    crew.shutdown()


def test_a_library_copies_nothing_and_a_program_may_and_holds_its_memory(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(helpers, "_enabled", False)
    monkeypatch.setattr(helpers.threading, "active_count", lambda: 1)
    held: list[bool] = []
    monkeypatch.setattr(helpers, "keep_freed_memory", lambda: held.append(True))
    assert not can_fork()

    enable_worker_processes()

    assert can_fork()
    assert held == [True]
    monkeypatch.setattr(helpers.threading, "active_count", lambda: 2)
    assert not can_fork()


@pytest.mark.parametrize(
    ("beam", "constraints"),
    [
        (1, DecodingConstraints()),
        (3, DecodingConstraints()),
        (2, DecodingConstraints(sampling=SamplingConfig(seed=5))),
    ],
)
def test_several_processes_find_what_one_finds(
    beam: int,
    constraints: DecodingConstraints,
    untrained: Transformer,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
):
    requests = [Request(tuple(range(3, 3 + 1 + place % 7))) for place in range(40)]
    config = SearchConfig(beam=beam, extra=4)

    def search(*, fork: bool) -> list[object]:
        engine = TorchEngine(untrained, pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu")
        monkeypatch.setattr(torch_engine, "can_fork", lambda: fork)
        made: list[int] = []

        def counted(
            do: Callable[[Any], list[list[Hypothesis]]], count: int
        ) -> WorkerPool[Any, list[list[Hypothesis]]]:
            made.append(count)
            return WorkerPool(do, count)

        monkeypatch.setattr(torch_engine, "WorkerPool", counted)
        both = [engine.search(requests, config, constraints) for _ in range(2)]
        assert made == [1] * fork, "copies are made once, and kept"
        assert both[0] == both[1]
        return [[item.ids for item in best] for best in both[0]]

    assert search(fork=True) == search(fork=False)
