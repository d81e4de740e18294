"""What a program that trains or translates asks of the C library's allocator."""

import ctypes
import sys


def hold_memory() -> bool:
    """Ask the C library to keep freed blocks for the next update or step, not to return them.

    By default glibc maps every large tensor afresh and the system zeroes its pages again and
    again (benchmarks/kernels.py says what that costs a training update). For the whole process,
    for good: for programs, never a side effect of a library. Returns whether the C library
    understood.
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
