"""Effect of hostile requests on 64 regular clients of the server.

    python benchmarks/hostile.py MODEL [PYTHON]

Starts `transduce serve MODEL` (in another environment if PYTHON is its interpreter) and measures 64
clients alone, then with each hostile request: additional latency, /health, memory, and how soon
cancelled work ends. Writes results/hostile/record.json, unless PYTHON is another environment's.
"""

import asyncio
import json
import os
import re
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from record import header, write
from server import Server, run_server

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


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has spent."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def reset_peak(pid: int) -> bool:
    """Set a process's peak memory to what it has now; return whether the system allows it."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak_mb(pid: int) -> int:
    """Return the peak memory of a process since its start or `reset_peak`."""
    status = Path(f"/proc/{pid}/status").read_text()
    return round(int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024)  # type: ignore[index]


class Connection:
    """A connection on a plain socket: 64 of them are cheap enough to share two cores."""

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
        response_head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(response_head.split(b"content-length: ")[1].split()[0])
        content = (await reader.readexactly(length)).decode()
        return int(response_head.split(b" ", 2)[1]), content

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


class Timing(NamedTuple):
    """Latencies of regular clients in seconds, the hostile request's outcome, and memory."""

    request: str
    outcome: str
    ordinary: int
    """Number of requests by regular clients."""
    median: float
    slowest: float
    health: float
    peak_mb: int | None
    """Of the server during the measurement; None where the system keeps it since the start."""
    errors: int


async def _request_repeatedly(port: int, path: str, body: bytes, times: list[list[float]]) -> None:
    """Send a request repeatedly; append its start and, once there is a response, its end."""
    connection = Connection(port)
    try:
        while True:
            times.append(times_of_request := [time.perf_counter()])
            status, content = await connection.ask(path, body)
            assert status == 200, content
            times_of_request.append(time.perf_counter())
            await asyncio.sleep(0.2)
    finally:
        connection.close()


def _seconds(times: list[list[float]], *, since: float) -> list[float]:
    """Return the seconds of requests that were answered since a time or are still pending."""
    now = time.perf_counter()
    return [(end or [now])[0] - begin for begin, *end in times if not end or end[0] >= since]


def _hostile_body(name: str) -> tuple[str, bytes]:
    path, fields = HOSTILE[name]
    return path, json.dumps(fields, separators=(",", ":")).encode()


async def measure(server: Server, name: str, *, seconds: float, baseline: Timing | None) -> Timing:
    """Run the clients, together with the hostile request unless its name is empty."""
    translation_times: list[list[float]] = []
    health_times: list[list[float]] = []
    tasks = [asyncio.create_task(_request_repeatedly(server.port, "/health", b"", health_times))]
    for number in range(CLIENTS):
        fields = {"q": SENTENCES[number % 2], "source": "en", "target": "de"}
        repeated = _request_repeatedly(
            server.port, "/translate", json.dumps(fields).encode(), translation_times
        )
        tasks.append(asyncio.create_task(repeated))
    await asyncio.sleep(2)  # 64 new connections at once are slow
    is_reset = reset_peak(server.process.pid)
    started, result = time.perf_counter(), "-"
    if name:
        connection = Connection(server.port)
        request = asyncio.create_task(connection.ask(*_hostile_body(name)))
        await asyncio.wait([request], timeout=seconds)
        result = f"none after {seconds:.0f} s"
        if request.done():
            status, content = request.result()
            result = f"{status} after {time.perf_counter() - started:.1f} s"
            result += f" {content[:80]}" * (status != 200)
        request.cancel()
        connection.close()
    await asyncio.sleep(max(1.0, started + seconds - time.perf_counter()))
    for task in tasks:
        task.cancel()
    latencies = _seconds(translation_times, since=started)
    slowest_health = max(_seconds(health_times, since=started))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    errors = sum(not isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    timing = Timing(
        request=name or "nobody else",
        outcome=result,
        ordinary=len(latencies),
        median=round(statistics.median(latencies), 3),
        slowest=round(max(latencies), 3),
        health=round(slowest_health, 3),
        peak_mb=peak_mb(server.process.pid) if is_reset else None,
        errors=errors,
    )
    extra = f" ({timing.slowest - baseline.slowest:+.2f} s for others)" if baseline else ""
    print(f"{timing}{extra}; load {os.getloadavg()[0]:.1f}", flush=True)
    return timing


async def measure_cancellation(server: Server, name: str) -> float:
    """Disconnect after a second; return the CPU seconds that the server still spends."""
    connection = Connection(server.port)
    with suppress(TimeoutError):
        await asyncio.wait_for(connection.ask(*_hostile_body(name)), 1.0)
    connection.close()
    before = cpu_s(server.process.pid)
    while True:
        cpu_seconds = cpu_s(server.process.pid)
        await asyncio.sleep(1.0)
        if cpu_s(server.process.pid) - cpu_seconds < 0.1:
            return cpu_seconds - before


def main(model: Path, python: str = sys.executable) -> None:
    with run_server(str(model), "--quiet", python=python) as server:
        baseline = asyncio.run(measure(server, "", seconds=10, baseline=None))
        timings = [baseline]
        for name in HOSTILE:
            timings.append(asyncio.run(measure(server, name, seconds=10, baseline=baseline)))
            time.sleep(1)
        cancelled_cpu_s = {
            name: round(asyncio.run(measure_cancellation(server, name)), 2) for name in HOSTILE
        }
        print(f"CPU seconds after cancellation: {cancelled_cpu_s}", flush=True)
        started = time.perf_counter()
        server.process.terminate()
        server.process.wait(120)
        stop_s = time.perf_counter() - started
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
