"""HTTP/1.1 connections: uvicorn's protocol with deadlines and limits, in front of all requests."""

import asyncio
import ipaddress
from collections import Counter
from typing import ClassVar, Literal

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from transduce.serve.access import client_network, unmapped_address
from transduce.serve.errors import HTTPError
from transduce.serve.routing import error_response
from transduce.serve.settings import NO_LIMIT, ServerSettings

_MAX_PIPELINED = 32  # requests of a connection that wait for the responses before them
_LEAST_READ = 65536  # bytes of a response in `body_timeout_s`, while more is unsent

_REQUEST_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class ConnectionCounts:
    """Concurrent connections of each client; those of trusted proxies are not limited."""

    def __init__(self, settings: ServerSettings) -> None:
        self._limit = settings.client_connection_limit
        self._trusted = [
            ipaddress.ip_network(unmapped_address(proxy)) for proxy in settings.trusted_proxies
        ]
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


class DeadlineProtocol(HttpToolsProtocol):
    """A connection with deadlines for a request's head, its body, and idleness.

    uvicorn's own keep-alive timer, which is lost if a body continues after its response, is not
    used. What its parser accepts beyond RFC 9112 or without a limit has the response 400: a head
    that is too large, none or several Host headers, too many requests ahead of their responses.
    Trailers are dropped, and so is Upgrade, after which the parser would skip the body: Java's
    client offers HTTP/2 with it.
    """

    deadlines_s: ClassVar[dict[str, float]]
    """Seconds per phase of a connection."""
    header_limit: ClassVar[int]
    """Maximum bytes of a head."""
    connections_per_client: ClassVar[ConnectionCounts]

    phase: tuple[str, int] = ("", 0)
    """Name of the phase, and identity of the request."""
    receiving: Literal["", "head", "body"] = ""
    """The part of a request that has begun and is not complete."""
    head: bytes = b""
    """A head that is not complete, before the parser sees it."""
    head_bytes: int = 0
    """Of a head that is not complete, behind another request, which the parser has seen."""
    deadline: asyncio.TimerHandle | None = None
    write_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.client:  # of IPv4 even where the server listens on ::, as proxies are named
            self.client = (unmapped_address(self.client[0]), self.client[1])
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
        if self.head or not self.receiving:
            self.head = (self.head + data).lstrip(b"\r\n")  # empty lines before a request
            self.receiving = "head" if self.head else ""
            data = b""
            if b"\r\n\r\n" in self.head or b"\n\n" in self.head:  # the parser refuses the second
                data, self.head = _without_upgrade(self.head), b""
        elif self.receiving == "head":
            self.head_bytes += len(data)
        if data:
            super().data_received(data)
        if self.receiving == "head" and len(self.head) + self.head_bytes > self.header_limit:
            self.send_400_response("Invalid HTTP request received.")
        self.update_phase()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.receiving, self.head_bytes = "head", 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.receiving == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        assert self.parser is not None
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise ValueError("a request has one Host")  # the parser reports it: 400
        if len(self.pipeline) >= _MAX_PIPELINED:
            raise ValueError("too many requests ahead of their responses")
        self.receiving = "body"
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.receiving = ""
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unset_keepalive_if_required()  # idleness has its deadline here
        self.update_phase()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.await_reader()

    def await_reader(self) -> None:
        """End the connection if the client hardly reads in the time of a body."""
        seconds, unsent = self.deadlines_s["body"], self.transport.get_write_buffer_size()
        self.write_deadline = self.loop.call_later(seconds, self.check_reader, unsent)

    def check_reader(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < _LEAST_READ:
            self.transport.abort()
        else:
            self.await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.write_deadline is not None:
            self.write_deadline.cancel()

    @property
    def peer_address(self) -> str:
        """IP address of the client or the proxy; "" if unknown."""
        return self.client[0] if self.client else ""

    @property
    def request(self) -> RequestResponseCycle | None:
        """The last request whose head is complete; uvicorn's type leaves out that there is none."""
        return self.cycle

    def update_phase(self) -> None:
        """Restart the deadline when the client enters another phase."""
        name, request = self.receiving, self.request
        if name != "body" and request is None:
            name = "head"
        elif name != "body" and request is not None:
            name = (name or "idle") if request.response_complete else ""
        phase = (name, id(request))
        if phase == self.phase:
            return
        self.phase = phase
        if self.deadline is not None:
            self.deadline.cancel()
        seconds = self.deadlines_s.get(name)
        self.deadline = self.loop.call_later(seconds, self.time_out) if seconds else None

    def time_out(self) -> None:
        """Answer 408 to a request that was begun and not answered, and close the connection."""
        answered = self.request is not None and self.request.response_started
        if self.receiving == "head" or (self.receiving == "body" and not answered):
            self.transport.write(_REQUEST_TIMEOUT)
        self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """Drop the Upgrade headers of a request, of which the head is complete.

    >>> _without_upgrade(b"GET / HTTP/1.1\\r\\nUpgrade: h2c\\r\\nHost: a\\r\\n\\r\\nUpgrade: b")
    b'GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\nUpgrade: b'
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    if b"upgrade:" not in head.lower():
        return data
    lines = head.split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(b"upgrade:")]
    return b"\r\n".join(kept) + end + rest


async def _too_many_connections(scope: Scope, receive: Receive, send: Send) -> None:
    """Reject a request of a client with too many connections, and close this one."""
    error = HTTPError(429, "Too many connections: close some first", retry_after=1)
    response = error_response(error, scope["path"])
    response.headers["connection"] = "close"
    await response(scope, receive, send)


def make_protocol(settings: ServerSettings) -> type[DeadlineProtocol]:
    """Return the protocol with the limits of the settings: uvicorn takes a class."""

    class Protocol(DeadlineProtocol):
        deadlines_s: ClassVar[dict[str, float]] = {
            "head": settings.header_timeout_s,
            "body": settings.body_timeout_s,
            "idle": settings.keep_alive_s,
        }
        header_limit = settings.header_limit
        connections_per_client = ConnectionCounts(settings)

    return Protocol
