"""Prometheus metrics, and one log line per request that never contains its text.

The two metrics of LibreTranslate's /metrics are included with the same meaning; the others show how
well batching works: batch sizes and queue lengths.
"""

import itertools
import logging
import re
import secrets
import time
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.serve.batcher import BatchStats
from transduce.serve.model_registry import Direction, ModelRegistry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of `Metrics.text`."""

LOG = logging.getLogger("transduce.serve.requests")

# A random process ID and a counter are cheaper than a random number per request.
_PROCESS_ID = secrets.token_hex(4).encode()
_REQUEST_COUNTER = itertools.count(1)
_VALID_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_METHODS = ("GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE")
_SECONDS_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one server, in their own Prometheus registry."""

    def __init__(self, models: ModelRegistry) -> None:
        """Observe the batchers of the loaded models."""
        self._registry = registry = CollectorRegistry()
        labels = ["direction"]
        self.seconds = Histogram(
            "libretranslate_http_request_duration_seconds",
            "Time from the head of a request to the end of its response",
            ["endpoint", "method", "status"],
            registry=registry,
            buckets=_SECONDS_BUCKETS,
        )
        self.in_flight = Gauge(
            "libretranslate_http_requests_in_flight",
            "Requests without a complete response",
            registry=registry,
        )
        self._queue_lengths = Gauge(
            "transduce_queue_requests", "Requests queued for a direction", labels, registry=registry
        )
        self._batch_sizes = Histogram(
            "transduce_batch_sentences",
            "Sentences per batch",
            labels,
            registry=registry,
            buckets=_SIZE_BUCKETS,
        )
        self._batch_seconds = Counter(
            "transduce_batch_seconds", "Computing time of a direction", labels, registry=registry
        )
        self._sentences = Counter(
            "transduce_sentences", "Sentences translated", labels, registry=registry
        )
        for direction in models.directions:
            self._observe(direction)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)

    def _observe(self, direction: Direction) -> None:
        batcher = direction.batcher
        self._queue_lengths.labels(direction.name).set_function(lambda: batcher.queue_length)
        batcher.on_batch = partial(self._record_batch, direction.name)

    def _record_batch(self, name: str, stats: BatchStats) -> None:
        self._batch_seconds.labels(name).inc(stats.seconds)
        if stats.sentences:
            self._batch_sizes.labels(name).observe(stats.sentences)
            self._sentences.labels(name).inc(stats.sentences)


class MetricsMiddleware:
    """Assigns request IDs, and measures and logs requests.

    The ID is the client's X-Request-ID if that is a plain word; it is returned in the response. The
    application finds it in `scope["state"]["request_id"]`, and may set "characters" there, the
    length of the text in the request.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, *, quiet: bool = False) -> None:
        """Wrap an application.

        Args:
            app: the application.
            metrics: where requests are counted.
            quiet: whether to omit the log lines.
        """
        self._app, self._metrics, self._quiet = app, metrics, quiet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id.decode()
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id)]
            await send(message)

        started = time.perf_counter()
        with self._metrics.in_flight.track_inprogress():
            try:
                await self._app(scope, receive, send_with_id)
            finally:
                self._record(scope, status, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        label = str(status) if status else "gone"  # the client disconnected before a response
        self._metrics.seconds.labels(_endpoint(scope), _method(scope), label).observe(seconds)
        if self._quiet:
            return
        state = scope["state"]
        path = scope.get("raw_path", b"").decode("ascii", "replace")[:200]
        LOG.info(
            "%s %s %s %.1f ms %s %s characters",
            *(_method(scope), path, label, 1000 * seconds),
            *(state["request_id"], state.get("characters", "-")),
        )


def _request_id(scope: Scope) -> bytes:
    for key, value in scope["headers"]:
        if key == b"x-request-id" and _VALID_REQUEST_ID.fullmatch(value):
            return value
    return b"%s-%d" % (_PROCESS_ID, next(_REQUEST_COUNTER))


def _method(scope: Scope) -> str:
    """Return the method; unknown ones share a label, so that clients cannot create labels."""
    return scope["method"] if scope["method"] in _METHODS else "other"


def _endpoint(scope: Scope) -> str:
    """Return the path with its parameters replaced by their names, to limit the labels."""
    if "endpoint" not in scope:
        return "other"
    path: str = scope["path"]
    for name, value in scope.get("path_params", {}).items():
        path = path.replace(str(value), f"{{{name}}}") if value else path
    return path
