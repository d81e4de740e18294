"""Translation of a large corpus by workers that are killed, and the efficiency of the road itself.

    .venv/bin/python benchmarks/cluster.py kills MODEL --source FILE [--lines 200000]
    .venv/bin/python benchmarks/cluster.py scaling [--lines 61440]

`kills` needs a file of sentences, which it repeats to so many lines. It translates them by the
single-machine command and on a Ray cluster of two nodes, each with one core of this machine, first
undisturbed, then while a worker is killed (-9) five times and the driver twice, at moments drawn
from a seed. It compares the bytes, counts the shards that were written twice, and divides the
undisturbed times. `scaling` replaces the translator by one that sleeps as long per line as the
record of decoding says (shape T, CTranslate2, beam 5, one core), on 1 to 16 logical nodes; the rest
is starting, scheduling, reading and writing. Both need `transduce[cluster]` and write
benchmarks/results/cluster-kills or cluster-scaling; `plot` draws the latter again, which needs
`transduce[plot]`. Nothing else should run meanwhile.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import psutil
import ray
from matplotlib.figure import Figure
from ray.cluster_utils import Cluster
from record import RESULTS, header, read_lines, write

from transduce.cluster.engines import ClusterConfig
from transduce.cluster.translate import process_corpus
from transduce.paper.plot import Ink, line_style, log_axis, save_plot

NODES = (1, 2, 4, 8, 16)
WORKER_KILLS, DRIVER_KILLS = 5, 2
MEMORY = 80 * 2**20  # bytes of each logical node's object store, which holds records only


def main() -> None:
    """Run one of the two measurements and write its record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    kills = commands.add_parser("kills")
    kills.add_argument("model", type=Path)
    kills.add_argument("--source", type=Path, required=True)
    kills.add_argument("--lines", type=int, default=200_000)
    kills.add_argument("--seed", type=int, default=1)
    scaling = commands.add_parser("scaling")
    scaling.add_argument("--lines", type=int, default=61_440, help="on each node")
    for command in (kills, scaling):
        command.add_argument("--shard-lines", type=int, default=4096)
        command.add_argument("--dry", action="store_true", help="write no record")
    commands.add_parser("plot", help="of the record of `scaling`")
    arguments = parser.parse_args()
    if arguments.command == "plot":
        draw_efficiency()
        return
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.TemporaryDirectory() as scratch:
        measure = measure_kills if arguments.command == "kills" else measure_scaling
        results = measure(arguments, Path(scratch))
    record = header(f"python benchmarks/cluster.py {arguments.command}", "ray", "ctranslate2")
    record |= {"lines": arguments.lines, "shard_lines": arguments.shard_lines, **results}
    print(json.dumps(results, indent=2))
    if not arguments.dry:
        write(f"cluster-{arguments.command}", record)
        if arguments.command == "scaling":
            draw_efficiency()


def measure_kills(arguments: argparse.Namespace, scratch: Path) -> dict[str, object]:
    """Translate by both roads; kill workers and drivers of the second."""
    sentences = read_lines(arguments.source)
    source = scratch / "source.txt"
    repeated = (sentences[number % len(sentences)] for number in range(arguments.lines))
    source.write_text("".join(f"{line}\n" for line in repeated))
    translate = [sys.executable, "-m", "transduce", "translate", str(arguments.model)]
    translate += ["-i", str(source), "--engine", "ctranslate2"]
    begun = time.monotonic()
    single_plan = ["--workers", "2", "--threads", "1"]
    subprocess.run([*translate, "-o", str(scratch / "single.txt"), *single_plan], check=True)
    single_seconds = time.monotonic() - begun
    cluster = start_nodes(2)
    try:
        many = [*translate, "--shard-lines", str(arguments.shard_lines)]
        many += ["--cluster", f"ray:{cluster.address}"]
        begun = time.monotonic()
        subprocess.run([*many, "-o", str(scratch / "calm")], check=True)
        cluster_seconds = time.monotonic() - begun
        events = run_with_kills(
            [*many, "-o", str(scratch / "killed")],
            records=scratch / "killed/_transduce/shards",
            shards=-(-arguments.lines // arguments.shard_lines),
            rng=random.Random(arguments.seed),
        )
    finally:
        cluster.shutdown()
    expected = digest([scratch / "single.txt"])
    return {
        "single_seconds": round(single_seconds, 1),
        "cluster_seconds": round(cluster_seconds, 1),
        "overhead": round(cluster_seconds / single_seconds - 1, 4),
        "calm_equal": digest(sorted((scratch / "calm").glob("*.txt"))) == expected,
        "killed_equal": digest(sorted((scratch / "killed").glob("*.txt"))) == expected,
        **events,
    }


def run_with_kills(
    command: list[str], *, records: Path, shards: int, rng: random.Random
) -> dict[str, object]:
    """Run a translation, kill workers and drivers, and repeat the command until it succeeds.

    Args:
        command: of the driver.
        records: folder in which finished shards appear.
        shards: of the whole corpus.
        rng: draws after how many finished shards a kill comes.
    """
    kills = ["worker"] * WORKER_KILLS + ["driver"] * DRIVER_KILLS
    rng.shuffle(kills)
    moments = sorted(rng.sample(range(1, max(shards - 2, len(kills) + 1)), len(kills)))
    written: dict[str, set[int]] = {}
    starts, events = 1, list[str]()
    driver = subprocess.Popen(command)
    while driver.poll() is None or driver.returncode == -signal.SIGKILL:
        if driver.poll() is not None:
            driver, starts = subprocess.Popen(command), starts + 1
        for record in records.glob("*.json"):  # a record written again has another time
            written.setdefault(record.name, set()).add(record.stat().st_mtime_ns)
        if moments and len(written) >= moments[0]:
            victim = driver.pid if kills[0] == "driver" else busy_worker(rng)
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
                events.append(f"{kills.pop(0)} at {len(written)} of {shards} shards")
                moments.pop(0)
        time.sleep(0.02)
    if driver.returncode:
        raise SystemExit(f"the driver ended with code {driver.returncode}")
    return {
        "kills": events,
        "kills_missed": len(moments),
        "starts": starts,
        "shards": shards,
        "shards_written_twice": sum(len(times) > 1 for times in written.values()),
        "most_shards_in_flight": 2 * len(events),
    }


def busy_worker(rng: random.Random) -> int | None:
    """The process of one of the actors, drawn at random; None if there is none at the moment."""
    names = ("ray::ShardWorker.run",)
    pids = [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [""])[0].startswith(names)
    ]
    return rng.choice(sorted(pids)) if pids else None


def measure_scaling(arguments: argparse.Namespace, scratch: Path) -> dict[str, object]:
    """Process equally many lines per node with a stub that sleeps, on more and more nodes."""
    decoding = json.loads((RESULTS / "decoding/record.json").read_text())
    (rate,) = [
        row["sentences_a_second"] / decoding["machine"]["cores_used"]
        for row in decoding["shapes"]["T"]["rows"]
        if (row["system"], row["beam"]) == ("ours, ctranslate2", 5)
    ]
    rows = []
    for nodes in NODES:
        source, out = scratch / f"{nodes}.txt", scratch / f"out-{nodes}"
        lines = nodes * arguments.lines
        source.write_text("".join(f"sentence {number} of this corpus\n" for number in range(lines)))
        cluster = start_nodes(nodes)
        ray.init(cluster.address, log_to_driver=False)
        try:
            begun = time.monotonic()
            process_corpus(
                partial(load_sleeper, rate),
                str(source),
                str(out),
                settings={},
                config=ClusterConfig(workers=nodes, shard_rows=arguments.shard_lines),
                on_event=lambda event: None,
            )
            seconds = time.monotonic() - begun
        finally:
            ray.shutdown()
            cluster.shutdown()
        workers = json.loads((out / "_transduce/metrics.json").read_text())
        shares = Counter({name: worker["rows"] for name, worker in workers.items()})
        rows.append(
            {
                "nodes": nodes,
                "lines": lines,
                "seconds": round(seconds, 2),
                "lines_a_second": round(lines / seconds, 1),
                "efficiency": round(lines / seconds / (nodes * rate), 4),
                "largest_share": round(max(shares.values()) / lines * nodes, 4),
                "equal": digest(sorted(out.glob("*.txt")))
                == hashlib.sha256(source.read_bytes().upper()).hexdigest(),
            }
        )
    return {"stub_lines_a_second": round(rate, 1), "rows": rows}


def draw_efficiency() -> None:
    """Tabulate and draw the record of `scaling`: efficiency by logical nodes."""
    folder = RESULTS / "cluster-scaling"
    rows = json.loads((folder / "record.json").read_text())["rows"]
    nodes = [row["nodes"] for row in rows]

    def draw(figure: Figure, ink: Ink) -> None:
        axes = figure.add_subplot()
        axes.axhline(100, color=ink.faint)
        axes.plot(nodes, [100 * row["efficiency"] for row in rows], **line_style(0, ink))
        log_axis(axes, nodes)
        axes.set(ylim=(0, 108), xlabel="logical nodes", ylabel="lines a second, % of the stub's")

    lines = [
        f"| {row['nodes']} | {row['lines']:,} | {row['seconds']:.1f} "
        f"| {row['lines_a_second']:,.0f} | {100 * row['efficiency']:.0f} % |\n"
        for row in rows
    ]
    head = (
        "| logical nodes | lines | seconds | lines a second | efficiency |\n|---|---|---|---|---|\n"
    )
    (folder / "efficiency.md").write_text(head + "".join(lines), "utf-8")
    save_plot(folder, "efficiency", draw, height=3.2)


def load_sleeper(rate: float):
    """Load a stub that takes 1 / rate seconds a line and returns upper case."""

    def translate(texts: list[str], first_line: int) -> list[str]:
        time.sleep(len(texts) / rate)
        return [text.upper() for text in texts]

    return translate


def start_nodes(count: int) -> Cluster:
    """Start a cluster of logical nodes with one core each on this machine."""
    node = {"num_cpus": 1, "object_store_memory": MEMORY}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    for _ in range(count - 1):
        cluster.add_node(**node)
    return cluster


def digest(files: list[Path]) -> str:
    """Checksum of the concatenated files."""
    checksum = hashlib.sha256()
    for file in files:
        checksum.update(file.read_bytes())
    return checksum.hexdigest()


if __name__ == "__main__":
    main()
