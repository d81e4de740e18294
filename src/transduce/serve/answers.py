"""What goes back to a client: a status, a body, its kind. Each API has a shape for refusals."""

from collections.abc import Callable
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict
from starlette.types import Send

from transduce.serve.refusal import Refusal

JSON = "application/json"


class Exact(BaseModel):
    """A model of which every field is known; all that this server says, and its own requests."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Loose(BaseModel):
    """A request of an API that clients of many kinds speak: what is unknown here is left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class Error(Exact):
    """Why there is no answer."""

    error: str


class Reply(NamedTuple):
    """A whole answer."""

    body: bytes
    status: int = 200
    kind: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


Shape = Callable[[str], BaseModel]
"""How an API says an error."""


def say(model: BaseModel) -> Reply:
    """Answer with a model; what was not set is left out."""
    return Reply(model.model_dump_json(exclude_unset=True).encode())


def refuse(refusal: Refusal, shape: Shape) -> Reply:
    """Say a refusal in the shape of an API."""
    again = refusal.retry_after
    return Reply(
        shape(refusal.message).model_dump_json().encode(),
        refusal.status,
        headers=() if again is None else (("retry-after", str(again)),),
    )


def libre_error(message: str) -> BaseModel:
    """The shape of LibreTranslate's errors, and of our own."""
    return Error(error=message)


async def send_reply(reply: Reply, send: Send) -> None:
    """Send a whole answer."""
    headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in reply.headers]
    if reply.status != 304:  # it tells of the body that is not sent
        headers.append((b"content-type", reply.kind.encode("latin-1")))
        headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
