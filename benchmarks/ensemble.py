"""Quality of an ensemble of the seeds of a recipe (mean of probabilities).

    .venv/bin/python benchmarks/ensemble.py multi30k-tok --folder CORPUS --seeds 1 2 3 --runs RUNS

Translates the validation and test sets with the runs that benchmarks/quality.py trained (`transduce
translate MODEL --with MODEL …`) and the recipe's search settings. Nothing is tuned: beam and length
penalty are those of the single models. Writes benchmarks/results/RECIPE-ensemble/: record.json and
the hypotheses of both sets.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from record import RESULTS, bleu_of, header, read_lines, write
from sacrebleu.metrics.bleu import BLEU

from transduce.config import load_recipe


def main() -> None:
    """Translate both sets, print the scores, write the record."""
    arguments = parse()
    runs = [arguments.runs / f"{arguments.recipe}-seed-{seed}" for seed in arguments.seeds]
    recipe = load_recipe(runs[0] / "recipe.toml")
    out = RESULTS / f"{arguments.recipe}-ensemble"
    out.mkdir(parents=True, exist_ok=True)
    scored = {}
    for name, files in (("validation", recipe.data.validation), ("test", recipe.data.test)):
        assert files, f"the recipe has no {name} set"
        source, target = (Path(arguments.folder) / file for file in files)
        source_file = out / f"{name}.source"
        source_file.write_text("\n".join(read_lines(source)) + "\n")
        hypotheses = out / f"hypotheses-{name}.{recipe.languages.target}"
        started = time.perf_counter()
        translate(runs, source_file, hypotheses)
        source_file.unlink()
        bleu = BLEU(tokenize=recipe.score.bleu_tokenize or "13a", force=True)
        score = bleu.corpus_score(read_lines(hypotheses), [read_lines(target)])
        scored[name] = {
            "bleu": round(score.score, 2),
            "signature": str(bleu.get_signature()),
            "alone": [round(bleu_of(results(run)[name]), 2) for run in runs],
            "seconds": round(time.perf_counter() - started, 1),
        }
        print(f"{name}: {score.score:.2f} together, {scored[name]['alone']} alone")
    record = {
        **header("python " + " ".join(sys.argv), "sacrebleu"),
        "models": len(runs),
        "parameters": [results(run)["parameters"] for run in runs],
        "scores": scored,
    }
    write(out.name, record, hide={arguments.folder: "CORPUS", str(arguments.runs): "RUNS"})


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("recipe", help="the recipe of the runs, such as multi30k-tok")
    parser.add_argument("--folder", required=True, help="folder of the corpus (data.folder)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs")
    return parser.parse_args()


def translate(runs: Sequence[Path], source: Path, out: Path) -> None:
    """Translate with the ensemble of all runs."""
    first, *others = map(str, runs)
    command = [sys.executable, "-m", "transduce", "translate", first, "-i", str(source)]
    for other in others:
        command += ["--with", other]
    subprocess.run([*command, "-o", str(out)], check=True)


def results(run: Path) -> dict[str, object]:
    """Read the results of a run."""
    return json.loads((run / "results.json").read_text())


if __name__ == "__main__":
    main()
