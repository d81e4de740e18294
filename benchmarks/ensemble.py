"""Quality of an ensemble of the seeds of a recipe (mean of probabilities).

    .venv/bin/python benchmarks/ensemble.py multi30k-tok --folder CORPUS --seeds 1 2 3 --runs RUNS

Takes the runs that benchmarks/quality.py trained, and translates the validation and the test set
with all of them (`transduce translate MODEL --with MODEL …`), by the recipe's own search. Nothing
is chosen: beam and length penalty are those of each model alone. Writes
benchmarks/results/RECIPE-ensemble/: record.json and the hypotheses of both sets.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from record import RESULTS, header, read_lines, write
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
        lines = out / f"{name}.source"
        lines.write_text("\n".join(read_lines(source)) + "\n")
        said = out / f"hypotheses-{name}.{recipe.languages.target}"
        began = time.perf_counter()
        translate(runs, lines, said)
        lines.unlink()
        bleu = BLEU(tokenize=recipe.score.bleu_tokenize or "13a", force=True)
        score = bleu.corpus_score(read_lines(said), [read_lines(target)])
        scored[name] = {
            "bleu": round(score.score, 2),
            "signature": str(bleu.get_signature()),
            "alone": [alone(run, name) for run in runs],
            "seconds": round(time.perf_counter() - began, 1),
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
    parser.add_argument("recipe", help="that was trained, such as multi30k-tok")
    parser.add_argument("--folder", required=True, help="where the corpus lies (data.folder)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs were written")
    return parser.parse_args()


def translate(runs: Sequence[Path], source: Path, out: Path) -> None:
    """Let all models decide together."""
    first, *others = map(str, runs)
    command = [sys.executable, "-m", "transduce", "translate", first, "-i", str(source)]
    for other in others:
        command += ["--with", other]
    subprocess.run([*command, "-o", str(out)], check=True)


def alone(run: Path, name: str) -> float:
    """The BLEU of one run on the set of that name."""
    scores = results(run)[name]["scores"]  # type: ignore[index]
    return round(next(score["value"] for score in scores if score["name"] == "BLEU"), 2)


def results(run: Path) -> dict[str, object]:
    """What a run found out about itself."""
    return json.loads((run / "results.json").read_text())


if __name__ == "__main__":
    main()
