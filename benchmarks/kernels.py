"""Each fast path timed against the readable code, in turn, on this machine.

    .venv/bin/python benchmarks/kernels.py

Attention, dropout and the loss as a training update of the tiny model meets them, forward and
backward; whole updates with and without `keep_freed_memory`; and, where there are units for
bfloat16, small ones whose batches are filled up to few shapes, or come in many. Updates are timed
in processes of their own. Prints one table and writes benchmarks/results/kernels/record.json.
Nothing else should run meanwhile.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from random import Random

import torch
from record import header, write
from torch import Tensor
from torch.nn import functional as F

from transduce.data.batch import Batch, Ids, collate
from transduce.io.machine import keep_freed_memory
from transduce.model.attention import Attention
from transduce.model.config import PRESETS, ModelConfig
from transduce.model.kernels import Dropout, scaled_dot_product_attention_cpu, softmax
from transduce.model.loss import chunked_cross_entropy, cross_entropy
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizers
from transduce.train.precision import Bf16Replica, bfloat16_units
from transduce.train.step import train_step

ROWS, LENGTH, VOCAB = 256, 16, 8000
"""An update of 4,096 target pieces in sentences of 16."""

Way = Callable[[], object]


def main() -> None:
    """Time every pair of ways, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", choices=tuple(UPDATES), help=argparse.SUPPRESS)
    updates: str | None = parser.parse_args().updates
    if updates:
        print(UPDATES[updates]())
        return
    torch.manual_seed(0)
    rows = [
        {"what": what, **compare(ours, plain)}
        for what, (ours, plain) in {
            "attention, 16 pieces": attention(length=16, rows=256),
            "attention, 48 pieces": attention(length=48, rows=85),
            "attention, 64 pieces": attention(length=64, rows=64),
            "attention, 128 pieces": attention(length=128, rows=32),
            "attention, 256 pieces": attention(length=256, rows=16),
            "self-attention, joint projection": joint_projection(),
            "a mask, added": added_mask(),
            "softmax, 13 pieces": short_rows(torch.float32),
            "softmax, 13 pieces, bfloat16": short_rows(torch.bfloat16),
            "dropout": dropout(),
            "loss, 8,000 pieces": loss(),
        }.items()
    ]
    rows.append({"what": "whole updates, memory held", **compare_updates("held", "returned")})
    if bfloat16_units(torch.device("cpu")):
        few = compare_updates("few shapes", "many shapes")
        rows.append({"what": "small updates in bfloat16, few shapes", **few})
    record = {
        **header("python benchmarks/kernels.py"),
        "threads": torch.get_num_threads(),
        "unit": "milliseconds, median of interleaved repetitions",
        "rows": rows,
    }
    write("kernels", record)
    print(f"{'':38}{'ours':>9}{'plain':>9}  ratio")
    for row in rows:
        print(f"{row['what']:38}{row['ours_ms']:9.2f}{row['plain_ms']:9.2f}{row['ratio']:7.2f}")


def compare(ours: Way, plain: Way, *, repetitions: int = 15) -> dict[str, float]:
    """Medians of both ways, run in turn, and how many times quicker ours is."""
    times: tuple[list[float], list[float]] = ([], [])
    for repetition in range(repetitions + 2):
        for way, found in zip((ours, plain), times, strict=True):
            started = time.perf_counter()
            way()
            if repetition >= 2:
                found.append((time.perf_counter() - started) * 1e3)
    return measured(*(statistics.median(found) for found in times))


def measured(ours: float, plain: float) -> dict[str, float]:
    """One row of the record."""
    return {"ours_ms": round(ours, 3), "plain_ms": round(plain, 3), "ratio": round(plain / ours, 3)}


def attention(*, length: int, rows: int) -> tuple[Way, Way]:
    """Equation (1) written out, and torch's fused kernel: causal, forward and backward."""
    queries, keys, values = (torch.randn(rows, 4, length, 32, requires_grad=True) for _ in range(3))

    def ours() -> None:
        mixed = scaled_dot_product_attention_cpu(queries, keys, values, causal=True)
        mixed.backward(mixed)

    def plain() -> None:
        mixed = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        mixed.backward(mixed)

    return ours, plain


def joint_projection() -> tuple[Way, Way]:
    """Self-attention with one product for queries, keys and values, and with three."""
    attention, x = Attention(128, heads=4, d_k=32, d_v=32), torch.randn(ROWS, LENGTH, 128)
    x.requires_grad_()
    projections = (attention.query, attention.key, attention.value)

    def joint() -> None:
        attended = attention(x, causal=True)
        attended.backward(attended)

    def separate() -> None:
        heads = [linear(x).unflatten(-1, (4, -1)).transpose(1, 2) for linear in projections]
        attended = scaled_dot_product_attention_cpu(*heads, causal=True)
        attended = attention.out(attended.transpose(1, 2).flatten(2))
        attended.backward(attended)

    return joint, separate


def added_mask() -> tuple[Way, Way]:
    """Padding masked by an addition to the scores, and by `masked_fill`."""
    scores = torch.randn(ROWS, 4, LENGTH, LENGTH, requires_grad=True)
    mask = torch.arange(LENGTH) < torch.randint(LENGTH // 2, LENGTH + 1, (ROWS, 1, 1, 1))

    def added() -> None:
        masked = scores * 1.0  # a product's result, which may be overwritten
        masked += torch.zeros(mask.shape).masked_fill_(~mask, -torch.inf)
        masked.backward(scores.detach())

    def filled() -> None:
        masked = (scores * 1.0).masked_fill(~mask, -torch.inf)
        masked.backward(scores.detach())

    return added, filled


def short_rows(kind: torch.dtype) -> tuple[Way, Way]:
    """The softmax of scores between 13 pieces, and torch's, forward and backward."""
    scores = torch.randn(ROWS, 4, 13, 13, dtype=kind, requires_grad=True)

    def backward(weights: Tensor) -> None:
        weights.backward(weights)

    return lambda: backward(softmax(scores)), lambda: backward(scores.softmax(-1))


def dropout() -> tuple[Way, Way]:
    """Ours, and torch's, forward and backward."""
    x = torch.randn(ROWS, LENGTH, 128, requires_grad=True)
    ours = Dropout(0.25)

    def backward(dropped: Tensor) -> None:
        dropped.backward(dropped)

    return lambda: backward(ours(x)), lambda: backward(F.dropout(x, 0.25))


def loss() -> tuple[Way, Way]:
    """Logits and loss chunk by chunk, and all at once."""
    hidden = torch.randn(ROWS, LENGTH, 128, requires_grad=True)
    weight = (torch.randn(VOCAB, 128) * 128**-0.5).requires_grad_()
    right = torch.randint(0, VOCAB - 1, (ROWS, LENGTH))

    def ours() -> None:
        chunked_cross_entropy(hidden, weight, right, smoothing=0.1).smoothed.backward()

    def plain() -> None:
        cross_entropy(F.linear(hidden, weight), right, smoothing=0.1).smoothed.backward()

    return ours, plain


def compare_updates(ours: str, plain: str) -> dict[str, float]:
    """Whole updates of the tiny model two ways (`UPDATES`), in fresh processes, in turn."""
    found: dict[str, list[float]] = {ours: [], plain: []}
    for way in (ours, plain) * 3:
        words = [sys.executable, __file__, "--updates", way]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        found[way].append(float(done.stdout))
    return measured(*(statistics.median(times) for times in found.values()))


def updates(*, held: bool) -> float:
    """Milliseconds of one update, the median of eight."""
    if held:
        assert keep_freed_memory(), "this C library cannot be asked"
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=VOCAB, dropout=0.25, **PRESETS["tiny"]))
    (adam,) = make_optimizers(model, TrainConfig())
    source, before, after = (torch.randint(0, VOCAB - 1, (ROWS, LENGTH)) for _ in range(3))
    times: list[float] = []
    for _ in range(10):
        started = time.perf_counter()
        hidden = model.hidden_states(source, None, before)
        chunked_cross_entropy(
            hidden, model.embedding.weight, after, smoothing=0.1
        ).smoothed.backward()
        adam.step()
        adam.zero_grad(set_to_none=True)
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times[2:])


class AsTheyCome(Bf16Replica):
    """A working copy that passes batches of whatever shapes."""

    def shaped(self, batch: Batch) -> Batch:
        """The batch."""
        return batch


def small_updates(kind: type[Bf16Replica]) -> float:
    """Milliseconds of one update of some 1,024 target pieces, the mean of 150 after 50.

    Lengths are like those of short captions, about the same within a batch.
    """
    keep_freed_memory()
    torch.manual_seed(0)
    chance = Random(0)
    model = Transformer(ModelConfig(vocab_size=VOCAB, dropout=0.15, **PRESETS["tiny"]))
    config = TrainConfig(optimizer="muon", precision="bfloat16")
    optimizers, working = make_optimizers(model, config), kind(model)

    def sentence(length: int) -> Ids:
        return chance.choices(range(VOCAB - 1), k=max(2, length))

    started = 0.0
    for number in range(200):
        if number == 50:
            started = time.perf_counter()
        long = round(min(max(chance.gauss(15, 5), 6), 40))
        wide = long + chance.randint(-3, 3)
        rows = range(1024 // (long + 1))
        sources = [sentence(wide + chance.randint(-1, 1)) for _ in rows]
        targets = [sentence(long - chance.randint(0, 1)) for _ in rows]
        batch = collate(sources, targets, pad=VOCAB - 1, eos=0)
        train_step(
            model, [batch], optimizers=optimizers, rates=[1e-3] * len(optimizers), replica=working
        )
    return (time.perf_counter() - started) / 150 * 1e3


UPDATES: dict[str, Callable[[], float]] = {
    "held": lambda: updates(held=True),
    "returned": lambda: updates(held=False),
    "few shapes": lambda: small_updates(Bf16Replica),
    "many shapes": lambda: small_updates(AsTheyCome),
}


if __name__ == "__main__":
    main()
