"""Several processes under load: two swaps of the model and a killed worker, and their memory.

    .venv/bin/python benchmarks/serving_growth.py MODEL OTHER --source FILE

A server of two processes serves a link to MODEL. While 64 clients send 20,000 requests, the link is
switched to OTHER after one fifth, a worker is killed with SIGKILL after two fifths, and the link is
switched back after three fifths. Every response is compared with the offline translations of its
text by both models; requests whose connection broke are counted and repeated. Latencies are
compared before, during and after. Memory is read from /proc/PID/smaps_rollup: the proportional set
size (PSS) of all workers, compared with a single process. Prints and writes
benchmarks/results/serving-growth/record.json. Run nothing else at the same time.
"""

import argparse
import asyncio
import os
import re
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from record import header, read_lines, write
from server import Server, run_server

from transduce.bundle.bundle import Bundle
from transduce.inference.translator import Translator

PHASES = ("before", "during", "after")


@dataclass(kw_only=True)
class Outcome:
    """Responses, latencies and broken connections."""

    answers: Counter[str] = field(default_factory=Counter[str])
    broken: int = 0
    """Connections that broke before a response; the requests were repeated."""
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PHASES})
    done: int = 0


def main() -> None:
    """Measure, print, write the record."""
    arguments = parse()
    languages = Bundle.load(arguments.model).languages
    texts = read_lines(arguments.source)[: arguments.texts]
    models = [arguments.model.resolve(), arguments.other.resolve()]
    offline_translations = [translate_offline(model, texts, arguments.engine) for model in models]
    with tempfile.TemporaryDirectory() as folder:
        current = Path(folder) / "current"
        switch_link(current, models[0])
        with run_processes(current, arguments, number=1) as server:
            single = read_memory([server.process.pid])
        with run_processes(current, arguments, number=2) as server:
            supervisor = server.process.pid
            idle = read_memory(worker_pids(supervisor))
            direction = {"source": languages.source, "target": languages.target}
            load = LoadTest(
                server.url,
                texts=texts,
                offline_translations=offline_translations,
                direction=direction,
            )
            events = [
                lambda: switch_link(current, models[1]),
                lambda: os.kill(worker_pids(supervisor)[0], signal.SIGKILL),
                lambda: switch_link(current, models[0]),
            ]
            outcome = asyncio.run(load.run(arguments.requests, arguments.clients, events))
            loaded = read_memory(worker_pids(supervisor))
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


def translate_offline(model: Path, texts: Sequence[str], engine: str) -> dict[str, str]:
    """Translate each text separately."""
    translator = Translator.load(model, engine=engine)
    return {text: translator.translate([text])[0].text for text in texts}


def switch_link(current: Path, model: Path) -> None:
    """Point a link to another model, atomically."""
    new_link = current.with_name("new")
    new_link.symlink_to(model)
    new_link.replace(current)


@contextmanager
def run_processes(current: Path, arguments: argparse.Namespace, *, number: int) -> Iterator[Server]:
    """Run a server of `number` processes, and check that it ends without an error."""
    options = ["--quiet", "--engine", arguments.engine, "--processes", str(number)]
    options += [] if arguments.engine == "torch" else ["--threads", "1"]
    with run_server(str(current), *options) as server:
        yield server
        server.process.terminate()
        assert server.process.wait(60) == 0, server.log.read_text()


def worker_pids(pid: int) -> list[int]:
    """Return the supervisor's worker processes."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(child)
        for child in children
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def read_memory(pids: Sequence[int]) -> list[dict[str, int]]:
    """Read the memory statistics of each process, in KiB."""
    names = ("Rss", "Pss", "Pss_Anon", "Pss_File", "Private_Clean", "Private_Dirty")
    tables: list[dict[str, int]] = []
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        values = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE))
        tables.append({name.lower(): int(values[name]) for name in names})
    return tables


class LoadTest:
    """Clients that send the texts in turn."""

    def __init__(
        self,
        url: str,
        *,
        texts: Sequence[str],
        offline_translations: Sequence[dict[str, str]],
        direction: dict[str, str],
    ) -> None:
        """Store the texts to send and their expected translations."""
        self._url, self._texts, self._offline_translations, self._direction = (
            url,
            texts,
            offline_translations,
            direction,
        )
        self.outcome = Outcome()

    async def run(self, requests: int, clients: int, events: Sequence[object]) -> Outcome:
        """Send all requests; trigger an event after each fifth of them."""
        pending = iter(range(requests))
        events_by_count = {
            (number + 1) * requests // 5: event for number, event in enumerate(events)
        }
        self._limits = (min(events_by_count), requests * 4 // 5)
        limits = httpx.Limits(max_connections=clients)
        async with httpx.AsyncClient(base_url=self._url, timeout=120, limits=limits) as client:

            async def work() -> None:
                for number in pending:
                    await self._send(client, self._texts[number % len(self._texts)])
                    self.outcome.done += 1
                    if event := events_by_count.pop(self.outcome.done, None):
                        await asyncio.to_thread(event)  # type: ignore[arg-type]

            await asyncio.gather(*(work() for _ in range(clients)))
        return self.outcome

    async def _send(self, client: httpx.AsyncClient, text: str) -> None:
        outcome, started = self.outcome, time.perf_counter()
        phase = PHASES[sum(outcome.done >= limit for limit in self._limits)]
        while True:
            try:
                response = await client.post("translate", json={"q": text, **self._direction})
            except httpx.TransportError:
                outcome.broken += 1
                continue
            break
        outcome.seconds[phase].append(time.perf_counter() - started)
        if response.status_code != 200:
            outcome.answers[f"status {response.status_code}"] += 1
            return
        translation = response.json()["translatedText"]
        matching = [
            f"model {index}"
            for index, translations in enumerate(self._offline_translations, 1)
            if translations[text] == translation
        ]
        outcome.answers[" or ".join(matching) or "of neither model"] += 1


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 99th percentile."""
    cuts = statistics.quantiles(seconds, n=100)
    return {"p50": round(cuts[49], 4), "p99": round(cuts[98], 4)}


if __name__ == "__main__":
    main()
