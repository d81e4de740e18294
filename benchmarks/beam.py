"""Score a trained run's validation pairs with several beams and length penalties: which to ship?

    .venv/bin/python benchmarks/beam.py RUN --name multi30k-tok

The test set is not looked at. Written to benchmarks/results/beam-NAME/record.json.
"""

import argparse
import itertools
import json
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from quality import RESULTS, commit, machine, now

from transduce.bundle import Bundle
from transduce.config import load_recipe
from transduce.prepare import open_prepared
from transduce.results import score_lines, translate_pairs


def main() -> None:
    """Decode with every pair of settings, print one table, write one record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="a finished run's folder")
    parser.add_argument("--name", required=True, help="of the record")
    parser.add_argument("--beams", type=int, nargs="+", default=[4, 5, 8])
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.6, 1.0, 1.4, 1.8, 2.2])
    arguments = parser.parse_args()
    bundle, recipe = Bundle.load(arguments.run), load_recipe(arguments.run / "recipe.toml")
    pairs = open_prepared(arguments.run).validation
    rows: list[dict[str, float]] = []
    print("beam  alpha    BLEU   brevity  seconds")
    for beam, alpha in itertools.product(arguments.beams, arguments.alphas):
        started = time.perf_counter()
        search = replace(bundle.search, beam=beam, alpha=alpha)
        hypotheses = translate_pairs(bundle.model, bundle.tokenizer, pairs=pairs, search=search)
        seconds = time.perf_counter() - started
        references = [pair.target for pair in pairs]
        (score,) = score_lines(
            hypotheses,
            references,
            language=recipe.languages.target,
            tokenize=recipe.score.bleu_tokenize,
            metrics=["bleu"],
        )
        words = [sum(len(line.split()) for line in lines) for lines in (hypotheses, references)]
        row = {"beam": beam, "alpha": alpha, "bleu": round(score.value, 2)}
        row |= {"length_ratio": round(words[0] / words[1], 4), "seconds": round(seconds, 1)}
        rows.append(row)
        print(f"{beam:4}  {alpha:5}  {score.value:6.2f}   {row['length_ratio']:7}  {seconds:7.1f}")
    record = {
        "command": "python " + " ".join([sys.argv[0], "RUN", *sys.argv[2:]]),
        "date": now(),
        "commit": commit(),
        "machine": machine(),
        "versions": {name: version(name) for name in ("transduce", "torch", "sacrebleu")},
        "signature": score.signature,
        "weights": bundle.provenance.recipe,
        "rows": rows,
    }
    out = RESULTS / f"beam-{arguments.name}" / "record.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    out.write_text(text.replace(recipe.data.folder, "CORPUS"))


if __name__ == "__main__":
    main()
