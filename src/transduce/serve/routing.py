"""Operations: what handles a path and method, how its errors are formatted, and its limits.

`openapi.json` describes them for clients; tests compare it with the operations, the fields of their
requests, and each response. LibreTranslate's and DeepL's requests may be JSON, a form of either
kind, or a query string.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from transduce.serve.access import ClientLimits
from transduce.serve.errors import LOG, HTTPError, is_deepl
from transduce.serve.requests import SHUTDOWN, HTTPRequest, read_body
from transduce.serve.settings import ServerSettings

JSON = "application/json"


class StrictModel(BaseModel):
    """Rejects unknown fields: the native API's requests, and what the server stores."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LenientModel(BaseModel):
    """Ignores unknown fields: requests of APIs with many different clients."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


Content = Mapping[str, object] | Sequence[object]
"""Content of a JSON response."""


def json_response(content: Content, status: int = 200) -> Response:
    """Serialize the content; NaN and infinity become null."""
    return Response(to_json(content, inf_nan_mode="null"), status, media_type=JSON)


def error_response(error: HTTPError, path: str) -> Response:
    """Format an error for the API of the path."""
    field = "message" if is_deepl(path) else "error"
    response = json_response({field: error.message}, error.status)
    if error.retry_after is not None:
        response.headers["retry-after"] = str(error.retry_after)
    return response


Handler = Callable[[HTTPRequest], Awaitable[Response | Content | None]]
"""Returns a response, the content of a JSON one, or None for one without content."""
_MARK = "operations"
MethodT = TypeVar("MethodT", bound=Callable[..., Awaitable[Response | Content | None]])


@dataclass(frozen=True, slots=True)
class Operation:
    """A path and method: its handler, request and limits. As a decorator, of its handler."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """DeepL's API (`/v2/`, `/v3/`) requires a key for every operation, if the server has keys."""
    request: type[BaseModel] | None = None
    """Fields of the request; None if its body is not read."""
    _: KW_ONLY
    handler: Handler | None = None
    """None until `operations_of` binds it."""
    success_status: int = 200
    """Of a handler that returns JSON content."""
    max_body_bytes: int = sys.maxsize
    """Maximum size of a request body, if below the server's."""
    time_limits: int = 0
    """Maximum duration as a multiple of the server's time limit, ended early if the client
    disconnects; 0 waits without watching the client. Set for requests that run a model."""

    def __call__(self, method: MethodT) -> MethodT:
        """Mark a method as the handler, for `operations_of`."""
        setattr(method, _MARK, (*getattr(method, _MARK, ()), self))
        return method


def operations_of(api: object) -> tuple[Operation, ...]:
    """Return the operations that decorate methods of an API."""
    methods = [getattr(api, name) for name in vars(type(api))]
    return tuple(
        replace(operation, handler=method)
        for method in methods
        for operation in getattr(method, _MARK, ())
    )


class Endpoint:
    """An operation as an ASGI application."""

    def __init__(
        self, operation: Operation, settings: ServerSettings, clients: ClientLimits
    ) -> None:
        self.operation = operation
        self._settings, self._clients = settings, clients
        self._max_body_bytes = min(settings.body_limit, operation.max_body_bytes)
        self._timeout_s = operation.time_limits * settings.time_limit_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; nothing is sent to a client that disconnected."""
        request, succeeded = None, False
        try:
            body = b""
            if self.operation.request is not None:
                body = await read_body(scope, receive, max_bytes=self._max_body_bytes)
            request = HTTPRequest(scope, body, self._settings, self._clients)
            if is_deepl(self.operation.path):
                request.authorize(None, missing_status=403)
            work = self._handle(request)
            limited = _with_timeout(work, receive, self._timeout_s) if self._timeout_s else work
            response = await limited
            succeeded = True
        except ClientDisconnect:
            return
        except HTTPError as error:
            response = error_response(error, scope["path"])
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or error.args != (SHUTDOWN,):
                raise
            task.uncancel()
            response = error_response(HTTPError(503, SHUTDOWN, retry_after=1), scope["path"])
        except Exception:
            response = internal_error(scope)
        finally:
            if request is not None and not succeeded:
                request.refund()
        await response(scope, receive, send)

    async def _handle(self, request: HTTPRequest) -> Response:
        await request.parse_if_large()
        assert self.operation.handler is not None
        result = await self.operation.handler(request)
        if isinstance(result, Response):
            return result
        if result is None:
            return Response(status_code=204)
        return json_response(result, self.operation.success_status)


def internal_error(scope: Scope) -> Response:
    """Log the current exception; the response reveals only the request ID."""
    name = scope.get("state", {}).get("request_id", "")
    LOG.exception("request %s: %s %r failed", name, scope["method"], scope["path"])
    return error_response(HTTPError(500, f"internal error, request {name}"), scope["path"])


async def _with_timeout(work: Awaitable[Response], receive: Receive, seconds: float) -> Response:
    """Await a response for at most `seconds`, and only while the client is connected.

    The work runs in the task of the request, so cancelling that task abandons it.
    """
    task = asyncio.current_task()
    assert task is not None
    disconnects: list[Message] = []
    watcher = asyncio.create_task(_cancel_on_disconnect(receive, task, disconnects))
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise HTTPError(504, f"The time limit of {seconds:g} seconds was exceeded") from None
    except asyncio.CancelledError:
        if not disconnects:  # cancelled by the server, not by the watcher
            raise
        task.uncancel()
        raise ClientDisconnect from None
    finally:
        watcher.cancel()


async def _cancel_on_disconnect(
    receive: Receive, task: "asyncio.Task[object]", disconnects: list[Message]
) -> None:
    while (message := await receive())["type"] != "http.disconnect":
        pass
    disconnects.append(message)
    task.cancel()
