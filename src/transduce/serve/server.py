"""The uvicorn server, and how it ends.

SIGTERM, SIGHUP and Ctrl-C let the server finish accepted requests within a time limit; it then
exits with 0. Requests that exceed the limit are answered with 503. A second signal ends it at once,
with 128 plus the signal's number, as the first signal does for every other command.
"""

import asyncio
import errno
import logging
import math
import signal
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from transduce.serve.access import unmapped_address
from transduce.serve.protocol import make_protocol
from transduce.serve.requests import SHUTDOWN
from transduce.serve.settings import ServerSettings

_ANSWER_S = 2  # for answering requests that exceed the shutdown limit
_MAX_CONNECTIONS = 1000  # at a time; further ones are answered with 503


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
        http=make_protocol(settings),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=[*map(unmapped_address, settings.trusted_proxies)],
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=math.ceil(settings.drain_s) + _ANSWER_S,
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
