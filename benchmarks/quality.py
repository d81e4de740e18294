"""Train a recipe from raw files to the final model and keep the record: is it as good as we say?

    .venv/bin/python benchmarks/quality.py multi30k-tok --folder CORPUS --seeds 1 2

Each seed is one `transduce train` in a process of its own; the test set is scored once per seed, by
that run. A seed that is done already is not trained again, so seeds may run in separate sittings,
or one a core, and a last call with all of them writes the record. Written below
benchmarks/results/RECIPE/: record.json, and for the first seed
metrics.jsonl and the test hypotheses (further seeds: the same names with -seed-N).
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def main() -> None:
    """Run every seed, print one table, write one record."""
    arguments = parse()
    record = {
        "command": "python " + " ".join(sys.argv),
        "date": now(),
        "commit": commit(),
        "machine": machine(),
        "versions": {
            name: version(name) for name in ("transduce", "torch", "sentencepiece", "sacrebleu")
        },
        "recipe": "",
        "runs": [],
    }
    out = RESULTS / arguments.recipe
    out.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        run = arguments.runs / f"{arguments.recipe}-seed-{seed}"
        record["runs"].append(train(arguments, seed=seed, run=run))
        record["recipe"] = (run / "recipe.toml").read_text()
        keep(run, out, mark="" if seed == arguments.seeds[0] else f"-seed-{seed}")
        record["test_bleu"] = summary(record["runs"])
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        for path, name in ((arguments.folder, "CORPUS"), (str(arguments.runs), "RUNS")):
            text = text.replace(path, name)  # whose machine it was is nobody's business
        (out / "record.json").write_text(text)
    print(table(record["runs"]))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recipe", help="a shipped recipe with a test set, such as multi30k-tok")
    parser.add_argument("--folder", required=True, help="where the corpus lies (data.folder)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs are written")
    return parser.parse_args()


def train(arguments: argparse.Namespace, *, seed: int, run: Path) -> dict[str, object]:
    """Carry the recipe out with one seed and say what came of it."""
    timed = run / "timed.json"
    if not (run / "results.json").exists():
        command = [sys.executable, "-m", "transduce", "train", arguments.recipe, "--out", str(run)]
        command += ["--set", f"train.seed={seed}", "--set", f"data.folder={arguments.folder}"]
        command += ["--resume"] if (run / "recipe.toml").exists() else []
        begun, started = commit(), time.perf_counter()
        subprocess.run(command, check=True)
        seconds = round(time.perf_counter() - started, 1)
        fact = {"commit": begun, "date": now(), "wall_seconds": seconds, "machine": machine()}
        timed.write_text(json.dumps(fact))
    results = json.loads((run / "results.json").read_text())
    validations = [
        json.loads(line) for line in (run / "metrics.jsonl").open() if "validation_loss" in line
    ]
    return {
        "seed": seed,
        **json.loads(timed.read_text()),
        "target_tokens": validations[-1]["tokens"],
        **results,
    }


def keep(run: Path, out: Path, *, mark: str) -> None:
    """Copy what the record is of beside it."""
    for path in [run / "metrics.jsonl", *run.glob("hypotheses.??")]:
        shutil.copyfile(path, out / f"{path.stem}{mark}{path.suffix}")


def summary(runs: list[dict[str, object]]) -> dict[str, object]:
    """Mean and spread of the test BLEU over all seeds so far."""
    values = [bleu(run) for run in runs]
    return {
        "seeds": len(values),
        "mean": round(statistics.mean(values), 2),
        "each": [round(value, 2) for value in values],
    }


def bleu(run: dict[str, object]) -> float:
    """The test set's BLEU of one run."""
    scores = run["test"]["scores"]  # type: ignore[index]
    return next(score["value"] for score in scores if score["name"] == "BLEU")


def table(runs: list[dict[str, object]]) -> str:
    """One line a seed."""
    lines = ["seed  minutes  parameters  test BLEU"]
    lines += [
        f"{run['seed']:>4}  {run['wall_seconds'] / 60:7.1f}  {run['parameters']:10,}  "
        f"{bleu(run):9.2f}"
        for run in runs
    ]
    return "\n".join(lines)


def machine() -> dict[str, object]:
    """What the run had to compute with."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().split("\n") if cpuinfo.exists() else []
    names = {line.split(":")[1].strip() for line in lines if line.startswith("model name")}
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return {
        "processor": ", ".join(sorted(names)) or platform.processor(),
        "cores": sum(line.startswith("processor") for line in lines),
        "cores_used": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "vector_units": [flag for flag in ("avx2", "avx512f", "avx512_bf16") if flag in flags],
        "system": platform.system(),
        "python": platform.python_version(),
    }


def now() -> str:
    """The time in UTC, as ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def commit() -> str:
    """The commit that is measured; "+" says that files differ from it."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    dirty = subprocess.run([*git, "status", "--porcelain", "src"], capture_output=True, text=True)
    return name.strip() + ("+" if dirty.stdout.strip() else "")


if __name__ == "__main__":
    main()
