"""A translation memory of a million entries: look-ups timed, and a writer killed.

    python benchmarks/memory.py

Entries are sentences of random words by Zipf's law. Times 1,000 exact look-ups, and as many of
similar sentences: entries with a word replaced, added or left out; also by the thread's time on a
processor, which other programs delay less. Then a process that writes one entry after another, and
acknowledges each on stdout, is killed (SIGKILL) at a random time, twenty times; counts acknowledged
entries that are missing. Writes results/memory/record.json.
"""

import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from record import header, write

from transduce.memory.store import Entry, TranslationMemory

ENTRIES, LOOKUPS, KILLS, WRITES = 1_000_000, 1_000, 20, 1_000
EN_DE = ("en", "de")
VOCABULARY = 200_000
WRITER = """
import sys
from transduce.memory.store import Entry, TranslationMemory

memory = TranslationMemory(sys.argv[1])
for number in range({writes}):
    text = f"kill {{sys.argv[2]}} entry {{number}}"
    memory.add([Entry(source=text, target=text, source_lang="en", target_lang="de")])
    print(text, flush=True)
"""


def sentences(chance: random.Random) -> Iterator[str]:
    """Endless sentences; the word of rank r has a share of about 1 / r."""
    while True:
        ranks = (int(VOCABULARY ** chance.random()) for _ in range(chance.randint(4, 16)))
        yield " ".join(f"w{rank}" for rank in ranks)


def varied(text: str, chance: random.Random) -> str:
    """A sentence with a word replaced, added or left out."""
    words = text.split()
    place = chance.randrange(len(words))
    words[place : place + chance.choice((0, 1, 1))] = chance.choice(([], ["wnew"], ["wnew"]))
    return " ".join(words)


def timed(look_up: Callable[[str], object], texts: list[str]) -> dict[str, float]:
    """Milliseconds, of the clock and on a processor, and the share of the texts with a match."""
    times: dict[str, list[float]] = {"": [], "processor_": []}
    matches = 0
    for text in texts:
        started = time.perf_counter(), time.thread_time()
        matches += bool(look_up(text))
        ended = time.perf_counter(), time.thread_time()
        for name, start, end in zip(times, started, ended, strict=True):
            times[name].append(1000 * (end - start))
    result: dict[str, float] = {}
    for name, values in times.items():
        result[f"{name}median_ms"] = statistics.median(values)
        result[f"{name}p99_ms"] = sorted(values)[int(0.99 * len(values))]
    return result | {"matched": matches / len(texts)}


def kill_writers(path: Path) -> dict[str, int]:
    """Kill a writer at random times; count what it acknowledged, and what of it is missing."""
    chance = random.Random(3)
    acknowledged: list[str] = []
    for number in range(KILLS):
        command = [sys.executable, "-c", WRITER.format(writes=WRITES), str(path), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged.append(process.stdout.readline().rstrip("\n"))
            time.sleep(chance.uniform(0.0, 1.0))
            process.send_signal(signal.SIGKILL)
            acknowledged += [line.rstrip("\n") for line in process.stdout if line.endswith("\n")]
    with TranslationMemory(path) as memory:
        missing = sum(memory.exact(text, languages=EN_DE) is None for text in acknowledged)
    return {"kills": KILLS, "acknowledged": len(acknowledged), "missing": missing}


def main() -> None:
    """Load, look up, kill."""
    chance = random.Random(1)
    source = sentences(chance)
    texts = [next(source) for _ in range(ENTRIES)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with TranslationMemory(path) as memory:
            started = time.perf_counter()
            memory.add(
                Entry(source=text, target=text, source_lang="en", target_lang="de", origin="a.tmx")
                for text in texts
            )
            loading = time.perf_counter() - started
            sample = chance.sample(texts, LOOKUPS)
            similar = [varied(text, chance) for text in sample]
            result = {
                "entries": len(memory),
                "loading_s": loading,
                "megabytes": path.stat().st_size / 1e6,
                "exact": timed(lambda text: memory.exact(text, languages=EN_DE), sample),
                "similar": timed(lambda text: memory.lookup(text, languages=EN_DE), similar),
            }
        result["killed"] = kill_writers(path)
    record = {**header("python benchmarks/memory.py", "rapidfuzz"), **result}
    print(write("memory", record))


if __name__ == "__main__":
    main()
