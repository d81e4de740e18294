"""Train a recipe from raw files to the final model and keep the record.

    .venv/bin/python benchmarks/quality.py multi30k-tok --folder CORPUS --seeds 1 2

Each seed is one `transduce train` in a subprocess, which scores the test set once. Finished seeds
are not trained again, so seeds can run separately, or one per core; a last call with all of them
writes the record; the wall_seconds of a resumed seed are null. With --keep, seeds that the
committed record holds for the same recipe are kept from there, so that a record can be completed
on another machine. --set changes settings of the recipe, best with another name (--record).
Writes benchmarks/results/RECIPE/: record.json, and for the first seed metrics.jsonl and the test
hypotheses (further seeds: the same names with -seed-N).
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from record import RESULTS, bleu_of, commit, header, hide_paths, machine, now, write

from transduce.config import load_recipe, to_toml


def main() -> None:
    """Run every seed, print a table, write the record."""
    arguments = parse()
    first = arguments.seeds[0]
    name = arguments.record or arguments.recipe
    recipe = to_toml(load_recipe(arguments.recipe, settings_of(arguments, seed=first)))
    hidden = {arguments.folder: "CORPUS", str(arguments.runs): "RUNS"}
    kept = kept_runs(name, hide_paths(recipe, hidden)) if arguments.keep else {}
    record = {
        **header("python " + " ".join(sys.argv), "sentencepiece", "sacrebleu"),
        "recipe": recipe,
        "runs": [],
    }
    out = RESULTS / name
    out.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        run = arguments.runs / f"{name}-seed-{seed}"
        if seed in kept:
            record["runs"].append(kept[seed])
        else:
            record["runs"].append(train(arguments, seed=seed, run=run))
            copy_outputs(run, out, suffix="" if seed == first else f"-seed-{seed}")
        record["test_bleu"] = summary(record["runs"])
        write(name, record, hide=hidden)
    print(table(record["runs"]))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recipe", help="a shipped recipe with a test set, such as multi30k-tok")
    parser.add_argument("--folder", required=True, help="folder of the corpus (data.folder)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", action="append", default=[], help="a setting: KEY=VALUE")
    parser.add_argument("--record", help="name of the record; the recipe's without it")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for the runs")
    parser.add_argument("--keep", action="store_true", help="keep seeds of the committed record")
    return parser.parse_args()


def settings_of(arguments: argparse.Namespace, *, seed: int) -> list[str]:
    """Return the settings of a seed."""
    return [f"data.folder={arguments.folder}", f"train.seed={seed}", *arguments.set]


def kept_runs(name: str, recipe: str) -> dict[int, dict[str, object]]:
    """Return the runs of the committed record by seed; its recipe must be the same."""
    file = RESULTS / name / "record.json"
    if not file.exists():
        raise SystemExit(f"{name} has no committed record; leave out --keep")
    record = json.loads(file.read_text())
    if record["recipe"] != recipe:
        raise SystemExit(f"{name}: the recipe of the committed record differs; leave out --keep")
    return {run["seed"]: run for run in record["runs"]}


def train(arguments: argparse.Namespace, *, seed: int, run: Path) -> dict[str, object]:
    """Run the recipe with a seed, unless that is done; return its results."""
    run_info = run / "timed.json"
    if not (run / "results.json").exists():
        command = [sys.executable, "-m", "transduce", "train", arguments.recipe, "--out", str(run)]
        settings = settings_of(arguments, seed=seed)
        command += [word for setting in settings for word in ("--set", setting)]
        resumed = (run / "recipe.toml").exists()
        command += ["--resume"] if resumed else []
        start_commit, started = commit(), time.perf_counter()
        subprocess.run(command, check=True)
        seconds = round(time.perf_counter() - started, 1)
        facts = {
            "commit": start_commit,
            "date": now(),
            # Nothing records the time of an interrupted call outside training.
            "wall_seconds": None if resumed else seconds,
            "machine": machine(),
        }
        run_info.write_text(json.dumps(facts))
    results = json.loads((run / "results.json").read_text())
    metrics = (run / "metrics.jsonl").read_text().splitlines()
    validations = [json.loads(line) for line in metrics if "validation_loss" in line]
    return {
        "seed": seed,
        **json.loads(run_info.read_text()),
        "target_tokens": validations[-1]["tokens"],
        **results,
    }


def copy_outputs(run: Path, out: Path, *, suffix: str) -> None:
    """Copy the metrics and hypotheses of a run into the record's folder."""
    for path in [run / "metrics.jsonl", *run.glob("hypotheses.??")]:
        shutil.copyfile(path, out / f"{path.stem}{suffix}{path.suffix}")


def summary(runs: list[dict[str, object]]) -> dict[str, object]:
    """Average the test BLEU over all seeds so far."""
    values = [bleu_of(run["test"]) for run in runs]
    return {
        "seeds": len(values),
        "mean": round(statistics.mean(values), 2),
        "each": [round(value, 2) for value in values],
    }


def table(runs: list[dict[str, object]]) -> str:
    """Format a line per seed."""
    lines = ["seed  minutes  parameters  test BLEU"]
    for run in runs:
        seconds = run["wall_seconds"]
        minutes = "–" if seconds is None else f"{seconds / 60:.1f}"
        lines.append(
            f"{run['seed']:>4}  {minutes:>7}  {run['parameters']:10,}  {bleu_of(run['test']):9.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
