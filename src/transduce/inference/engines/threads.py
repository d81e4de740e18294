"""How the torch engine uses a CPU's cores: one thread for a little, one batch a thread for much."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

_T = TypeVar("_T")


@contextmanager
def threads_kept() -> Generator[None]:
    """Whatever is done here, torch has as many threads after it as before.

    A translator of CTranslate2 that is made with one thread leaves torch with one: they share an
    OpenMP.
    """
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread() -> Generator[None]:
    """Compute with one thread, and put the threads back afterwards."""
    with threads_kept():
        torch.set_num_threads(1)
        yield


def side_by_side(jobs: Sequence[Callable[[], _T]]) -> list[_T]:
    """Do them all, one in this thread, several at the same time with one core each."""
    if len(jobs) < 2 or (threads := torch.get_num_threads()) < 2:
        return [job() for job in jobs]

    def alone(job: Callable[[], _T]) -> _T:
        with torch.inference_mode():  # of which every thread has to be told
            return job()

    one_each = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    with threads_kept(), one_each as pool:  # setting them holds in part for the whole process
        return list(pool.map(alone, jobs))
