"""What is counted, named and logged of a request."""

import asyncio
import logging
import re
from collections.abc import Generator

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send
from tests.served import Loud, Served, bundle_of, direction_of

from transduce.data.tokenizer import Tokenizer
from transduce.model.transformer import Transformer
from transduce.serve.access import ClientLimits
from transduce.serve.app import Metrics, RequestMiddleware
from transduce.serve.batcher import BatchOptions, SentenceRequest
from transduce.serve.model_registry import ModelRegistry
from transduce.serve.requests import SHUTDOWN
from transduce.serve.routing import Endpoint, Operation
from transduce.serve.settings import ServerSettings


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    operation, settings = Operation("GET", "/files/{name}"), ServerSettings()
    scope["endpoint"] = Endpoint(operation, settings, ClientLimits(settings))
    scope["path_params"] = {"name": scope["path"].rpartition("/")[2]}
    scope["state"]["characters"] = 11
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def _nothing() -> Message:
    raise AssertionError("nobody reads")


def ask(
    observed: RequestMiddleware, *headers: tuple[bytes, bytes], path: str = "/files/x7"
) -> dict[bytes, bytes]:
    """The headers of the answer."""
    result: dict[bytes, bytes] = {}

    async def send(message: Message) -> None:
        result.update(message.get("headers", []))

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"q=secret",
        "headers": list(headers),
    }
    asyncio.run(observed(scope, _nothing, send))
    return result


@pytest.fixture
def registry(tokenizer: Tokenizer, untrained: Transformer) -> Generator[ModelRegistry]:
    bundle = bundle_of("en", "de", tokenizer=tokenizer, model=untrained)
    made = ModelRegistry([direction_of(bundle, Loud("de", untrained), ServerSettings())])
    yield made
    made.close()


@pytest.fixture
def metrics(registry: ModelRegistry) -> Metrics:
    return Metrics(registry)


def test_a_request_keeps_the_name_that_its_client_gave(metrics: Metrics) -> None:
    headers = ask(
        RequestMiddleware(app, metrics, ServerSettings(quiet=True)), (b"x-request-id", b"my-1.2_3")
    )

    assert headers[b"x-request-id"] == b"my-1.2_3"


@pytest.mark.parametrize("name", [b"two words", b"a" * 65, b"\xff", b""])
def test_what_is_no_plain_name_is_replaced(metrics: Metrics, name: bytes) -> None:
    headers = ask(
        RequestMiddleware(app, metrics, ServerSettings(quiet=True)), (b"x-request-id", name)
    )

    assert re.fullmatch(rb"[0-9a-f]{8}-[0-9]+", headers[b"x-request-id"])


def test_requests_are_counted_by_their_route(metrics: Metrics) -> None:
    ask(RequestMiddleware(app, metrics, ServerSettings(quiet=True)), path="/files/files")

    counted = metrics.text().decode()

    assert (
        'libretranslate_http_request_duration_seconds_count{endpoint="/files/{name}",'
        'method="GET",status="404"} 1.0'
    ) in counted
    assert "libretranslate_http_requests_in_flight 0.0" in counted


def test_the_log_has_one_line_without_the_text(
    metrics: Metrics, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("transduce.serve").propagate = True
    with caplog.at_level(logging.INFO, "transduce.serve.requests"):
        ask(RequestMiddleware(app, metrics, ServerSettings()), (b"x-request-id", b"r1"))

    (line,) = caplog.messages
    assert line.startswith("GET /files/x7 404 ")
    assert line.endswith("ms r1 11 characters")


def test_batches_are_counted_by_their_direction(registry: ModelRegistry, metrics: Metrics) -> None:
    requests = [SentenceRequest("a"), SentenceRequest("b"), SentenceRequest("c")]

    asyncio.run(registry.directions[0].batcher.translate(requests, BatchOptions(beam=1)))
    registry.close()

    counted = metrics.text().decode()
    assert 'transduce_sentences_total{direction="en-de"} 3.0' in counted
    assert 'transduce_batch_sentences_bucket{direction="en-de",le="4.0"} 1.0' in counted
    assert 'transduce_queue_requests{direction="en-de"} 0.0' in counted


def test_a_request_that_exceeds_the_shutdown_limit_is_told_so(served: Served) -> None:
    """It was a 500, with a traceback in the log."""

    async def cancelled() -> httpx.Response:
        served.loud["en-de"].go.clear()
        fields = {"q": "a", "source": "en", "target": "de"}
        async with served.client() as client:
            task = asyncio.create_task(client.post("/translate", json=fields))
            await asyncio.to_thread(served.loud["en-de"].started.wait, 5)
            task.cancel(SHUTDOWN)
            answer = await task
        served.loud["en-de"].go.set()
        return answer

    answer = asyncio.run(cancelled())

    assert answer.status_code == 503
    assert answer.json() == {"error": "the server is shutting down"}
