"""Connections whose client is slow to read a response, and how a response is written."""

import asyncio
from collections.abc import Iterator

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.server import ServerState

from transduce.serve.protocol import make_protocol
from transduce.serve.settings import ServerSettings


class SlowlyRead(asyncio.Transport):
    """A connection of which so many bytes are unsent whenever it is asked."""

    def __init__(self, unsent: Iterator[int]) -> None:
        super().__init__()
        self.unsent, self.aborted = unsent, False

    def get_write_buffer_size(self) -> int:
        return next(self.unsent)

    def abort(self) -> None:
        self.aborted = True


async def no_app(scope: Scope, receive: Receive, send: Send) -> None:
    """Is never called."""


def test_a_response_that_is_read_slowly_is_sent_until_hardly_anything_is_read() -> None:
    unsent = iter([900_000, 600_000, 600_000, 300_000, 300_000, 299_999, 0])

    async def go() -> None:
        protocol_class = make_protocol(ServerSettings(body_timeout_s=0.01))
        protocol = protocol_class(Config(no_app, log_config=None), ServerState(), {})
        protocol.transport = transport = SlowlyRead(unsent)
        protocol.flow = FlowControl(transport)
        protocol.pause_writing()
        async with asyncio.timeout(10):
            while not transport.aborted:
                await asyncio.sleep(0.001)

    asyncio.run(go())

    assert list(unsent) == [0]


class Recorded(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.written.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.written


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with a body as long as the path says, at once or later."""
    await receive()
    when, size = scope["path"][1:].split("/")
    headers = [(b"content-length", size.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if when == "later":
        await asyncio.sleep(0.01)
    await send({"type": "http.response.body", "body": int(size) * b"x"})


def head(length: int, *, close: bool = False) -> bytes:
    connection = b"connection: close\r\n" if close else b""
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n%b\r\n" % (length, connection)


@pytest.mark.parametrize(
    ("request_head", "written"),
    [
        ("GET /now/2 HTTP/1.1", [head(2) + b"xx"]),
        ("GET /now/0 HTTP/1.1", [head(0)]),
        ("GET /later/2 HTTP/1.1", [head(2), b"xx"]),
        ("GET /now/100000 HTTP/1.1", [head(100_000), 100_000 * b"x"]),
        ("HEAD /now/2 HTTP/1.1", [head(2)]),
        ("GET /now/2 HTTP/1.0", [head(2, close=True) + b"xx", b"closed"]),
        ("HEAD /now/2 HTTP/1.0", [head(2, close=True), b"closed"]),
        (
            "POST /now/2 HTTP/1.1\r\nContent-Length: 0\r\nExpect: 100-continue",
            [b"HTTP/1.1 100 Continue\r\n\r\n", head(2) + b"xx"],
        ),
    ],
)
def test_head_and_body_are_one_write_where_the_body_is_small_and_follows_at_once(
    request_head: str, written: list[bytes]
) -> None:
    transport = Recorded()

    async def go() -> None:
        protocol_class = make_protocol(ServerSettings())
        protocol = protocol_class(Config(answering, log_config=None), ServerState(), {})
        protocol.connection_made(transport)
        protocol.data_received(f"{request_head}\r\nHost: a\r\n\r\n".encode())
        async with asyncio.timeout(10):
            while protocol.request is None or not protocol.request.response_complete:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)

    asyncio.run(go())

    assert transport.written == written
