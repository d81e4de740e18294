"""One model of several directions against a model for each, at equal total updates.

    .venv/bin/python benchmarks/directions.py CORPUS --updates 18000 --out runs/directions

CORPUS holds train, val and test_2016_flickr of Multi30k, .en.gz and .de.gz. The third language is
German with every word spelled backwards, code "xx". The joint model trains en-de, de-en and en-xx
for all updates; each separate model has a third of them. de-xx is zero-shot: only the joint model
can be asked for it. Written to benchmarks/results/directions/record.json.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from record import header, write

from transduce.config import load_recipe
from transduce.evaluation.scoring import EvaluationResult, RunResult
from transduce.io.streams import open_compressed
from transduce.pipeline.run import run_recipe
from transduce.train.events import Event

TRAINED = (("en", "de"), ("de", "en"), ("en", "xx"))
ZERO_SHOT = ("de", "xx")
SETS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}


def main() -> None:
    """Train all models, print the scores, write one record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("corpus", type=Path, help="folder of Multi30k")
    parser.add_argument("--recipe", default="multi30k")
    parser.add_argument("--updates", type=int, default=18_000, help="of the joint model")
    parser.add_argument("--pairs", type=int, default=0, help="training pairs; 0: all")
    parser.add_argument("--out", type=Path, default=Path("runs/directions"))
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    text = arguments.out / "text"
    prepare_text(arguments.corpus, text, pairs=arguments.pairs)
    tables = [table(pair) for pair in TRAINED] + [table(ZERO_SHOT, test_only=True)]
    cleared = ["data.train=[]", "data.validation=[]", "data.test=[]", f'data.folder="{text}"']
    joint = run(
        arguments,
        "joint",
        [*cleared, f"data.directions=[{', '.join(tables)}]"],
        updates=arguments.updates,
    )
    separate: dict[str, RunResult] = {}
    for pair in TRAINED:
        name, share = "-".join(pair), arguments.updates // len(TRAINED)
        files = [f"data.{part}={names(part, pair)}" for part in SETS]
        codes = [f'languages.source="{pair[0]}"', f'languages.target="{pair[1]}"']
        corpus = [*files, *codes, f'data.folder="{text}"']
        separate[name] = run(arguments, name, corpus, updates=share)
    command = f"python benchmarks/directions.py CORPUS --updates {arguments.updates}"
    record = {
        **header(command, "sacrebleu"),
        "recipe": arguments.recipe,
        "settings": arguments.settings,
        "updates": arguments.updates,
        "joint": {
            "parameters": joint.parameters,
            "seconds": joint.seconds,
            "test": {name: scores(result) for name, result in joint.directions.items()},
        },
        "separate": {
            name: {
                "parameters": result.parameters,
                "seconds": result.seconds,
                "test": scores(result.test) if result.test else {},
            }
            for name, result in separate.items()
        },
    }
    sys.stdout.write(write("directions", record))


def prepare_text(corpus: Path, folder: Path, *, pairs: int) -> None:
    """Write the three languages of every set as plain text."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SETS.values():
        texts: dict[str, Sequence[str]] = {}
        for code in ("en", "de"):
            with open_compressed(corpus / f"{name}.{code}.gz") as stream:
                lines = stream.read().decode().splitlines()
            texts[code] = lines[:pairs] if pairs and name == "train" else lines
        texts["xx"] = [" ".join(word[::-1] for word in line.split(" ")) for line in texts["de"]]
        for code, lines in texts.items():
            (folder / f"{name}.{code}").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def names(part: str, pair: tuple[str, str]) -> str:
    """The two files of a set, as TOML."""
    return json.dumps([f"{SETS[part]}.{code}" for code in pair])


def table(pair: tuple[str, str], *, test_only: bool = False) -> str:
    """A direction as an inline table of TOML."""
    parts = ["test"] if test_only else list(SETS)
    files = ", ".join(f"{part} = {names(part, pair)}" for part in parts)
    return f'{{source = "{pair[0]}", target = "{pair[1]}", {files}}}'


def run(
    arguments: argparse.Namespace, name: str, corpus: Sequence[str], *, updates: int
) -> RunResult:
    """Train a model, or go on with it."""
    settings = [*corpus, f"train.updates={updates}", *arguments.settings]
    recipe = load_recipe(arguments.recipe, settings)
    return run_recipe(recipe, arguments.out / name, resume=True, on_event=show)


def show(event: Event) -> None:
    """Print an event."""
    sys.stderr.write(f"{event}\n")


def scores(result: EvaluationResult) -> dict[str, float]:
    """The scores with their signatures."""
    return {f"{score.name} ({score.signature})": score.value for score in result.scores}


if __name__ == "__main__":
    main()
