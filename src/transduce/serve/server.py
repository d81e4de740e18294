"""uvicorn with an end to patience: for slow clients, for idle ones, and for itself when stopped.

SIGTERM and Ctrl-C let the server finish what it accepted, for a while, and then it exits with 0: it
did what it was told. A second signal ends it at once, with 128 and the signal's number, as every
other command ends at the first.
"""

import asyncio
import errno
import logging
import signal
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from transduce.serve.settings import Settings

_LATE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def bind(settings: Settings) -> socket.socket:
    """Take the address, but listen to nobody yet.

    Raises:
        ValueError: if it cannot be had; one line with what to change.
    """
    host, port = settings.host, settings.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        taken = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError):
        raise ValueError(f"there is no address {host!r} here: choose another --host") from None
    try:
        if sys.platform != "win32":
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        taken.close()
        if error.errno == errno.EADDRINUSE:
            raise ValueError(
                f"port {port} of {host} is in use: stop who has it, or choose another --port"
            ) from None
        said = error.strerror or str(error)
        raise ValueError(f"port {port} of {host} cannot be had: {said}") from None
    return taken


def address_of(taken: socket.socket) -> str:
    """Where a browser finds a bound socket."""
    host, port = taken.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def run(
    app: ASGIApp, settings: Settings, *, taken: socket.socket, ready: Callable[[], None]
) -> int:
    """Serve until a signal says stop.

    Args:
        app: what answers.
        settings: how patient the server is.
        taken: a socket from `bind`; it is closed at the end.
        ready: called when requests are answered.

    Returns:
        The exit code: 0 if what was accepted was finished, 1 if some of it took too long, and 128
        and the signal's number if a second signal did not want to wait.
    """
    log_to_stderr()
    config = uvicorn.Config(
        app,
        http=_patient(settings),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=settings.connection_limit,
        timeout_keep_alive=max(1, round(settings.keep_alive_s)),
        timeout_graceful_shutdown=max(1, round(settings.drain_s)),
        h11_max_incomplete_event_size=settings.header_limit,
    )
    server = _Server(config, ready)
    server.run(sockets=[taken])
    if server.force_exit:
        return 128 + server.stopped_by
    return 1 if server.cut_off else 0


def log_to_stderr() -> None:
    """Give the log a time and a place: stderr. A server has one log, so this may be done twice."""
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    for name, least in (("transduce.serve", logging.INFO), ("uvicorn", logging.ERROR)):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [shown], False
        log.setLevel(least)


class _Server(uvicorn.Server):
    """One that says when it is ready, and whose signals are not raised again at the end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready
        self.stopped_by = 0
        self.cut_off = 0
        """Requests that were not finished in time."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        self.cut_off = len(self.server_state.tasks)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        before = {one: signal.signal(one, self._stop) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
        self.stopped_by = number


def _patient(settings: Settings) -> type[H11Protocol]:
    """uvicorn's protocol with deadlines for a request's head, its body, and taking the answer.

    Its own one for a connection that idles is forgotten where a body goes on behind its answer.
    """
    patience = {
        "head": settings.header_timeout_s,
        "body": settings.body_timeout_s,
        "idle": settings.keep_alive_s,
    }

    class Patient(H11Protocol):
        phase: tuple[str, int] = ("", 0)
        deadline: asyncio.TimerHandle | None = None
        stalled: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.look()

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in (self.deadline, self.stalled):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.look()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.look()

        def pause_writing(self) -> None:
            super().pause_writing()
            self.stalled = self.loop.call_later(settings.body_timeout_s, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.stalled is not None:
                self.stalled.cancel()

        @property
        def asked(self) -> RequestResponseCycle | None:
            """The request that was asked last, if there was one."""
            return self.cycle

        def look(self) -> None:
            """Start a deadline where the client begins something; drop the one before."""
            theirs = self.conn.their_state
            what = "body" if theirs is h11.SEND_BODY else ""
            if theirs is h11.IDLE:
                what = "head" if self.asked is None or self.conn.trailing_data[0] else "idle"
            phase = (what, id(self.cycle))
            if phase == self.phase:
                return
            self.phase = phase
            if self.deadline is not None:
                self.deadline.cancel()
            seconds = patience.get(what)
            self.deadline = self.loop.call_later(seconds, self.too_late) if seconds else None

        def too_late(self) -> None:
            """Say so where something was begun and not answered, and hang up."""
            begun = self.phase[0] == "body" or bool(self.conn.trailing_data[0])
            answered = self.asked is not None and self.asked.response_started
            if begun and (self.phase[0] == "head" or not answered):
                self.transport.write(_LATE)
            self.transport.close()

    return Patient
