"""Training throughput of the paper's base and big models on a GPU, against two tuned peers.

    .venv/bin/python benchmarks/gpu.py            # with CUDA: prints a table, writes the record
    .venv/bin/python benchmarks/gpu.py --models base --record gpu-peers    # base alone
    .venv/bin/python benchmarks/gpu.py --small    # anywhere: small models, prints only

Updates of about 25,000 random target tokens (section 5.1), in batches formed by transduce's
sampler, with sentence lengths like WMT's: log-normal with a mean of 28 tokens, source and target of
similar length. All systems read the same batches in turn, after two passes that are not timed;
dropout and label smoothing 0.1, fused Adam.

ours            an update of `transduce train`: fused kernels, packed sentences, CUDA graphs
ours, unfused   the same with the model as it is written
torch           torch.nn.Transformer, bf16 autocast; the same compiled
transformers    MarianMTModel, bf16 autocast; the same compiled

The share of the ceiling relates the arithmetic of the tokens (`peers/shapes.py`, without attention
scores) to the fastest square matrix product in the same run. Without CUDA, autocast is off and
models are compiled only with --compile. benchmarks/results/gpu/record.json is written only on a
GPU, without --small; run nothing else on it at the same time.
"""

import argparse
import itertools
import signal
import sys
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
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
from transduce.train.fused_passes import make_fused_passes
from transduce.train.optimizer import make_optimizers
from transduce.train.precision import choose_precision, make_replica
from transduce.train.step import LossSettings, StepResult, train_step

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from bench_torch import Plain
from bench_transduce import build_model
from gpu_peers import Update, tuned_update
from shapes import BETAS, EPSILON, RATE, SHAPES, SMOOTHING, Shape, flops

Row = dict[str, str | float | None]


class Plan(NamedTuple):
    """What to train, and for how long."""

    shapes: dict[str, Shape]
    vocabulary: int
    tokens: int
    """Target tokens per update."""
    pairs: int
    """Of the corpus that batches are taken from."""
    batches: int
    rounds: int
    side: int
    """Rows and columns of the matrices that measure the ceiling."""


BASE = SHAPES["S"]
BIG = BASE._replace(d_model=1024, d_ff=4096, heads=16)
FULL = Plan({"base": BASE, "big": BIG}, 37_000, 25_000, 1_000_000, 12, 5, 8192)
TINY = SHAPES["T"]._replace(layers=1, d_model=64, d_ff=128)
SMALL = Plan({"small": TINY}, 1_000, 600, 2_000, 3, 2, 512)

OURS = 2
"""Systems that are not peers."""

WARM_UP = 2
"""Passes over the batches that are not timed: in the second, graphs are recorded."""

PAPER = {"base": (100_000, 12.0), "big": (300_000, 84.0)}
"""Updates, and their hours on eight P100 (section 5.2)."""


def main() -> None:
    """Measure every shape, print tables, write the record of a full run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="small models; write no record")
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="that a system may take to compile"
    )
    parser.add_argument(
        "--compile", action="store_true", help="compile without a GPU too; takes minutes"
    )
    parser.add_argument("--eager", action="store_true", help="compile no peer")
    parser.add_argument("--models", nargs="+", default=list(FULL.shapes), choices=FULL.shapes)
    parser.add_argument("--record", default="gpu", help="name of the record")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and not arguments.small:
        raise SystemExit("no CUDA device available: try --small")
    compiled = arguments.compile or (device.type == "cuda" and not arguments.eager)
    full = FULL._replace(shapes={name: FULL.shapes[name] for name in arguments.models})
    plan = SMALL if arguments.small else full
    ceiling = measure_ceiling(plan.side, device)
    precision = choose_precision(TrainConfig(), device).name
    setup = {
        "device": device_name(device),
        "ours_computes_in": precision,
        "ceiling_tflops": round(ceiling / 1e12, 1),
    }
    sizes = {name: getattr(plan, name) for name in ("vocabulary", "tokens", "batches", "rounds")}
    print(f"{setup['device']}; the ceiling is {setup['ceiling_tflops']} TFLOP/s; {precision}")
    rows: list[Row] = []
    order: list[tuple[str, int | None]] = [(name, None) for name in plan.shapes]
    if compiled:  # without peers first: a compiler may take longer than a GPU can be had
        order = [*((name, OURS) for name in plan.shapes), order[0]]
    for name, systems_timed in order:
        shape = plan.shapes[name]
        systems = make_systems(shape, plan.vocabulary, device=device, compiled=compiled)
        systems = itertools.islice(systems, systems_timed)
        timed = list(time_systems(name, systems, plan, device=device, seconds=arguments.seconds))
        for row in timed:
            if isinstance(rate := row["tokens_a_second"], float):
                arithmetic = flops(shape, vocabulary=plan.vocabulary)
                row["share"] = round(arithmetic * rate / ceiling, 4)
                if published := PAPER.get(str(row["model"])):
                    row["hours"] = round(published[0] * plan.tokens / rate / 3600, 2)
        print(table(timed), flush=True)
        rows = [row for row in rows if row["model"] != name] + timed
        if device.type == "cuda" and not arguments.small:
            head = header("python " + " ".join(sys.argv), *filter(find_spec, ["transformers"]))
            write(arguments.record, {**head, **setup, **sizes, "rows": rows})


def time_systems(
    name: str,
    systems: Iterator[tuple[str, Update]],
    plan: Plan,
    *,
    device: torch.device,
    seconds: float,
) -> Iterator[Row]:
    """Time all systems in turn on the same batches."""
    batches = sample_batches(plan)
    moved = [batch.to(device) for batch in batches]
    memory: dict[str, float] = {}
    updates: dict[str, Update] = {}
    rates: dict[str, list[float]] = {}
    tokens = sum(batch.target_tokens for batch in batches)

    def time_system(system: str, round_number: int) -> str:
        """Time a pass; return why it failed."""
        # Ours takes batches as the loader makes them, and moves them itself.
        given = batches if system.startswith("ours") else moved
        try:
            taken, memory[system] = time_pass(updates[system], given, device)
        except (RuntimeError, TimeoutError) as error:  # of the compiler, or out of memory
            return str(error).strip().partition("\n")[0] or type(error).__name__
        print(f"{name}, {system}, round {round_number}: {taken:.2f} s", file=sys.stderr, flush=True)
        if round_number > 0:
            rates[system].append(tokens / taken)
        return ""

    for system, update in systems:
        updates[system], rates[system] = update, []
        started = time.perf_counter()
        with time_limit(seconds):
            warm_up = (time_system(system, number) for number in range(1 - WARM_UP, 1))
            failure = next(filter(None, warm_up), "")
        if failure:
            if time.perf_counter() - started > seconds:  # torch can hide what stopped its compiler
                failure = f"not compiled within {seconds:.0f} seconds"
            del updates[system], rates[system]
            yield {"model": name, "system": f"{system}: {failure}", "tokens_a_second": None}
    for round_number in range(1, plan.rounds + 1):
        for system in updates:
            if failure := time_system(system, round_number):
                raise RuntimeError(f"{system}: {failure}")
    for system, system_rates in rates.items():
        yield {
            "model": name,
            "system": system,
            "tokens_a_second": round(median(system_rates), 1),
            "slowest": round(min(system_rates), 1),
            "fastest": round(max(system_rates), 1),
            "gigabytes": memory[system],
        }
    if not find_spec("transformers"):
        yield {"model": name, "system": "transformers: not installed", "tokens_a_second": None}


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Raise a TimeoutError in Python code that takes longer, such as torch's compiler."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def time_pass(
    update: Update, batches: Sequence[Batch], device: torch.device
) -> tuple[float, float]:
    """Time a pass over the batches, in seconds.

    Returns the gigabytes, too, that it needs at most beside what it keeps.
    """
    gpu = device.type == "cuda"
    before = 0
    if gpu:
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    synchronize(device)
    started = time.perf_counter()
    for batch in batches:
        update(batch)
    synchronize(device)
    seconds = time.perf_counter() - started
    peak = torch.cuda.max_memory_allocated(device) - before if gpu else 0
    return seconds, round(peak / 1e9, 2)


def make_systems(
    shape: Shape, vocabulary: int, *, device: torch.device, compiled: bool
) -> Iterator[tuple[str, Update]]:
    """Yield the systems and their update functions, each with its own model; `OURS` first."""
    config = TrainConfig(beta1=BETAS[0], beta2=BETAS[1], epsilon=EPSILON, label_smoothing=SMOOTHING)

    def our_update(*, fused: bool) -> Update:
        torch.manual_seed(1)
        model = build_model(shape, vocabulary).to(device).train()
        return training_update(model, config, fused=fused)

    yield "ours", our_update(fused=True)
    yield "ours, unfused", our_update(fused=False)
    for suffix, compiles in (("", False), (", compiled", True))[: 2 if compiled else 1]:
        model = Plain(shape, vocabulary).to(device).train()
        update = tuned_update(model, marian=False, device=device, compiled=compiles)
        yield f"torch{suffix}", update
        if find_spec("transformers"):
            from bench_transformers import build_marian

            model = build_marian(shape, vocabulary).to(device).train()
            update = tuned_update(model, marian=True, device=device, compiled=compiles)
            yield f"transformers{suffix}", update


def training_update(model: Transformer, config: TrainConfig, *, fused: bool) -> Update:
    """Return the update of `transduce train`, with fused passes or without."""
    optimizers, replica = make_optimizers(model, config), make_replica(model, config)
    passes = make_fused_passes(model, config, replica) if fused else None
    unread: deque[StepResult] = deque()

    def update(batch: Batch) -> None:
        result = train_step(
            model,
            [batch],
            optimizers=optimizers,
            rates=[RATE] * len(optimizers),
            loss=LossSettings(smoothing=config.label_smoothing, r_drop=config.r_drop),
            replica=replica,
            passes=passes,
        )
        unread.append(result)
        if len(unread) > 1 and unread.popleft().skipped:  # as the training loop reads them
            raise RuntimeError("an update was not finite")

    return update


def sample_batches(plan: Plan) -> list[Batch]:
    """Form random batches of all lengths with the sampler of training."""
    rng, pad = np.random.default_rng(0), plan.vocabulary - 1
    # A large corpus has many pairs of the same two lengths, and so has little padding.
    lengths = sample_lengths(plan.pairs)
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
