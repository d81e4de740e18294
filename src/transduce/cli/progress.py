"""A run on the screen: one line that is rewritten at a terminal, plain lines now and then in a log.

All of it goes to the stream it is given, stderr as a rule: stdout is for data. rich draws at a
terminal, and is read only there: a pipe need not wait for it.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TextIO

from transduce.train.events import Event, EventHandler, LogMessage, Progress, Validated

_EVERY = 15.0
"""Seconds between two plain progress lines."""

_LONG = 2.0
"""Seconds without a sign of life that nobody minds."""


@contextmanager
def watching(stream: TextIO) -> Generator[EventHandler]:
    """Yield something to tell a run's events to, for as long as the run lasts."""
    if not stream.isatty():
        yield _PlainLines(stream)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=stream, highlight=False, markup=False, soft_wrap=True)
    with Live(Text(), console=console, refresh_per_second=4, transient=True) as live:

        def on_event(event: Event) -> None:
            if isinstance(event, Progress):
                live.update(Text(describe(event), no_wrap=True, overflow="ellipsis"))
            else:
                console.print(describe(event))

        yield on_event


@contextmanager
def counting(stream: TextIO) -> Generator[Callable[[int], None]]:
    """Yield something to tell the number of lines done to; a terminal shows it after a while."""
    if not stream.isatty():
        yield lambda lines: None
        return
    from rich.console import Console
    from rich.status import Status

    started = time.monotonic()
    status = Status("", console=Console(file=stream))

    def count(lines: int) -> None:
        spent = time.monotonic() - started
        if spent > _LONG:
            status.update(f"{lines:,} lines, {lines / spent:,.1f} a second")
            status.start()

    try:
        yield count
    finally:
        status.stop()


class _PlainLines:
    """Writes every event but most of the progress."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last = time.monotonic() - _EVERY

    def __call__(self, event: Event) -> None:
        if isinstance(event, Progress):
            now = time.monotonic()
            if now - self._last < _EVERY and event.update < event.updates:
                return
            self._last = now
        self._stream.write(f"{describe(event)}\n")
        self._stream.flush()


def describe(event: Event) -> str:
    """Say an event in one line.

    >>> describe(LogMessage(text="9 pairs"))
    '9 pairs'
    """
    match event:
        case LogMessage():
            return event.text
        case Progress():
            return (
                f"update {event.update:,} of {event.updates:,}, loss {event.loss:.3f}, "
                f"{event.tokens_per_second:,.0f} tokens/s{_of_several(event)}, "
                f"rate {event.learning_rate:.2e}, {_duration(event.seconds_left)} left"
            )
        case Validated():
            best = ", the best so far" if event.best else ""
            return (
                f"validation at update {event.update:,}: loss {event.loss:.4f}, perplexity "
                f"{event.perplexity:.2f}, BLEU {event.bleu:.2f} (greedy; {event.signature}){best}"
            )


def _of_several(event: Progress) -> str:
    if event.processes == 1:
        return ""
    each = event.tokens_per_second / event.processes
    return f" ({event.processes} processes, {each:,.0f} each, {event.compute_share:.0%} at work)"


def _duration(seconds: float) -> str:
    """Seconds as people say them, to about one part in sixty.

    >>> [_duration(seconds) for seconds in (7.2, 130.0, 3900.0, 180000.0)]
    ['7 s', '2 min 10 s', '1 h 05 min', '2 d 02 h']
    """
    whole = round(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if not minutes:
        return f"{whole} s"
    if not hours:
        return f"{minutes} min {whole % 60:02} s"
    if not days:
        return f"{hours} h {minutes % 60:02} min"
    return f"{days} d {hours % 24:02} h"
