"""Threads and processes of the engines, without torch: may this process fork workers?"""

import multiprocessing
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager

from transduce.io.machine import keep_freed_memory

_enabled = False


def enable_worker_processes() -> None:
    """Allow this process to fork workers, and make it keep freed memory.

    For programs that translate, never for a library: other code in the process may hold resources
    that do not survive a fork, or need the memory. It cannot be undone. Keeping freed memory pays
    because the tensors of a decoding step are as large as those of the step before.
    """
    global _enabled
    _enabled = True
    keep_freed_memory()


def can_fork() -> bool:
    """Return whether this process may fork now: a fork has only the thread that called it."""
    single = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    return _enabled and single and sys.platform == "linux"


@contextmanager
def preserve_thread_count() -> Generator[None]:
    """Restore torch's number of threads afterwards, if torch is loaded.

    CTranslate2 shares torch's OpenMP: a translator loaded with one thread would leave torch one.
    """
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 0
    try:
        yield
    finally:
        if torch:
            torch.set_num_threads(threads)
