"""Low-resource training: the share of the gap to a larger corpus that monolingual text closes.

    .venv/bin/python benchmarks/low_resource.py CORPUS --seeds 1 2 3 --out runs/low-resource

CORPUS holds train, val and test_2016_flickr of Multi30k, .en.gz and .de.gz. The first 5,000 pairs
are the parallel corpus, the German sides of the others the monolingual text. For each seed:

    plain             the 5,000 pairs, English to German
    back-translated   also the German text, back-translated by a model of the 5,000 pairs
    both              back-translated, with R-Drop (train.r_drop)
    full              all 29,000 pairs

All models share their settings and number of updates. Finished trainings are not repeated, so seeds
can run separately: each outcome is a file in results/low-resource/outcomes, which can be committed
and completed on another machine. Writes results/low-resource/record.json: BLEU of the test set, and
the share of the gap between plain and full that each model closes, by seed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from record import RESULTS, bleu_of, header, outcome, read_lines, write

SETS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
SETTINGS = {
    "tokenizer.vocab_size": 4000,
    "batch.tokens": 1024,
    "train.warmup": 150,
    "train.average_checkpoints": 4,
}
REGIME = {"train.r_drop": 1.0}


def main() -> None:
    """Train the models without an outcome; write one record of all seeds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("corpus", type=Path, help="folder of Multi30k")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--pairs", type=int, default=5000, help="pairs of the parallel corpus")
    parser.add_argument("--limit", type=int, default=0, help="pairs of the full corpus (0 = all)")
    parser.add_argument("--updates", type=int, default=2000, help="updates of each model")
    parser.add_argument("--weight", type=float, default=0.5, help="weight of the synthetic pairs")
    parser.add_argument("--beam", type=int, default=4, help="beam size of the back-translation")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/low-resource"))
    parser.add_argument("--name", default="low-resource", help="folder below results")
    parser.add_argument("--note", default="", help="note in the record, such as: on a busy machine")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    write_text(arguments.corpus, arguments.out, pairs=arguments.pairs, limit=arguments.limit)
    record = {
        **header("python " + " ".join(sys.argv), "sentencepiece", "sacrebleu"),
        "note": arguments.note,
        "pairs": arguments.pairs,
        "updates": arguments.updates,
        "weight": arguments.weight,
        "beam": arguments.beam,
        "settings": {**SETTINGS, "by hand": arguments.settings},
        "regime": REGIME,
        "seeds": [],
    }
    hidden = {str(arguments.corpus): "CORPUS", str(arguments.out): "RUNS"}
    for seed in arguments.seeds:
        record["seeds"].append(measure(arguments, seed))
        record["mean"] = mean(record["seeds"])
        text = write(arguments.name, record, hide=hidden)
    sys.stdout.write(text)


def write_text(corpus: Path, out: Path, *, pairs: int, limit: int) -> None:
    """Write the small corpus, the large one, and the monolingual text."""
    out.mkdir(parents=True, exist_ok=True)
    for part, name in SETS.items():
        for code in ("en", "de"):
            lines = read_lines(corpus / f"{name}.{code}.gz")[: limit or None]
            write_lines(out / f"{part}.{code}", lines)
            if part == "train":
                write_lines(out / f"small.{code}", lines[:pairs])
                write_lines(out / f"mono.{code}", lines[pairs:])


def write_lines(file: Path, lines: Iterable[str]) -> None:
    """Write lines of text."""
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def measure(arguments: argparse.Namespace, seed: int) -> dict[str, object]:
    """Train the models of a seed that have no outcome yet; return their scores."""
    rows = {
        "full": score(arguments, seed, "full", corpus="train"),
        "plain": score(arguments, seed, "plain"),
        "back-translated": score(arguments, seed, "back-translated", synthetic=True),
        "both": score(arguments, seed, "both", synthetic=True, settings=REGIME),
    }
    return {"seed": seed, "models": add_gap_closed(rows)}


def score(
    arguments: argparse.Namespace,
    seed: int,
    name: str,
    *,
    corpus: str = "small",
    synthetic: bool = False,
    settings: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the outcome of a model, stored or trained."""
    run_settings: dict[str, object] = {
        **SETTINGS,
        **(settings or {}),
        "by hand": arguments.settings,
    }
    for key in ("pairs", "limit", "updates", *(("weight", "beam") if synthetic else ())):
        run_settings[key] = getattr(arguments, key)

    def compute() -> dict[str, float]:
        options = synthesize(arguments, seed) if synthetic else ()
        return train(arguments, seed, name, corpus, *options, settings=settings)

    return outcome(
        RESULTS / arguments.name / "outcomes" / f"{seed}-{name}.json", run_settings, compute
    )


def synthesize(arguments: argparse.Namespace, seed: int) -> tuple[str, str]:
    """Back-translate the German text with a reverse model; return the option that adds it."""
    out, text = arguments.out, arguments.out / f"synthetic-{seed}.tsv"
    if not text.exists():
        train(arguments, seed, "reverse", "small", codes=("de", "en"))
        files = ("--input", str(out / "mono.de"), "--output", str(text))
        run_transduce(
            "augment", str(out / f"reverse-{seed}"), *files, "--beam", str(arguments.beam)
        )
    return "--also", f"{text}:{arguments.weight}"


def add_gap_closed(rows: Mapping[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Add the share of the gap between plain and full that each model closes."""
    plain, full = (rows[name]["bleu"] for name in ("plain", "full"))
    gap = full - plain
    return {
        name: scores | ({"gap_closed": round((scores["bleu"] - plain) / gap, 3)} if gap > 0 else {})
        for name, scores in rows.items()
    }


def mean(seeds: Iterable[Mapping[str, object]]) -> dict[str, float]:
    """Average the BLEU of each model over the seeds."""
    models = [row["models"] for row in seeds]
    return {
        name: round(statistics.mean(row[name]["bleu"] for row in models), 2) for name in models[0]
    }


def train(
    arguments: argparse.Namespace,
    seed: int,
    name: str,
    corpus: str,
    *options: str,
    codes: tuple[str, str] = ("en", "de"),
    settings: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Train a model or resume its training; return its scores, seconds and parameters."""
    folder, run = arguments.out, arguments.out / f"{name}-{seed}"
    if not (run / "results.json").exists():
        files = {part: [str(folder / f"{part}.{code}") for code in codes] for part in SETS}
        run_settings = {**SETTINGS, "train.updates": arguments.updates, "train.seed": seed}
        run_settings["train.validate_every"] = max(1, arguments.updates // 10)
        run_settings["train.intra_op_threads"] = arguments.threads
        setting_options = [
            f"{key}={value}" for key, value in {**run_settings, **(settings or {})}.items()
        ]
        run_transduce(
            *("train", "tiny", "--source", str(folder / f"{corpus}.{codes[0]}")),
            *("--target", str(folder / f"{corpus}.{codes[1]}")),
            *("--validation", *files["validation"], "--test", *files["test"], *options),
            *(
                word
                for setting in [*setting_options, *arguments.settings]
                for word in ("--set", setting)
            ),
            *("--resume", "--out", str(run)),
        )
    results = json.loads((run / "results.json").read_text())
    return {
        "bleu": round(bleu_of(results["test"]), 2),
        "validation_bleu": round(bleu_of(results["validation"]), 2),
        "seconds": round(results["seconds"], 1),
        "parameters": results["parameters"],
    }


def run_transduce(*arguments: str) -> None:
    """Run a command of transduce and show its log."""
    subprocess.run([sys.executable, "-m", "transduce", *arguments], check=True, env=os.environ)


if __name__ == "__main__":
    main()
