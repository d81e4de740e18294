"""Clients on plain sockets, cheap enough to share two cores with the server.

    .venv/bin/python benchmarks/serving_client.py < job.json > result.json

A job: port, clients, requests, texts (sent in turn), source, target, pid (of the process whose
memory is read), memory_at (numbers of responses after which it is read). A result: status,
translation ("" without a response) and seconds of each request; total seconds; resident memory in
KiB; the number of incomplete responses. A single client does without asyncio, whose time would
count as the server's.
"""

import asyncio
import json
import socket
import sys
import time
from pathlib import Path
from typing import TypedDict


class Job(TypedDict):
    """Requests to send, and when to read the server's memory."""

    port: int
    clients: int
    requests: int
    texts: list[str]
    source: str
    target: str
    pid: int
    memory_at: list[int]


class ClientResult(TypedDict):
    """Responses, latencies and memory."""

    statuses: list[int]
    translations: list[str]
    seconds: list[float]
    total_seconds: float
    memory_kib: list[int]
    broken_responses: int


def empty_result(job: Job) -> ClientResult:
    """Make the result of a job of which nothing is sent."""
    number = job["requests"]
    return {
        "statuses": [0] * number,
        "translations": [""] * number,
        "seconds": [0.0] * number,
        "total_seconds": 0.0,
        "memory_kib": [],
        "broken_responses": 0,
    }


def send_alone(job: Job) -> ClientResult:
    """Send requests from a single client, one after the other."""
    result, begun = empty_result(job), time.perf_counter()
    with (
        socket.create_connection(("127.0.0.1", job["port"])) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for position in range(job["requests"]):
            request, started = request_bytes(job, position), time.perf_counter()
            connection.sendall(request)
            head = b"".join(iter(stream.readline, b"\r\n")).lower()
            body = stream.read(int(head.split(b"content-length: ")[1].split()[0]))
            result["seconds"][position] = time.perf_counter() - started
            result["statuses"][position] = int(head.split(b" ", 2)[1])
            result["translations"][position] = json.loads(body).get("translatedText", "")
    result["total_seconds"] = time.perf_counter() - begun
    return result


async def send_all(job: Job) -> ClientResult:
    """Send requests from all clients, one at a time each, until all are sent or the server ends."""
    number, result = job["requests"], empty_result(job)
    request_numbers = iter(range(number))
    response_counts = iter(range(1, number + 1))

    async def client() -> None:
        writer: asyncio.StreamWriter | None = None
        for position in request_numbers:
            started = time.perf_counter()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", job["port"])
                writer.write(request_bytes(job, position))
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
            except (OSError, asyncio.IncompleteReadError) as error:
                result["broken_responses"] += bool(getattr(error, "partial", b""))
                return  # the server has stopped without responding
            try:
                body = await reader.readexactly(int(head.split(b"content-length: ")[1].split()[0]))
            except (OSError, asyncio.IncompleteReadError):
                result["broken_responses"] += 1
                return
            status = int(head.split(b" ", 2)[1])
            result["statuses"][position] = status
            result["seconds"][position] = time.perf_counter() - started
            if status == 200:
                result["translations"][position] = json.loads(body)["translatedText"]
            if next(response_counts) in job["memory_at"]:
                result["memory_kib"].append(resident_kib(job["pid"]))
            if b"\r\nconnection: close" in head:
                writer = None
        if writer is not None:
            writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(job["clients"])))
    result["total_seconds"] = time.perf_counter() - started
    return result


def request_bytes(job: Job, position: int) -> bytes:
    """Format a request."""
    text = job["texts"][position % len(job["texts"])]
    body = json.dumps({"q": text, "source": job["source"], "target": job["target"]}).encode()
    return (
        b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )


def resident_kib(pid: int) -> int:
    """Read the resident memory of a process in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    job: Job = json.load(sys.stdin)
    result = send_alone(job) if job["clients"] == 1 else asyncio.run(send_all(job))
    json.dump(result, sys.stdout)
