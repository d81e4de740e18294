"""One request from its head to its answer; and the table row that says what a path does.

An `Operation` is all that is known of a path and verb: who answers, what may be asked and what may
be answered. The routes and the OpenAPI document are both made from it, so they cannot disagree.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel
from starlette.types import Message, Receive, Scope, Send

from transduce.serve.answers import (
    JSON,
    Error,
    Reply,
    Shape,
    libre_error,
    refuse,
    send_reply,
)
from transduce.serve.bodies import Gone, Sent, header, json_object, read_body, sent
from transduce.serve.refusal import Refusal

LOG = logging.getLogger("transduce.serve")

Bodies = Literal["none", "json", "any", "file"]
"""What a request may bring: nothing, JSON, JSON or a form or a query string, a form with a file."""

WORKING = (400, 403, 413, 429, 500, 503, 504)
"""How a request that a model works for can end, other than well."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """A request, its body read."""

    scope: Scope
    body: bytes

    def header(self, name: bytes) -> str:
        """A header's value, "" without it; `name` is lower case."""
        return header(self.scope, name)

    def sent(self) -> Sent:
        """What the request says.

        Raises:
            Refusal: 400, with what is wrong.
        """
        return sent(self.scope, self.body)

    def json(self) -> Mapping[str, object]:
        """What the request says, which must be JSON.

        Raises:
            Refusal: 400, with what is wrong.
        """
        return json_object(self.body)

    def note(self, texts: Sequence[str]) -> None:
        """Tell the log how much text there is."""
        self.scope.setdefault("state", {})["characters"] = sum(map(len, texts))

    def path(self, name: str) -> str:
        """A part of the path."""
        return self.scope["path_params"][name]


Handler = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A path and a verb: who answers, what may be asked, what may be answered."""

    path: str
    verb: Literal["GET", "POST"]
    name: str
    """Of the operation, for programs that make clients from the document."""
    about: str
    handler: Handler
    answer: type[BaseModel] | None
    """What an answer of 200 holds, if it is JSON."""
    asks: type[BaseModel] | None = None
    bodies: Bodies = "none"
    kind: str = JSON
    """Of an answer of 200."""
    errors: tuple[int, ...] = (500,)
    error: type[BaseModel] = Error
    shape: Shape = libre_error
    most: int = 0
    """Most bytes of a body."""
    seconds: float | None = None
    """Most time for an answer, during which the client is watched; None watches nobody."""
    answers_well: bool = True
    """Whether there is an answer of 200 at all."""


class Endpoint:
    """An operation as an ASGI application."""

    def __init__(self, operation: Operation) -> None:
        """Take the operation."""
        self.operation = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; a client that went away gets nothing."""
        does = self.operation
        try:
            body = b"" if does.bodies == "none" else await read_body(scope, receive, most=does.most)
            work = does.handler(Call(scope=scope, body=body))
            reply = await (work if does.seconds is None else _wanted(work, receive, does.seconds))
        except Gone:
            return
        except Refusal as refusal:
            reply = refuse(refusal, does.shape)
        except Exception:
            reply = bug(scope, does.shape)
        await send_reply(reply, send)


def bug(scope: Scope, shape: Shape) -> Reply:
    """Log the exception that is being handled; answer with nothing of it but the request's name."""
    name = request_id(scope)
    LOG.exception("request %s: %s %r failed", name, scope["method"], scope["path"])
    return refuse(Refusal(500, f"internal error, request {name}"), shape)


def request_id(scope: Scope) -> str:
    """The name of a request in the log and in its answer."""
    return scope.get("state", {}).get("request_id", "")


async def _wanted(work: Awaitable[Reply], receive: Receive, seconds: float) -> Reply:
    """Wait for an answer while there is somebody who wants it, and for so many seconds at most.

    The work runs in the task of the request, so giving it up is cancelling that task.
    """
    task = asyncio.current_task()
    assert task is not None
    gone: list[Message] = []
    watch = asyncio.create_task(_watch(receive, task, gone))
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise Refusal(504, f"The time limit of {seconds:g} seconds is over") from None
    except asyncio.CancelledError:
        if not gone:
            raise
        task.uncancel()
        raise Gone from None
    finally:
        watch.cancel()


async def _watch(receive: Receive, task: "asyncio.Task[object]", gone: list[Message]) -> None:
    while (message := await receive())["type"] != "http.disconnect":
        pass
    gone.append(message)
    task.cancel()
