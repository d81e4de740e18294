"""Training throughput of the paper's base and big models on a GPU, against two tuned peers.

    .venv/bin/python benchmarks/gpu.py            # with CUDA: prints a table, writes the record
    .venv/bin/python benchmarks/gpu.py --small    # anywhere: small models, prints only

Updates of about 25,000 random target tokens (section 5.1), in batches formed by transduce's
sampler, with sentence lengths like WMT's: log-normal with a mean of 28 tokens, source and target of
similar length. All systems read the same batches in turn, after a warm-up pass over all of them;
dropout and label smoothing 0.1, fused Adam.

ours            an update of `transduce train`, in the precision that it would choose
ours, compiled  the same with `train.compile`: layers and loss
torch           torch.nn.Transformer, bf16 autocast, compiled
transformers    MarianMTModel, bf16 autocast, compiled

The share of the ceiling relates the arithmetic of the tokens (`peers/shapes.py`, without attention
scores) to the fastest square matrix product in the same run. Without CUDA, autocast is off and
models are compiled only with --compile. benchmarks/results/gpu/record.json is written only for full
runs on a GPU; run nothing else on it at the same time.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from record import header, write

from transduce.data.batch import Batch, collate
from transduce.data.config import BatchConfig
from transduce.data.sampler import Sampler, SamplerState
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizers
from transduce.train.precision import choose_precision, compile_layers, make_replica
from transduce.train.step import LossSettings, train_step

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from bench_torch import Plain
from bench_transduce import build_model
from gpu_peers import Update, build_marian, tuned_update
from shapes import BETAS, EPSILON, RATE, SHAPES, SMOOTHING, Shape, flops

Row = dict[str, str | float | None]


class Plan(NamedTuple):
    """What to train, and for how long."""

    shapes: dict[str, Shape]
    vocabulary: int
    tokens: int
    """Target tokens per update."""
    batches: int
    rounds: int
    side: int
    """Rows and columns of the matrices that measure the ceiling."""


BASE = SHAPES["S"]
BIG = BASE._replace(d_model=1024, d_ff=4096, heads=16)
FULL = Plan({"base": BASE, "big": BIG}, 37_000, 25_000, 12, 4, 8192)
TINY = SHAPES["T"]._replace(layers=1, d_model=64, d_ff=128)
SMALL = Plan({"small": TINY}, 1_000, 600, 3, 2, 512)

PAPER = {"base": (100_000, 12.0), "big": (300_000, 84.0)}
"""Updates, and their hours on eight P100 (section 5.2)."""


def main() -> None:
    """Measure every shape, print a table, write the record of a full run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="small models; write no record")
    parser.add_argument(
        "--compile", action="store_true", help="compile without a GPU too; takes minutes"
    )
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not arguments.small:
        raise SystemExit("no CUDA device available: try --small")
    compiled = arguments.compile or device.type == "cuda"
    plan = SMALL if arguments.small else FULL
    ceiling = measure_ceiling(plan.side, device)
    precision = choose_precision(TrainConfig(), device).name
    rows = [
        row
        for name, shape in plan.shapes.items()
        for row in time_systems(name, shape, plan, device=device, compiled=compiled)
    ]
    for row in rows:
        if isinstance(rate := row["tokens_a_second"], float):
            arithmetic = flops(plan.shapes[str(row["model"])], vocabulary=plan.vocabulary)
            row["share"] = round(arithmetic * rate / ceiling, 4)
            if published := PAPER.get(str(row["model"])):
                row["hours"] = round(published[0] * plan.tokens / rate / 3600, 2)
    print(
        f"{device_name(device)}; the ceiling is {ceiling / 1e12:.2f} TFLOP/s; ours in {precision}"
    )
    print(table(rows))
    if device.type == "cpu" or arguments.small:
        print("no record written: only full runs on a GPU are recorded")
        return
    setup = {
        "device": device_name(device),
        "ours_computes_in": precision,
        "ceiling_tflops": ceiling / 1e12,
    }
    head = header("python benchmarks/gpu.py", *filter(find_spec, ["transformers"]))
    sizes = {name: getattr(plan, name) for name in ("vocabulary", "tokens", "batches", "rounds")}
    write("gpu", {**head, **setup, **sizes, "rows": rows})


def time_systems(
    name: str, shape: Shape, plan: Plan, *, device: torch.device, compiled: bool
) -> Iterator[Row]:
    """Time all systems in turn on the same batches."""
    batches = [batch.to(device) for batch in sample_batches(plan)]
    updates = dict(systems(shape, plan.vocabulary, device=device, compiled=compiled))
    rates: dict[str, list[float]] = {system: [] for system in updates}
    tokens = sum(batch.target_tokens for batch in batches)
    for round_number in range(plan.rounds + 1):
        for system in [*updates]:
            try:
                seconds = time_pass(updates[system], batches, device)
            except RuntimeError as error:  # of the compiler, or out of memory
                message = str(error).strip().partition("\n")[0]
                yield {
                    "model": name,
                    "system": f"{system} failed: {message}",
                    "tokens_a_second": None,
                }
                del updates[system], rates[system]
                continue
            print(f"{name}, {system}, round {round_number}: {seconds:.1f} s", file=sys.stderr)
            if round_number:
                rates[system].append(tokens / seconds)
    for system, system_rates in rates.items():
        yield {"model": name, "system": system, "tokens_a_second": round(median(system_rates), 1)}
    if not find_spec("transformers"):
        yield {"model": name, "system": "transformers: not installed", "tokens_a_second": None}


def time_pass(update: Update, batches: Sequence[Batch], device: torch.device) -> float:
    """Time a pass over the batches, in seconds."""
    synchronize(device)
    started = time.perf_counter()
    for batch in batches:
        update(batch)
    synchronize(device)
    return time.perf_counter() - started


def systems(
    shape: Shape, vocabulary: int, *, device: torch.device, compiled: bool
) -> Iterator[tuple[str, Update]]:
    """Yield the systems and their update functions, each with its own model."""
    torch.manual_seed(1)
    yield "ours", transduce_update(shape, vocabulary, device=device, compiled=False)
    if compiled:
        yield "ours, compiled", transduce_update(shape, vocabulary, device=device, compiled=True)
    torch_model = Plain(shape, vocabulary).to(device).train()
    yield "torch", tuned_update(torch_model, marian=False, device=device, compiled=compiled)
    if find_spec("transformers"):
        marian_model = build_marian(shape, vocabulary).to(device).train()
        yield (
            "transformers",
            tuned_update(marian_model, marian=True, device=device, compiled=compiled),
        )


def transduce_update(
    shape: Shape, vocabulary: int, *, device: torch.device, compiled: bool
) -> Update:
    """Return transduce's update, with Adam configured like the peers'."""
    config = TrainConfig(
        beta1=BETAS[0], beta2=BETAS[1], epsilon=EPSILON, label_smoothing=SMOOTHING, compile=compiled
    )
    return training_update(build_model(shape, vocabulary).to(device).train(), config)


def training_update(model: Transformer, config: TrainConfig) -> Update:
    """Return the update of `transduce train`."""
    optimizers, replica = make_optimizers(model, config), make_replica(model, config)
    if config.compile:
        compile_layers(replica.model if replica else model)

    def update(batch: Batch) -> None:
        train_step(
            model,
            [batch],
            optimizers=optimizers,
            rates=[RATE] * len(optimizers),
            loss=LossSettings(
                smoothing=config.label_smoothing, r_drop=config.r_drop, compiled=config.compile
            ),
            replica=replica,
        )

    return update


def sample_batches(plan: Plan) -> list[Batch]:
    """Form random batches of all lengths with the sampler of training."""
    rng, pad = np.random.default_rng(0), plan.vocabulary - 1
    lengths = sample_lengths(4 * plan.batches * plan.tokens // 28)  # four times as many as needed
    config = BatchConfig(tokens=plan.tokens, micro_tokens=2 * plan.tokens)  # in one pass
    updates = Sampler(lengths, config=config, seed=0).updates(SamplerState())
    return [
        random_batch(lengths[pairs], pad=pad, rng=rng)
        for planned in itertools.islice(updates, plan.batches)
        for pairs in planned.micro_batches
    ]


def random_batch(lengths: np.ndarray, *, pad: int, rng: np.random.Generator) -> Batch:
    """Form a batch of random tokens with the given lengths, [pairs, 2]."""
    sources, targets = (
        [rng.integers(3, pad, size=length) for length in side] for side in lengths.T
    )
    return collate(sources, targets, pad=pad, eos=0)


def sample_lengths(pairs: int) -> np.ndarray:
    """Sample WMT-like lengths without EOS, [pairs, 2]: log-normal, both sides of similar length."""
    rng = np.random.default_rng(0)
    target = rng.lognormal(np.log(28) - 0.18, 0.6, pairs).round().clip(2, 250)
    source = (target * rng.normal(1.0, 0.15, pairs)).round().clip(2, 250)
    return np.stack([source, target], axis=1).astype(np.int64) - 1


def measure_ceiling(side: int, device: torch.device) -> float:
    """Measure the operations per second of the fastest of 30 square products (bf16 on a GPU)."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    seconds: list[float] = []
    for _ in range(30):
        synchronize(device)
        started = time.perf_counter()
        torch.mm(a, b)
        synchronize(device)
        seconds.append(time.perf_counter() - started)
    return 2 * side**3 / min(seconds)


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_name(device: torch.device) -> str:
    """Return the device's name for the report."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU, no GPU"


def table(rows: list[Row]) -> str:
    """Format a line per model and system, with the hours for the paper's number of updates."""
    lines = [f"{'model':12}{'system':28}{'tokens/s':>12}{'of ceiling':>12}{'hours':>8}"]
    for row in rows:
        line = f"{row['model']!s:12}{row['system']!s:28}"
        rate, share, hours = (row.get(name) for name in ("tokens_a_second", "share", "hours"))
        if isinstance(rate, float) and isinstance(share, float):
            line += f"{rate:12,.0f}{100 * share:11.1f}%"
        if isinstance(hours, float):
            updates, paper_hours = PAPER[str(row["model"])]
            line += f"{hours:8.2f}  of {updates:,} updates; paper: {paper_hours:.0f} on 8 P100"
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
