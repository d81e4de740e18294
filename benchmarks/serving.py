"""The server under load: 10,000 requests from 64 clients, overload, shutdown.

    .venv/bin/python benchmarks/serving.py MODEL --source FILE

For CTranslate2, greedily and with the model's own beam, and for torch: a server on this machine,
asked by clients in a process beside it on the same cores. The first gets all requests, the others
fewer. Every answer is held against the offline
translation of its own text by the same engine and precision; what differs is listed with ln p of
both. Throughput is that of the server as it is, beside the same server with batches of one
sentence and no waiting. Then overload (a queue of 16, 200 clients), SIGTERM under load, and the
time from the command's start to its first translation. Prints a table and writes
benchmarks/results/serving/record.json. Nothing else should run meanwhile.
"""

import argparse
import json
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
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from record import header, read_lines, write
from serving_client import Found, Job

from transduce.bundle.bundle import Bundle
from transduce.inference.translator import Extras, Translator, translate_texts

SHOWN = 20
"""Of the answers that differ, how many are listed."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path


def main() -> None:
    """Measure all, print the table, write the record."""
    arguments = parse()
    bundle = Bundle.load(arguments.model)
    arguments.languages = (bundle.languages.source, bundle.languages.target)
    arguments.texts = texts(arguments.source)[: arguments.lines]
    rows: list[dict[str, object]] = []
    for engine, beam, requests in (
        ("ctranslate2", 1, arguments.requests),
        ("ctranslate2", bundle.search.beam, arguments.fewer),
        ("torch", 1, arguments.fewer),
    ):
        for row in compared(engine, beam, requests, arguments):
            rows.append(row)
            print(f"{engine}, beam {beam}, {row['handling']}: done", file=sys.stderr)
    record = {
        **header(
            "python benchmarks/serving.py MODEL --source FILE",
            "ctranslate2",
            "uvicorn",
            "starlette",
            "h11",
        ),
        "parameters": sum(one.numel() for one in bundle.model.parameters()),
        "texts": len(arguments.texts),
        "clients": arguments.clients,
        "rows": rows,
        "overload": overload(arguments),
        "stopped": stopped(arguments),
        "first_translation_seconds": [first(arguments) for _ in range(3)],
    }
    print(table(rows))
    for name in ("overload", "stopped", "first_translation_seconds"):
        print(f"{name}: {json.dumps(record[name])}")
    if arguments.dry:
        return
    write("serving", record)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="a bundle or a run's folder")
    parser.add_argument("--source", required=True, help="texts, one a line; may be .gz")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--fewer", type=int, default=2000, help="of the slower ways")
    parser.add_argument("--single", type=int, default=500, help="requests one at a time")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--dry", action="store_true", help="write no record")
    return parser.parse_args()


def texts(path: str) -> list[str]:
    """The lines of a file, each once."""
    return [line for line in dict.fromkeys(read_lines(path)) if line.strip()]


def compared(
    engine: str, beam: int, requests: int, arguments: argparse.Namespace
) -> Iterator[dict[str, object]]:
    """A server as it is, and one that translates one sentence at a time."""
    translator = Translator.load(arguments.model, engine=engine)
    expected = [
        one.text
        for one in translate_texts(
            translator, arguments.texts, beam=beam, extras=Extras(token_scores=False)
        )
    ]
    del translator
    options = ["--engine", engine, "--beam", str(beam), "--quiet"]
    alone = [*options, "--batch-sentences", "1", "--wait-ms", "0"]
    for handling, more, count in (
        ("one at a time", alone, arguments.single),
        ("gathered", options, requests),
    ):
        with serving(arguments, *more) as server:
            asked(server, arguments, requests=4 * arguments.clients)  # warm
            found = asked(server, arguments, requests=count)
            sizes = batches(server)
        yield {
            "engine": engine,
            "beam": beam,
            "handling": handling,
            "requests": count,
            "statuses": counted(found),
            "requests_a_second": round(count / found["whole_seconds"], 1),
            **percentiles(found["seconds"]),
            "sentences_a_batch": sizes,
            "memory_mib": [round(one / 1024, 1) for one in found["memory_kib"]],
            **differing(found, expected, engine, arguments),
        }


def differing(
    found: Found, expected: Sequence[str], engine: str, arguments: argparse.Namespace
) -> dict[str, object]:
    """The answers that are not the offline translation of their own text, with ln p of both."""
    pairs = {
        (at % len(expected), said)
        for at, said in enumerate(found["answers"])
        if said != expected[at % len(expected)]
    }
    wrong = sum(said != expected[at % len(expected)] for at, said in enumerate(found["answers"]))
    if not pairs:
        return {"differ": 0, "differing": []}
    scorer = Translator.load(arguments.model, engine="torch")
    listed: list[dict[str, object]] = []
    for number, said in sorted(pairs)[:SHOWN]:
        text = arguments.texts[number]
        offline, served = scorer.score([text, text], [expected[number], said])
        listed.append(
            {
                "text": text,
                "offline": expected[number],
                "served": said,
                "ln_p": [round(offline.log_prob, 5), round(served.log_prob, 5)],
            }
        )
    return {"differ": wrong, "differing": listed}


def overload(arguments: argparse.Namespace) -> dict[str, object]:
    """More clients than may wait; then one request more."""
    with serving(arguments, "--queue", "16", "--beam", "1", "--quiet") as server:
        found = asked(server, arguments, requests=max(400, arguments.requests // 5), clients=200)
        after = asked(server, arguments, requests=1, clients=1)
    return {
        "queue": 16,
        "clients": 200,
        "statuses": counted(found),
        "afterwards": {"status": after["statuses"][0], "seconds": round(after["seconds"][0], 4)},
    }


def stopped(arguments: argparse.Namespace) -> dict[str, object]:
    """SIGTERM while all clients ask: what the server answered, they have."""
    with serving(arguments, "--beam", "1") as server:
        client = start(server, arguments, requests=1_000_000 // 20, clients=arguments.clients)
        while server.log.read_text().count("POST /translate 200") < 4 * arguments.clients:
            time.sleep(0.05)
        begun = time.perf_counter()
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(60)
        seconds = time.perf_counter() - begun
        found: Found = json.loads(client.communicate()[0])
        logged = Counter(re.findall(r"POST /translate (\w+)", server.log.read_text()))
    return {
        "exit_code": code,
        "seconds": round(seconds, 2),
        "answered_by_the_server": dict(logged),
        "received": {name: count for name, count in counted(found).items() if name != "0"},
        "broken_off_within_an_answer": found["torn"],
    }


def first(arguments: argparse.Namespace) -> float:
    """Seconds from the start of the command to the first translation."""
    begun = time.perf_counter()
    with serving(arguments, "--quiet") as server:
        fields = dict(zip(("source", "target"), arguments.languages, strict=True))
        body = json.dumps({"q": arguments.texts[0], **fields}).encode()
        url = f"http://127.0.0.1:{server.port}/translate"
        with urlopen(Request(url, body, {"Content-Type": "application/json"})) as answer:
            answer.read()
        return round(time.perf_counter() - begun, 2)


@contextmanager
def serving(arguments: argparse.Namespace, *options: str) -> Iterator[Server]:
    """A server that is ready."""
    command = [sys.executable, "-m", "transduce", "serve", str(arguments.model), "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as out:
            process = subprocess.Popen([*command, *options], stderr=out)
        try:
            while not (found := re.search(r"ready at \S+:(\d+)/", log.read_text())):
                if process.poll() is not None:
                    sys.exit(log.read_text())
                time.sleep(0.02)
            yield Server(process=process, port=int(found[1]), log=log)
        finally:
            process.terminate()
            process.wait()


def start(
    server: Server, arguments: argparse.Namespace, *, requests: int, clients: int
) -> subprocess.Popen[bytes]:
    """Start clients."""
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


def asked(
    server: Server, arguments: argparse.Namespace, *, requests: int, clients: int = 0
) -> Found:
    """Ask and wait for all answers."""
    clients = clients or arguments.clients
    return json.loads(start(server, arguments, requests=requests, clients=clients).communicate()[0])


def batches(server: Server) -> float:
    """Mean sentences of a batch, as the server's metrics have it."""
    with urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        counted = answer.read().decode()
    total, number = (
        float(re.search(rf"transduce_batch_sentences_{name}{{.*}} (\S+)", counted)[1])
        for name in ("sum", "count")
    )
    return round(total / number, 1)


def counted(found: Found) -> dict[str, int]:
    """How often each status came."""
    return {str(status): count for status, count in sorted(Counter(found["statuses"]).items())}


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """How long a client waited, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100)
    return {f"p{at}_ms": round(1000 * cuts[at - 1], 1) for at in (50, 95, 99)}


def table(rows: Sequence[dict[str, object]]) -> str:
    """One line a server."""
    written = [
        "engine       beam  handling       requests/s   gain     p50     p95     p99 ms"
        "  a batch  differ  memory MiB"
    ]
    alone = {
        (row["engine"], row["beam"]): row for row in rows if row["handling"] == "one at a time"
    }
    for row in rows:
        rate = row["requests_a_second"]
        gain = rate / alone[row["engine"], row["beam"]]["requests_a_second"]
        written.append(
            f"{row['engine']:11}  {row['beam']:4}  {row['handling']:13}  {rate:10.1f}  {gain:5.2f}"
            f"  {row['p50_ms']:6.1f}  {row['p95_ms']:6.1f}  {row['p99_ms']:9.1f}"
            f"  {row['sentences_a_batch']:7.1f}  {row['differ']:6}  {row['memory_mib']}"
        )
    return "\n".join(written)


if __name__ == "__main__":
    main()
