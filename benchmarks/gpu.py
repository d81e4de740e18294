"""Training throughput of the paper's base and big models on a GPU, against two tuned peers.

    .venv/bin/python benchmarks/gpu.py            # with CUDA: prints a table, writes the record
    .venv/bin/python benchmarks/gpu.py --small    # anywhere: small models, prints only

Updates of about 25,000 target tokens (section 5.1) of random pieces, in batches as our sampler
makes them, with lengths as WMT's sentences have it: log-normal, 28 pieces in the mean, a source
about as long as its target. All systems read the same batches in turn, after one pass over all of
them that is not timed; dropout and label smoothing 0.1, Adam in one kernel.

ours            what `transduce train` does for an update, in the precision that it would take
ours, compiled  the same with `train.compile`: layers and loss
torch           torch.nn.Transformer, bf16 autocast, compiled
transformers    MarianMTModel, bf16 autocast, compiled

The share of the ceiling is the arithmetic of the tokens (`peers/shapes.py`: attention's scores are
not counted) by that of the best square product of matrices here, in the same run. Without CUDA
autocast is off, nothing is compiled but with --compile, and nothing is recorded:
benchmarks/results/gpu/record.json is written only of whole runs on a GPU, on which nothing else
should run meanwhile.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from bench_torch import Plain
from bench_transduce import model_of
from gpu_peers import Update, marian_of, tuned
from record import header, write
from shapes import BETAS, EPSILON, RATE, SHAPES, SMOOTHING, Shape, flops

from transduce.data.batch import Batch, collate
from transduce.data.config import BatchConfig
from transduce.data.sampler import Sampler, SamplerState
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizers
from transduce.train.precision import choose_precision, compile_layers, make_replica
from transduce.train.step import LossSettings, train_step

Row = dict[str, str | float | None]


class Plan(NamedTuple):
    """What is trained, and how much of it."""

    shapes: dict[str, Shape]
    vocabulary: int
    tokens: int
    """Target tokens of an update."""
    batches: int
    rounds: int
    side: int
    """Of the matrices that give the ceiling."""


BASE = SHAPES["S"]
BIG = BASE._replace(d_model=1024, d_ff=4096, heads=16)
WHOLE = Plan({"base": BASE, "big": BIG}, 37_000, 25_000, 12, 4, 8192)
TINY = SHAPES["T"]._replace(layers=1, d_model=64, d_ff=128)
SMALL = Plan({"a small one": TINY}, 1_000, 600, 3, 2, 512)

PAPER = {"base": (100_000, 12.0), "big": (300_000, 84.0)}
"""Updates, and the hours that they took on eight P100 (section 5.2)."""


def main() -> None:
    """Measure every shape, print one table, write the record if it is one."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="try it; write nothing")
    parser.add_argument("--compile", action="store_true", help="without a GPU too: takes minutes")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not arguments.small:
        raise SystemExit("there is no CUDA device here: try --small")
    compiled = arguments.compile or device.type == "cuda"
    plan = SMALL if arguments.small else WHOLE
    ceiling, kind = best_product(plan.side, device), choose_precision(TrainConfig(), device).name
    rows = [
        row
        for name, shape in plan.shapes.items()
        for row in measured(name, shape, plan, device=device, compiled=compiled)
    ]
    for row in rows:
        if isinstance(rate := row["tokens_a_second"], float):
            arithmetic = flops(plan.shapes[str(row["model"])], vocabulary=plan.vocabulary)
            row["share"] = round(arithmetic * rate / ceiling, 4)
            if paper := PAPER.get(str(row["model"])):
                row["hours"] = round(paper[0] * plan.tokens / rate / 3600, 2)
    print(f"{on(device)}; the ceiling is {ceiling / 1e12:.2f} TFLOP/s; ours in {kind}")
    print(table(rows))
    if device.type == "cpu" or arguments.small:
        print("no record: that is for whole runs on a GPU")
        return
    said = {"device": on(device), "ours_computes_in": kind, "ceiling_tflops": ceiling / 1e12}
    about = header("python benchmarks/gpu.py", *filter(find_spec, ["transformers"]))
    sizes = {name: getattr(plan, name) for name in ("vocabulary", "tokens", "batches", "rounds")}
    write("gpu", {**about, **said, **sizes, "rows": rows})


def measured(
    name: str, shape: Shape, plan: Plan, *, device: torch.device, compiled: bool
) -> Iterator[Row]:
    """Time all systems in turn on the same batches."""
    batches = [batch.to(device) for batch in drawn(plan)]
    updates = dict(systems(shape, plan.vocabulary, device=device, compiled=compiled))
    rates: dict[str, list[float]] = {system: [] for system in updates}
    tokens = sum(batch.target_tokens for batch in batches)
    for number in range(plan.rounds + 1):
        for system in [*updates]:
            try:
                seconds = timed(updates[system], batches, device)
            except RuntimeError as error:  # of its compiler, or of memory
                said = str(error).strip().partition("\n")[0]
                yield {"model": name, "system": f"{system} failed: {said}", "tokens_a_second": None}
                del updates[system], rates[system]
                continue
            print(f"{name}, {system}, round {number}: {seconds:.1f} s", file=sys.stderr)
            if number:
                rates[system].append(tokens / seconds)
    for system, found in rates.items():
        yield {"model": name, "system": system, "tokens_a_second": round(median(found), 1)}
    if not find_spec("transformers"):
        yield {"model": name, "system": "transformers: not installed", "tokens_a_second": None}


def timed(update: Update, batches: Sequence[Batch], device: torch.device) -> float:
    """Seconds of one pass over the batches."""
    finished(device)
    started = time.perf_counter()
    for batch in batches:
        update(batch)
    finished(device)
    return time.perf_counter() - started


def systems(
    shape: Shape, vocabulary: int, *, device: torch.device, compiled: bool
) -> Iterator[tuple[str, Update]]:
    """What is compared, each with a model of its own."""
    torch.manual_seed(1)
    yield "ours", ours(shape, vocabulary, device=device, compiled=False)
    if compiled:
        yield "ours, compiled", ours(shape, vocabulary, device=device, compiled=True)
    torchs = Plain(shape, vocabulary).to(device).train()
    yield "torch", tuned(torchs, marian=False, device=device, compiled=compiled)
    if find_spec("transformers"):
        theirs = marian_of(shape, vocabulary).to(device).train()
        yield "transformers", tuned(theirs, marian=True, device=device, compiled=compiled)


def ours(shape: Shape, vocabulary: int, *, device: torch.device, compiled: bool) -> Update:
    """Ours, with Adam as the peers have it."""
    config = TrainConfig(
        beta1=BETAS[0], beta2=BETAS[1], epsilon=EPSILON, label_smoothing=SMOOTHING, compile=compiled
    )
    return updating(model_of(shape, vocabulary).to(device).train(), config)


def updating(model: Transformer, config: TrainConfig) -> Update:
    """The update of `transduce train`."""
    optimizers, working = make_optimizers(model, config), make_replica(model, config)
    if config.compile:
        compile_layers(working.model if working else model)

    def update(batch: Batch) -> None:
        train_step(
            model,
            [batch],
            optimizers=optimizers,
            rates=[RATE] * len(optimizers),
            loss=LossSettings(
                smoothing=config.label_smoothing, r_drop=config.r_drop, compiled=config.compile
            ),
            replica=working,
        )

    return update


def drawn(plan: Plan) -> list[Batch]:
    """Random batches as training makes them, as many as asked for, from all over the lengths."""
    chance, pad = np.random.default_rng(0), plan.vocabulary - 1
    lengths = like_wmt(4 * plan.batches * plan.tokens // 28)  # four times as many as are taken
    config = BatchConfig(tokens=plan.tokens, micro_tokens=2 * plan.tokens)  # in one pass
    updates = Sampler(lengths, config=config, seed=0).updates(SamplerState())
    return [
        random_batch(lengths[pairs], pad=pad, chance=chance)
        for planned in itertools.islice(updates, plan.batches)
        for pairs in planned.micro_batches
    ]


def random_batch(lengths: np.ndarray, *, pad: int, chance: np.random.Generator) -> Batch:
    """Pairs of random pieces, of such lengths, [pairs, 2]."""
    sources, targets = (
        [chance.integers(3, pad, size=length) for length in side] for side in lengths.T
    )
    return collate(sources, targets, pad=pad, eos=0)


def like_wmt(pairs: int) -> np.ndarray:
    """Lengths without EOS, [pairs, 2]: log-normal, a source about as long as its target."""
    chance = np.random.default_rng(0)
    target = chance.lognormal(np.log(28) - 0.18, 0.6, pairs).round().clip(2, 250)
    source = (target * chance.normal(1.0, 0.15, pairs)).round().clip(2, 250)
    return np.stack([source, target], axis=1).astype(np.int64) - 1


def best_product(side: int, device: torch.device) -> float:
    """Operations a second of the quickest of some square products, in what a GPU trains in."""
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    a, b = (torch.randn(side, side, device=device, dtype=kind) for _ in range(2))
    seconds: list[float] = []
    for _ in range(30):
        finished(device)
        started = time.perf_counter()
        torch.mm(a, b)
        finished(device)
        seconds.append(time.perf_counter() - started)
    return 2 * side**3 / min(seconds)


def finished(device: torch.device) -> None:
    """Wait until the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def on(device: torch.device) -> str:
    """What it ran on, for people."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU, no GPU"


def table(rows: list[Row]) -> str:
    """One line a model and system, with the hours that the paper's updates would take."""
    lines = [f"{'model':12}{'system':28}{'tokens/s':>12}{'of ceiling':>12}{'hours':>8}"]
    for row in rows:
        line = f"{row['model']!s:12}{row['system']!s:28}"
        rate, share, hours = (row.get(name) for name in ("tokens_a_second", "share", "hours"))
        if isinstance(rate, float) and isinstance(share, float):
            line += f"{rate:12,.0f}{100 * share:11.1f}%"
        if isinstance(hours, float):
            updates, theirs = PAPER[str(row["model"])]
            line += f"{hours:8.2f}  of {updates:,} updates; the paper's: {theirs:.0f} on 8 P100"
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
