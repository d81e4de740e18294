"""Memory and time as the corpus grows: prepare, one pass over all batches, 200 updates, resume.

    .venv/bin/python benchmarks/corpora.py --pairs 100000 1000000 10000000

Each corpus is generated, seeded, in a temporary folder and deleted when it is measured: sentences
of 5 to 30 words, the words by Zipf's law from vocabularies of 30,000. Every step is a process of
its own, whose time of all cores and peak resident memory the system tells when it ends: mapped
pages of files counted. Training is `transduce train` with a model of one layer, as the corpus is
what is measured. The record is benchmarks/results/corpora/record.json.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from record import header, write

WORDS = 30_000
CHUNK = 10_000
SETTINGS = {
    "data.train": '["train.src", "train.tgt"]',
    "data.held_out": "200",
    **{"model.encoder_layers": "1", "model.decoder_layers": "1", "model.d_model": "32"},
    **{"model.d_ff": "64", "model.heads": "2", "model.d_k": "16", "model.d_v": "16"},
    **{"train.updates": "200", "train.warmup": "20", "train.validate_every": "200"},
    **{"train.average_checkpoints": "1", "search.beam": "1"},
}


class Step(NamedTuple):
    """What a process took."""

    seconds: float
    core_seconds: float
    """Of all cores together; other programs that run matter less to them."""
    peak_mb: float
    said: dict[str, float]
    """What it measured itself, if anything."""


def main() -> None:
    """Measure every size, print a table, write one record."""
    arguments = parse()
    if arguments.step:
        STEPS[arguments.step](arguments.run, arguments.pairs[0])
        return
    rows = [measured(pairs, folder=arguments.folder) for pairs in sorted(arguments.pairs)]
    command = "python benchmarks/corpora.py --pairs " + " ".join(map(str, arguments.pairs))
    record = {
        **header(command, "numpy", "sentencepiece"),
        "settings": SETTINGS,
        "sizes": rows,
        "bytes_of_memory_a_pair": growth(rows),
    }
    if not arguments.dry:
        write("corpora", record)
    print(table(rows))
    print("\nMore memory for a pair more, in bytes:", json.dumps(growth(rows)))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, help="where to write [default: the system's]")
    parser.add_argument("--dry", action="store_true", help="print, but write no record")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def measured(pairs: int, *, folder: Path | None) -> dict[str, float]:
    """Measure one size."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        run = Path(place) / "run"
        ours = ["python", __file__, "--run", str(run), "--pairs", str(pairs), "--step"]
        theirs = ["--set", f"data.folder={place}", "--out", str(run)]
        for name, value in SETTINGS.items():
            theirs += ["--set", f"{name}={value}"]
        steps: dict[str, Step] = {}
        for name, command in {
            "generate": [*ours, "generate"],
            "prepare": ["python", "-m", "transduce", "prepare", "tiny", *theirs],
            "pass": [*ours, "pass"],
            "resume": [*ours, "resume"],
            "train": ["python", "-m", "transduce", "train", "tiny", *theirs],
        }.items():
            steps[name] = timed(command)
            print(f"{pairs:,}: {name}: {steps[name]}", file=sys.stderr, flush=True)
        return {
            "pairs": pairs,
            "corpus_mb": megabytes(Path(place), "train.*"),
            "prepared_mb": megabytes(run / "prepared", "**/*"),
            **{f"{name}_seconds": step.seconds for name, step in steps.items()},
            **{f"{name}_core_seconds": step.core_seconds for name, step in steps.items()},
            **{f"{name}_peak_mb": step.peak_mb for name, step in steps.items()},
            **{key: value for step in steps.values() for key, value in step.said.items()},
        }


def timed(command: list[str]) -> Step:
    """Run a process to its end."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command[1:]], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)  # of this process and what it waited for
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    said = json.loads(out) if out.startswith("{") else {}
    seconds, core_seconds = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
    return Step(round(seconds, 1), round(core_seconds, 1), round(usage.ru_maxrss / 1024), said)


def generate(run: Path, pairs: int) -> None:
    """Write the corpus beside the run's folder."""
    import numpy as np

    rng = np.random.default_rng(0)
    letters = ("abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyzäöüß")
    vocabularies = [
        np.array(["".join(rng.choice([*kind], rng.integers(2, 10))) for _ in range(WORDS)], object)
        for kind in letters
    ]
    share = np.cumsum(1.0 / np.arange(1, WORDS + 1))
    with (run.parent / "train.src").open("w") as source, (run.parent / "train.tgt").open("w") as to:
        for first in range(0, pairs, CHUNK):
            ends = rng.integers(5, 31, min(CHUNK, pairs - first)).cumsum()
            drawn = np.searchsorted(share, rng.random(ends[-1]) * share[-1])
            spans = list(itertools.pairwise([0, *ends.tolist()]))
            for file, vocabulary in zip((source, to), vocabularies, strict=True):
                words = vocabulary[drawn].tolist()
                file.write("".join(f"{' '.join(words[a:b])}\n" for a, b in spans))


def one_pass(run: Path, pairs: int) -> None:
    """Load an epoch's batches."""
    from transduce.data.sampler import SamplerState

    loader, sampler, seconds = opened(run)
    began = time.perf_counter()
    read = 0
    for loaded in loader.updates(SamplerState()):
        read += sum(len(batch.source) for batch in loaded.batches)
        if loaded.state_after.epoch:
            break
    took = time.perf_counter() - began
    assert read > 0.9 * pairs, f"{read} of {pairs}"
    updates = sampler.epoch_updates(0)
    print(json.dumps({**seconds, "batches_seconds": round(took, 1), "updates": updates}))


def resume(run: Path, pairs: int) -> None:
    """Load the batches of one update in the middle of the second epoch."""
    from transduce.data.sampler import SamplerState

    loader, sampler, _ = opened(run)
    began = time.perf_counter()  # the epoch is planned for the first time
    next(loader.updates(SamplerState(1, sampler.epoch_updates(1) // 2)))
    print(json.dumps({"first_batch_seconds": round(time.perf_counter() - began, 2)}))


def opened(run: Path):
    """What a run reads its batches with, and how long opening took, checksums compared."""
    from transduce.config import load_recipe
    from transduce.data.loader import Loader
    from transduce.data.sampler import Sampler
    from transduce.pipeline.prepared import open_prepared

    began = time.perf_counter()
    recipe = load_recipe(run / "recipe.toml")
    prepared = open_prepared(run)
    sampler = Sampler(prepared.store.lengths, config=recipe.batch, seed=recipe.train.seed)
    loader = Loader(prepared.store, sampler=sampler, tokenizer=prepared.tokenizer)
    return loader, sampler, {"open_seconds": round(time.perf_counter() - began, 1)}


STEPS = {"generate": generate, "pass": one_pass, "resume": resume}


def megabytes(folder: Path, pattern: str) -> int:
    """The size of some files."""
    return round(sum(file.stat().st_size for file in folder.glob(pattern) if file.is_file()) / 1e6)


def growth(rows: list[dict[str, float]]) -> dict[str, float]:
    """How much more memory a step takes for a pair more, from one size to the next."""
    return {
        f"{step}, {small['pairs']:,} to {large['pairs']:,}": round(
            (large[f"{step}_peak_mb"] - small[f"{step}_peak_mb"])
            * 2**20
            / (large["pairs"] - small["pairs"]),
            1,
        )
        for step in ("prepare", "pass", "train")
        for small, large in itertools.pairwise(rows)
    }


def table(rows: list[dict[str, float]]) -> str:
    """The record as people read it."""
    lines = [
        "| pairs | corpus, prepared (MB) | prepare (s, pairs/s, peak MB) "
        "| a pass of all batches (s, pairs/s, peak MB) | 200 updates (s, peak MB) "
        "| open, first batch in mid-epoch (s) |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        speeds = [row["pairs"] / row[name] for name in ("prepare_seconds", "batches_seconds")]
        lines.append(
            f"| {row['pairs']:,} | {row['corpus_mb']:,}, {row['prepared_mb']:,} "
            f"| {row['prepare_seconds']:.0f}, {speeds[0]:,.0f}, {row['prepare_peak_mb']:.0f} "
            f"| {row['batches_seconds']:.0f}, {speeds[1]:,.0f}, {row['pass_peak_mb']:.0f} "
            f"| {row['train_seconds']:.0f}, {row['train_peak_mb']:.0f} "
            f"| {row['open_seconds']:.1f}, {row['first_batch_seconds']:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
