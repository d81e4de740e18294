"""Connections whose client is slow to read a response."""

import asyncio
from collections.abc import Iterator

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
