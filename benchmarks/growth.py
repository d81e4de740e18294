"""Time and memory against sentence length and tokens per update.

    .venv/bin/python benchmarks/growth.py

The tiny shape (T) on random pieces, in single precision, as `transduce train` and `transduce
translate --engine torch` run it. Time a token: whole updates of 4,096 tokens a side, and greedy
translations of 32 sentences, in sentences of 8 to 2,048 pieces; all lengths in turn, medians over
the turns (what takes longer than ten seconds is done once). Memory: the peak of a process that
makes two updates, each in a process of its own; first against the tokens of an update, all in one
micro-batch, with the line that fits best; then against the length of its sentences. One source of
each batch is shorter, so that there is a mask, as there is in training. Writes
benchmarks/results/growth/: record.json, growth.md and two plots. `--small` tries all of it in a
minute and writes nothing; `--draw` draws the record again. Nothing else should run meanwhile.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from growth_page import Line, Record, draw, page
from record import RESULTS, header, write

from transduce.data.batch import Batch, collate
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.io.machine import keep_freed_memory
from transduce.model.config import PRESETS, ModelConfig
from transduce.model.transformer import Transformer
from transduce.search.config import DecodingConstraints, Request, SearchConfig
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizers
from transduce.train.step import train_step

SHAPE = ModelConfig(vocab_size=10_000, **PRESETS["tiny"])
LENGTHS = [2**power for power in range(3, 12)]
TOKENS = [2**power for power in range(9, 16)]
UPDATE, LENGTH, ROWS = 4096, 32, 32
"""See `growth_page.Record`."""
LONG = 10.0
"""Seconds of a work that is done once."""
OUT = RESULTS / "growth"


def main() -> None:
    """Measure, print the tables, draw the plots, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="try it; write nothing")
    parser.add_argument("--draw", action="store_true", help="draw what was measured before")
    parser.add_argument("--peak", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    if arguments.peak:
        print(peak(*arguments.peak))
        return
    if arguments.draw:
        draw(json.loads((OUT / "record.json").read_text())["found"], OUT)
        return
    if arguments.small:
        print(page(measure(lengths=LENGTHS[:6:2], tokens=TOKENS[:3], turns=2)))
        return
    found = measure(lengths=LENGTHS, tokens=TOKENS, turns=arguments.turns)
    about = header("python benchmarks/growth.py", "matplotlib", "numpy")
    how = {"threads": torch.get_num_threads(), "turns": arguments.turns}
    write("growth", {**about, **how, "found": found})
    (OUT / "growth.md").write_text(page(found))
    draw(found, OUT)
    print(page(found))


def measure(*, lengths: list[int], tokens: list[int], turns: int) -> Record:
    """Memory first, in processes of their own, then times in this one."""
    tokens_mb = [peak_of(many, LENGTH) for many in tokens]
    lengths_mb = [peak_of(UPDATE, length) for length in lengths]
    keep_freed_memory()
    model = made()
    return Record(
        update=UPDATE,
        length=LENGTH,
        rows=ROWS,
        lengths=lengths,
        tokens=tokens,
        train_us=in_turn([training(model, length) for length in lengths], turns),
        decode_us=in_turn([decoding(model, length) for length in lengths], turns // 2),
        tokens_mb=tokens_mb,
        lengths_mb=lengths_mb,
        line=fit(tokens, tokens_mb),
    )


def in_turn(works: Sequence[Callable[[], int]], turns: int) -> list[float]:
    """Microseconds a token of each work, the median over the turns; the first is for warming up.

    What takes long is done once, and counts.
    """
    found: list[list[float]] = [[] for _ in works]
    left = list(range(len(works)))
    for turn in range(turns + 1):
        for number in list(left):
            started = time.perf_counter()
            tokens = works[number]()
            seconds = time.perf_counter() - started
            if turn or seconds > LONG:
                found[number].append(1e6 * seconds / tokens)
            if seconds > LONG:
                left.remove(number)
        print(f"turn {turn} of {turns}", file=sys.stderr)
    return [round(statistics.median(times), 2) for times in found]


def training(model: Transformer, length: int) -> Callable[[], int]:
    """A whole update of sentences of that length."""
    optimizers, batch = make_optimizers(model, TrainConfig()), drawn(UPDATE, length)

    def work() -> int:
        model.train()
        train_step(model, [batch], optimizers=optimizers, rates=[1e-4])
        return batch.target_tokens

    return work


def decoding(model: Transformer, length: int) -> Callable[[], int]:
    """Greedy translations of sentences of that length, each as long as its source."""
    engine = TorchEngine(model, pad=SHAPE.pad, eos=0, device="cpu")
    ids = np.random.default_rng(1).integers(3, SHAPE.pad, size=(ROWS, length - 1)).tolist()
    requests = [Request(tuple(row)) for row in ids]
    constraints = DecodingConstraints(min_length=length - 1, max_length=length)

    def work() -> int:
        found = engine.search(requests, SearchConfig(beam=1), constraints)
        assert all(len(best.ids) >= length - 1 for best, *_ in found), "all are equally long"
        return ROWS * length

    return work


def made() -> Transformer:
    """The model, with the same weights every time."""
    torch.manual_seed(0)
    return Transformer(SHAPE)


def drawn(tokens: int, length: int) -> Batch:
    """A batch of random pieces, EOS counted; the first source is shorter than all the others."""
    shape = (2, tokens // length, length - 1)
    sources, targets = np.random.default_rng(0).integers(3, SHAPE.pad, size=shape)
    return collate([sources[0][:-1], *sources[1:]], list(targets), pad=SHAPE.pad, eos=0)


def peak_of(tokens: int, length: int) -> float:
    """The peak of a process that makes updates of such sentences, in MB."""
    words = [sys.executable, __file__, "--peak", str(tokens), str(length)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    print(f"memory: {tokens} tokens in sentences of {length}", file=sys.stderr)
    return round(float(done.stdout) / 1e6, 1)


def peak(tokens: int, length: int) -> int:
    """The most bytes that this process has held, after two updates: the first makes Adam's."""
    keep_freed_memory()
    model, batch = made(), drawn(tokens, length)
    optimizers = make_optimizers(model, TrainConfig())
    for _ in range(2):
        train_step(model, [batch], optimizers=optimizers, rates=[1e-4])
    status = Path("/proc/self/status")  # unlike getrusage it leaves out whoever started this one
    lines = status.read_text().splitlines() if status.exists() else []
    held = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")]
    return held[0] if held else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def fit(tokens: Sequence[int], megabytes: Sequence[float]) -> Line:
    """The line through the measurements."""
    x, y = np.array(tokens, dtype=float), np.array(megabytes)
    each, always = np.polyfit(x, y, 1)
    off = y - (always + each * x)
    return Line(
        always=round(float(always), 1),
        each=round(float(each), 6),
        r_squared=round(float(1 - off.var() / y.var()), 6),
        furthest=round(float((abs(off) / y).max()), 4),
    )


if __name__ == "__main__":
    main()
