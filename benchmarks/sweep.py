"""Train on one corpus with several hyperparameter settings and the same budget.

    .venv/bin/python benchmarks/sweep.py multi30k --folder CORPUS

benchmarks/sweeps/NAME.toml has the base settings and, for each run, its changes. Every run is one
`transduce train` in a subprocess. The table is sorted by validation BLEU; each run scores the test
set once, to check whether the order holds there. Writes benchmarks/results/sweep-NAME/record.json;
an interrupted sweep can be resumed.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tomllib
from pathlib import Path

from record import ROOT, bleu_of, header, write


def main() -> None:
    """Run the settings without a result, print a table, write the record."""
    arguments = parse()
    sweep = tomllib.loads((ROOT / "benchmarks" / "sweeps" / f"{arguments.name}.toml").read_text())
    corpus = limit_corpus(
        arguments.folder, sweep.get("first", 0), sweep, out=arguments.runs / "corpus"
    )
    selected = [name for name in sweep["runs"] if not arguments.only or name in arguments.only]
    for name in selected:
        settings = {**sweep["base"], **sweep["runs"][name]}
        train(sweep["recipe"], settings, corpus=corpus, run=arguments.runs / name)
    runs = [
        read_result(name, {**sweep["base"], **changes}, run=arguments.runs / name)
        for name, changes in sweep["runs"].items()
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
    parser.add_argument("--folder", type=Path, required=True, help="folder of the corpus")
    parser.add_argument("--runs", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--only", nargs="+", default=[], help="only these runs of the sweep")
    return parser.parse_args()


def limit_corpus(folder: Path, first: int, sweep: dict[str, object], *, out: Path) -> Path:
    """Return the corpus folder, or one with only its first pairs."""
    if not first:
        return folder.absolute()
    out.mkdir(parents=True, exist_ok=True)
    for name in sweep["files"]:  # type: ignore[attr-defined]
        with gzip.open(folder / name, "rt", encoding="utf-8", newline="\n") as lines:
            kept_lines = [
                line for number, line in enumerate(lines) if number < first or "train" not in name
            ]
        with gzip.open(out / name, "wt", encoding="utf-8", newline="\n") as stream:
            stream.writelines(kept_lines)
    return out.absolute()


def train(recipe: str, settings: dict[str, object], *, corpus: Path, run: Path) -> None:
    """Train with a setting, unless that is done."""
    if (run / "results.json").exists():
        return
    command = [sys.executable, "-m", "transduce", "train", recipe, "--out", str(run)]
    command += ["--set", f"data.folder={corpus}"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    command += ["--resume"] if (run / "recipe.toml").exists() else []
    subprocess.run(command, check=True)


def read_result(name: str, settings: dict[str, object], *, run: Path) -> dict[str, object]:
    """Read the result of a setting."""
    results = json.loads((run / "results.json").read_text())
    log = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    return {
        "name": name,
        "settings": settings,
        "parameters": results["parameters"],
        "target_tokens": log[-1]["tokens"],
        "seconds": round(results["seconds"], 1),
        "validation_loss": round(results["validation"]["loss"], 4),
        "validation_bleu": round(bleu_of(results["validation"]), 2),
        "test_bleu": round(bleu_of(results["test"]), 2) if results.get("test") else None,
    }


def table(runs: list[dict[str, object]]) -> str:
    """Format a line per setting, the best first."""
    lines = [f"{'run':<20} parameters  minutes  val loss  val BLEU  test BLEU"]
    for run in runs:
        lines.append(
            f"{run['name']:<20} {run['parameters']:>10,}  {float(str(run['seconds'])) / 60:7.1f}  "
            f"{run['validation_loss']:8.3f}  {run['validation_bleu']:8.2f}  {run['test_bleu']:9.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
