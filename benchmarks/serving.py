"""The server under load: 10,000 requests from 64 clients, overload, shutdown.

    .venv/bin/python benchmarks/serving.py MODEL --source FILE --shortlist vmap.txt

For the native engine in float32 and int8, greedily and with the model's beam, in int8 greedily with
a shortlist too, and for CTranslate2 and torch greedily: a server on this machine, with clients in a
process on the same cores. The first server gets all requests, the others fewer. Every response is
compared with the offline translation of its text by the same engine and precision; differences are
listed with ln p of both. Throughput is that of the server with its defaults, compared with batches
of one sentence and no waiting. Each server answers a single client first. Then overload (a queue of
16, 200 clients), SIGTERM under load, and the time from the command's start to its first
translation. Prints a table and writes benchmarks/results/serving/record.json. Run nothing else at
the same time.
"""

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

from record import header, read_lines, write
from server import Server, run_server
from serving_client import ClientResult, Job

from transduce.bundle.bundle import Bundle
from transduce.inference.engines.base import EngineName
from transduce.inference.texts import translate_texts
from transduce.inference.translator import Extras, Translator

MAX_LISTED = 20
"""Maximum number of differing translations to list."""


class Decoding(NamedTuple):
    """How a server decodes."""

    engine: EngineName = "native"
    compute_type: str = "float32"
    beam: int = 1
    shortlist: Path | None = None

    @property
    def options(self) -> list[str]:
        """Options of `transduce serve`."""
        options = ["--engine", self.engine, "--compute-type", self.compute_type]
        options += ["--beam", str(self.beam)]
        return [*options, "--shortlist", str(self.shortlist)] if self.shortlist else options

    def translator(self, model: Path) -> Translator:
        """Load the offline translator that decodes alike."""
        return Translator.load(
            model, engine=self.engine, compute_type=self.compute_type, shortlist=self.shortlist
        )


def main() -> None:
    """Measure all engines, print a table, write the record."""
    arguments = parse()
    bundle = Bundle.load(arguments.model)
    arguments.languages = (bundle.languages.source, bundle.languages.target)
    arguments.texts = unique_lines(arguments.source)[: arguments.lines]
    rows: list[dict[str, object]] = []
    for decoding, requests in (
        (Decoding(), arguments.requests),
        (Decoding(beam=bundle.search.beam), arguments.fewer),
        (Decoding(compute_type="int8"), arguments.fewer),
        (Decoding(compute_type="int8", beam=bundle.search.beam), arguments.fewer),
        (Decoding(compute_type="int8", shortlist=arguments.shortlist), arguments.fewer),
        (Decoding(engine="ctranslate2"), arguments.fewer),
        (Decoding(engine="ctranslate2", compute_type="int8"), arguments.fewer),
        (Decoding(engine="torch"), arguments.fewer),
    ):
        for row in measure_engine(decoding, requests, arguments):
            rows.append(row)
            print(f"{' '.join(decoding.options)}, {row['handling']}: done", file=sys.stderr)
    record = {
        **header(
            "python benchmarks/serving.py MODEL --source FILE --shortlist FILE",
            "ctranslate2",
            "uvicorn",
            "starlette",
            "httptools",
        ),
        "parameters": sum(weight.numel() for weight in bundle.model.parameters()),
        "texts": len(arguments.texts),
        "clients": arguments.clients,
        "rows": rows,
        "overload": measure_overload(arguments),
        "stopped": measure_shutdown(arguments),
        "first_translation_seconds": [time_first_translation(arguments) for _ in range(3)],
    }
    print(format_table(rows))
    for name in ("overload", "stopped", "first_translation_seconds"):
        print(f"{name}: {json.dumps(record[name])}")
    if arguments.dry:
        return
    write("serving", record)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="a bundle or a run's folder")
    parser.add_argument("--source", required=True, help="texts, one per line; may be .gz")
    parser.add_argument(
        "--shortlist",
        type=Path,
        required=True,
        help="vmap.txt of `transduce export --to ctranslate2 --shortlist`",
    )
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--fewer", type=int, default=2000, help="requests to the slower engines")
    parser.add_argument("--single", type=int, default=500, help="requests without batching")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--dry", action="store_true", help="write no record")
    return parser.parse_args()


def unique_lines(path: str) -> list[str]:
    """Read the distinct lines of a file."""
    return [line for line in dict.fromkeys(read_lines(path)) if line.strip()]


def measure_engine(
    decoding: Decoding, requests: int, arguments: argparse.Namespace
) -> Iterator[dict[str, object]]:
    """Measure a server without batching, and one with its defaults."""
    translator = decoding.translator(arguments.model)
    decode = partial(translator.decode, beam=decoding.beam, extras=Extras(token_scores=False))
    expected = [
        translation.text
        for translation in translate_texts(translator, arguments.texts, decode=decode)
    ]
    del translator
    options = [*decoding.options, "--quiet"]
    single_options = [*options, "--batch-sentences", "1", "--wait-ms", "0"]
    for handling, server_options, count in (
        ("one at a time", single_options, arguments.single),
        ("gathered", options, requests),
    ):
        with run_server(str(arguments.model), *server_options) as server:
            send_requests(server, arguments, requests=4 * arguments.clients)  # warm-up
            single = send_requests(server, arguments, requests=arguments.single, clients=1)
            before = batch_totals(server)
            result = send_requests(server, arguments, requests=count)
            sentences, batches = (b - a for a, b in zip(before, batch_totals(server), strict=True))
        yield {
            "engine": decoding.engine,
            "compute_type": decoding.compute_type,
            "beam": decoding.beam,
            "shortlist": decoding.shortlist is not None,
            "handling": handling,
            "requests": count,
            "statuses": count_statuses(result),
            "requests_a_second": round(count / result["total_seconds"], 1),
            **percentiles(result["seconds"]),
            "single_client": percentiles(single["seconds"]),
            "sentences_a_batch": round(sentences / batches, 1),
            "memory_mib": [round(size / 1024, 1) for size in result["memory_kib"]],
            **list_differences(result, expected, arguments),
        }


def list_differences(
    result: ClientResult, expected: Sequence[str], arguments: argparse.Namespace
) -> dict[str, object]:
    """List the translations that differ from the offline translation, with ln p of both."""
    pairs = {
        (position % len(expected), translation)
        for position, translation in enumerate(result["translations"])
        if translation != expected[position % len(expected)]
    }
    differing_count = sum(
        translation != expected[position % len(expected)]
        for position, translation in enumerate(result["translations"])
    )
    if not pairs:
        return {"differ": 0, "differing": []}
    scorer = Translator.load(arguments.model, engine="torch")
    listed: list[dict[str, object]] = []
    for number, translation in sorted(pairs)[:MAX_LISTED]:
        text = arguments.texts[number]
        offline, rescored = scorer.score([text, text], [expected[number], translation])
        listed.append(
            {
                "text": text,
                "offline": expected[number],
                "served": translation,
                "ln_p": [round(offline.log_prob, 5), round(rescored.log_prob, 5)],
            }
        )
    return {"differ": differing_count, "differing": listed}


def measure_overload(arguments: argparse.Namespace) -> dict[str, object]:
    """Run more clients than the queue holds; then send a single request."""
    with run_server(str(arguments.model), "--queue", "16", "--beam", "1", "--quiet") as server:
        result = send_requests(
            server, arguments, requests=max(400, arguments.requests // 5), clients=200
        )
        next_result = send_requests(server, arguments, requests=1, clients=1)
    return {
        "queue": 16,
        "clients": 200,
        "statuses": count_statuses(result),
        "afterwards": {
            "status": next_result["statuses"][0],
            "seconds": round(next_result["seconds"][0], 4),
        },
    }


def measure_shutdown(arguments: argparse.Namespace) -> dict[str, object]:
    """Send SIGTERM under load; compare the responses that were sent and received."""
    with run_server(str(arguments.model), "--beam", "1") as server:
        client = start_clients(
            server, arguments, requests=1_000_000 // 20, clients=arguments.clients
        )
        while server.log.read_text().count("POST /translate 200") < 4 * arguments.clients:
            time.sleep(0.05)
        started = time.perf_counter()
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(60)
        seconds = time.perf_counter() - started
        result: ClientResult = json.loads(client.communicate()[0])
        logged = Counter(re.findall(r"POST /translate (\w+)", server.log.read_text()))
    return {
        "exit_code": code,
        "seconds": round(seconds, 2),
        "answered_by_the_server": dict(logged),
        "received": {name: count for name, count in count_statuses(result).items() if name != "0"},
        "broken_off_within_an_answer": result["broken_responses"],
    }


def time_first_translation(arguments: argparse.Namespace) -> float:
    """Measure the seconds from the start of the command to the first translation."""
    started = time.perf_counter()
    with run_server(str(arguments.model), "--quiet") as server:
        fields = dict(zip(("source", "target"), arguments.languages, strict=True))
        body = json.dumps({"q": arguments.texts[0], **fields}).encode()
        url = f"{server.url}/translate"
        with urlopen(Request(url, body, {"Content-Type": "application/json"})) as response:
            response.read()
        return round(time.perf_counter() - started, 2)


def start_clients(
    server: Server, arguments: argparse.Namespace, *, requests: int, clients: int
) -> subprocess.Popen[bytes]:
    """Start the clients' process."""
    job: Job = {
        "port": server.port,
        "clients": clients,
        "requests": requests,
        "texts": arguments.texts,
        "source": arguments.languages[0],
        "target": arguments.languages[1],
        "pid": server.process.pid,
        "memory_at": [min(1000, requests), requests],
    }
    client = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("serving_client.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert client.stdin is not None
    client.stdin.write(json.dumps(job).encode())
    client.stdin.close()
    client.stdin = None
    return client


def send_requests(
    server: Server, arguments: argparse.Namespace, *, requests: int, clients: int = 0
) -> ClientResult:
    """Send requests and wait for all responses."""
    clients = clients or arguments.clients
    return json.loads(
        start_clients(server, arguments, requests=requests, clients=clients).communicate()[0]
    )


def batch_totals(server: Server) -> tuple[float, float]:
    """Read the number of sentences and of batches so far from the server's metrics."""
    with urlopen(f"{server.url}/metrics") as response:
        metrics = response.read().decode()
    total, number = (
        float(re.search(rf"transduce_batch_sentences_{name}{{.*}} (\S+)", metrics)[1])
        for name in ("sum", "count")
    )
    return total, number


def count_statuses(result: ClientResult) -> dict[str, int]:
    """Count the responses by status."""
    return {str(status): count for status, count in sorted(Counter(result["statuses"]).items())}


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Compute percentiles of the latencies, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100)
    return {
        f"p{percentile}_ms": round(1000 * cuts[percentile - 1], 2) for percentile in (50, 95, 99)
    }


def format_table(rows: Sequence[dict[str, object]]) -> str:
    """Format a line per server."""
    lines = [
        "engine       type     beam  shortlist  handling       requests/s   gain"
        "     p50     p95     p99 ms  one client: p50     p99 ms  a batch  differ  memory MiB"
    ]
    keys = ("engine", "compute_type", "beam", "shortlist")
    baselines = {
        tuple(row[key] for key in keys): row for row in rows if row["handling"] == "one at a time"
    }
    for row in rows:
        rate, single = row["requests_a_second"], row["single_client"]
        baseline = baselines[tuple(row[key] for key in keys)]
        gain = rate / baseline["requests_a_second"]
        lines.append(
            f"{row['engine']:11}  {row['compute_type']:7}  {row['beam']:4}  {row['shortlist']!s:9}"
            f"  {row['handling']:13}"
            f"  {rate:10.1f}  {gain:5.2f}"
            f"  {row['p50_ms']:6.1f}  {row['p95_ms']:6.1f}  {row['p99_ms']:9.1f}"
            f"  {single['p50_ms']:15.2f}  {single['p99_ms']:9.2f}"
            f"  {row['sentences_a_batch']:7.1f}  {row['differ']:6}  {row['memory_mib']}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
