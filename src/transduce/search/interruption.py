"""Interruption of a search that runs: a callback between decoding steps.

A server stops work that no client waits for, and lets short work in between. The callback belongs
to the calling thread's context, so searches that other threads run are not affected.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

_CALLBACK: ContextVar[Callable[[], None] | None] = ContextVar("interruption", default=None)


@contextmanager
def interruptible(callback: Callable[[], None]) -> Generator[None]:
    """Call `callback` between the steps and batches of searches; it may raise to end them."""
    token = _CALLBACK.set(callback)
    try:
        yield
    finally:
        _CALLBACK.reset(token)


def interruption_point() -> None:
    """Run the callback, if any."""
    callback = _CALLBACK.get()
    if callback is not None:
        callback()
