"""Time of each fast path and its readable counterpart, measured in turn.

    .venv/bin/python benchmarks/kernels.py

Attention, dropout and the loss in the shapes of a training update of the tiny model, forward and
backward; updates with and without `keep_freed_memory`; and, if the processor supports bfloat16,
small updates whose batches are padded to few shapes, or not. Updates are timed in subprocesses.
Prints a table and writes benchmarks/results/kernels/record.json.

--only fused: complete updates with the compiled kernels of training (`model/cpp_kernels.cpp`) and
without, in turn; writes benchmarks/results/fused-updates/record.json. With --avx2 on a wider
processor, all is limited to what one with AVX2 alone has, in float32 (the variables of
`AVX2_LIMITS` have to be set): benchmarks/results/fused-updates-avx2. Run nothing else at the same
time.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from random import Random
from typing import Any

import torch
from record import header, write
from torch import Tensor
from torch.nn import functional as F

from transduce.data.batch import Batch, Ids, collate
from transduce.io import compiler
from transduce.io.machine import keep_freed_memory
from transduce.model.config import PRESETS, ModelConfig
from transduce.model.kernels import Dropout, scaled_dot_product_attention_cpu, softmax
from transduce.model.loss import chunked_cross_entropy, cross_entropy
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.fused_passes import make_fused_passes
from transduce.train.optimizer import make_optimizers
from transduce.train.precision import Bf16Replica, bfloat16_units, make_replica
from transduce.train.step import LossSettings, train_step

AVX2_LIMITS = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
"""Environment variables that limit torch's operators and oneDNN's products."""

ROWS, LENGTH, VOCAB = 256, 16, 8000
"""An update of 4,096 target pieces in sentences of 16."""

Function = Callable[[], object]
Row = dict[str, Any]


def main() -> None:
    """Time all pairs, print a table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", choices=tuple(UPDATES), help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=("fused",))
    parser.add_argument("--avx2", action="store_true", help="kernels for AVX2 alone, in float32")
    arguments = parser.parse_args()
    if arguments.updates:
        print(UPDATES[arguments.updates]())
        return
    torch.manual_seed(0)
    if arguments.only and arguments.avx2:
        compiler._FLAGS = (*compiler._FLAGS, "-march=haswell")  # type: ignore[misc]
        limits = " ".join(f"{name}={value}" for name, value in AVX2_LIMITS.items())
        if any(os.environ.get(name) != value for name, value in AVX2_LIMITS.items()):
            sys.exit(f"set {limits} for torch's operators")
        command = f"{limits} python benchmarks/kernels.py --only fused --avx2"
        report("fused-updates-avx2", command, fused_updates(("float32",)))
    elif arguments.only:
        bfloat16 = bfloat16_units(torch.device("cpu"))
        precisions = ("float32", "bfloat16") if bfloat16 else ("float32",)
        command = "python benchmarks/kernels.py --only fused"
        report("fused-updates", command, fused_updates(precisions))
    else:
        report("kernels", "python benchmarks/kernels.py", [*small_parts(), *held_updates()])


def report(name: str, command: str, rows: list[Row]) -> None:
    """Write a record, and print it as a table."""
    record = {
        **header(command),
        "threads": torch.get_num_threads(),
        "unit": "milliseconds, median of interleaved repetitions",
        "rows": rows,
    }
    write(name, record)
    print(f"{'':50}{'ours':>9}{'plain':>9}  ratio")
    for row in rows:
        print(f"{row['what']:50}{row['ours_ms']:9.2f}{row['plain_ms']:9.2f}{row['ratio']:7.2f}")


def small_parts() -> list[Row]:
    """Time the parts of an update."""
    return [
        {"what": name, **compare(fast, readable)}
        for name, (fast, readable) in {
            "attention, 16 pieces": attention(length=16, rows=256),
            "attention, 48 pieces": attention(length=48, rows=85),
            "attention, 64 pieces": attention(length=64, rows=64),
            "attention, 128 pieces": attention(length=128, rows=32),
            "attention, 256 pieces": attention(length=256, rows=16),
            "attention, 64 pieces, bfloat16": attention(length=64, rows=64, dtype=torch.bfloat16),
            "attention, 256 pieces, bfloat16": attention(length=256, rows=16, dtype=torch.bfloat16),
            "a mask, added": added_mask(torch.float32),
            "a mask, added, bfloat16": added_mask(torch.bfloat16),
            "softmax, 13 pieces": short_rows(torch.float32),
            "softmax, 13 pieces, bfloat16": short_rows(torch.bfloat16),
            "dropout": dropout(torch.float32),
            "dropout, bfloat16": dropout(torch.bfloat16),
            "loss, 8,000 pieces": loss(torch.float32),
            "loss, 8,000 pieces, bfloat16": loss(torch.bfloat16),
        }.items()
    ]


def held_updates() -> list[Row]:
    """Time updates in subprocesses."""
    rows = [{"what": "whole updates, memory held", **compare_updates("held", "returned")}]
    if bfloat16_units(torch.device("cpu")):
        few_shapes = compare_updates("few shapes", "many shapes")
        rows.append({"what": "small updates in bfloat16, few shapes", **few_shapes})
    return rows


def fused_updates(precisions: Sequence[str]) -> list[Row]:
    """Time complete updates with the compiled kernels, and without."""
    keep_freed_memory()
    adam, muon, r_drop = (
        TrainConfig(),
        TrainConfig(optimizer="muon"),
        TrainConfig(optimizer="muon", r_drop=2.0),
    )
    cases: dict[str, tuple[str, TrainConfig, int, int]] = {
        "T, 4,096 tokens, Adam": ("tiny", adam, 4096, 15),
        "T, 4,096 tokens, Adam, sentences of 200": ("tiny", adam, 4096, 200),
        "T, 1,024 tokens, Muon": ("tiny", muon, 1024, 15),
        "T, 1,024 tokens, Muon, R-Drop": ("tiny", r_drop, 1024, 15),
        "S, 4,096 tokens, Adam": ("base", adam, 4096, 15),
    }
    rows: list[Row] = []
    for name, (preset, config, tokens, length) in cases.items():
        batches = sample_batches(tokens=tokens, length=length)
        for precision in precisions:
            settings = replace(config, precision=precision)
            functions = [make_update(preset, settings, batches, fused) for fused in (True, False)]
            repetitions = 6 if preset == "base" else 36
            compared = compare(*functions, repetitions=repetitions, warm=len(batches))
            rows.append({"what": f"{name}, {precision}", **compared})
    return rows


def make_update(preset: str, config: TrainConfig, batches: list[Batch], fused: bool) -> Function:
    """Return a function that makes one update after the other, with the kernels or without."""
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=VOCAB, dropout=0.1, **PRESETS[preset])).train()
    optimizers, replica = make_optimizers(model, config), make_replica(model, config)
    passes = make_fused_passes(model, config, replica) if fused else None
    assert fused == (passes is not None), "no compiled kernels"
    remaining = cycle(batches)

    def update() -> None:
        train_step(
            model,
            [next(remaining)],
            optimizers=optimizers,
            rates=[1e-3] * len(optimizers),
            loss=LossSettings(r_drop=config.r_drop),
            replica=replica,
            passes=passes,
        )

    return update


def sample_batches(*, tokens: int, length: int) -> list[Batch]:
    """Form six batches, each of sentences of similar lengths."""
    rng = Random(0)

    def sentence(pieces: float) -> Ids:
        return rng.choices(range(VOCAB - 1), k=max(2, round(pieces)))

    batches: list[Batch] = []
    for _ in range(6):
        mean = max(5.0, rng.gauss(length, length / 3))
        rows = range(round(tokens / (mean + 1)))
        sources = [sentence(mean * rng.uniform(0.8, 1.1)) for _ in rows]
        targets = [sentence(mean * rng.uniform(0.95, 1.05)) for _ in rows]
        batches.append(collate(sources, targets, pad=VOCAB - 1, eos=0))
    return batches


def compare(
    fast: Function, readable: Function, *, repetitions: int = 15, warm: int = 2
) -> dict[str, float]:
    """Time both functions in turn, after `warm` calls; return the medians and their ratio."""
    times: tuple[list[float], list[float]] = ([], [])
    for repetition in range(repetitions + warm):
        for function, samples in zip((fast, readable), times, strict=True):
            started = time.perf_counter()
            function()
            if repetition >= warm:
                samples.append((time.perf_counter() - started) * 1e3)
    return format_row(*(statistics.median(samples) for samples in times))


def format_row(fast: float, readable: float) -> dict[str, float]:
    """Format a row of the record."""
    return {
        "ours_ms": round(fast, 3),
        "plain_ms": round(readable, 3),
        "ratio": round(readable / fast, 3),
    }


def attention(
    *, length: int, rows: int, dtype: torch.dtype = torch.float32
) -> tuple[Function, Function]:
    """Equation (1) written out, and torch's fused kernel: causal, forward and backward pass."""
    queries, keys, values = (
        torch.randn(rows, 4, length, 32, dtype=dtype, requires_grad=True) for _ in range(3)
    )

    def fast() -> None:
        mixed = scaled_dot_product_attention_cpu(queries, keys, values, causal=True)
        mixed.backward(mixed)

    def readable() -> None:
        mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        mixed.backward(mixed)

    return fast, readable


def added_mask(dtype: torch.dtype) -> tuple[Function, Function]:
    """Padding masked by an addition to the scores, and by `masked_fill`."""
    scores = torch.randn(ROWS, 4, LENGTH, LENGTH, dtype=dtype, requires_grad=True)
    mask = torch.arange(LENGTH) < torch.randint(LENGTH // 2, LENGTH + 1, (ROWS, 1, 1, 1))

    def added() -> None:
        masked = scores * 1.0  # a product's result, which may be overwritten
        rows = mask.expand(-1, -1, LENGTH, -1) if dtype == torch.bfloat16 else mask
        masked += torch.zeros(rows.shape, dtype=dtype).masked_fill_(~rows, -torch.inf)
        masked.backward(scores.detach())

    def filled() -> None:
        masked = (scores * 1.0).masked_fill(~mask, -torch.inf)
        masked.backward(scores.detach())

    return added, filled


def short_rows(dtype: torch.dtype) -> tuple[Function, Function]:
    """Softmax of scores between 13 tokens, and torch's: forward and backward pass."""
    scores = torch.randn(ROWS, 4, 13, 13, dtype=dtype, requires_grad=True)

    def backward(weights: Tensor) -> None:
        weights.backward(weights)

    return lambda: backward(softmax(scores)), lambda: backward(scores.softmax(-1))


def dropout(dtype: torch.dtype) -> tuple[Function, Function]:
    """Dropout of transduce and of torch: forward and backward pass."""
    x = torch.randn(ROWS, LENGTH, 128, dtype=dtype, requires_grad=True)
    fast_dropout = Dropout(0.25)

    def backward(dropped: Tensor) -> None:
        dropped.backward(dropped)

    return lambda: backward(fast_dropout(x)), lambda: backward(F.dropout(x, 0.25))


def loss(dtype: torch.dtype) -> tuple[Function, Function]:
    """Logits and loss in chunks, and at once."""
    hidden = torch.randn(ROWS, LENGTH, 128, dtype=dtype, requires_grad=True)
    weight = (torch.randn(VOCAB, 128) * 128**-0.5).requires_grad_()
    labels = torch.randint(0, VOCAB - 1, (ROWS, LENGTH))

    def fast() -> None:
        chunked_cross_entropy(hidden, weight, labels, smoothing=0.1).smoothed.backward()

    def readable() -> None:
        logits = F.linear(hidden, weight.to(dtype)).float()
        cross_entropy(logits, labels, smoothing=0.1).smoothed.backward()

    return fast, readable


def compare_updates(fast: str, readable: str) -> dict[str, float]:
    """Time two variants of an update (`UPDATES`) in subprocesses, in turn."""
    times: dict[str, list[float]] = {fast: [], readable: []}
    for variant in (fast, readable) * 3:
        command = [sys.executable, __file__, "--updates", variant]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        times[variant].append(float(result.stdout))
    return format_row(*(statistics.median(samples) for samples in times.values()))


def time_update(*, keep_memory: bool) -> float:
    """Measure the milliseconds of an update of the tiny model, the median of eight."""
    if keep_memory:
        assert keep_freed_memory(), "this C library cannot keep freed memory"
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=VOCAB, dropout=0.25, **PRESETS["tiny"]))
    (adam,) = make_optimizers(model, TrainConfig())
    source, target_in, target_out = (torch.randint(0, VOCAB - 1, (ROWS, LENGTH)) for _ in range(3))
    times: list[float] = []
    for _ in range(10):
        started = time.perf_counter()
        hidden = model.hidden_states(source, None, target_in)
        chunked_cross_entropy(
            hidden, model.embedding.weight, target_out, smoothing=0.1
        ).smoothed.backward()
        adam.step()
        adam.zero_grad(set_to_none=True)
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times[2:])


class UnpaddedReplica(Bf16Replica):
    """A replica that does not pad batches to few shapes."""

    def pad_to_bucket(self, batch: Batch) -> Batch:
        """Return the batch unchanged."""
        return batch


def time_small_update(replica_type: type[Bf16Replica]) -> float:
    """Measure the milliseconds of an update of about 1,024 target tokens, the mean of 150 after 50.

    Lengths are those of short captions, similar within a batch.
    """
    keep_freed_memory()
    torch.manual_seed(0)
    rng = Random(0)
    model = Transformer(ModelConfig(vocab_size=VOCAB, dropout=0.15, **PRESETS["tiny"]))
    config = TrainConfig(optimizer="muon", precision="bfloat16")
    optimizers, replica = make_optimizers(model, config), replica_type(model)

    def sentence(length: int) -> Ids:
        return rng.choices(range(VOCAB - 1), k=max(2, length))

    started = 0.0
    for number in range(200):
        if number == 50:
            started = time.perf_counter()
        target_length = round(min(max(rng.gauss(15, 5), 6), 40))
        source_length = target_length + rng.randint(-3, 3)
        rows = range(1024 // (target_length + 1))
        sources = [sentence(source_length + rng.randint(-1, 1)) for _ in rows]
        targets = [sentence(target_length - rng.randint(0, 1)) for _ in rows]
        batch = collate(sources, targets, pad=VOCAB - 1, eos=0)
        train_step(
            model, [batch], optimizers=optimizers, rates=[1e-3] * len(optimizers), replica=replica
        )
    return (time.perf_counter() - started) / 150 * 1e3


UPDATES: dict[str, Callable[[], float]] = {
    "held": lambda: time_update(keep_memory=True),
    "returned": lambda: time_update(keep_memory=False),
    "few shapes": lambda: time_small_update(Bf16Replica),
    "many shapes": lambda: time_small_update(UnpaddedReplica),
}


if __name__ == "__main__":
    main()
