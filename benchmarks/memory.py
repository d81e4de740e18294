"""A translation memory of a million entries: time of lookups, and durability of killed writers.

    python benchmarks/memory.py

Entries are sentences of random words by Zipf's law. Times 1,000 exact lookups, and as many of
similar sentences: entries with a word replaced, inserted or deleted; also in CPU time of the
thread, which depends less on other programs. Then kills (SIGKILL) a process that writes entries and
acknowledges each on stdout at a random time, twenty times, and counts the acknowledged entries that
are missing. Writes results/memory/record.json.
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


def random_sentences(rng: random.Random) -> Iterator[str]:
    """Generate sentences endlessly; the word of rank r has a frequency of about 1 / r."""
    while True:
        ranks = (int(VOCABULARY ** rng.random()) for _ in range(rng.randint(4, 16)))
        yield " ".join(f"w{rank}" for rank in ranks)


def edit_sentence(text: str, rng: random.Random) -> str:
    """Replace, insert or delete a word of a sentence."""
    words = text.split()
    position = rng.randrange(len(words))
    removed, inserted = rng.choice(((1, ["wnew"]), (0, ["wnew"]), (1, [])))
    words[position : position + removed] = inserted
    return " ".join(words)


def time_lookups(lookup: Callable[[str], object], texts: list[str]) -> dict[str, float]:
    """Time lookups in milliseconds of wall-clock and CPU time; count the share of matches."""
    times: dict[str, list[float]] = {"": [], "processor_": []}
    matches = 0
    for text in texts:
        started = time.perf_counter(), time.thread_time()
        matches += bool(lookup(text))
        ended = time.perf_counter(), time.thread_time()
        for name, start, end in zip(times, started, ended, strict=True):
            times[name].append(1000 * (end - start))
    result: dict[str, float] = {}
    for name, values in times.items():
        result[f"{name}median_ms"] = statistics.median(values)
        result[f"{name}p99_ms"] = sorted(values)[int(0.99 * len(values))]
    return result | {"matched": matches / len(texts)}


def kill_writers(path: Path) -> dict[str, int]:
    """Kill a writer at random times; count acknowledged entries and those that are missing."""
    rng = random.Random(3)
    acknowledged: list[str] = []
    for number in range(KILLS):
        command = [sys.executable, "-c", WRITER.format(writes=WRITES), str(path), str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged.append(process.stdout.readline().rstrip("\n"))
            time.sleep(rng.uniform(0.0, 1.0))
            process.send_signal(signal.SIGKILL)
            acknowledged += [line.rstrip("\n") for line in process.stdout if line.endswith("\n")]
    with TranslationMemory(path) as memory:
        missing = sum(memory.exact(text, languages=EN_DE) is None for text in acknowledged)
    return {"kills": KILLS, "acknowledged": len(acknowledged), "missing": missing}


def main() -> None:
    """Fill the memory, time lookups, kill writers, write the record."""
    rng = random.Random(1)
    source = random_sentences(rng)
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
            sample = rng.sample(texts, LOOKUPS)
            similar = [edit_sentence(text, rng) for text in sample]
            result = {
                "entries": len(memory),
                "loading_s": loading,
                "megabytes": path.stat().st_size / 1e6,
                "exact": time_lookups(lambda text: memory.exact(text, languages=EN_DE), sample),
                "similar": time_lookups(lambda text: memory.lookup(text, languages=EN_DE), similar),
            }
        result["killed"] = kill_writers(path)
    record = {**header("python benchmarks/memory.py", "rapidfuzz"), **result}
    print(write("memory", record))


if __name__ == "__main__":
    main()
