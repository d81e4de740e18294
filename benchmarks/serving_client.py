"""Many concurrent clients on bare sockets, cheap enough to share two cores with the server.

    .venv/bin/python benchmarks/serving_client.py < job.json > found.json

A job: port, clients, requests, texts (taken in turn), source, target, pid (whose memory is read, or
0), memory_at (after how many answers). Found: for each request its status and answer, "" where the
connection broke off without one; seconds of each, and of all; resident memory in KiB.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TypedDict


class Job(TypedDict):
    """What is to be asked."""

    port: int
    clients: int
    requests: int
    texts: list[str]
    source: str
    target: str
    pid: int
    memory_at: list[int]


class Found(TypedDict):
    """What came of it."""

    statuses: list[int]
    answers: list[str]
    seconds: list[float]
    whole_seconds: float
    memory_kib: list[int]
    torn: int


async def ask_all(job: Job) -> Found:
    """Ask with so many clients, each one request at a time, until all are asked or it is gone."""
    number = job["requests"]
    found: Found = {
        "statuses": [0] * number,
        "answers": [""] * number,
        "seconds": [0.0] * number,
        "whole_seconds": 0.0,
        "memory_kib": [],
        "torn": 0,
    }
    asked = iter(range(number))
    done = iter(range(1, number + 1))

    async def client() -> None:
        writer: asyncio.StreamWriter | None = None
        for at in asked:
            begun = time.perf_counter()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", job["port"])
                writer.write(request(job, at))
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
            except (OSError, asyncio.IncompleteReadError) as error:
                found["torn"] += bool(getattr(error, "partial", b""))
                return  # the server is stopped: there was no answer
            try:
                body = await reader.readexactly(int(head.split(b"content-length: ")[1].split()[0]))
            except (OSError, asyncio.IncompleteReadError):
                found["torn"] += 1
                return
            status = int(head.split(b" ", 2)[1])
            found["statuses"][at] = status
            found["seconds"][at] = time.perf_counter() - begun
            if status == 200:
                found["answers"][at] = json.loads(body)["translatedText"]
            if next(done) in job["memory_at"]:
                found["memory_kib"].append(memory(job["pid"]))
            if b"\r\nconnection: close" in head:
                writer = None
        if writer is not None:
            writer.close()

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(job["clients"])))
    found["whole_seconds"] = time.perf_counter() - begun
    return found


def request(job: Job, at: int) -> bytes:
    """The bytes of one request."""
    text = job["texts"][at % len(job["texts"])]
    body = json.dumps({"q": text, "source": job["source"], "target": job["target"]}).encode()
    return (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )


def memory(pid: int) -> int:
    """Resident memory of a process in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    json.dump(asyncio.run(ask_all(json.load(sys.stdin))), sys.stdout)
