"""The ASGI application: a table of operations, static files and middleware.

request → MetricsMiddleware → CORSMiddleware → router → Endpoint → handler
"""

import hashlib
import hmac
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce import visualization
from transduce.serve.deepl import DeepLAPI
from transduce.serve.documents import DocumentAPI
from transduce.serve.libretranslate import LibreTranslateAPI
from transduce.serve.metrics import CONTENT_TYPE, Metrics, MetricsMiddleware
from transduce.serve.model_registry import ModelRegistry
from transduce.serve.native import NativeAPI
from transduce.serve.requests import HTTPError, HTTPRequest
from transduce.serve.routing import (
    JSON,
    Endpoint,
    Operation,
    error_response,
    internal_error,
    openapi_document,
)
from transduce.serve.settings import ServerSettings
from transduce.visualization.attention_view import SCRIPTS

CORS_HEADERS = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-max-age", b"1728000"),
    (b"access-control-expose-headers", b"Retry-After, X-Request-ID"),
)
"""LibreTranslate's values, and two exposed headers of our own."""

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the page: no inline scripts or styles, no other hosts."""

INDEX: Final = "index.html"

_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


def make_app(registry: ModelRegistry, settings: ServerSettings) -> Starlette:
    """Make the application.

    Args:
        registry: the loaded models; the caller closes it.
        settings: limits and keys.
    """
    # Malformed forms are the clients' fault and answered with 400: not worth a log line.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    documents = DocumentAPI(registry, settings)
    metrics = Metrics(registry)
    documented = (
        *LibreTranslateAPI(registry, settings).operations(),
        *documents.operations(),
        *DeepLAPI(registry, settings).operations(),
        *NativeAPI(registry, settings).operations(),
        _metrics_operation(metrics, settings),
    )
    operations = (
        *documented,
        *_document_operations(documented, registry),
        *_page_operations(),
    )
    app = Starlette(
        routes=[
            Route(
                operation.path,
                Endpoint(operation, settings),
                methods=[operation.method],
                name=operation.name,
            )
            for operation in operations
        ],
        middleware=[
            Middleware(MetricsMiddleware, metrics, quiet=settings.quiet),
            Middleware(CORSMiddleware),
        ],
        exception_handlers={HTTPException: _routing_error},
    )
    app.router.redirect_slashes = False
    app.state.document_store = documents.store
    return app


class CORSMiddleware:
    """Adds CORS headers to every response, and hides unhandled exceptions from clients."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; OPTIONS has the same response for every path."""
        started = False

        async def send_with_cors(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), *CORS_HEADERS]
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            await Response(media_type=JSON)(scope, receive, send_with_cors)
        else:
            try:
                await self._app(scope, receive, send_with_cors)
            except Exception:
                response = internal_error(scope)
                if not started:
                    await response(scope, receive, send_with_cors)


async def _routing_error(request: Request, error: Exception) -> Response:
    """Format 404 and 405 for the API of the path."""
    assert isinstance(error, HTTPException)
    response = error_response(HTTPError(error.status_code, error.detail), request.scope["path"])
    response.headers.update(error.headers or {})
    return response


def _metrics_operation(metrics: Metrics, settings: ServerSettings) -> Operation:
    token = settings.metrics_auth_token

    async def handler(request: HTTPRequest) -> Response:
        """Return metrics in Prometheus's text format."""
        authorization = request.headers.get("authorization", "").encode()
        if token and not hmac.compare_digest(authorization, f"Bearer {token}".encode()):
            raise HTTPError(401, "Unauthorized")
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    return Operation("GET", "/metrics", handler, media_type=CONTENT_TYPE, error_statuses=(401, 500))


def _document_operations(
    documented: Sequence[Operation], registry: ModelRegistry
) -> list[Operation]:
    """Return the OpenAPI document's operations: its usual path and LibreTranslate's."""

    async def handler(request: HTTPRequest) -> Response:
        """Return this document."""
        return response

    # The document describes these operations too, so they exist before the response.
    operations = [
        Operation("GET", path, handler, operation_id=name)
        for path, name in (("/openapi.json", "openapi"), ("/spec", "spec"))
    ]
    sources = [language.code for language in registry.sources()]
    targets = [language.code for language in registry.targets()]
    languages = {
        "source": ["auto", *sources],
        "target": targets,
        "source_lang": [code.upper() for code in sources],
        "target_lang": [code.upper() for code in targets],
    }
    document = openapi_document([*documented, *operations], languages)
    response = Response(json.dumps(document, ensure_ascii=False), media_type=JSON)
    return operations


def page_responses() -> dict[str, Response]:
    """Read the files of the page by name: its own and those of the attention view."""
    page, view = Path(__file__).parent / "page", Path(visualization.__file__).parent
    own = (INDEX, "page.css", "theme.js", "page.js", "api_client.js", "output.js", "details.js")
    shared = ("colours.css", "attention.css", *SCRIPTS)
    return {
        path.name: _file_response(path)
        for path in [*(page / name for name in own), *(view / name for name in shared)]
    }


def _page_operations() -> list[Operation]:
    """Return the operations for browsers, which are not part of the OpenAPI document.

    `index.html` is served at `/` and the other files at `/page/<name>`. Browsers cache them and
    revalidate on each visit.
    """
    responses = page_responses()

    async def handler(request: HTTPRequest) -> Response:
        response = responses.get(request.path_params.get("name", INDEX))
        if response is None:
            raise HTTPError(404, "Not Found")
        return _revalidated(request, response)

    return [
        Operation("GET", path, handler, operation_id=name, error_statuses=(404, 500))
        for path, name in (("/", "page"), ("/page/{name}", "page_file"))
    ]


def _file_response(path: Path) -> Response:
    content = path.read_bytes()
    headers = {
        "etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        "cache-control": "no-cache",
        "content-security-policy": PAGE_POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }
    return Response(content, headers=headers, media_type=_MEDIA_TYPES[path.suffix])


def _revalidated(request: HTTPRequest, response: Response) -> Response:
    """Return the response, or 304 if the browser has a current copy."""
    cached = request.headers.get("if-none-match", "").split(",")
    if response.headers["etag"] not in [tag.strip().removeprefix("W/") for tag in cached]:
        return response
    headers = dict(response.headers)
    del headers["content-type"], headers["content-length"]  # they describe the omitted body
    return Response(status_code=304, headers=headers)
