"""What a server counts, and one line of its log a request: never what was translated.

The two names that LibreTranslate's /metrics has are here with the same meaning, and beside them
what tells whether batches gather: their sizes, and how many requests wait.
"""

import itertools
import logging
import re
import secrets
import time
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transduce.serve.batcher import Ran
from transduce.serve.directions import Direction, Directions

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of `Metrics.text`."""

LOG = logging.getLogger("transduce.serve.requests")

_HERE = secrets.token_hex(4).encode()  # this process; a random number a request would cost more
_COUNT = itertools.count(1)
_SANE = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The numbers of one server, in a registry of their own."""

    def __init__(self, directions: Directions) -> None:
        """Watch the batchers of some directions."""
        self._registry = CollectorRegistry()
        self.seconds = Histogram(
            "libretranslate_http_request_duration_seconds",
            "Time from the head of a request to the end of its answer",
            ["endpoint", "method", "status"],
            registry=self._registry,
            buckets=_SECONDS,
        )
        self.in_flight = Gauge(
            "libretranslate_http_requests_in_flight",
            "Requests without a whole answer",
            registry=self._registry,
        )
        self._queue = Gauge(
            "transduce_queue_requests",
            "Requests that wait for a direction",
            ["direction"],
            registry=self._registry,
        )
        self._sizes = Histogram(
            "transduce_batch_sentences",
            "Sentences translated together",
            ["direction"],
            registry=self._registry,
            buckets=_SIZES,
        )
        self._batch_seconds = Counter(
            "transduce_batch_seconds",
            "Time for which a direction computed",
            ["direction"],
            registry=self._registry,
        )
        self._sentences = Counter(
            "transduce_sentences",
            "Sentences translated",
            ["direction"],
            registry=self._registry,
        )
        for direction in directions.all:
            self._watch(direction)

    def text(self) -> bytes:
        """All numbers, as Prometheus reads them."""
        return generate_latest(self._registry)

    def _watch(self, direction: Direction) -> None:
        batcher = direction.batcher
        self._queue.labels(direction.name).set_function(lambda: batcher.waiting)
        batcher.watch = partial(self._ran, direction.name)

    def _ran(self, name: str, ran: Ran) -> None:
        self._batch_seconds.labels(name).inc(ran.seconds)
        if ran.sentences:
            self._sizes.labels(name).observe(ran.sentences)
            self._sentences.labels(name).inc(ran.sentences)


class Observed:
    """An application whose requests are named, counted and logged.

    A name comes from the client's X-Request-ID if that is a plain word, and goes back to it. The
    application finds it in `scope["state"]["request_id"]`, and may leave there, as "characters",
    how much text it was asked for.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, *, quiet: bool = False) -> None:
        """Take the application; `quiet` leaves the log out."""
        self._app, self._metrics, self._quiet = app, metrics, quiet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = _name(scope)
        scope.setdefault("state", {})["request_id"] = name.decode()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", name)]
            await send(message)

        begun = time.perf_counter()
        with self._metrics.in_flight.track_inprogress():
            try:
                await self._app(scope, receive, sending)
            finally:
                self._note(scope, status, time.perf_counter() - begun)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        said = str(status) if status else "gone"
        self._metrics.seconds.labels(_endpoint(scope), _method(scope), said).observe(seconds)
        if self._quiet:
            return
        state = scope["state"]
        path = scope.get("raw_path", b"").decode("ascii", "replace")[:200]
        LOG.info(
            "%s %s %s %.1f ms %s %s characters",
            *(_method(scope), path, said, 1000 * seconds),
            *(state["request_id"], state.get("characters", "-")),
        )


def _name(scope: Scope) -> bytes:
    """What a request is called in the log and in its answer."""
    for key, value in scope["headers"]:
        if key == b"x-request-id" and _SANE.fullmatch(value):
            return value
    return b"%s-%d" % (_HERE, next(_COUNT))


def _method(scope: Scope) -> str:
    """The verb; what nobody ever heard of is one and the same."""
    verb = scope["method"]
    return verb if verb in ("GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE") else "other"


def _endpoint(scope: Scope) -> str:
    """The path as the router knows it: there are few, whatever clients ask for."""
    if "endpoint" not in scope:
        return "other"
    path: str = scope["path"]
    for name, value in scope.get("path_params", {}).items():
        path = path.replace(str(value), f"{{{name}}}") if value else path
    return path
