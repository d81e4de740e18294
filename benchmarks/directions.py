"""One model of several directions against a model for each, at equal total updates.

    .venv/bin/python benchmarks/directions.py CORPUS --seeds 1 --out runs/directions

CORPUS holds train, val and test_2016_flickr of Multi30k, .en.gz and .de.gz. The third language is
German with every word spelled backwards, code "xx". The joint model trains en-de, de-en and en-xx
for all updates; each separate model has a third of them. de-xx is zero-shot: only the joint model
can be asked for it. All have the same settings, in float32.

What is finished is not repeated: each training is a file in results/directions/outcomes, which may
be committed and completed on another machine. Written to results/directions/record.json: BLEU of
the test set by direction, parameters and seconds, by seed, and the means.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from record import RESULTS, header, outcome, read_lines, write

from transduce.config import load_recipe
from transduce.evaluation.scoring import EvaluationResult
from transduce.pipeline.run import run_recipe
from transduce.train.events import Event

TRAINED = ("en-de", "de-en", "en-xx")
ZERO_SHOT = "de-xx"
SETS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
SETTINGS = {
    "tokenizer.vocab_size": 6000,
    "batch.tokens": 1024,
    "train.warmup": 150,
    "train.average_checkpoints": 3,
    "train.precision": "float32",
}


def main() -> None:
    """Train what has no outcome yet, and write one record of all seeds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("corpus", type=Path, help="folder of Multi30k")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--updates", type=int, default=2400, help="of the joint model")
    parser.add_argument("--pairs", type=int, default=0, help="training pairs; 0: all")
    parser.add_argument("--validated", type=int, default=300, help="validation pairs a direction")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/directions"))
    parser.add_argument("--name", default="directions", help="folder below results")
    parser.add_argument("--note", default="", help="for the record, such as: on a busy machine")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    limits = {"train": arguments.pairs, "validation": arguments.validated}
    write_text(arguments.corpus, arguments.out / "text", limits)
    seeds = [measure(arguments, seed) for seed in arguments.seeds]
    record = {
        **header("python " + " ".join(sys.argv), "sentencepiece", "sacrebleu"),
        "note": arguments.note,
        "settings": settings_of(arguments),
        "updates": arguments.updates,
        "seeds": seeds,
        "mean": mean(seeds),
    }
    hidden = {str(arguments.corpus): "CORPUS", str(arguments.out): "RUNS"}
    sys.stdout.write(write(arguments.name, record, hide=hidden))


def write_text(corpus: Path, folder: Path, limits: Mapping[str, int]) -> None:
    """Write the three languages of every set as plain text; a limit of 0 is the whole set."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, name in SETS.items():
        limit = limits.get(part) or None
        texts = {code: read_lines(corpus / f"{name}.{code}.gz")[:limit] for code in ("en", "de")}
        texts["xx"] = [" ".join(word[::-1] for word in line.split(" ")) for line in texts["de"]]
        for code, lines in texts.items():
            (folder / f"{part}.{code}").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def settings_of(arguments: argparse.Namespace) -> dict[str, object]:
    """What all models have in common."""
    common = {name: getattr(arguments, name) for name in ("pairs", "validated")}
    return {**SETTINGS, "by hand": arguments.settings, **common}


def measure(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """The outcomes of a seed: kept by an earlier sitting, or of trainings."""
    share = arguments.updates // len(TRAINED)
    return {
        "seed": seed,
        "separate": {name: trained(arguments, seed, name, share) for name in TRAINED},
        "joint": trained(arguments, seed, "joint", arguments.updates),
    }


def trained(arguments: argparse.Namespace, seed: int, name: str, updates: int) -> dict[str, Any]:
    """The outcome of a model: parameters, seconds, and the test's BLEU by direction."""
    facts = {**settings_of(arguments), "updates": updates}
    file = RESULTS / arguments.name / "outcomes" / f"{seed}-{name}.json"
    return outcome(file, facts, lambda: train(arguments, seed, name, updates))


def train(arguments: argparse.Namespace, seed: int, name: str, updates: int) -> dict[str, Any]:
    """Train a model, or go on with it."""
    chosen = {
        **SETTINGS,
        "train.updates": updates,
        "train.validate_every": max(1, updates // 6),
        "train.seed": seed,
        "train.intra_op_threads": arguments.threads,
    }
    words = [f"{key}={value}" for key, value in chosen.items()]
    corpus = corpus_settings(name, arguments.out / "text")
    recipe = load_recipe("tiny", [*corpus, *words, *arguments.settings])
    out = arguments.out / f"{name}-{seed}"
    result = run_recipe(recipe, out, resume=True, on_event=show)
    tests = {
        label.removeprefix("test "): bleu(scored)
        for label, scored in result.directions.items()
        if label.startswith("test ")
    }
    return {
        "parameters": result.parameters,
        "seconds": round(result.seconds, 1),
        "test": tests or {name: bleu(result.test)},
    }


def corpus_settings(name: str, text: Path) -> list[str]:
    """The corpus of the joint model, or that of a separate one, as settings."""
    folder = f"data.folder={json.dumps(str(text))}"
    if name == "joint":
        tables = [*map(table, TRAINED), table(ZERO_SHOT, sets=["test"])]
        return [folder, f"data.directions=[{', '.join(tables)}]"]
    codes = [
        f"languages.{side}={code}"
        for side, code in zip(("source", "target"), name.split("-"), strict=True)
    ]
    return [folder, *codes, *(f"data.{part}={files(part, name)}" for part in SETS)]


def table(name: str, *, sets: Sequence[str] = tuple(SETS)) -> str:
    """A direction as an inline table of TOML."""
    source, target = name.split("-")
    named = ", ".join(f"{part} = {files(part, name)}" for part in sets)
    return f'{{source = "{source}", target = "{target}", {named}}}'


def files(part: str, name: str) -> str:
    """The two files of a set, as TOML."""
    return json.dumps([f"{part}.{code}" for code in name.split("-")])


def bleu(result: EvaluationResult | None) -> float:
    """The BLEU of a scored set."""
    assert result, "a set of this name is in the settings"
    return round(next(score.value for score in result.scores if score.name == "BLEU"), 2)


def mean(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean BLEU by direction of both kinds, and the parameters of each."""
    separate = [
        {name: score for row in seed["separate"].values() for name, score in row["test"].items()}
        for seed in seeds
    ]
    kinds = {"joint": [seed["joint"]["test"] for seed in seeds], "separate": separate}
    means = {
        kind: {name: round(statistics.mean(row[name] for row in rows), 2) for name in rows[0]}
        for kind, rows in kinds.items()
    }
    sizes = [row["parameters"] for row in seeds[0]["separate"].values()]
    parameters = {"joint": seeds[0]["joint"]["parameters"], "separate": sum(sizes)}
    return {**means, "parameters": parameters}


def show(event: Event) -> None:
    """Print an event."""
    sys.stderr.write(f"{event}\n")


if __name__ == "__main__":
    main()
