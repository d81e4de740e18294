"""Hostile requests during the work of 64 ordinary clients: what the others notice.

    python benchmarks/hostile.py MODEL [PYTHON]

Starts `transduce serve MODEL` (of another environment, if PYTHON is its interpreter), measures 64
clients alone, then with each hostile request: extra latency, /health, memory, and how soon work
that nobody waits for ends. Writes results/hostile/record.json, if it measures its own environment.
"""

import asyncio
import json
import os
import re
import signal
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import NamedTuple

from record import header, write

from transduce.bundle.bundle import Bundle

CLIENTS = 64
SENTENCES = ("A young woman is reading a book in the park.", "Two dogs run through the snow.")
HOSTILE: dict[str, tuple[str, dict[str, object]]] = {
    "alternatives of 1,000 words": (
        "/api/alternatives",
        {"text": "dog " * 1000, "source": "en", "count": 20},
    ),
    "alternatives of 240 words": (
        "/api/alternatives",
        {"text": "dog " * 240, "source": "en", "count": 20},
    ),
    "1.3 million empty texts": (
        "/translate",
        {"q": [""] * 1_300_000, "source": "en", "target": "de"},
    ),
    "16 kB without an end": ("/translate", {"q": "A" * 16_000, "source": "en", "target": "de"}),
    "1 MB of short sentences": (
        "/translate",
        {"q": "A dog. " * 150_000, "source": "en", "target": "de"},
    ),
    "9,990 sentences in detail": (
        "/api/translate",
        {"text": "".join(f"A dog {n}. " for n in range(9990)), "source": "en", "target": "de"},
    ),
}


class Server:
    """A process of `transduce serve`."""

    def __init__(self, model: Path, python: str = sys.executable) -> None:
        command = [python, "-m", "transduce", "serve", str(model), "--port", "0", "--quiet"]
        self.process = Popen(command, stderr=PIPE, text=True)
        assert self.process.stderr is not None
        while not (match := re.search(r"ready at (\S+?)/:", self.process.stderr.readline())):
            assert self.process.poll() is None
        self.port = int(match[1].rpartition(":")[2])

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]

    def stop(self) -> float:
        begun = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
        return time.perf_counter() - begun


class Connection:
    """A connection on a bare socket: 64 of them are cheap enough to share two cores."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, path: str, body: bytes = b"") -> tuple[int, str]:
        """POST a body, or GET if there is none; return status and content."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.split(b"content-length: ")[1].split()[0])
        content = (await reader.readexactly(length)).decode()
        return int(answer.split(b" ", 2)[1]), content

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


class Timing(NamedTuple):
    """What the ordinary clients notice, in seconds, and what the server answered and used."""

    request: str
    outcome: str
    ordinary: int
    """Requests of the ordinary clients."""
    median: float
    slowest: float
    health: float
    peak_mb: int
    errors: int


async def _repeat(port: int, path: str, body: bytes, times: list[list[float]]) -> None:
    """Ask again and again; a time is a beginning and an end, which is missing if unanswered."""
    connection = Connection(port)
    try:
        while True:
            times.append(answered := [time.perf_counter()])
            status, content = await connection.ask(path, body)
            assert status == 200, content
            answered.append(time.perf_counter())
            await asyncio.sleep(0.2)
    finally:
        connection.close()


def _seconds(times: list[list[float]], *, since: float) -> list[float]:
    """Seconds of the requests that were answered since then, or are unanswered."""
    now = time.perf_counter()
    return [(end or [now])[0] - begin for begin, *end in times if not end or end[0] >= since]


def _hostile_body(name: str) -> tuple[str, bytes]:
    path, fields = HOSTILE[name]
    return path, json.dumps(fields, separators=(",", ":")).encode()


async def measure(server: Server, name: str, *, seconds: float, usual: Timing | None) -> Timing:
    """Run the clients, with the hostile request unless the name is empty."""
    own: list[list[float]] = []
    health: list[list[float]] = []
    tasks = [asyncio.create_task(_repeat(server.port, "/health", b"", health))]
    for number in range(CLIENTS):
        fields = {"q": SENTENCES[number % 2], "source": "en", "target": "de"}
        repeated = _repeat(server.port, "/translate", json.dumps(fields).encode(), own)
        tasks.append(asyncio.create_task(repeated))
    await asyncio.sleep(2)  # 64 new connections at once are slow
    begun, result = time.perf_counter(), "-"
    if name:
        connection = Connection(server.port)
        request = asyncio.create_task(connection.ask(*_hostile_body(name)))
        await asyncio.wait([request], timeout=seconds)
        result = f"none after {seconds:.0f} s"
        if request.done():
            status, content = request.result()
            result = f"{status} after {time.perf_counter() - begun:.1f} s"
            result += f" {content[:80]}" * (status != 200)
        request.cancel()
        connection.close()
    await asyncio.sleep(max(1.0, begun + seconds - time.perf_counter()))
    for task in tasks:
        task.cancel()
    answers = _seconds(own, since=begun)
    slowest_health = max(_seconds(health, since=begun))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    errors = sum(not isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    timing = Timing(
        request=name or "nobody else",
        outcome=result,
        ordinary=len(answers),
        median=round(statistics.median(answers), 3),
        slowest=round(max(answers), 3),
        health=round(slowest_health, 3),
        peak_mb=round(server.peak_mb()),
        errors=errors,
    )
    extra = f" ({timing.slowest - usual.slowest:+.2f} s for others)" if usual else ""
    print(f"{timing}{extra}; load {os.getloadavg()[0]:.1f}", flush=True)
    return timing


async def cancelled(server: Server, name: str) -> float:
    """Hang up after a second; return the CPU seconds that the process still spends."""
    connection = Connection(server.port)
    with suppress(TimeoutError):
        await asyncio.wait_for(connection.ask(*_hostile_body(name)), 1.0)
    connection.close()
    before = server.cpu_s()
    while True:
        at = server.cpu_s()
        await asyncio.sleep(1.0)
        if server.cpu_s() - at < 0.1:
            return at - before


def main(model: Path, python: str = sys.executable) -> None:
    server = Server(model, python)
    try:
        usual = asyncio.run(measure(server, "", seconds=10, usual=None))
        timings = [usual]
        for name in HOSTILE:
            timings.append(asyncio.run(measure(server, name, seconds=10, usual=usual)))
            time.sleep(1)
        cancelled_cpu_s = {name: round(asyncio.run(cancelled(server, name)), 2) for name in HOSTILE}
        print(f"CPU seconds after cancellation: {cancelled_cpu_s}", flush=True)
    finally:
        stop_s = server.stop()
        print(f"SIGTERM: gone after {stop_s:.1f} s", flush=True)
    if python == sys.executable:
        weights = Bundle.load(model).model.parameters()
        record = {
            **header("python benchmarks/hostile.py MODEL"),
            "model": f"{sum(weight.numel() for weight in weights):,} parameters",
            "clients": CLIENTS,
            "requests": [timing._asdict() for timing in timings],
            "cancelled_cpu_s": cancelled_cpu_s,
            "sigterm_s": round(stop_s, 1),
        }
        write("hostile", record)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
