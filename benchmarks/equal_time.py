"""Train by default settings and with peer toolkits for the same time on the same files.

    .venv/bin/python benchmarks/equal_time.py --corpus multi30k=FOLDER --corpus tatoeba=FOLDER \
        --time 30m

Each FOLDER has train, validation (or val) and test text, `PART.en` and `PART.de`, gzip or not.

transduce      `transduce train --time TIME` with no other settings; its time includes preparing the
               corpus, validation, averaging and scoring
eole           `eole train` in the regime of its own recipe for English to German
transformers   Hugging Face's `Seq2SeqTrainer` and MarianMTModel, warmup and an inverse square root

The peers' documentation recommends no model for a small corpus trained from nothing, so they get
the shape that transduce chose for the corpus, its number of pieces, and a SentencePiece model that
was trained before their time begins. They have no way to end in time: both validate, and both are
stopped when the time is over, eole at its last checkpoint. Test sets are translated afterwards with
a beam of 5, outside the time.

A finished run is kept in results/equal-time/runs, to be committed, and not repeated. The runs of a
corpus have to be of processors of the same name and vector units. Scores are BLEU and chrF2 of
sacreBLEU with 95 % intervals by bootstrap; differences to transduce are tested by paired bootstrap.
Peers that pip has to fetch get environments of their own below --environments, once. Every run uses
all cores, so nothing else should run meanwhile. Writes benchmarks/results/equal-time/record.json;
for another time than 30 minutes the folder is equal-time-TIME, unless --record names it.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
from peers.environments import python_of
from peers.running import PROGRAMS
from record import RESULTS, ROOT, header, machine, outcome, read_lines, write
from time_budget import text_files

from transduce.evaluation.significance import System, compare_systems
from transduce.train.config import parse_duration

OURS, PEERS = "transduce", ("eole", "transformers")
PARTS = ("train", "validation", "test")


def main() -> None:
    """Run what has no result yet, write one record."""
    arguments = parse()
    rows: list[dict[str, object]] = []
    for name, folder in (pair.split("=", 1) for pair in arguments.corpus):
        rows += measure(name, Path(folder), arguments)
        print(json.dumps(rows, indent=1), flush=True)
    record = {
        **header("python " + " ".join(sys.argv), "sacrebleu"),
        "seconds": parse_duration(arguments.time),
        "rows": rows,
    }
    hidden = {pair.split("=", 1)[1]: pair.split("=", 1)[0].upper() for pair in arguments.corpus}
    hidden |= {str(arguments.folder): "RUNS", str(arguments.environments): "ENVIRONMENTS"}
    default = "equal-time" if arguments.time == "30m" else f"equal-time-{arguments.time}"
    write(arguments.record or default, record, hide=hidden)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", action="append", required=True, help="NAME=FOLDER")
    parser.add_argument("--time", default="30m", help="of every system")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--record", help="the record's folder in benchmarks/results")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/equal_time"))
    parser.add_argument(
        "--environments", type=Path, default=ROOT / "runs" / "peers", help="for peers from PyPI"
    )
    return parser.parse_args()


def measure(name: str, corpus: Path, arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Train every system on one corpus; return a row for each."""
    work = arguments.folder / f"{name}-{arguments.time}"
    files = unpacked(corpus, work / "text")
    own_run = train_transduce(name, work, files, arguments.time)
    shape = {**own_run["shape"], "seconds": parse_duration(arguments.time)}
    runs = {OURS: own_run}
    for peer in arguments.peers:
        if not kept(name, arguments.time, peer).exists():  # fail before its time, not after it
            check_processors(name, own_run, machine())
        python = python_of(peer, arguments.environments.absolute())
        runs[peer] = train_peer(peer, python, name, work, shape, arguments.time)
    check_processors(name, *runs.values())
    scored = scores(runs, read_lines(files["test"][1]))
    return [
        {"corpus": name, "system": system}
        | {key: value for key, value in run.items() if key != "translations"}
        | scored[system]
        for system, run in runs.items()
    ]


def check_processors(name: str, *runs: Mapping[str, Any]) -> None:
    """Exit if the runs of a corpus were not all made on one kind of processor."""
    names = {
        " ".join([run.get("processor", "unnamed"), *run.get("vector_units", [])]) for run in runs
    }
    if len(names) > 1:
        sys.exit(f"{name}: runs of different processors: {', '.join(sorted(names))}")


def unpacked(corpus: Path, folder: Path) -> dict[str, tuple[Path, Path]]:
    """Copy the corpus to plain text files, which all systems read."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, tuple[Path, Path]] = {}
    for part in PARTS:
        source, target = (folder / f"{part}.{side}" for side in ("en", "de"))
        for original, copy in zip(text_files(corpus, part), (source, target), strict=True):
            copy.write_text("".join(f"{line}\n" for line in read_lines(original)))
        files[part] = (source, target)
    return files


def train_transduce(
    name: str, work: Path, files: Mapping[str, tuple[Path, Path]], length: str
) -> dict[str, Any]:
    """Train with `transduce train --time`; the shape that it chose is kept for the peers."""

    def compute() -> dict[str, object]:
        out = work / OURS
        shutil.rmtree(out, ignore_errors=True)
        command = [sys.executable, "-m", "transduce", "train", "--time", length, "--out", str(out)]
        command += ["--source", str(files["train"][0]), "--target", str(files["train"][1])]
        for part in ("validation", "test"):
            command += [f"--{part}", *map(str, files[part])]
        began = time.monotonic()
        subprocess.run(command, check=True, cwd=ROOT, stderr=subprocess.DEVNULL)
        seconds = time.monotonic() - began
        results = json.loads((out / "results.json").read_text())
        recipe = tomllib.loads((out / "recipe.toml").read_text())
        sizes = ("encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "dropout")
        return {
            "trained_seconds": round(seconds, 1),
            "updates": results["updates"],
            "parameters": results["parameters"],
            "decoding": results["test"]["decoding"],
            "shape": {size: recipe["model"][size] for size in sizes}
            | {"vocab_size": recipe["tokenizer"]["vocab_size"]},
            "translations": read_lines(out / "hypotheses.de"),
        }

    return outcome(kept(name, length, OURS), {"time": length, "system": OURS}, compute)


def train_peer(
    peer: str, python: Path, name: str, work: Path, shape: Mapping[str, Any], length: str
) -> dict[str, Any]:
    """Train a peer of the given shape for as long, in an environment of its own."""

    def compute() -> dict[str, object]:
        out = work / peer
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        train_pieces(work / "text", out / "pieces", int(shape["vocab_size"]))
        (out / "shape.json").write_text(json.dumps(shape))
        program = PROGRAMS / f"train_{peer}.py"
        done = subprocess.run(
            [str(python), str(program), str(work / "text"), str(out)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        translations = read_lines(out / "translations")
        return {**json.loads(done.stdout.splitlines()[-1]), "translations": translations}

    return outcome(kept(name, length, peer), {"system": peer, **shape}, compute)


def train_pieces(text: Path, prefix: Path, size: int) -> None:
    """Train a joint SentencePiece model; its first four pieces are UNK, BOS, EOS and PAD."""
    sentencepiece.SentencePieceTrainer.Train(
        input=[str(text / f"train.{side}") for side in ("en", "de")],
        model_prefix=str(prefix),
        vocab_size=size,
        model_type="bpe",
        character_coverage=1.0,
        pad_id=3,
        minloglevel=2,
    )


def kept(name: str, length: str, system: str) -> Path:
    """The file of a finished run."""
    return RESULTS / "equal-time" / "runs" / f"{name}-{length}-{system}.json"


def scores(runs: Mapping[str, Mapping[str, Any]], references: Sequence[str]) -> dict[str, Any]:
    """BLEU and chrF2 of every system: value, 95 % margin, and p of the difference to transduce."""
    systems = [System(name, run["translations"]) for name, run in runs.items()]
    compared = compare_systems(systems, references, metrics=["bleu", "chrf"], language="de")
    return {
        system.name: {
            metric.metric: {
                **{
                    key: round(getattr(metric.systems[index], key), 2)
                    for key in ("value", "margin")
                },
                "p": metric.systems[index].p,
                "signature": metric.signature,
            }
            for metric in compared.metrics
        }
        for index, system in enumerate(systems)
    }


if __name__ == "__main__":
    main()
