"""Progress of a run: a live line on a terminal, occasional plain lines elsewhere.

rich is imported only for terminals, to keep pipes fast.
"""

import math
import sys
import time
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from transduce.train.events import (
    Event,
    EventHandler,
    LogMessage,
    Progress,
    Validated,
    describe_duration,
)

_EVERY = 15.0  # seconds between plain progress lines
_DELAY = 2.0  # seconds before a line count is displayed


@contextmanager
def event_printer(stream: TextIO | None = None) -> Generator[EventHandler]:
    """Yield an event handler that prints a run's events to a stream, by default stderr."""
    out: TextIO = stream or sys.stderr
    if not out.isatty():
        yield _PlainLines(out)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=out, highlight=False, markup=False, soft_wrap=True)
    with Live(Text(), console=console, refresh_per_second=4, transient=True) as live:

        def on_event(event: Event) -> None:
            if isinstance(event, Progress):
                live.update(Text(describe(event), no_wrap=True, overflow="ellipsis"))
            else:
                console.print(describe(event))

        yield on_event


def open_page(page: Path, on_event: EventHandler) -> EventHandler:
    """Return an event handler that opens a run's page in a browser when training has begun."""
    pending = [page]

    def handler(event: Event) -> None:
        if pending and not isinstance(event, LogMessage):
            uri = pending.pop().absolute().as_uri()
            if not webbrowser.open(uri):
                on_event(LogMessage(f"no browser was found: open {uri}"))
        on_event(event)

    return handler


@contextmanager
def line_counter() -> Generator[Callable[[int], None]]:
    """Yield a callback for the number of finished lines; terminals show it after a delay."""
    if not sys.stderr.isatty():
        yield lambda lines: None
        return
    from rich.console import Console
    from rich.status import Status

    started = time.monotonic()
    status = Status("", console=Console(file=sys.stderr))

    def count(lines: int) -> None:
        spent = time.monotonic() - started
        if spent > _DELAY:
            status.update(f"{lines:,} lines, {lines / spent:,.1f}/s")
            status.start()

    try:
        yield count
    finally:
        status.stop()


class _PlainLines:
    """Event handler that writes one line per event and throttles progress."""

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
    """Format an event as one line.

    >>> describe(LogMessage(text="9 pairs"))
    '9 pairs'
    """
    match event:
        case LogMessage():
            return event.text
        case Progress():
            left = describe_duration(event.seconds_left)
            return (
                f"update {event.update:,} of {event.updates:,}, loss {event.loss:.3f}, "
                f"{event.tokens_per_second:,.0f} tokens/s{_per_process(event)}, "
                f"learning rate {event.learning_rate:.2e}, {left} left"
            )
        case Validated():
            best = ", best so far" if event.best else ""
            chrf = "" if math.isnan(event.chrf) else f", chrF2 {event.chrf:.2f}"
            if not math.isnan(event.accuracy):
                chrf += f", accuracy {event.accuracy:.1%}"
            bleu = f", BLEU {event.bleu:.2f}{chrf} (greedy, repetition not retried; "
            bleu = "" if math.isnan(event.bleu) else f"{bleu}{event.signature})"
            return (
                f"validation at update {event.update:,}: loss {event.loss:.4f}, perplexity "
                f"{event.perplexity:.2f}{bleu}{best}"
            )


def _per_process(event: Progress) -> str:
    if event.processes == 1:
        return ""
    rate = event.tokens_per_second / event.processes
    return f" ({event.processes} processes, {rate:,.0f} each, {event.compute_share:.0%} busy)"
