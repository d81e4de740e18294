"""One model of several directions against a model for each, at equal total updates.

    .venv/bin/python benchmarks/directions.py CORPUS --seeds 1 --out runs/directions

CORPUS holds train, val and test_2016_flickr of Multi30k, .en.gz and .de.gz. The third language is
German with every word reversed, code "xx". The joint model trains en-de, de-en and en-xx for all
updates, each separate model for a third of them. de-xx is zero-shot: only the joint model
translates it. All models share their settings, in float32.

Finished trainings are not repeated: the outcome of each is a file in results/directions/outcomes,
which can be committed and completed on another machine. Writes results/directions/record.json: BLEU
of the test set by direction, parameters and seconds, by seed, and the means.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from record import RESULTS, bleu_of, header, outcome, read_lines, write

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
    """Train the models without an outcome; write one record of all seeds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("corpus", type=Path, help="folder of Multi30k")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--updates", type=int, default=2400, help="updates of the joint model")
    parser.add_argument("--pairs", type=int, default=0, help="training pairs (0 = all)")
    parser.add_argument("--validated", type=int, default=300, help="validation pairs per direction")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/directions"))
    parser.add_argument("--name", default="directions", help="folder below results")
    parser.add_argument("--note", default="", help="note in the record, such as: on a busy machine")
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
    """Write the three languages of every set as plain text; a limit of 0 keeps all pairs."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, name in SETS.items():
        limit = limits.get(part) or None
        texts = {code: read_lines(corpus / f"{name}.{code}.gz")[:limit] for code in ("en", "de")}
        texts["xx"] = [" ".join(word[::-1] for word in line.split(" ")) for line in texts["de"]]
        for code, lines in texts.items():
            (folder / f"{part}.{code}").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def settings_of(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the settings that all models share."""
    common = {name: getattr(arguments, name) for name in ("pairs", "validated")}
    return {**SETTINGS, "by hand": arguments.settings, **common}


def measure(arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return the outcomes of a seed's models; train those that have none."""
    share = arguments.updates // len(TRAINED)
    return {
        "seed": seed,
        "separate": {name: model_outcome(arguments, seed, name, share) for name in TRAINED},
        "joint": model_outcome(arguments, seed, "joint", arguments.updates),
    }


def model_outcome(
    arguments: argparse.Namespace, seed: int, name: str, updates: int
) -> dict[str, Any]:
    """Return a model's outcome, stored or trained: parameters, seconds, test BLEU by direction."""
    settings = {**settings_of(arguments), "updates": updates}
    file = RESULTS / arguments.name / "outcomes" / f"{seed}-{name}.json"
    return outcome(file, settings, lambda: train(arguments, seed, name, updates))


def train(arguments: argparse.Namespace, seed: int, name: str, updates: int) -> dict[str, Any]:
    """Train a model, or resume its training."""
    settings = {
        **SETTINGS,
        "train.updates": updates,
        "train.validate_every": max(1, updates // 6),
        "train.seed": seed,
        "train.intra_op_threads": arguments.threads,
    }
    setting_options = [f"{key}={value}" for key, value in settings.items()]
    corpus = corpus_settings(name, arguments.out / "text")
    recipe = load_recipe("tiny", [*corpus, *setting_options, *arguments.settings])
    out = arguments.out / f"{name}-{seed}"
    result = run_recipe(recipe, out, resume=True, on_event=print_event)
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
    """Return the corpus settings of the joint model or of a separate model."""
    folder = f"data.folder={json.dumps(str(text))}"
    if name == "joint":
        tables = [*map(table, TRAINED), table(ZERO_SHOT, sets=["test"])]
        return [folder, f"data.directions=[{', '.join(tables)}]"]
    languages = [
        f"languages.{side}={code}"
        for side, code in zip(("source", "target"), name.split("-"), strict=True)
    ]
    return [folder, *languages, *(f"data.{part}={file_pair(part, name)}" for part in SETS)]


def table(name: str, *, sets: Sequence[str] = tuple(SETS)) -> str:
    """Format a direction as an inline table of TOML."""
    source, target = name.split("-")
    entries = ", ".join(f"{part} = {file_pair(part, name)}" for part in sets)
    return f'{{source = "{source}", target = "{target}", {entries}}}'


def file_pair(part: str, name: str) -> str:
    """Format the two files of a set as TOML."""
    return json.dumps([f"{part}.{code}" for code in name.split("-")])


def bleu(scored_set: EvaluationResult | None) -> float:
    """Return the BLEU of a scored set."""
    assert scored_set, "a set of this name is in the settings"
    return round(bleu_of(asdict(scored_set)), 2)


def mean(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Average BLEU by direction, joint and separate; sum the parameters of each kind."""
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


def print_event(event: Event) -> None:
    """Print an event."""
    sys.stderr.write(f"{event}\n")


if __name__ == "__main__":
    main()
