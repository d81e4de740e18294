"""Several processes under load: two swaps of the model and a killed worker, and their memory.

    .venv/bin/python benchmarks/serving_growth.py MODEL OTHER --source FILE

A server of two processes serves a link to MODEL. While 64 clients send 20,000 requests, the link is
changed to OTHER after a fifth, a worker is killed with SIGKILL after two fifths, and the link is
changed back after three fifths. Every answer is held against the offline translations of its text
by both models; a request whose connection broke is counted, and repeated. Latencies are compared
before, during and after. Memory is that of /proc/PID/smaps_rollup: the proportional set size (PSS)
of all workers beside that of a single process. Prints and writes
benchmarks/results/serving-growth/record.json. Nothing else should run meanwhile.
"""

import argparse
import asyncio
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from record import header, read_lines, write

from transduce.bundle.bundle import Bundle
from transduce.inference.translator import Translator

PHASES = ("before", "during", "after")


@dataclass(kw_only=True)
class Outcome:
    """What clients got."""

    answers: Counter[str] = field(default_factory=Counter[str])
    broken: int = 0
    """Connections that broke before an answer; the request was repeated."""
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PHASES})
    done: int = 0


def main() -> None:
    """Measure, print, write the record."""
    arguments = parse()
    languages = Bundle.load(arguments.model).languages
    texts = read_lines(arguments.source)[: arguments.texts]
    models = [arguments.model.resolve(), arguments.other.resolve()]
    known = [offline(model, texts, arguments.engine) for model in models]
    with tempfile.TemporaryDirectory() as folder:
        current = Path(folder) / "current"
        change(current, models[0])
        with served(current, arguments, processes=1) as (process, _):
            single = memory([process.pid])
        with served(current, arguments, processes=2) as (process, url):
            idle = memory(workers(process.pid))
            pair = {"source": languages.source, "target": languages.target}
            load = Load(url, texts=texts, known=known, pair=pair)
            events = [
                lambda: change(current, models[1]),
                lambda: os.kill(workers(process.pid)[0], signal.SIGKILL),
                lambda: change(current, models[0]),
            ]
            outcome = asyncio.run(load.run(arguments.requests, arguments.clients, events))
            loaded = memory(workers(process.pid))
    latencies = {name: percentiles(outcome.seconds[name]) for name in PHASES}
    record = {
        **header(
            "python benchmarks/serving_growth.py MODEL OTHER --source FILE", "uvicorn", "starlette"
        ),
        "engine": arguments.engine,
        "requests": arguments.requests,
        "clients": arguments.clients,
        "answers": dict(outcome.answers),
        "broken_connections": outcome.broken,
        "lost_after_repeating": arguments.requests - sum(outcome.answers.values()),
        "latencies_seconds": latencies,
        "p99_relative_to_before": {
            name: latencies[name]["p99"] / latencies["before"]["p99"] for name in PHASES
        },
        "memory_kib": {"one_process": single, "two_processes": idle, "after_the_load": loaded},
    }
    print(write("serving-growth", record, hide={str(Path.home()): "HOME"}))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("other", type=Path, help="another model of the same direction")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--engine", default="ctranslate2")
    return parser.parse_args()


def offline(model: Path, texts: Sequence[str], engine: str) -> dict[str, str]:
    """Translate each text by itself."""
    translator = Translator.load(model, engine=engine)
    return {text: translator.translate([text])[0].text for text in texts}


def change(current: Path, model: Path) -> None:
    """Let a link lead to another model, in one step."""
    new = current.with_name("new")
    new.symlink_to(model)
    new.replace(current)


@contextmanager
def served(
    current: Path, arguments: argparse.Namespace, *, processes: int
) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """A server that is ready; it has to end with 0."""
    log = current.with_name("log")
    options = ["--port", "0", "--quiet", "--engine", arguments.engine]
    if arguments.engine != "torch":
        options += ["--threads", "1"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "transduce", "serve", str(current), *options),
                *("--processes", str(processes)),
            ],
            stderr=out,
        )
    try:
        while not (ready := re.search(r"ready at (\S+/):", log.read_text())):
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        yield process, ready[1]
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()


def workers(pid: int) -> list[int]:
    """The processes that a supervisor has started to serve."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def memory(pids: Sequence[int]) -> list[dict[str, int]]:
    """Return what the kernel counts of each process, in KiB."""
    names = ("Rss", "Pss", "Pss_Anon", "Pss_File", "Private_Clean", "Private_Dirty")
    tables: list[dict[str, int]] = []
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        values = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE))
        tables.append({name.lower(): int(values[name]) for name in names})
    return tables


class Load:
    """Clients that take texts in turn."""

    def __init__(
        self,
        url: str,
        *,
        texts: Sequence[str],
        known: Sequence[dict[str, str]],
        pair: dict[str, str],
    ) -> None:
        """Store what is sent, and what may come back."""
        self._url, self._texts, self._known, self._pair = url, texts, known, pair
        self.outcome = Outcome()

    async def run(self, requests: int, clients: int, events: Sequence[object]) -> Outcome:
        """Send all requests; let each event happen after another fifth of them."""
        pending = iter(range(requests))
        at = {(number + 1) * requests // 5: event for number, event in enumerate(events)}
        self._limits = (min(at), requests * 4 // 5)
        limits = httpx.Limits(max_connections=clients)
        async with httpx.AsyncClient(base_url=self._url, timeout=120, limits=limits) as client:

            async def work() -> None:
                for number in pending:
                    await self._send(client, self._texts[number % len(self._texts)])
                    self.outcome.done += 1
                    if event := at.pop(self.outcome.done, None):
                        await asyncio.to_thread(event)  # type: ignore[arg-type]

            await asyncio.gather(*(work() for _ in range(clients)))
        return self.outcome

    async def _send(self, client: httpx.AsyncClient, text: str) -> None:
        outcome, started = self.outcome, time.perf_counter()
        phase = PHASES[sum(outcome.done >= limit for limit in self._limits)]
        while True:
            try:
                answer = await client.post("translate", json={"q": text, **self._pair})
            except httpx.TransportError:
                outcome.broken += 1
                continue
            break
        outcome.seconds[phase].append(time.perf_counter() - started)
        if answer.status_code != 200:
            outcome.answers[f"status {answer.status_code}"] += 1
            return
        translation = answer.json()["translatedText"]
        right = [
            f"model {n}" for n, known in enumerate(self._known, 1) if known[text] == translation
        ]
        outcome.answers[" or ".join(right) or "of neither model"] += 1


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 99th percentile."""
    cuts = statistics.quantiles(seconds, n=100)
    return {"p50": round(cuts[49], 4), "p99": round(cuts[98], 4)}


if __name__ == "__main__":
    main()
