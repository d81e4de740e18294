"""Train one corpus with several hyperparameter settings, each on the same budget.

    .venv/bin/python benchmarks/sweep.py multi30k --folder CORPUS

The settings stand in benchmarks/sweeps/NAME.toml: one base and, for each run, what differs from it.
Every run is one `transduce train` in a process of its own. The table is ordered by validation BLEU;
the test set is scored once a run, to see whether the order holds there. The record is
benchmarks/results/sweep-NAME/record.json; a sweep that was stopped goes on where it was.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tomllib
from pathlib import Path

from record import ROOT, header, write


def main() -> None:
    """Run every setting that has no result yet, print one table, write one record."""
    arguments = parse()
    sweep = tomllib.loads((ROOT / "benchmarks" / "sweeps" / f"{arguments.name}.toml").read_text())
    corpus = take(arguments.folder, sweep.get("first", 0), sweep, into=arguments.runs / "corpus")
    chosen = [name for name in sweep["runs"] if not arguments.only or name in arguments.only]
    for name in chosen:
        settings = {**sweep["base"], **sweep["runs"][name]}
        train(sweep["recipe"], settings, corpus=corpus, run=arguments.runs / name)
    runs = [
        result(name, {**sweep["base"], **differs}, run=arguments.runs / name)
        for name, differs in sweep["runs"].items()
        if (arguments.runs / name / "results.json").exists()
    ]
    runs.sort(key=lambda run: -float(str(run["validation_bleu"])))
    record = {
        **header("python " + " ".join(sys.argv), "sacrebleu"),
        "budget": sweep["budget"],
        "runs": runs,
    }
    hidden = {str(arguments.folder): "CORPUS", str(arguments.runs): "RUNS"}
    write(f"sweep-{arguments.name}", record, hide=hidden)
    print(table(runs))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", help="a file of benchmarks/sweeps without its .toml")
    parser.add_argument("--folder", type=Path, required=True, help="where the corpus lies")
    parser.add_argument("--runs", type=Path, required=True, help="where runs are written")
    parser.add_argument("--only", nargs="+", default=[], help="only these runs of the sweep")
    return parser.parse_args()


def take(folder: Path, first: int, sweep: dict[str, object], *, into: Path) -> Path:
    """Return the corpus folder, or one that holds its first pairs alone."""
    if not first:
        return folder.absolute()
    into.mkdir(parents=True, exist_ok=True)
    for name in sweep["files"]:  # type: ignore[attr-defined]
        with gzip.open(folder / name, "rt", encoding="utf-8", newline="\n") as lines:
            wanted = [
                line for number, line in enumerate(lines) if number < first or "train" not in name
            ]
        with gzip.open(into / name, "wt", encoding="utf-8", newline="\n") as out:
            out.writelines(wanted)
    return into.absolute()


def train(recipe: str, settings: dict[str, object], *, corpus: Path, run: Path) -> None:
    """Carry one setting out, unless it has been."""
    if (run / "results.json").exists():
        return
    command = [sys.executable, "-m", "transduce", "train", recipe, "--out", str(run)]
    command += ["--set", f"data.folder={corpus}"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    command += ["--resume"] if (run / "recipe.toml").exists() else []
    subprocess.run(command, check=True)


def result(name: str, settings: dict[str, object], *, run: Path) -> dict[str, object]:
    """What came of one setting."""
    results = json.loads((run / "results.json").read_text())
    log = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    return {
        "name": name,
        "settings": settings,
        "parameters": results["parameters"],
        "target_tokens": log[-1]["tokens"],
        "seconds": round(results["seconds"], 1),
        "validation_loss": round(results["validation"]["loss"], 4),
        "validation_bleu": bleu(results["validation"]),
        "test_bleu": bleu(results["test"]) if results.get("test") else None,
    }


def bleu(part: dict[str, object]) -> float:
    """The BLEU of one set, to two places."""
    scores = part["scores"]
    return next(round(s["value"], 2) for s in scores if s["name"] == "BLEU")  # type: ignore[attr-defined]


def table(runs: list[dict[str, object]]) -> str:
    """One line a setting, the best first."""
    lines = [f"{'run':<20} parameters  minutes  val loss  val BLEU  test BLEU"]
    for run in runs:
        lines.append(
            f"{run['name']:<20} {run['parameters']:>10,}  {float(str(run['seconds'])) / 60:7.1f}  "
            f"{run['validation_loss']:8.3f}  {run['validation_bleu']:8.2f}  {run['test_bleu']:9.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
