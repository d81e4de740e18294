"""Where a run computes: its device, threads and memory."""

import ctypes
import sys
from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def computing(*, device: str = "auto", threads: int = 0) -> Generator[torch.device]:
    """Arrange this process for training, yield its device, put its threads back afterwards.

    Raises:
        ValueError: if torch knows no such device here.
    """
    before = torch.get_num_threads()
    if threads:
        torch.set_num_threads(threads)
    try:
        yield find_device(device)
    finally:
        torch.set_num_threads(before)


def find_device(name: str) -> torch.device:
    """The device of that name; "auto" is the first CUDA device, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f'train.device {name!r} is not here ({first}); try "auto"') from None
    return device


def hold_memory() -> bool:
    """Ask the C library to keep freed blocks for the next update instead of returning them.

    By default glibc maps every large tensor afresh and the system zeroes its pages again and
    again (benchmarks/kernels.py says what that costs a training update). For the whole process,
    for good; returns whether the C library understood.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # musl has none
        return False
    trim_threshold, top_pad, mmap_max, arena_max = -1, -2, -4, -8
    return all(
        mallopt(setting, value) == 1
        for setting, value in (
            (mmap_max, 0),
            (trim_threshold, 2**31 - 1),
            (top_pad, 64 * 2**20),
            (arena_max, 1),
        )
    )
