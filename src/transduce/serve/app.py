"""The ASGI application: a table of operations, static files, metrics and a log of requests.

The log has one line per request and never contains its text.

request → RequestMiddleware → router → Endpoint → handler
"""

import asyncio
import hashlib
import hmac
import itertools
import json
import logging
import os
import re
import secrets
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce import visualization
from transduce.io.machine import VERSION
from transduce.serve.access import AccessPolicy, ClientLimits
from transduce.serve.client_store import ClientStore
from transduce.serve.connectors import OPUS_CAT, OPUS_CAT_TOO, ConnectorAPI
from transduce.serve.deepl import DeepLAPI
from transduce.serve.documents import DocumentAPI
from transduce.serve.errors import HTTPError
from transduce.serve.libretranslate import LibreTranslateAPI
from transduce.serve.model_registry import ModelRegistry
from transduce.serve.native import NativeAPI
from transduce.serve.processes import METRICS_FOLDER
from transduce.serve.requests import HTTPRequest
from transduce.serve.routing import (
    JSON,
    Endpoint,
    Operation,
    error_response,
    internal_error,
    operations_of,
)
from transduce.serve.settings import ServerSettings
from transduce.visualization.attention_view import SCRIPTS
from transduce.web.page import single_page

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content-Security-Policy of the page: no inline scripts or styles, no other hosts."""

INDEX: Final = "index.html"

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of `Metrics.text`."""

_REQUEST_LOG = logging.getLogger("transduce.serve.requests")

# A random process ID and a counter are cheaper than a random number per request.
_PROCESS_ID = secrets.token_hex(4)
_REQUEST_COUNTER = itertools.count(1)
_VALID_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_PROBES = ("/health", "/ready")  # by any name, as that of a pod; they reveal nothing
_METHODS = ("GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE")
_SECONDS_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
HTML: Final = "text/html; charset=utf-8"
_MEDIA_TYPES = {
    ".html": HTML,
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


def make_app(registry: ModelRegistry, settings: ServerSettings) -> Starlette:
    """Make the application of some models, which the caller closes."""
    # Malformed forms are the clients' fault and answered with 400: not worth a log line.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    store = ClientStore(settings.store_path)
    glossaries = ClientStore(settings.memory, durable=True) if settings.memory else store
    documents = DocumentAPI(registry, settings, store=store)
    metrics = Metrics(registry, token=settings.metrics_auth_token)
    clients = ClientLimits(settings)
    operations = (
        *operations_of(LibreTranslateAPI(registry, settings)),
        *operations_of(documents),
        *DeepLAPI(
            registry, settings, documents=documents, store=store, glossaries=glossaries
        ).operations(),
        *operations_of(NativeAPI(registry, settings)),
        *ConnectorAPI(registry, settings).operations(),
        *_document_operations(registry),
        *([] if settings.disable_web_ui else _page_operations()),
        *([_explorer_operation(registry, settings.beam)] if settings.explorer else []),
        *operations_of(metrics),
    )
    app = Starlette(
        routes=[
            Route(
                operation.path, Endpoint(operation, settings, clients), methods=[operation.method]
            )
            for operation in operations
        ],
        middleware=[
            Middleware(RequestMiddleware, metrics, settings),
            *([Middleware(PrefixMiddleware, settings.url_prefix)] if settings.url_prefix else []),
        ],
        exception_handlers={HTTPException: _routing_error},
    )
    app.router.redirect_slashes = False
    app.state.store, app.state.glossaries = store, glossaries
    return app


class Metrics:
    """The metrics of one server, in their own Prometheus registry.

    The two of LibreTranslate's /metrics have the same meaning here; the others show how well
    batching works: batch sizes and queue lengths.
    """

    def __init__(self, models: ModelRegistry, *, token: str = "") -> None:
        self._token = token
        self._registry = registry = CollectorRegistry()
        labels = ["direction"]
        self.seconds = Histogram(
            "libretranslate_http_request_duration_seconds",
            "Time from the head of a request to the end of its response",
            ["endpoint", "method", "status"],
            registry=registry,
            buckets=_SECONDS_BUCKETS,
        )
        gauge = partial(Gauge, registry=registry, multiprocess_mode="livesum")
        self.in_flight = gauge(
            "libretranslate_http_requests_in_flight", "Requests without a complete response"
        )
        self._queue_lengths = gauge(
            "transduce_queue_requests", "Requests queued for a direction", labels
        )
        self._batch_sizes = Histogram(
            "transduce_batch_sentences",
            "Sentences per batch",
            labels,
            registry=registry,
            buckets=_SIZE_BUCKETS,
        )
        counter = partial(Counter, labelnames=labels, registry=registry)
        self._batch_seconds = counter("transduce_batch_seconds", "Computing time of a direction")
        self._sentences = counter("transduce_sentences", "Sentences translated")
        for direction in models.directions:
            direction.batcher.on_queue = self._queue_lengths.labels(direction.name).set
            direction.batcher.on_batch = partial(self._record_batch, direction.name)

    @Operation("GET", "/metrics")
    async def respond(self, request: HTTPRequest) -> Response:
        """Return metrics in Prometheus's text format."""
        authorization = request.headers.get("authorization", "").encode()
        expected = f"Bearer {self._token}".encode()
        if self._token and not hmac.compare_digest(authorization, expected):
            raise HTTPError(401, "Unauthorized")
        return Response(self.text(), media_type=METRICS_TYPE)

    def text(self) -> bytes:
        """Return all metrics, of all processes, in Prometheus's text format."""
        registry = self._registry
        if METRICS_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        return generate_latest(registry)

    def _record_batch(self, name: str, sentences: int, seconds: float) -> None:
        self._batch_seconds.labels(name).inc(seconds)
        if sentences:
            self._batch_sizes.labels(name).observe(sentences)
            self._sentences.labels(name).inc(sentences)


class PrefixMiddleware:
    """Removes the prefix from the path of each request; paths without it do not exist."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        path: str = scope["path"]
        if path == self._prefix:
            await RedirectResponse(f"{path}/")(scope, receive, send)
        elif path.startswith(f"{self._prefix}/"):
            scope["path"] = path.removeprefix(self._prefix)
            await self._app(scope, receive, send)
        else:
            await error_response(HTTPError(404, "Not Found"), path)(scope, receive, send)


class RequestMiddleware:
    """Gives every request an ID and CORS headers, measures and logs it, and hides exceptions.

    Requests that the access policy refuses, or whose head is not valid, do not reach the
    application.

    The ID is the client's X-Request-ID if that is a plain word; it is returned in the response. The
    application finds it in `scope["state"]["request_id"]`, and may set "characters" there, the
    length of the text in the request. OPTIONS has the same response for every path.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: ServerSettings) -> None:
        self._app, self._metrics, self._quiet = app, metrics, settings.quiet
        self._access = AccessPolicy.from_settings(settings)
        self._header_limit, self._prefix = settings.header_limit, settings.url_prefix
        self._options_response = Response(media_type=JSON)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["request_id"] = request_id = _request_id(scope)
        status = 0
        headers = Headers(scope=scope)
        own = Headers(self._access.cors_headers(headers) | {"x-request-id": request_id})

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *own.raw]
            await send(message)

        app = self._refusal(scope, headers)
        if app is None:
            app = self._options_response if scope["method"] == "OPTIONS" else self._app
        started = time.perf_counter()
        with self._metrics.in_flight.track_inprogress():
            try:
                await app(scope, receive, send_with_headers)
            except Exception:
                response = internal_error(scope)
                if not status:  # else the response has begun
                    await response(scope, receive, send_with_headers)
            finally:
                self._record(scope, status, time.perf_counter() - started)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the response to a request that the application is not to see."""
        path = scope["path"].removeprefix(self._prefix)  # it decides the shape of an error
        size = sum(len(name) + len(value) + 4 for name, value in headers.raw)
        size += len(scope.get("raw_path", b"")) + len(scope["query_string"])
        if size > self._header_limit:
            text = f"Invalid request: the head is larger than {self._header_limit} bytes"
            return error_response(HTTPError(400, text), path)
        if "content-length" in headers and "transfer-encoding" in headers:
            # Proxies disagree on which of them counts: the body could hide another request.
            text = "Invalid request: Content-Length with Transfer-Encoding"
            response = error_response(HTTPError(400, text), path)
            response.headers["connection"] = "close"
            return response
        if path not in _PROBES and (reason := self._access.refusal(headers)):
            return error_response(HTTPError(403, reason), path)
        return None

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        label = str(status) if status else "gone"  # the client disconnected before a response
        self._metrics.seconds.labels(_endpoint(scope), _method(scope), label).observe(seconds)
        if self._quiet:
            return
        state = scope["state"]
        path = scope.get("raw_path", b"").decode("ascii", "replace")[:200]
        _REQUEST_LOG.info(
            "%s %s %s %.1f ms %s %s characters",
            *(_method(scope), path, label, 1000 * seconds),
            *(state["request_id"], state.get("characters", "-")),
        )


def _request_id(scope: Scope) -> str:
    for key, value in scope["headers"]:
        if key == b"x-request-id" and _VALID_REQUEST_ID.fullmatch(value):
            return value.decode()
    return f"{_PROCESS_ID}-{next(_REQUEST_COUNTER)}"


def _method(scope: Scope) -> str:
    """Return the method; unknown ones share a label, so that clients cannot create labels."""
    return scope["method"] if scope["method"] in _METHODS else "other"


def _endpoint(scope: Scope) -> str:
    """Return the path of the operation, with names of parameters, to limit the labels."""
    endpoint = scope.get("endpoint")
    return endpoint.operation.path if isinstance(endpoint, Endpoint) else "other"


async def _routing_error(request: Request, error: Exception) -> Response:
    """Format 404 and 405 for the API of the path."""
    assert isinstance(error, HTTPException)
    response = error_response(HTTPError(error.status_code, error.detail), request.scope["path"])
    response.headers.update(error.headers or {})
    return response


def _document_operations(registry: ModelRegistry) -> list[Operation]:
    """Return the OpenAPI document's operations: its usual path, and LibreTranslate's."""
    response = Response(openapi_document(registry), media_type=JSON)

    async def handler(request: HTTPRequest) -> Response:
        """Return this document."""
        return response

    return [Operation("GET", path, handler=handler) for path in ("/openapi.json", "/spec")]


def openapi_document(registry: ModelRegistry) -> str:
    """Complete openapi.json: the version, languages as values, OPUS-CAT's second spelling."""
    sources = [language.code for language in registry.sources()]
    targets = [language.code for language in registry.targets()]
    languages = {
        "source": ["auto", *sources],
        "target": targets,
        "source_lang": [code.upper() for code in sources],
        "target_lang": [code.upper() for code in targets],
    }
    text = Path(__file__).with_name("openapi.json").read_text(encoding="utf-8")
    text = text.replace("<version>", VERSION)
    for field, codes in languages.items():
        text = text.replace(f'"<{field}>"', json.dumps(codes)[1:-1])
    document = json.loads(text)
    document["paths"] |= {
        path.replace(OPUS_CAT, OPUS_CAT_TOO): {
            method: operation | {"operationId": f"{operation['operationId']}1"}
            for method, operation in operations.items()
        }
        for path, operations in document["paths"].items()
        if path.startswith(OPUS_CAT)
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def page_responses() -> dict[str, Response]:
    """Read the files of the page by name: its own and those of the attention view."""
    page, view = Path(__file__).parent / "page", Path(visualization.__file__).parent
    shared = ("colours.css", "translation.css", "attention.css", "theme.js", *SCRIPTS)
    return {
        path.name: _page_response(path.read_bytes(), _MEDIA_TYPES[path.suffix], policy=PAGE_POLICY)
        for path in [*page.iterdir(), *(view / name for name in shared)]
        if path.suffix in _MEDIA_TYPES
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

    return [Operation("GET", path, handler=handler) for path in ("/", "/page/{name}")]


def _explorer_operation(registry: ModelRegistry, beam: int | None) -> Operation:
    """Return the operation of the models' exported pages, each made at its first request."""
    responses: dict[str, tuple[str, Response]] = {}  # with the SHA-256 of the weights
    building = asyncio.Lock()

    async def handler(request: HTTPRequest) -> Response:
        name: str = request.path_params["direction"]
        direction = next(
            (candidate for candidate in registry.directions if candidate.name == name), None
        )
        if direction is None:
            raise HTTPError(404, "Not Found")
        weights, search = direction.sha256, direction.translator.search
        async with building:
            if name not in responses or responses[name][0] != weights:
                shown = replace(search, beam=beam or search.beam)
                bundle = replace(direction.bundle, search=shown)
                try:
                    page = await asyncio.to_thread(single_page, bundle)
                except ValueError as error:
                    raise HTTPError(404, f"{name} cannot be shown: {error}") from None
                # Its own policy, by hashes, is in the page.
                response = _page_response(page.encode(), HTML, policy="frame-ancestors 'none'")
                responses[name] = (weights, response)
        return _revalidated(request, responses[name][1])

    return Operation("GET", "/explore/{direction}", handler=handler)


def _page_response(content: bytes, media_type: str, *, policy: str) -> Response:
    headers = {
        "etag": f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        "content-security-policy": policy,
        "cache-control": "no-cache",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }
    return Response(content, headers=headers, media_type=media_type)


def _revalidated(request: HTTPRequest, response: Response) -> Response:
    """Return the response, or 304 if the browser has a current copy."""
    cached = request.headers.get("if-none-match", "").split(",")
    if response.headers["etag"] not in [tag.strip().removeprefix("W/") for tag in cached]:
        return response
    headers = dict(response.headers)
    del headers["content-type"], headers["content-length"]  # they describe the omitted body
    return Response(status_code=304, headers=headers)
