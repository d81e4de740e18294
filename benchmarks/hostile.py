"""Hostile requests during the work of 64 ordinary clients: what the others notice.

    python benchmarks/hostile.py MODEL [PYTHON]

Starts `transduce serve MODEL` (of another environment, if PYTHON is its interpreter), measures 64
clients alone, then with each hostile request, and prints extra latency, /health, memory, and how
soon work that nobody waits for ends.
"""

import asyncio
import os
import re
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen

import httpx

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
}


class Server:
    """A process of `transduce serve`."""

    def __init__(self, model: Path, python: str = sys.executable) -> None:
        command = [python, "-m", "transduce", "serve", str(model), "--port", "0", "--quiet"]
        self.process = Popen(command, stderr=PIPE, text=True)
        assert self.process.stderr is not None
        while not (match := re.search(r"ready at (\S+?)/:", self.process.stderr.readline())):
            assert self.process.poll() is None
        self.url = match[1]

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


async def _repeat(action: Callable[[], Awaitable[httpx.Response]], times: list[float]) -> None:
    while True:
        begun = time.perf_counter()
        times.append(-begun)  # unanswered so far
        response = await action()
        assert response.status_code == 200, response.text
        times[-1] += time.perf_counter()
        await asyncio.sleep(0.2)


async def measure(server: Server, name: str, *, seconds: float) -> tuple[float, float]:
    """Run the clients, with the hostile request unless the name is empty; return the maxima."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=server.url, timeout=200, limits=limits) as client:
        own: list[list[float]] = [[] for _ in range(CLIENTS)]
        health: list[float] = []

        def ordinary(number: int) -> Callable[[], Awaitable[httpx.Response]]:
            fields = {"q": SENTENCES[number % 2], "source": "en", "target": "de"}
            return lambda: client.post("/translate", json=fields)

        tasks = [asyncio.create_task(_repeat(ordinary(n), own[n])) for n in range(CLIENTS)]
        tasks.append(asyncio.create_task(_repeat(lambda: client.get("/health"), health)))
        await asyncio.sleep(3)
        for times in (*own, health):
            del times[:-1]  # 64 new connections at once are slow
        answer = "-"
        if name:
            path, fields = HOSTILE[name]
            begun = time.perf_counter()
            request = asyncio.create_task(client.post(path, json=fields))
            await asyncio.wait([request], timeout=seconds)
            took = time.perf_counter() - begun
            answer = f"{request.result().status_code}" if request.done() else "none yet"
            answer += f" after {took:.1f} s"
            if request.done() and request.result().status_code != 200:
                answer += f" {request.result().text[:80]}"
            request.cancel()
            await asyncio.sleep(0.3)
        else:
            await asyncio.sleep(seconds)
        now = time.perf_counter()
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [error for error in results if not isinstance(error, asyncio.CancelledError)]
        flat = [t if t >= 0 else now + t for times in own for t in times]
        worst_health = max(t if t >= 0 else now + t for t in health)
        print(
            f"{name or 'nobody else'}: {answer}; {len(flat)} ordinary, median "
            f"{statistics.median(flat):.2f} s, slowest {max(flat):.2f} s; /health "
            f"{worst_health:.2f} s; peak {server.peak_mb():.0f} MB; {len(errors)} errors",
            flush=True,
        )
    return max(flat), worst_health


async def cancelled(server: Server, name: str) -> float:
    """Hang up after a second; return the CPU seconds that the process still spends."""
    path, fields = HOSTILE[name]
    async with httpx.AsyncClient(base_url=server.url) as client:
        with suppress(httpx.TimeoutException):
            await client.post(path, json=fields, timeout=1.0)
    before = server.cpu_s()
    while True:
        at = server.cpu_s()
        await asyncio.sleep(1.0)
        if server.cpu_s() - at < 0.1:
            return at - before


def main(model: Path, python: str = sys.executable) -> None:
    server = Server(model, python)
    try:
        asyncio.run(measure(server, "", seconds=5))
        for name in HOSTILE:
            asyncio.run(measure(server, name, seconds=12))
            time.sleep(1)
        for name in HOSTILE:
            cpu = asyncio.run(cancelled(server, name))
            print(f"cancelled {name}: {cpu:.2f} CPU s more", flush=True)
    finally:
        print(f"SIGTERM: gone after {server.stop():.1f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
