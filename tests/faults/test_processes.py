"""A server of several processes: models are swapped and workers killed while clients translate."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
import torch
from tests.conftest import SHAPE, Corpus, made
from tests.faults.test_serving_faults import POSTED, Server, request_body, running
from tests.served import bundle_of

from transduce.inference.translator import Translator

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes in /proc")

TEXTS = [f"{first} {second}" for first in ("one", "two", "six") for second in ("two", "ten")]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, corpus: Corpus) -> list[Path]:
    """Two models of a direction with different translations."""
    folder = tmp_path_factory.mktemp("releases")
    for number in (1, 2):
        shape = replace(SHAPE, vocab_size=corpus.tokenizer.vocab_size, decoder_layers=1)
        model = made(shape).eval()
        generator = torch.Generator().manual_seed(number)
        with torch.no_grad():
            model.embedding.weight.normal_(generator=generator)
        bundle_of("en", "de", tokenizer=corpus.tokenizer, model=model).save(folder / str(number))
    return [folder / "1", folder / "2"]


@pytest.fixture(scope="module")
def server(models: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    tmp_path = tmp_path_factory.mktemp("served")
    link(tmp_path / "current", models[0])
    options = ("--engine", "torch", "--processes", "2", "--drain-time", "10")
    with running(tmp_path / "current", tmp_path / "log", *options) as started:
        yield started
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(30) == 0, started.log.read_text()


def link(current: Path, model: Path) -> None:
    """As `ln -sfn`: the model of a link changes in one step."""
    made_link = current.with_name("new")
    made_link.symlink_to(model)
    made_link.replace(current)


def workers(server: Server) -> list[int]:
    """The processes that serve; another one watches resources."""
    pid = server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return [child for child, command in commands.items() if b"spawn_main" in command]


def until(condition: Callable[[], bool], server: Server, seconds: float = 40) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, server.log.read_text()
        time.sleep(0.1)


def number_of(server: Server, endpoint: str) -> float:
    """How many requests all processes have answered."""
    client = HTTPConnection("127.0.0.1", server.port, timeout=60)
    client.request("GET", "/metrics")
    lines = client.getresponse().read().decode().splitlines()
    client.close()
    counts = [line for line in lines if f'seconds_count{{endpoint="{endpoint}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in counts)


class Clients:
    """Clients that translate, again and again, and repeat a request whose connection broke."""

    def __init__(self, server: Server, translations: dict[str, list[str]], count: int) -> None:
        self.outcomes = Counter[str]()
        self._server, self._translations = server, translations
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        while not self._end.is_set():
            number += 1
            text = TEXTS[number % len(TEXTS)]
            try:
                status, answer = self._server.post(request_body(text))
            except (OSError, HTTPException, json.JSONDecodeError):
                self.outcomes["broken connection"] += 1
                continue
            known = self._translations[text]
            result = str(answer.get("translatedText"))
            right = f"model {known.index(result) + 1}" if result in known else "wrong"
            self.outcomes[right if status == 200 else f"status {status}"] += 1


def test_processes_share_what_clients_stored_and_add_up_their_metrics(server: Server) -> None:
    fields = {"name": "animals", "source_lang": "en", "target_lang": "de", "entries": "two\tzwei"}
    status, glossary = server.post(json.dumps(fields).encode(), "/v2/glossaries")
    assert status == 201

    for _ in range(30):
        client = HTTPConnection("127.0.0.1", server.port, timeout=60)
        client.request("GET", f"/v2/glossaries/{glossary['glossary_id']}")
        assert client.getresponse().status == 200
        client.close()

    # A request is counted after its response.
    until(lambda: number_of(server, "/v2/glossaries/{glossary_id}") == 30, server)


def test_swaps_and_a_killed_worker_under_load_lose_nothing(
    server: Server, models: list[Path]
) -> None:
    translators = [Translator.load(model, engine="torch") for model in models]
    translations = {
        text: [translator.translate([text])[0].text for translator in translators] for text in TEXTS
    }
    assert all(first != second for first, second in translations.values()), translations
    current = server.log.with_name("current")
    first, second = workers(server)
    clients = Clients(server, translations, 8)
    try:
        link(current, models[1])
        until(lambda: server.log.read_text().count("a new model was loaded") == 2, server)
        os.kill(first, signal.SIGKILL)
        until(lambda: clients.outcomes["model 2"] > 50, server)
        until(lambda: len(workers(server)) == 2, server)
        link(current, models[0])
        until(lambda: server.log.read_text().count("a new model was loaded") >= 3, server)
        seen = clients.outcomes["model 1"]
        until(lambda: clients.outcomes["model 1"] > seen + 50, server)
    finally:
        clients.stop()

    outcomes = dict(clients.outcomes)
    broken = outcomes.pop("broken connection", 0)
    assert set(outcomes) == {"model 1", "model 2"}, clients.outcomes
    assert broken <= 8  # one request of each client at most
    assert second in workers(server)
    assert f"a process ended with -{signal.SIGKILL}" in server.log.read_text()


@pytest.mark.slow
def test_a_server_that_stops_refuses_connections(models: list[Path], tmp_path: Path) -> None:
    options = ("--engine", "torch", "--processes", "2", "--drain-time", "20")
    body = request_body("one two")
    head = POSTED + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)

    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
        except ConnectionRefusedError:
            return True
        return False

    with (
        running(models[0], tmp_path / "log", *options) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as client,
    ):
        client.sendall(head)
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        server.process.send_signal(signal.SIGTERM)

        until(refused, server, seconds=10)

        assert server.process.poll() is None
        client.sendall(body)
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        assert server.process.wait(30) == 0, server.log.read_text()


@pytest.mark.slow
def test_workers_of_a_killed_supervisor_end_and_leave_nothing(
    models: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    options = ("--engine", "torch", "--processes", "2")
    with running(models[0], tmp_path / "log", *options) as server:
        pids = workers(server)
        assert list((tmp_path / "temporary").iterdir())

        server.process.kill()
        server.process.wait()

        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), server)
    assert list((tmp_path / "temporary").glob("transduce-serve-*")) == []


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_ends_all_processes(tmp_path: Path) -> None:
    command = ["-m", "transduce", "serve", str(tmp_path), "--port", "0", "--processes", "2"]

    ended = subprocess.run([sys.executable, *command], capture_output=True, check=False)

    assert ended.returncode == 2
    assert b"is not a model bundle" in ended.stderr
