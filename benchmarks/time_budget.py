"""Punctuality of `transduce train --time`, and the cost of its plan in BLEU.

    .venv/bin/python benchmarks/time_budget.py --corpus multi30k=FOLDER --corpus tatoeba=FOLDER \
        --time 10m --cores 1 2 --runs 5

Each FOLDER has train, validation (or val) and test text, `PART.en` and `PART.de`, gzip or not. For
every corpus and number of cores: runs with `--time` and seeds 1, 2, …; then runs with fixed numbers
of updates, multiples of the timed runs' mean, of which the best within 105 % of the time is
compared. Every run is a subprocess on its own cores; run nothing else on them. With `--first-core
0` and `--first-core 1` two commands can measure at the same time with one core each.

Finished runs are kept in results/time-budget/runs, to be committed, and not repeated on the same
processor model; the record, results/time-budget/record.json, is that of the last command, so run it
once more with all corpora and cores.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean

from record import RESULTS, ROOT, bleu_of, header, machine, outcome, write

from transduce.train.config import parse_duration


def main() -> None:
    """Run the settings without a result, print a row each, write the record."""
    arguments = parse()
    rows: list[dict[str, object]] = []
    for name, folder in (pair.split("=", 1) for pair in arguments.corpus):
        for cores in arguments.cores:
            rows.append(measure(name, Path(folder), cores, arguments))
            print(json.dumps(rows[-1], indent=1))
    record = {
        **header("python " + " ".join(sys.argv), "sacrebleu", "torch"),
        "time": arguments.time,
        "seconds": parse_duration(arguments.time),
        "rows": rows,
    }
    hidden = {pair.split("=", 1)[1]: pair.split("=", 1)[0].upper() for pair in arguments.corpus}
    hidden[str(arguments.folder)] = "RUNS"
    write(arguments.record, record, hide=hidden)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", action="append", required=True, help="NAME=FOLDER")
    parser.add_argument("--time", default="10m", help="the budget of a run")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--first-core", type=int, default=0, help="number of the first core used")
    parser.add_argument("--runs", type=int, default=5, help="timed runs, one seed each")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.7, 0.85, 1.0])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/time_budget"))
    parser.add_argument("--record", default="time-budget", help="folder below results")
    return parser.parse_args()


def measure(
    name: str, corpus: Path, cores: int, arguments: argparse.Namespace
) -> dict[str, object]:
    """Measure a corpus on a number of cores: timed runs, then runs of fixed length."""
    length = ("--time", arguments.time)
    seeds = range(1, arguments.runs + 1)
    timed = [run(name, corpus, cores, arguments, *length, seed=seed) for seed in seeds]
    updates = mean(float(str(row["updates"])) for row in timed)
    budget = parse_duration(arguments.time)
    lengths = [max(1, round(share * updates)) for share in arguments.shares]
    fixed = [
        run(name, corpus, cores, arguments, "--set", f"train.updates={length}", seed=1)
        for length in lengths
    ]
    within_budget = [row for row in fixed if float(str(row["seconds"])) <= 1.05 * budget]
    best = max((float(str(row["bleu"])) for row in within_budget), default=None)
    bleu = [float(str(row["bleu"])) for row in timed]
    deviations = [float(str(row["seconds"])) / budget - 1 for row in timed]
    return {
        "corpus": name,
        "cores": cores,
        "timed": timed,
        "fixed": fixed,
        "largest_deviation": max(deviations, key=abs),
        "mean_bleu": mean(bleu),
        "best_fixed_bleu": best,
        "bleu_below_best_fixed": None if best is None else best - mean(bleu),
    }


def run(
    name: str, corpus: Path, cores: int, arguments: argparse.Namespace, *length: str, seed: int
) -> dict[str, object]:
    """Train once in a subprocess on some cores; return its wall-clock seconds and BLEU."""
    settings = {"length": " ".join(length), "seed": seed, "machine": machine()["processor"]}
    title = f"{name}-{cores}-{length[-1].removeprefix('train.')}-{seed}".replace("=", "-")
    used = range(arguments.first_core, arguments.first_core + cores)

    def compute() -> dict[str, object]:
        out = arguments.folder / title
        shutil.rmtree(out, ignore_errors=True)  # of an interrupted run, whose time is unknown
        files = {part: text_files(corpus, part) for part in ("train", "validation", "test")}
        command = [sys.executable, "-m", "transduce", "train", "--source", files["train"][0]]
        command += ["--target", files["train"][1]]
        command += ["--validation", *files["validation"], "--test", *files["test"], *length]
        command += ["--set", f"train.intra_op_threads={cores}", "--set", f"train.seed={seed}"]
        started = time.monotonic()
        subprocess.run(
            [*command, "--out", str(out)],
            check=True,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": str(cores)},
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, used),
        )
        seconds = time.monotonic() - started
        results = json.loads((out / "results.json").read_text())
        return {
            "seconds": round(seconds, 1),
            "updates": results["updates"],
            "bleu": round(bleu_of(results["test"]), 2),
        }

    return outcome(RESULTS / arguments.record / "runs" / f"{title}.json", settings, compute)


def text_files(corpus: Path, part: str) -> list[str]:
    """Return the two files of a part, under the first of its names that exists."""
    names = {"validation": ("validation", "val"), "test": ("test", "test_2016_flickr")}
    for name in names.get(part, (part,)):
        for ending in ("", ".gz"):
            files = [corpus / f"{name}.{side}{ending}" for side in ("en", "de")]
            if all(file.exists() for file in files):
                return list(map(str, files))
    raise ValueError(f"{corpus}: no text for {part}")


if __name__ == "__main__":
    main()
