"""The application: every path a table row, around it what holds for all answers.

request → Observed (name, counts, log) → Front (CORS, bugs) → Router → Endpoint → a handler
"""

import hmac
import json
import logging
from collections.abc import Sequence
from dataclasses import replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.serve.answers import JSON, Reply, Shape, libre_error, send_reply
from transduce.serve.call import Call, Endpoint, Operation, bug
from transduce.serve.deepl import DeepL, message
from transduce.serve.directions import Directions
from transduce.serve.files import Files, Shelf
from transduce.serve.libretranslate import LibreTranslate
from transduce.serve.metrics import CONTENT_TYPE, Metrics, Observed
from transduce.serve.native import Native
from transduce.serve.openapi import document
from transduce.serve.pages import Pages
from transduce.serve.refusal import Refusal
from transduce.serve.settings import Settings

CORS = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-max-age", b"1728000"),
    (b"access-control-expose-headers", b"Retry-After, X-Request-ID"),
)
"""So that pages of other hosts can use this server: LibreTranslate's values, and two of ours."""


def make_app(directions: Directions, settings: Settings) -> Starlette:
    """Make the application.

    Args:
        directions: what is loaded. Closing them is left to the caller.
        settings: how it may be used.
    """
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # clients' faults are no news
    shelf = Shelf()
    metrics = Metrics(directions)
    told = (
        *LibreTranslate(directions, settings).operations(),
        *Files(directions, settings, shelf).operations(),
        *DeepL(directions, settings).operations(),
        *Native(directions, settings).operations(),
        _metrics(metrics, settings),
    )
    described = (*told, *_documents(told, directions), *Pages().operations())
    app = Starlette(
        routes=[
            Route(one.path, Endpoint(one), methods=[one.verb], name=one.name) for one in described
        ],
        middleware=[
            Middleware(Observed, metrics, quiet=settings.quiet),
            Middleware(Front),
        ],
        exception_handlers={HTTPException: _not_here},
    )
    app.router.redirect_slashes = False
    app.state.shelf = shelf
    return app


class Front:
    """What holds for all answers: CORS, and that a bug of ours tells a client nothing."""

    def __init__(self, app: ASGIApp) -> None:
        """Take the application behind it."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; OPTIONS is answered here, as it is the same everywhere."""
        started = False

        async def sending(said: Message) -> None:
            nonlocal started
            if said["type"] == "http.response.start":
                started = True
                said["headers"] = [*said.get("headers", ()), *CORS]
            await send(said)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            await send_reply(Reply(b""), sending)
        else:
            try:
                await self._app(scope, receive, sending)
            except Exception:
                reply = bug(scope, _shape(scope))
                if not started:
                    await send_reply(reply, sending)


def _shape(scope: Scope) -> Shape:
    return message if scope["path"].startswith("/v2/") else libre_error


async def _not_here(request: Request, error: Exception) -> Response:
    """Say 404 and 405 in the shape of the API that was asked."""
    assert isinstance(error, HTTPException)
    said = _shape(request.scope)(str(error.detail))
    return JSONResponse(said.model_dump(), error.status_code, headers=error.headers)


def _metrics(metrics: Metrics, settings: Settings) -> Operation:
    wanted = settings.metrics_auth_token

    async def answer(call: Call) -> Reply:
        if wanted and not _bears(call, wanted):
            raise Refusal(401, "Unauthorized")
        return Reply(metrics.text(), kind=CONTENT_TYPE)

    return Operation(
        path="/metrics",
        verb="GET",
        name="metrics",
        about="Counts and times, as Prometheus reads them.",
        handler=answer,
        answer=None,
        kind=CONTENT_TYPE,
        errors=(401, 500),
    )


def _bears(call: Call, token: str) -> bool:
    said = call.header(b"authorization")
    return hmac.compare_digest(said.encode(), f"Bearer {token}".encode())


def _documents(told: Sequence[Operation], directions: Directions) -> list[Operation]:
    """The document of what is told, under its usual name and under LibreTranslate's."""
    operations = [
        Operation(
            path=path,
            verb="GET",
            name=name,
            about="This document.",
            handler=_unmade,
            answer=None,
            kind=JSON,
        )
        for path, name in (("/openapi.json", "openapi"), ("/spec", "spec"))
    ]
    whole = json.dumps(document([*told, *operations], directions), ensure_ascii=False).encode()

    async def answer(call: Call) -> Reply:
        return Reply(whole)

    return [replace(one, handler=answer) for one in operations]


async def _unmade(call: Call) -> Reply:
    raise AssertionError("the document of a server is made before it answers")
