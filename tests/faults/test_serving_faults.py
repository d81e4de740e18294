"""A real server in a process of its own: what clients do to it, and that the next request works."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from tests.conftest import Corpus, made

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages
from transduce.model.config import ModelConfig
from transduce.search.config import SearchConfig

pytest.importorskip("uvicorn")

POSTED = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def post(self, body: bytes, path: str = "/translate") -> tuple[int, dict[str, object]]:
        """The status and the JSON of an answer."""
        client = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            client.request("POST", path, body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            client.close()

    def raw(self, sent: bytes) -> bytes:
        """All that comes back for these bytes until the server hangs up."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as client:
            client.sendall(sent)
            response = b""
            while part := client.recv(65536):
                response += part
        return response


def request_body(text: str) -> bytes:
    return json.dumps({"q": text, "source": "en", "target": "de"}).encode()


@contextmanager
def running(model: Path, log: Path, *options: str) -> Generator[Server]:
    """A server that is ready."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "transduce", "serve", str(model), "--port", "0", *options],
            stderr=out,
            env=os.environ | {"COLUMNS": "100"},
        )
    try:
        until = time.monotonic() + 120
        while not (match := re.search(r"ready at http://[^/]+:(\d+)/", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        yield Server(process=process, port=int(match[1]), log=log)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, corpus: Corpus) -> Path:
    shape = ModelConfig(
        vocab_size=corpus.tokenizer.vocab_size,
        encoder_layers=1,
        decoder_layers=1,
        d_model=8,
        d_ff=11,
        heads=2,
        d_k=3,
        d_v=5,
        dropout=0.0,
    )
    folder = tmp_path_factory.mktemp("served") / "model"
    Bundle(
        model=made(shape).eval(),
        tokenizer=corpus.tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(beam=1, extra=1, max_source=29),
        provenance=Provenance(),
    ).save(folder)
    return folder


@pytest.fixture(scope="module")
def server(model: Path) -> Generator[Server]:
    options = ("--engine", "torch", "--head-time", "1", "--client-time", "2", "--keep-alive", "1")
    with running(model, model.parent / "log", *options) as running_server:
        yield running_server


@pytest.fixture(autouse=True)
def the_next_request_works(request: pytest.FixtureRequest) -> Generator[None]:
    yield
    if "server" in request.fixturenames:
        running_server = request.getfixturevalue("server")
        assert running_server.post(request_body("one two"))[0] == 200


def test_who_sends_a_head_slowly_is_cut_off(server: Server) -> None:
    begun = time.monotonic()

    response = server.raw(b"GET /health HTTP/1.1\r\nHost: he")

    assert response.startswith(b"HTTP/1.1 408 ")
    assert 0.5 < time.monotonic() - begun < 30


def test_who_sends_a_head_byte_by_byte_is_cut_off(server: Server) -> None:
    def dribble(client: socket.socket) -> None:
        for _ in range(300):
            client.sendall(b"G")
            time.sleep(0.1)

    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as client,
        pytest.raises((BrokenPipeError, ConnectionResetError)),
    ):
        dribble(client)


def test_who_says_nothing_is_cut_off(server: Server) -> None:
    assert server.raw(b"") == b""


def test_who_says_nothing_after_a_response_is_cut_off(server: Server) -> None:
    begun = time.monotonic()

    response = server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert re.findall(rb"HTTP/1\.1 (\d+) ", response) == [b"200"]
    assert 0.5 < time.monotonic() - begun < 10


def test_who_sends_a_body_slowly_is_cut_off(server: Server) -> None:
    response = server.raw(POSTED + b'Content-Length: 50\r\n\r\n{"q": ')

    assert response.startswith(b"HTTP/1.1 408 ")


def test_a_body_of_ten_megabytes_is_refused(server: Server) -> None:
    status, content = server.post(request_body("one " * 2_500_000))

    assert status == 413
    assert "larger than" in str(content["error"])


def test_a_body_without_a_length_is_refused_when_it_is_too_large(server: Server) -> None:
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"

    response = server.raw(
        POSTED + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 70 + b"0\r\n\r\n"
    )

    assert response.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "body",
    [
        b'{"q": "one',
        b"[" * 100_000,
        b'{"q": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        rb'{"q": "\ud800", "source": "en", "target": "de"}',
        b'{"q": "\xff", "source": "en", "target": "de"}',
        b"7",
        b"",
    ],
    ids=["broken", "deep", "deep in q", "surrogate", "not UTF-8", "number", "nothing"],
)
def test_what_is_no_good_json_is_refused_with_a_reason(server: Server, body: bytes) -> None:
    status, content = server.post(body)

    assert status == 400
    assert content["error"]


def test_nul_bytes_are_translated_as_blanks(server: Server) -> None:
    status, content = server.post(request_body("one\0two"))

    assert (status, content) == server.post(request_body("one two"))
    assert status == 200


def test_a_line_of_fifty_thousand_characters_is_translated(server: Server) -> None:
    status, content = server.post(request_body("one two three " * 3571))

    assert status == 200
    assert content["translatedText"]


def test_a_head_that_is_too_large_is_refused(server: Server) -> None:
    response = server.raw(b"GET /health HTTP/1.1\r\nX: " + b"x" * 100_000)

    assert response.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("before", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_head_that_arrives_in_parts_is_limited(server: Server, before: bytes) -> None:
    response = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(before + b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        with suppress(BrokenPipeError, ConnectionResetError):
            for number in range(100):
                client.sendall(b"X%d: " % number + b"x" * 1000 + b"\r\n")
                time.sleep(0.001)
        with suppress(ConnectionResetError):
            while part := client.recv(65536):
                response += part

    assert re.findall(rb"HTTP/1\.1 (\d+) ", response) == [b"200"] * bool(before) + [b"400"]


def test_a_head_with_other_line_ends_is_refused_at_once(server: Server) -> None:
    assert server.raw(b"GET /health HTTP/1.1\nHost: localhost\n\n").startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("hosts", [b"", b"Host: localhost\r\nHost: localhost\r\n"])
def test_a_request_has_one_host(server: Server, hosts: bytes) -> None:
    assert server.raw(b"GET /health HTTP/1.1\r\n" + hosts + b"\r\n").startswith(b"HTTP/1.1 400 ")


def test_trailers_are_dropped(server: Server) -> None:
    body = request_body("one two")
    chunks = b"%x\r\n%b\r\n0\r\nContent-Type: application/json\r\n\r\n" % (len(body), body)
    head = POSTED.partition(b"Content-Type")[0] + b"Connection: close\r\n"

    response = server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)

    assert response.startswith(b"HTTP/1.1 400 ")  # a form without the field q


def test_requests_ahead_of_their_responses_are_answered_in_order(server: Server) -> None:
    known, unknown = (
        b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" for path in (b"/health", b"/nowhere")
    )

    response = server.raw(
        (known + b"\r\n" + unknown + b"\r\n") * 3 + known + b"Connection: close\r\n\r\n"
    )

    statuses = re.findall(rb"HTTP/1\.1 (\d+) ", response)
    assert statuses == [b"200", b"404"] * 3 + [b"200"]


def test_very_many_requests_ahead_of_their_responses_are_refused(server: Server) -> None:
    response = server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)

    assert b"HTTP/1.1 400 " in response


def test_an_offer_to_change_the_protocol_is_ignored(server: Server) -> None:
    body = request_body("one two")
    head = POSTED + b"Content-Length: %d\r\n" % len(body)
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        for _ in range(2):
            client.sendall(head + offer + body)
            response = b""
            while b"}" not in response:
                response += client.recv(65536)
            assert response.startswith(b"HTTP/1.1 200 ")


def test_a_body_of_two_lengths_is_refused(server: Server) -> None:
    """Proxies disagree on which of them counts: the body could hide another request."""
    head = POSTED + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"

    response = server.raw(head + b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert response.startswith(b"HTTP/1.1 400 ")
    assert response.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "path", [b"../../etc/passwd", b"..%2f..%2fetc%2fpasswd", b"%2fetc%2fpasswd"]
)
def test_no_file_is_found_outside_of_what_was_translated(server: Server, path: bytes) -> None:
    response = server.raw(
        b"GET /download_file/" + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )

    assert response.startswith(b"HTTP/1.1 404 ")


def test_who_hangs_up_harms_nobody(server: Server) -> None:
    body = request_body("one two three " * 3571)
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(POSTED + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

    status, _ = server.post(request_body("one"))

    assert status == 200


def test_the_log_never_has_the_text(server: Server) -> None:
    server.post(request_body("four five four"))
    server.post(b"", path="/translate?q=four+five+four&source=en&target=zz")

    assert "four" not in server.log.read_text()
    assert "POST /translate 400" in server.log.read_text()


def test_stopping_under_load_loses_nothing_that_was_accepted(model: Path) -> None:
    statuses: list[int] = []
    torn: list[str] = []

    def client(server: Server) -> None:
        while True:
            try:
                statuses.append(server.post(request_body("one two three"))[0])
            except (ConnectionError, TimeoutError) as error:
                if not isinstance(error, ConnectionRefusedError | ConnectionResetError):
                    torn.extend([repr(error)] * (type(error).__name__ != "RemoteDisconnected"))
                return
            except (HTTPException, ValueError) as error:
                torn.append(repr(error))
                return

    with running(model, model.parent / "stopped", "--engine", "torch") as server:
        threads = [threading.Thread(target=client, args=[server]) for _ in range(13)]
        for thread in threads:
            thread.start()
        while len(statuses) < 40:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(60)
        for thread in threads:
            thread.join()

    logged = server.log.read_text().count("POST /translate 200")
    assert code == 0
    assert torn == []
    assert set(statuses) == {200}
    assert len(statuses) == logged


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_what_exceeds_the_shutdown_limit_is_answered_with_503(
    sent: signal.Signals, model: Path
) -> None:
    """SIGTERM answered 500 with a traceback in the log; SIGHUP killed in mid-request."""
    head = POSTED + b"Content-Length: 100\r\n\r\n"
    inherited = signal.signal(sent, signal.SIG_DFL)  # under nohup the server would ignore SIGHUP
    with running(
        model, model.parent / sent.name, "--engine", "torch", "--drain-time", "1"
    ) as server:
        signal.signal(sent, inherited)
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(head)  # the body never comes
            time.sleep(0.3)
            server.process.send_signal(sent)
            answer = client.recv(65536)
        code = server.process.wait(60)

    log = server.log.read_text()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert "Traceback" not in log
    assert "POST /translate 503" in log
    assert code == 1


def test_a_port_that_is_in_use_is_one_line_and_two(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        result = subprocess.run(
            [sys.executable, "-m", "transduce", "serve", str(model), "--port", str(port)],
            capture_output=True,
            check=False,
        )

    assert result.returncode == 2
    assert result.stderr.count(b"\n") == 1
    assert f"port {port}".encode() in result.stderr


def test_an_address_has_a_number_of_connections(model: Path, tmp_path: Path) -> None:
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    closing = request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    options = ("--engine", "torch", "--client-connections", "2", "--req-limit", "-1")
    with running(model, tmp_path / "log", *options) as server:
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
        for client in idle:
            client.sendall(request)
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")

        rejected = server.raw(request)
        assert rejected.startswith(b"HTTP/1.1 429 ")
        assert b"Too many connections" in rejected

        for client in idle:
            client.close()
        time.sleep(0.5)
        assert server.raw(closing).startswith(b"HTTP/1.1 200 ")


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


NO_IPV6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::", marks=NO_IPV6)])
def test_behind_a_trusted_proxy_the_client_is_the_one_it_names(
    model: Path, tmp_path: Path, host: str
) -> None:
    def status(server: Server, client: str) -> int:
        connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"Content-Type": "application/json", "X-Forwarded-For": client}
        connection.request("POST", "/translate", request_body("one"), headers)
        try:
            return connection.getresponse().status
        finally:
            connection.close()

    options = ("--engine", "torch", "--req-limit", "1", "--host", host)
    with running(model, tmp_path / "a", *options, "--trusted-proxy", "127.0.0.1") as server:
        assert [status(server, name) for name in ("10.0.0.1", "10.0.0.2", "10.0.0.1")] == [
            *(200, 200, 429)
        ]
    with running(model, tmp_path / "b", *options) as server:
        assert [status(server, name) for name in ("10.0.0.1", "10.0.0.2")] == [200, 429]
