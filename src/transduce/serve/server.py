"""The uvicorn server with deadlines: for slow clients, idle connections, and its own shutdown.

SIGTERM, SIGHUP and Ctrl-C let the server finish accepted requests within a time limit; it then
exits with 0. Requests that exceed the limit are answered with 503. A second signal ends it at once,
with 128 plus the signal's number, as the first signal does for every other command.
"""

import asyncio
import errno
import ipaddress
import logging
import math
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import ClassVar

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from transduce.serve.access import client_network
from transduce.serve.errors import HTTPError
from transduce.serve.requests import SHUTDOWN
from transduce.serve.routing import error_response
from transduce.serve.settings import NO_LIMIT, ServerSettings

_ANSWER_S = 2  # for answering requests that exceed the shutdown limit
_MAX_CONNECTIONS = 1000  # at a time; further ones are answered with 503

_REQUEST_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def bind(settings: ServerSettings) -> socket.socket:
    """Bind a socket to the address of the settings, without listening yet.

    Raises:
        ValueError: if the address is unavailable; one line with the remedy.
    """
    host, port = settings.host, settings.port
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, socket_type, protocol, _, address = addresses[0]
        bound = socket.socket(family, socket_type, protocol)
    except (OSError, UnicodeError):
        raise ValueError(f"cannot resolve the address {host!r}: choose another --host") from None
    try:
        if sys.platform != "win32":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise ValueError(
                f"port {port} of {host} is in use: stop the other process or choose another --port"
            ) from None
        reason = error.strerror or str(error)
        raise ValueError(f"cannot bind port {port} of {host}: {reason}") from None
    return bound


def url_of(bound: socket.socket) -> str:
    """Return the URL of a bound socket, for a browser on this machine."""
    host, port = bound.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def run(
    app: ASGIApp, settings: ServerSettings, *, bound: socket.socket, on_ready: Callable[[], None]
) -> int:
    """Serve until a signal arrives.

    Args:
        settings: time limits.
        bound: a socket from `bind`; it is closed at the end.
        on_ready: called once requests are accepted.

    Returns:
        The exit code: 0 if all accepted requests were finished, 1 if some exceeded the shutdown
        limit, and 128 plus the signal's number after a second signal.
    """
    log_to_stderr()
    config = uvicorn.Config(
        app,
        http=_protocol_with_deadlines(settings),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=max(1, round(settings.keep_alive_s)),
        timeout_graceful_shutdown=math.ceil(settings.drain_s) + _ANSWER_S,
        h11_max_incomplete_event_size=settings.header_limit,
    )
    server = _Server(config, on_ready, drain_s=settings.drain_s)
    server.run(sockets=[bound])
    if server.force_exit:
        return 128 + server.signal_number
    return 1 if server.unfinished else 0


@contextmanager
def stop_signals_handled(handler: Callable[[int, FrameType | None], object]) -> Generator[None]:
    """Handle the signals that let a server finish, instead of what they did."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in previous.items():
            signal.signal(number, earlier)


def log_to_stderr() -> None:
    """Log to stderr with timestamps. Idempotent: there is one log per process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    for name, level in (("transduce.serve", logging.INFO), ("uvicorn", logging.ERROR)):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(level)


class _Server(uvicorn.Server):
    """A uvicorn server that reports when it is ready and does not re-raise signals at the end."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], *, drain_s: float
    ) -> None:
        super().__init__(config)
        self._on_ready, self._drain_s = on_ready, drain_s
        self.signal_number = 0
        self.unfinished = 0
        """Number of requests cancelled at shutdown."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        timer = asyncio.get_running_loop().call_later(self._drain_s, self._cancel_requests)
        await super().shutdown(sockets)
        timer.cancel()

    def _cancel_requests(self) -> None:
        for task in self.server_state.tasks:
            self.unfinished += task.cancel(SHUTDOWN)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        with stop_signals_handled(self._stop):
            yield

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit  # true on the second signal
        self.should_exit = True
        self.signal_number = number


class ConnectionCounts:
    """Concurrent connections of each client; those of trusted proxies are not limited."""

    def __init__(self, settings: ServerSettings) -> None:
        self._limit = settings.client_connection_limit
        self._trusted = [ipaddress.ip_network(proxy) for proxy in settings.trusted_proxies]
        self._counts = Counter[str]()

    def add(self, address: str) -> bool:
        """Count a connection; whether it is within the limit."""
        client = client_network(address)
        self._counts[client] += 1
        return self._limit == NO_LIMIT or (
            self._counts[client] <= self._limit or self._is_trusted(address)
        )

    def remove(self, address: str) -> None:
        """Count the end of a connection."""
        client = client_network(address)
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]

    def _is_trusted(self, address: str) -> bool:
        try:
            return any(ipaddress.ip_address(address) in network for network in self._trusted)
        except ValueError:
            return False


class _DeadlineProtocol(H11Protocol):
    """uvicorn's protocol with deadlines for a request's head, its body, and an idle connection.

    uvicorn's own keep-alive timer is lost if a body continues after its response.
    """

    deadlines_s: ClassVar[dict[str, float]]
    """Seconds per phase of a connection."""
    connections_per_client: ClassVar[ConnectionCounts]

    phase: tuple[str, int] = ("", 0)
    """Name of the phase, and identity of the request."""
    deadline: asyncio.TimerHandle | None = None
    write_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self.connections_per_client.add(self.peer_address):
            self.app = _too_many_connections  # idle connections count, but get no response
        self.update_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self.deadline, self.write_deadline):
            if timer is not None:
                timer.cancel()
        self.connections_per_client.remove(self.peer_address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.update_phase()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.update_phase()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.write_deadline = self.loop.call_later(self.deadlines_s["body"], self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.write_deadline is not None:
            self.write_deadline.cancel()

    @property
    def peer_address(self) -> str:
        """IP address of the client or the proxy; "" if unknown."""
        return self.client[0] if self.client else ""

    def update_phase(self) -> None:
        """Restart the deadline when the client enters another phase."""
        client_state = self.conn.their_state
        name = "body" if client_state is h11.SEND_BODY else ""
        if client_state is h11.IDLE:
            # Bytes beyond the last request are the beginning of the next head.
            reading_head = not self.cycle or self.conn.trailing_data[0]
            name = "head" if reading_head else "idle"
        phase = (name, id(self.cycle))
        if phase == self.phase:
            return
        self.phase = phase
        if self.deadline is not None:
            self.deadline.cancel()
        seconds = self.deadlines_s.get(name)
        self.deadline = self.loop.call_later(seconds, self.time_out) if seconds else None

    def time_out(self) -> None:
        """Answer 408 to a request that was begun and not answered, and close the connection."""
        started = self.phase[0] == "body" or bool(self.conn.trailing_data[0])
        answered = self.cycle and self.cycle.response_started
        if started and (self.phase[0] == "head" or not answered):
            self.transport.write(_REQUEST_TIMEOUT)
        self.transport.close()


async def _too_many_connections(scope: Scope, receive: Receive, send: Send) -> None:
    """Reject a request of a client with too many connections, and close this one."""
    error = HTTPError(429, "Too many connections: close some first", retry_after=1)
    response = error_response(error, scope["path"])
    response.headers["connection"] = "close"
    await response(scope, receive, send)


def _protocol_with_deadlines(settings: ServerSettings) -> type[H11Protocol]:
    """Return the protocol class with the deadlines of the settings (uvicorn takes a class)."""

    class Protocol(_DeadlineProtocol):
        deadlines_s: ClassVar[dict[str, float]] = {
            "head": settings.header_timeout_s,
            "body": settings.body_timeout_s,
            "idle": settings.keep_alive_s,
        }
        connections_per_client = ConnectionCounts(settings)

    return Protocol
