"""Copies of a process do its jobs, and never outlive it."""

import multiprocessing
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from transduce.engines import helpers, torch_engine
from transduce.engines.helpers import Helpers, let_fork, may_fork
from transduce.engines.torch_engine import TorchEngine
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Draw, Request, Wishes
from transduce.text.tokenizer import Tokenizer

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux"),
    pytest.mark.usefixtures("two_threads"),
]


FORK = multiprocessing.get_context("fork") if sys.platform == "linux" else multiprocessing

Who = tuple[int, int, int]


def who(job: int) -> Who:
    if job < 0:
        raise ValueError(f"{job} is below zero")
    return job, os.getpid(), torch.get_num_threads()


def who_meets(count: int) -> Callable[[int], Who]:
    """Jobs that are only done when so many processes do one each."""
    barrier = FORK.Barrier(count)

    def do(job: int) -> Who:
        barrier.wait(30)
        return who(job)

    return do


def pids(done: Sequence[Who]) -> Counter[int]:
    return Counter(pid for _, pid, _ in done)


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_each_job_is_done_once_in_order_with_one_thread_by_all_processes_at_once():
    crew = Helpers(who_meets(3), 2)

    done = crew([1, 2, 3, 4, 5, 6])

    assert [job for job, _, _ in done] == [1, 2, 3, 4, 5, 6]
    assert os.getpid() in pids(done)
    assert list(pids(done).values()) == [2, 2, 2]
    assert {threads for _, _, threads in done} == {1}
    assert torch.get_num_threads() == 2
    crew.let_go()


def test_nobody_waits_for_a_long_job_while_there_are_others():
    others_done = FORK.Event()

    def do(job: int) -> Who:
        if job == 0:
            assert others_done.wait(30)
        if job == 4:
            others_done.set()
        return who(job)

    crew = Helpers(do, 1)

    done = crew([0, 1, 2, 3, 4])

    assert sorted(pids(done).values()) == [1, 4]
    crew.let_go()


def test_jobs_may_be_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(helpers, "_AT_ONCE", 7)
    crew = Helpers(who, 1)

    assert [job for job, _, _ in crew(range(100))] == list(range(100))
    crew.let_go()


def test_copies_that_nobody_holds_any_more_end():
    crew = Helpers(who_meets(2), 1)
    (other,) = pids(crew([1, 2])).keys() - {os.getpid()}

    del crew

    assert not alive(other)


def test_a_failure_in_a_copy_is_raised_here_and_ends_them_all():
    mine, meet = os.getpid(), who_meets(3)

    def do(job: int) -> Who:
        return meet(-job if job > 3 and os.getpid() != mine else job)

    crew = Helpers(do, 2)
    others = pids(crew([1, 2, 3])).keys() - {mine}

    with pytest.raises(ValueError, match="is below zero"):
        crew([4, 5, 6])

    assert not crew.let_go.alive
    assert not any(alive(pid) for pid in others)
    assert torch.get_num_threads() == 2


def test_what_a_copy_that_dies_at_it_should_do_is_done_here():
    mine, taken = os.getpid(), FORK.Event()

    def do(job: int) -> Who:
        if os.getpid() != mine:
            taken.set()
            os.kill(os.getpid(), signal.SIGKILL)
        assert taken.wait(30)
        return who(job)

    crew = Helpers(do, 1)

    assert crew([1, 2, 3]) == [(1, mine, 1), (2, mine, 1), (3, mine, 1)]
    assert crew([4, 5]) == [(4, mine, 1), (5, mine, 1)]
    crew.let_go()


def test_a_library_copies_nothing_and_a_program_says_that_it_may(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(helpers, "_let", False)
    monkeypatch.setattr(helpers.threading, "active_count", lambda: 1)
    assert not may_fork()

    let_fork()

    assert may_fork()
    monkeypatch.setattr(helpers.threading, "active_count", lambda: 2)
    assert not may_fork()


@pytest.mark.parametrize(
    ("beam", "wishes"), [(1, Wishes()), (3, Wishes()), (2, Wishes(draw=Draw(seed=5)))]
)
def test_several_processes_find_what_one_finds(
    beam: int,
    wishes: Wishes,
    untrained: Transformer,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
):
    requests = [Request(tuple(range(3, 3 + 1 + place % 7))) for place in range(40)]
    config = SearchConfig(beam=beam, extra=4)

    def found(*, fork: bool) -> list[object]:
        engine = TorchEngine(untrained, pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu")
        monkeypatch.setattr(torch_engine, "may_fork", lambda: fork)
        made: list[int] = []

        def counted(
            do: Callable[[Any], list[list[Hypothesis]]], count: int
        ) -> Helpers[Any, list[list[Hypothesis]]]:
            made.append(count)
            return Helpers(do, count)

        monkeypatch.setattr(torch_engine, "Helpers", counted)
        both = [engine.search(requests, config, wishes) for _ in range(2)]
        assert made == [1] * fork, "copies are made once, and kept"
        assert both[0] == both[1]
        return [[one.ids for one in best] for best in both[0]]

    assert found(fork=True) == found(fork=False)
