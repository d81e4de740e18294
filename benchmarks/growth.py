"""Time and memory against sentence length, tokens per update, model size and beam.

    .venv/bin/python benchmarks/growth.py

The tiny shape (T) on random tokens, in single precision, as `transduce train` (with fused kernels,
up to 512 tokens in a sentence) and `transduce translate` (the record names its engine) run it. Time
per token: updates of 4,096 tokens per side, and greedy translations of 32 sentences, in sentences
of 8 to 2,048 tokens; all lengths in turn, medians over the turns (tasks longer than ten seconds run
once). Memory: the peak of a subprocess that makes two updates; first against the tokens of an
update, all in one micro-batch, with a least-squares line; then against the sentence length. One
source of each batch is shorter, so that there is a mask, as in training. Model size: updates and
their peak with widths of 64 to 1,024, the shape otherwise tiny's (heads of 32). Beam: translations
with beams of 1 to 64 in sentences of 32 tokens. How preparation grows with the corpus, to ten
million pairs, is measured by `cluster.py prepare`.
Writes benchmarks/results/growth/: record.json, growth.md and three plots. `--small`
takes a minute and writes nothing; `--draw` redraws the plots of the record. Run nothing else at the
same time.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from growth_page import Line, Record, draw, page
from record import RESULTS, header, write

from transduce.data.batch import Batch, collate
from transduce.inference.engines.base import make_native_engine
from transduce.inference.engines.interface import Engine
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.io.machine import keep_freed_memory
from transduce.model.config import PRESETS, ModelConfig
from transduce.model.transformer import Transformer
from transduce.search.config import DecodingConstraints, Request, SearchConfig
from transduce.train.config import TrainConfig
from transduce.train.fused_passes import make_fused_passes
from transduce.train.optimizer import make_optimizers
from transduce.train.step import train_step

SHAPE = ModelConfig(vocab_size=10_000, **PRESETS["tiny"])
LENGTHS = [2**power for power in range(3, 12)]
TOKENS = [2**power for power in range(9, 16)]
WIDTHS = [2**power for power in range(6, 11)]
BEAMS = [2**power for power in range(7)]
UPDATE, LENGTH, ROWS = 4096, 32, 32
"""See `growth_page.Record`."""
LONG_SECONDS = 10.0
"""Tasks that take longer run once."""
OUT = RESULTS / "growth"


def main() -> None:
    """Measure, print the tables, draw the plots, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--small", action="store_true", help="few and small measurements; write no record"
    )
    parser.add_argument("--draw", action="store_true", help="redraw the plots of the record")
    parser.add_argument("--peak", type=int, nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    if arguments.peak:
        print(run_peak(*arguments.peak))
        return
    if arguments.draw:
        draw(json.loads((OUT / "record.json").read_text())["found"], OUT)
        return
    if arguments.small:
        small = {"widths": WIDTHS[:2], "beams": BEAMS[:2]}
        print(page(measure(lengths=LENGTHS[:6:2], tokens=TOKENS[:3], **small, turns=2)))
        return
    results = measure(
        lengths=LENGTHS, tokens=TOKENS, widths=WIDTHS, beams=BEAMS, turns=arguments.turns
    )
    head = header("python benchmarks/growth.py", "matplotlib", "numpy")
    settings = {
        "threads": torch.get_num_threads(),
        "turns": arguments.turns,
        "engine": make_engine(create_model()).name,
    }
    write("growth", {**head, **settings, "found": results})
    (OUT / "growth.md").write_text(page(results))
    draw(results, OUT)
    print(page(results))


def measure(
    *, lengths: list[int], tokens: list[int], widths: list[int], beams: list[int], turns: int
) -> Record:
    """Measure memory in subprocesses, then times in this process."""
    tokens_mb = [measure_peak(many, LENGTH) for many in tokens]
    lengths_mb = [measure_peak(UPDATE, length) for length in lengths]
    widths_mb = [measure_peak(UPDATE, LENGTH, width) for width in widths]
    keep_freed_memory()
    model, models = create_model(), [create_model(width) for width in widths]
    search_turns = max(1, turns // 2)
    return Record(
        update=UPDATE,
        length=LENGTH,
        rows=ROWS,
        lengths=lengths,
        tokens=tokens,
        train_us=time_in_turn([update_task(model, length) for length in lengths], turns),
        decode_us=time_in_turn([search_task(model, length) for length in lengths], search_turns),
        tokens_mb=tokens_mb,
        lengths_mb=lengths_mb,
        line=fit(tokens, tokens_mb),
        widths=widths,
        parameters=[sum(weight.numel() for weight in sized.parameters()) for sized in models],
        widths_us=time_in_turn([update_task(sized, LENGTH) for sized in models], turns),
        widths_mb=widths_mb,
        beams=beams,
        beams_us=time_in_turn([search_task(model, LENGTH, beam) for beam in beams], search_turns),
    )


def time_in_turn(tasks: Sequence[Callable[[], int]], turns: int) -> list[float]:
    """Measure each task's microseconds per token: the median over the turns after a warm-up turn.

    Tasks longer than LONG_SECONDS run once, and their first run counts.
    """
    durations: list[list[float]] = [[] for _ in tasks]
    remaining = list(range(len(tasks)))
    for turn in range(turns + 1):
        for number in list(remaining):
            started = time.perf_counter()
            tokens = tasks[number]()
            seconds = time.perf_counter() - started
            if turn or seconds > LONG_SECONDS:
                durations[number].append(1e6 * seconds / tokens)
            if seconds > LONG_SECONDS:
                remaining.remove(number)
        print(f"turn {turn} of {turns}", file=sys.stderr)
    return [round(statistics.median(values), 2) for values in durations]


def update_task(model: Transformer, length: int) -> Callable[[], int]:
    """Return a task: an update of sentences of a length."""
    update, batch = make_update(model), random_batch(UPDATE, length)

    def run_update() -> int:
        update(batch)
        return batch.target_tokens

    return run_update


def make_update(model: Transformer) -> Callable[[Batch], object]:
    """Return a function that makes an update, as `transduce train` does in float32."""
    config = TrainConfig(precision="float32")
    passes = make_fused_passes(model, config, None)
    optimizers = make_optimizers(model, config)

    def update(batch: Batch) -> object:
        model.train()
        return train_step(model, [batch], optimizers=optimizers, rates=[1e-4], passes=passes)

    return update


def search_task(model: Transformer, length: int, beam: int = 1) -> Callable[[], int]:
    """Return a task: translation of sentences of a length, as long as their sources."""
    engine = make_engine(model)
    ids = np.random.default_rng(1).integers(3, SHAPE.pad, size=(ROWS, length - 1)).tolist()
    requests = [Request(tuple(row)) for row in ids]
    constraints = DecodingConstraints(min_length=length - 1, max_length=length)

    def run_search() -> int:
        hypotheses = engine.search(requests, SearchConfig(beam=beam), constraints)
        assert all(len(best.ids) >= length - 1 for best, *_ in hypotheses), (
            "translations have equal length"
        )
        return ROWS * length

    return run_search


def make_engine(model: Transformer) -> Engine:
    """Return the engine that `transduce translate` would choose here."""
    return make_native_engine(model) or TorchEngine(model, pad=SHAPE.pad, eos=0, device="cpu")


def create_model(width: int = SHAPE.d_model) -> Transformer:
    """Create the model of a width, always with the same weights."""
    torch.manual_seed(0)
    scale, heads = SHAPE.d_ff // SHAPE.d_model, width // SHAPE.d_k
    return Transformer(replace(SHAPE, d_model=width, d_ff=scale * width, heads=heads))


def random_batch(tokens: int, length: int) -> Batch:
    """Create a batch of random tokens, EOS counted; the first source is shorter than the others."""
    shape = (2, tokens // length, length - 1)
    sources, targets = np.random.default_rng(0).integers(3, SHAPE.pad, size=shape)
    return collate([sources[0][:-1], *sources[1:]], list(targets), pad=SHAPE.pad, eos=0)


def measure_peak(tokens: int, length: int, width: int = SHAPE.d_model) -> float:
    """Measure the peak memory of a subprocess that makes updates of such sentences, in MB."""
    command = [sys.executable, __file__, "--peak", str(tokens), str(length), str(width)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    print(f"memory: {tokens} tokens in sentences of {length}, width {width}", file=sys.stderr)
    return round(float(result.stdout) / 1e6, 1)


def run_peak(tokens: int, length: int, width: int) -> int:
    """Return this process's peak memory in bytes after two updates; the first allocates Adam's."""
    keep_freed_memory()
    update, batch = make_update(create_model(width)), random_batch(tokens, length)
    for _ in range(2):
        update(batch)
    status = Path("/proc/self/status")  # unlike getrusage, excludes the parent process
    lines = status.read_text().splitlines() if status.exists() else []
    peaks = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")]
    return peaks[0] if peaks else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def fit(tokens: Sequence[int], megabytes: Sequence[float]) -> Line:
    """Fit a line through the measurements by least squares."""
    x, y = np.array(tokens, dtype=float), np.array(megabytes)
    slope, intercept = np.polyfit(x, y, 1)
    residuals = y - (intercept + slope * x)
    return Line(
        always=round(float(intercept), 1),
        each=round(float(slope), 6),
        r_squared=round(float(1 - residuals.var() / y.var()), 6),
        furthest=round(float((abs(residuals) / y).max()), 4),
    )


if __name__ == "__main__":
    main()
