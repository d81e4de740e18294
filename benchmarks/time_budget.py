"""Measure whether `transduce train --time` ends in time, and what the plan costs in BLEU.

    .venv/bin/python benchmarks/time_budget.py --corpus multi30k=FOLDER --corpus tatoeba=FOLDER \
        --time 10m --cores 1 2 --runs 5

Each FOLDER has train, validation and test text, `PART.en` and `PART.de`. For every corpus and
number of cores: some runs with `--time`, seeds 1, 2, …; then fixed numbers of updates, multiples of
those the timed runs made, of which the best is compared that took no longer than the time and 5 %.
Every run is one process on its own cores, so run nothing beside it. The record is
benchmarks/results/time_budget/record.json; a run that is finished already is not repeated.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean

from record import ROOT, header, write

from transduce.train.config import parse_duration


def main() -> None:
    """Run what has no result yet, print one line each, write one record."""
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
    write(arguments.record, record, hide=hidden)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", action="append", required=True, help="NAME=FOLDER")
    parser.add_argument("--time", default="10m", help="the budget of a run")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=5, help="timed runs, a seed each")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.6, 0.8, 1.0, 1.2])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/time_budget"))
    parser.add_argument("--record", default="time_budget", help="folder below results")
    return parser.parse_args()


def measure(
    name: str, corpus: Path, cores: int, arguments: argparse.Namespace
) -> dict[str, object]:
    """Measure one corpus on some cores: timed runs, then fixed ones."""
    folder = arguments.folder / f"{name}-{cores}"
    timed = [
        run(corpus, folder / f"timed-{seed}", cores, "--time", arguments.time, seed=seed)
        for seed in range(1, arguments.runs + 1)
    ]
    updates = mean(float(str(row["updates"])) for row in timed)
    budget = parse_duration(arguments.time)
    fixed = [
        run(corpus, folder / f"fixed-{share}", cores, "--set", f"train.updates={length}", seed=1)
        for share in arguments.shares
        for length in [max(1, round(share * updates))]
    ]
    fitting = [row for row in fixed if float(str(row["seconds"])) <= 1.05 * budget]
    best = max((float(str(row["bleu"])) for row in fitting), default=None)
    bleu = [float(str(row["bleu"])) for row in timed]
    off = [float(str(row["seconds"])) / budget - 1 for row in timed]
    return {
        "corpus": name,
        "cores": cores,
        "timed": timed,
        "fixed": fixed,
        "largest_deviation": max(off, key=abs),
        "mean_bleu": mean(bleu),
        "best_fixed_bleu": best,
        "bleu_below_best_fixed": None if best is None else best - mean(bleu),
    }


def run(corpus: Path, out: Path, cores: int, *length: str, seed: int) -> dict[str, object]:
    """Train once in a process on the first cores; return its wall-clock seconds and BLEU."""
    file = out.with_suffix(".json")
    if not file.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        files = [str(corpus / f"train.{side}") for side in ("en", "de")]
        parts = [
            word
            for part in ("validation", "test")
            for word in (f"--{part}", *(str(corpus / f"{part}.{side}") for side in ("en", "de")))
        ]
        threads = ("--set", f"train.intra_op_threads={cores}", "--set", f"train.seed={seed}")
        command = [sys.executable, "-m", "transduce", "train", "--source", files[0]]
        command += ["--target", files[1], *parts, *threads, *length, "--out", str(out)]
        began = time.monotonic()
        subprocess.run(
            command,
            check=True,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": str(cores)},
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, range(cores)),
        )
        seconds = time.monotonic() - began
        results = json.loads((out / "results.json").read_text())
        scores = {score["name"]: score["value"] for score in results["test"]["scores"]}
        row = {"seed": seed, "length": " ".join(length), "seconds": round(seconds, 1)}
        row |= {"updates": results["updates"], "bleu": round(scores["BLEU"], 2)}
        file.write_text(json.dumps(row))
    return json.loads(file.read_text())


if __name__ == "__main__":
    main()
