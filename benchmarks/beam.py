"""Score validation pairs of trained runs with several beam sizes and length penalties.

    .venv/bin/python benchmarks/beam.py RUN [RUN …] --name multi30k-tok

Several runs (seeds) are scored together, as one concatenated validation set. For each beam size the
rule selects the smallest length penalty that is not significantly worse than the best (paired
bootstrap, p < 0.05): a departure from the paper's 0.6 needs evidence. The test set is not used.
Writes benchmarks/results/beam-NAME/record.json.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from record import header, write

from transduce.bundle.bundle import Bundle
from transduce.config import Recipe, load_recipe
from transduce.evaluation.scoring import translate_pairs
from transduce.evaluation.significance import SIGNIFICANCE_LEVEL, System, compare_systems
from transduce.pipeline.prepared import open_prepared

Row = dict[str, float | bool]


def main() -> None:
    """Decode with every combination of settings, print a table, write the record."""
    arguments = parse()
    recipe = load_recipe(arguments.runs[0] / "recipe.toml")
    rows: list[Row] = []
    print("beam  alpha    BLEU   length        p  seconds")
    for beam in arguments.beams:
        scored = score_beam(arguments.runs, recipe, beam=beam, alphas=sorted(arguments.alphas))
        rows += scored
        for row in scored:
            print(
                f"{beam:4}  {row['alpha']:5}  {row['bleu']:6.2f}  {row['length_ratio']:7.4f}  "
                f"{row['p']:7.4f}  {row['seconds']:7.1f}{'   <- the rule' * bool(row['rule'])}"
            )
    record = {
        **header("python " + " ".join(sys.argv), "sacrebleu"),
        "runs": len(arguments.runs),
        "recipe": (arguments.runs[0] / "recipe.toml").read_text(),
        "rows": rows,
    }
    write(
        f"beam-{arguments.name}",
        record,
        hide={
            **{str(run): f"RUNS/{run.name}" for run in arguments.runs},
            recipe.data.folder: "CORPUS",
        },
    )


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+", help="folders of finished runs, one per seed")
    parser.add_argument("--name", required=True, help="suffix of the record's name")
    parser.add_argument("--beams", type=int, nargs="+", default=[4, 5, 8])
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.6, 1.0, 1.4, 1.8, 2.2])
    return parser.parse_args()


def score_beam(
    runs: Sequence[Path], recipe: Recipe, *, beam: int, alphas: Sequence[float]
) -> list[Row]:
    """Score one beam size: BLEU over all runs' validation pairs, and p against the best α."""
    systems, seconds = [], []
    for alpha in alphas:
        started = time.perf_counter()
        lines = [line for run in runs for line in translate_validation(run, beam=beam, alpha=alpha)]
        seconds.append(round(time.perf_counter() - started, 1))
        systems.append(System(str(alpha), lines))
    pairs = [pair for run in runs for pair in open_prepared(run).validation]
    references = [pair.target for pair in pairs]
    language, tokenize = recipe.languages.target, recipe.score.bleu_tokenize

    def score_systems(order: Sequence[System]) -> dict[str, tuple[float, float]]:
        comparison = compare_systems(
            order, references, metrics=["bleu"], language=language, tokenize=tokenize
        )
        return {
            scored.system: (scored.value, 1.0 if scored.p is None else scored.p)
            for scored in comparison.metrics[0].systems
        }

    values = score_systems(systems)
    best = max(systems, key=lambda system: values[system.name][0])
    values = score_systems([best, *(system for system in systems if system is not best)])
    rule = next(system.name for system in systems if values[system.name][1] >= SIGNIFICANCE_LEVEL)
    return [
        {
            "beam": beam,
            "alpha": alpha,
            "bleu": round(values[system.name][0], 2),
            "length_ratio": round(words(system.lines) / words(references), 4),
            "p": round(values[system.name][1], 4),
            "rule": system.name == rule,
            "seconds": duration,
        }
        for alpha, system, duration in zip(alphas, systems, seconds, strict=True)
    ]


def translate_validation(run: Path, *, beam: int, alpha: float) -> list[str]:
    """Translate the validation sources of a run with its model."""
    bundle = Bundle.load(run)
    search = replace(bundle.search, beam=beam, alpha=alpha)
    pairs = open_prepared(run).validation
    translations = translate_pairs(
        bundle.model, bundle.tokenizer, pairs=pairs, search=search, retry_loops=False
    )
    return [translation.text for translation in translations]


def words(lines: Sequence[str]) -> int:
    """Count the words of all lines."""
    return sum(len(line.split()) for line in lines)


if __name__ == "__main__":
    main()
