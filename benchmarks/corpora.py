"""Memory and time as the corpus grows: prepare, one pass over all batches, 200 updates, resume.

    .venv/bin/python benchmarks/corpora.py --pairs 100000 1000000 10000000

Each corpus is generated from a seed in a temporary folder and deleted after its measurement:
sentences of 5 to 30 words, drawn by Zipf's law from vocabularies of 30,000. Every step runs in a
subprocess, whose CPU time and peak resident memory (with mapped pages of files) the operating
system reports at its end. Training is `transduce train` with a model of one layer, because the
corpus is what is measured. Writes benchmarks/results/corpora/record.json.
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
    """Time and memory of a process."""

    seconds: float
    core_seconds: float
    """CPU time of all cores together; less sensitive to other running programs."""
    peak_mb: float
    reported: dict[str, float]
    """Further measurements that the process printed as JSON."""


def main() -> None:
    """Measure every size, print a table, write the record."""
    arguments = parse()
    if arguments.step:
        STEPS[arguments.step](arguments.run, arguments.pairs[0])
        return
    rows = [measure_size(pairs, folder=arguments.folder) for pairs in sorted(arguments.pairs)]
    command = "python benchmarks/corpora.py --pairs " + " ".join(map(str, arguments.pairs))
    record = {
        **header(command, "numpy", "sentencepiece"),
        "settings": SETTINGS,
        "sizes": rows,
        "bytes_of_memory_a_pair": memory_growth(rows),
    }
    if not arguments.dry:
        write("corpora", record)
    print(format_table(rows))
    print("\nMemory per additional pair, in bytes:", json.dumps(memory_growth(rows)))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, help="where to write [default: the system's]")
    parser.add_argument("--dry", action="store_true", help="print, but write no record")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure_size(pairs: int, *, folder: Path | None) -> dict[str, float]:
    """Run and measure every step with a corpus of this size."""
    with tempfile.TemporaryDirectory(dir=folder) as workspace:
        run = Path(workspace) / "run"
        own_command = ["python", __file__, "--run", str(run), "--pairs", str(pairs), "--step"]
        settings = ["--set", f"data.folder={workspace}", "--out", str(run)]
        for name, value in SETTINGS.items():
            settings += ["--set", f"{name}={value}"]
        steps: dict[str, Step] = {}
        for name, command in {
            "generate": [*own_command, "generate"],
            "prepare": ["python", "-m", "transduce", "prepare", "tiny", *settings],
            "pass": [*own_command, "pass"],
            "resume": [*own_command, "resume"],
            "train": ["python", "-m", "transduce", "train", "tiny", *settings],
        }.items():
            steps[name] = run_step(command)
            print(f"{pairs:,}: {name}: {steps[name]}", file=sys.stderr, flush=True)
        return {
            "pairs": pairs,
            "corpus_mb": total_megabytes(Path(workspace), "train.*"),
            "prepared_mb": total_megabytes(run / "prepared", "**/*"),
            **{f"{name}_seconds": step.seconds for name, step in steps.items()},
            **{f"{name}_core_seconds": step.core_seconds for name, step in steps.items()},
            **{f"{name}_peak_mb": step.peak_mb for name, step in steps.items()},
            **{key: value for step in steps.values() for key, value in step.reported.items()},
        }


def run_step(command: list[str]) -> Step:
    """Run a process and measure it."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command[1:]], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)  # of the process and its children
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    reported = json.loads(output) if output.startswith("{") else {}
    seconds, core_seconds = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    return Step(round(seconds, 1), round(core_seconds, 1), round(usage.ru_maxrss / 1024), reported)


def generate(run: Path, pairs: int) -> None:
    """Write the corpus into the parent of the run's folder."""
    import numpy as np

    rng = np.random.default_rng(0)
    letters = ("abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyzäöüß")
    vocabularies = [
        np.array(
            ["".join(rng.choice([*alphabet], rng.integers(2, 10))) for _ in range(WORDS)], object
        )
        for alphabet in letters
    ]
    share = np.cumsum(1.0 / np.arange(1, WORDS + 1))
    with (
        (run.parent / "train.src").open("w") as source,
        (run.parent / "train.tgt").open("w") as target,
    ):
        for first in range(0, pairs, CHUNK):
            ends = rng.integers(5, 31, min(CHUNK, pairs - first)).cumsum()
            drawn = np.searchsorted(share, rng.random(ends[-1]) * share[-1])
            spans = list(itertools.pairwise([0, *ends.tolist()]))
            for file, vocabulary in zip((source, target), vocabularies, strict=True):
                words = vocabulary[drawn].tolist()
                file.write("".join(f"{' '.join(words[a:b])}\n" for a, b in spans))


def one_pass(run: Path, pairs: int) -> None:
    """Load the batches of an epoch."""
    from transduce.data.sampler import SamplerState

    loader, sampler, seconds = open_run(run)
    started = time.perf_counter()
    read = 0
    for loaded in loader.updates(SamplerState()):
        read += sum(len(batch.source) for batch in loaded.batches)
        if loaded.state_after.epoch:
            break
    duration = time.perf_counter() - started
    assert read > 0.9 * pairs, f"{read} of {pairs}"
    updates = sampler.epoch_updates(0)
    print(json.dumps({**seconds, "batches_seconds": round(duration, 1), "updates": updates}))


def resume(run: Path, pairs: int) -> None:
    """Load the batches of one update in the middle of the second epoch."""
    from transduce.data.sampler import SamplerState

    loader, sampler, _ = open_run(run)
    started = time.perf_counter()  # includes planning the epoch
    next(loader.updates(SamplerState(1, sampler.epoch_updates(1) // 2)))
    print(json.dumps({"first_batch_seconds": round(time.perf_counter() - started, 2)}))


def open_run(run: Path):
    """Open a run's loader and sampler; report the seconds this took, checksums included."""
    from transduce.config import load_recipe
    from transduce.data.loader import Loader
    from transduce.data.sampler import Sampler
    from transduce.pipeline.prepared import open_prepared

    started = time.perf_counter()
    recipe = load_recipe(run / "recipe.toml")
    prepared = open_prepared(run)
    sampler = Sampler(prepared.store.lengths, config=recipe.batch, seed=recipe.train.seed)
    loader = Loader(prepared.store, sampler=sampler, tokenizer=prepared.tokenizer)
    return loader, sampler, {"open_seconds": round(time.perf_counter() - started, 1)}


STEPS = {"generate": generate, "pass": one_pass, "resume": resume}


def total_megabytes(folder: Path, pattern: str) -> int:
    """Sum the sizes of the files that match."""
    return round(sum(file.stat().st_size for file in folder.glob(pattern) if file.is_file()) / 1e6)


def memory_growth(rows: list[dict[str, float]]) -> dict[str, float]:
    """Compute the bytes of memory per additional pair of each step, from a size to the next."""
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


def format_table(rows: list[dict[str, float]]) -> str:
    """Format the record as a table in Markdown."""
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
