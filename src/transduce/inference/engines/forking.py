"""Whether this process may fork workers, which the torch engine does for programs."""

import multiprocessing
import sys
import threading

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
