"""Cluster translation with killed workers and drivers, its scaling efficiency, and preparation.

    .venv/bin/python benchmarks/cluster.py kills MODEL --source FILE [--lines 200000]
    .venv/bin/python benchmarks/cluster.py scaling [--lines 61440]
    .venv/bin/python benchmarks/cluster.py prepare [--lines 10000000] [--folder FOLDER]

`kills` repeats the sentences of a file up to the given number of lines. It translates them with the
single-machine command and on a Ray cluster of two nodes, each with one core of this machine: first
undisturbed, then killing a worker (-9) five times and the driver twice, at seeded random points. It
compares the bytes, counts the shards that were written twice, and divides the undisturbed times.
`scaling` replaces the translator with a stub that sleeps as long per line as the decoding record
measured (shape T, CTranslate2, beam 5, one core), on 1 to 16 logical nodes; what remains is
starting, scheduling, reading and writing. `prepare` generates a corpus as benchmarks/corpora.py
does, with some empty and some repeated pairs, and prepares it on the single-machine path and with
one and two cluster workers; it compares the bytes, and reads the peak resident memory of every
process from the system. It needs 1.5 KB of disk per pair in FOLDER. All need `transduce[cluster]`
and write benchmarks/results/cluster-NAME (prepare with fewer lines: cluster-prepare-LINES); `plot`
redraws cluster-scaling, which needs `transduce[plot]`. Run nothing else at the same time.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Thread

import psutil
import ray
from corpora import generate
from matplotlib.figure import Figure
from ray.cluster_utils import Cluster
from record import RESULTS, header, read_lines, write

from transduce.cluster.engines import ClusterConfig
from transduce.cluster.translate import process_corpus
from transduce.paper.plot import Ink, line_style, log_axis, save_plot

LINES = 10_000_000  # of `prepare`
NODES = (1, 2, 4, 8, 16)
WORKER_KILLS, DRIVER_KILLS = 5, 2
MESSAGES = ("cleaning by", "kept", "training a vocabulary", "encoding by", "pairs to train on")
MEMORY = 80 * 2**20  # bytes of a logical node's object store, which holds records only


def main() -> None:
    """Run a measurement and write its record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    kills = commands.add_parser("kills")
    kills.add_argument("model", type=Path)
    kills.add_argument("--source", type=Path, required=True)
    kills.add_argument("--lines", type=int, default=200_000)
    kills.add_argument("--seed", type=int, default=1)
    scaling = commands.add_parser("scaling")
    scaling.add_argument("--lines", type=int, default=61_440, help="lines per node")
    prepare = commands.add_parser("prepare")
    prepare.add_argument("--lines", type=int, default=LINES, help="20,000 with --dry")
    prepare.add_argument("--folder", type=Path, help="where to write [default: the system's]")
    for command in (kills, scaling, prepare):
        default = 65_536 if command is prepare else 4096
        command.add_argument("--shard-lines", type=int, default=default)
        command.add_argument("--dry", action="store_true", help="write no record")
    commands.add_parser("plot", help="redraw the plot of the record of `scaling`")
    arguments = parser.parse_args()
    if arguments.command == "plot":
        draw_efficiency()
        return
    if arguments.command == "prepare" and arguments.dry and arguments.lines == LINES:
        arguments.lines = 20_000
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.TemporaryDirectory(dir=getattr(arguments, "folder", None)) as scratch:
        measures = {"kills": measure_kills, "scaling": measure_scaling, "prepare": measure_prepare}
        results = measures[arguments.command](arguments, Path(scratch))
    name = arguments.command
    command = f"python benchmarks/cluster.py {name} --lines {arguments.lines}"
    record = header(command, "ray", "ctranslate2")
    record |= {"lines": arguments.lines, "shard_lines": arguments.shard_lines, **results}
    print(json.dumps(results, indent=2))
    if not arguments.dry:
        is_partial = (
            name == "prepare" and arguments.lines < LINES
        )  # for times, which more lines repeat
        write(f"cluster-{name}-{arguments.lines}" if is_partial else f"cluster-{name}", record)
        if name == "scaling":
            draw_efficiency()


def measure_kills(arguments: argparse.Namespace, scratch: Path) -> dict[str, object]:
    """Translate on a single machine and on the cluster, where workers and drivers are killed."""
    sentences = read_lines(arguments.source)
    source = scratch / "source.txt"
    repeated = (sentences[number % len(sentences)] for number in range(arguments.lines))
    source.write_text("".join(f"{line}\n" for line in repeated))
    translate = [sys.executable, "-m", "transduce", "translate", str(arguments.model)]
    translate += ["-i", str(source), "--engine", "ctranslate2"]
    started = time.monotonic()
    single_plan = ["--workers", "2", "--threads", "1"]
    subprocess.run([*translate, "-o", str(scratch / "single.txt"), *single_plan], check=True)
    single_seconds = time.monotonic() - started
    cluster = start_nodes(2)
    try:
        cluster_command = [*translate, "--shard-lines", str(arguments.shard_lines)]
        cluster_command += ["--cluster", f"ray:{cluster.address}"]
        started = time.monotonic()
        subprocess.run([*cluster_command, "-o", str(scratch / "calm")], check=True)
        cluster_seconds = time.monotonic() - started
        events = run_with_kills(
            [*cluster_command, "-o", str(scratch / "killed")],
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
        command: The driver's command line.
        records: Folder in which the records of finished shards appear.
        shards: Number of shards of the corpus.
        rng: Draws the numbers of finished shards at which a process is killed.
    """
    kills = ["worker"] * WORKER_KILLS + ["driver"] * DRIVER_KILLS
    rng.shuffle(kills)
    thresholds = sorted(rng.sample(range(1, max(shards - 2, len(kills) + 1)), len(kills)))
    written: dict[str, set[int]] = {}
    starts, events = 1, list[str]()
    driver = subprocess.Popen(command)
    while driver.poll() is None or driver.returncode == -signal.SIGKILL:
        if driver.poll() is not None:
            driver, starts = subprocess.Popen(command), starts + 1
        for record in records.glob("*.json"):  # a rewritten record has another time
            written.setdefault(record.name, set()).add(record.stat().st_mtime_ns)
        if thresholds and len(written) >= thresholds[0]:
            victim = driver.pid if kills[0] == "driver" else pick_busy_worker(rng)
            if victim is not None:
                os.kill(victim, signal.SIGKILL)
                events.append(f"{kills.pop(0)} at {len(written)} of {shards} shards")
                thresholds.pop(0)
        time.sleep(0.02)
    if driver.returncode:
        raise SystemExit(f"the driver ended with code {driver.returncode}")
    return {
        "kills": events,
        "kills_missed": len(thresholds),
        "starts": starts,
        "shards": shards,
        "shards_written_twice": sum(len(times) > 1 for times in written.values()),
        "most_shards_in_flight": 2 * len(events),
    }


def pick_busy_worker(rng: random.Random) -> int | None:
    """Draw the process of a running actor at random; None if no actor runs."""
    names = ("ray::ShardWorker.run",)
    pids = [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [""])[0].startswith(names)
    ]
    return rng.choice(sorted(pids)) if pids else None


def measure_scaling(arguments: argparse.Namespace, scratch: Path) -> dict[str, object]:
    """Process equally many lines per node with a sleeping stub, on increasing numbers of nodes."""
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
            started = time.monotonic()
            process_corpus(
                partial(load_sleeper, rate),
                str(source),
                str(out),
                settings={},
                config=ClusterConfig(workers=nodes, shard_rows=arguments.shard_lines),
                on_event=lambda event: None,
            )
            seconds = time.monotonic() - started
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


def measure_prepare(arguments: argparse.Namespace, scratch: Path) -> dict[str, object]:
    """Prepare a generated corpus on a single machine and with cluster workers."""
    generate(scratch / "run", arguments.lines)
    repeated = [
        (file, list(islice(file.open(), arguments.lines // 50))) for file in scratch.glob("train.*")
    ]
    for file, lines in repeated:  # the first pairs again, and pairs without a target
        additional = [*lines, *("\n" if file.suffix == ".tgt" else line for line in lines[::10])]
        with file.open("a") as stream:
            stream.writelines(additional)
    settings = (
        f"data.folder={scratch}",
        'data.train=["train.src", "train.tgt"]',
        'data.duplicates="drop"',
    )
    command = [sys.executable, "-m", "transduce", "prepare", "tiny", "--out", str(scratch / "out")]
    command += [word for setting in settings for word in ("--set", setting)]
    rows = []
    for workers in (0, 1, 2):
        plan = ["--cluster", "local", "--workers", str(workers)]
        plan += ["--shard-lines", str(arguments.shard_lines)]
        row = run_monitored([*command, *(plan if workers else ())])
        files = sorted(file for file in (scratch / "out").rglob("*") if file.is_file())
        facts = json.loads((scratch / "out/prepared/prepared.json").read_text())
        rate = round(facts["read"] / row["seconds"], 1)
        rows.append({"workers": workers, "pairs_a_second": rate, **row, "sha256": digest(files)})
        print(json.dumps(rows[-1], indent=2), file=sys.stderr, flush=True)
        shutil.rmtree(scratch / "out")
    return {
        "read": facts["read"],
        "dropped": facts["dropped"],
        "equal": len({row["sha256"] for row in rows}) == 1,
        "speedup_of_two_workers": round(rows[1]["seconds"] / rows[2]["seconds"], 3),
        "rows": rows,
    }


def run_monitored(command: list[str]) -> dict[str, object]:
    """Run a command; record the times of its messages and the peak memory of its processes.

    Returns:
        Total seconds, seconds until the first of each of MESSAGES, peak resident MB by kind of
        process.
    """
    started, peaks, message_times = (
        time.monotonic(),
        dict[int, tuple[str, int]](),
        dict[str, float](),
    )
    process = psutil.Popen(command, stderr=subprocess.PIPE, text=True)

    def read() -> None:
        for line in process.stderr:
            print(f"{time.monotonic() - started:7.1f}  {line}", end="", file=sys.stderr, flush=True)
            for message in MESSAGES:
                if message in line:
                    message_times.setdefault(message, round(time.monotonic() - started, 1))

    reader = Thread(target=read)
    reader.start()
    while process.poll() is None:
        with suppress(psutil.Error, OSError):
            for child in [process, *process.children(recursive=True)]:
                status = Path(f"/proc/{child.pid}/status").read_text()
                if peak := re.search(r"VmHWM:\s+(\d+)", status):
                    kind = "driver" if child.pid == process.pid else child.name().split(".")[0]
                    peaks[child.pid] = kind, int(peak[1]) // 1024
        time.sleep(0.1)
    reader.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return {
        "seconds": round(time.monotonic() - started, 1),
        "moments": message_times,
        "peak_mb": {
            kind: max(mb for k, mb in peaks.values() if k == kind) for kind, _ in peaks.values()
        },
    }


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
    """Load a stub that takes 1 / rate seconds per line and returns upper case."""

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
    """Compute the checksum of the concatenated files."""
    checksum = hashlib.sha256()
    for file in files:
        checksum.update(file.read_bytes())
    return checksum.hexdigest()


if __name__ == "__main__":
    main()
