"""Where the time of a training update goes on a CPU, and how near each part is to its limit.

    .venv/bin/python benchmarks/roofline.py --folder CORPUS

The updates of `training.py` (T and S, about 4,096 target tokens of Multi30k, Adam), profiled by
operator after a pass over the same batches. Operators are grouped:

layers, products     linear maps, forward and backward
loss, products       logits, and the gradients of hidden states and output matrix
loss, rest           softmax, sums, the labels' share
attention            products of queries, keys and values; softmax; torch's fused kernel
dropout, scaling     random numbers, masks, multiplications
norms, activation    layer normalisation, ReLU, and their gradients
copies               heads brought into contiguous memory and back
sums, embedding      residual connections, sums of gradients, rows of the embedding
optimizer            Adam, gradient norm
calls                views, allocation, zeros, Python: the rest of the update's time

Floating-point operations and bytes are counted operator by operator in further updates: two for
each multiplication of the products with weights, and what all other operators read and write. The
limits are the fastest product of two 2,048 x 2,048 matrices, and the fastest copy of 256 MB between
arrays, measured first. Writes benchmarks/results/roofline/record.json. Run nothing else meanwhile.
"""

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from peers.running import PROGRAMS, arrange, run_own
from peers.shapes import SHAPES, flops
from record import ROOT, header, write
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from transduce.train.precision import bfloat16_units

sys.path.insert(0, str(PROGRAMS))  # as the peers' programs see each other

import bench_transduce
import loop

PRODUCTS = {"mm": 0, "addmm": 1, "addmm_": 1}
"""Operators that multiply by weights or for their gradients, and their first factor's position."""

GROUPS = {
    "layers, products": ("mm", "addmm", "addmm_", "linear", "mkldnn_linear"),
    "attention": (
        *("bmm", "baddbmm", "_softmax", "_softmax_backward_data", "triu_", "masked_fill_"),
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
    ),
    "dropout, scaling": ("random_", "clamp_", "sub_", "mul_", "mul"),
    "norms, activation": (
        *("native_layer_norm", "native_layer_norm_backward"),
        *("clamp_min", "threshold_backward"),
    ),
    "copies": ("copy_",),
    "sums, embedding": (
        *("add", "add_", "sum", "index_select", "embedding_dense_backward", "_index_put_impl_"),
        "index",
    ),
    "optimizer": ("_fused_adamw_", "linalg_vector_norm"),
}
"""Operators of each group."""

CALLS = "calls"
UPDATES = {"T": 12, "S": 3}


def main() -> None:
    """Profile all shapes, print the tables, write the record."""
    arguments = parse()
    arrange(0)
    limits = {"float32_gflops": run_own("ceiling.py")["gflops"], "copy_gb_a_second": copy_rate()}
    precisions = ["float32"]
    if bfloat16_units(torch.device("cpu")):
        precisions.append("bfloat16")
        limits["bfloat16_gflops"] = run_own("ceiling.py", "bfloat16")["gflops"]
    with tempfile.TemporaryDirectory() as work:
        run_own("prepare.py", str(arguments.folder), work, str(max(UPDATES.values())))
        corpus = loop.read(Path(work), "train")
    profiles = [
        profile_updates(model, precision, corpus, limits)
        for model, precision in itertools.product(arguments.models, precisions)
    ]
    record = {
        **header("python " + " ".join(sys.argv)),
        "threads": torch.get_num_threads(),
        "limits": limits,
        "profiles": profiles,
    }
    if not arguments.dry:
        write("roofline", record, hide={str(arguments.folder): "CORPUS", str(ROOT): "."})
    for result in profiles:
        print(format_table(result))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="folder of Multi30k")
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--dry", action="store_true", help="write no record")
    return parser.parse_args()


def copy_rate() -> float:
    """Return the GB/s, read and written, of copying an array that no cache holds."""
    source = torch.ones(1 << 26)
    target, seconds = torch.empty_like(source), []
    for _ in range(8):
        started = time.perf_counter()
        target.copy_(source)
        seconds.append(time.perf_counter() - started)
    return round(2e-9 * source.nbytes / min(seconds), 1)


def profile_updates(
    model: str, precision: str, corpus: loop.Corpus, limits: dict[str, float]
) -> dict[str, object]:
    """Profile a model's updates: seconds of each group, and rates of products and the rest."""
    update = bench_transduce.build(SHAPES[model], corpus, precision)
    timed = corpus.batches[: UPDATES[model]]
    for batch in timed:  # every shape once, for kernels that are compiled for it
        update(batch)
    seconds = []
    for batch in timed:  # without the profiler, which takes time itself
        started = time.perf_counter()
        update(batch)
        seconds.append(time.perf_counter() - started)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for batch in timed:
            update(batch)
    groups = group_seconds(profiler.events() or [])
    for name in groups:
        groups[name] /= len(timed)
    groups[CALLS] = max(0.0, statistics.mean(seconds) - sum(groups.values()))
    with CountOperations() as counter:
        for batch in timed:
            update(batch)
    product_gflop = 1e-9 * counter.flops / len(timed)
    other_gb = 1e-9 * counter.bytes / len(timed)
    tokens = statistics.mean(corpus.tokens(batch) for batch in timed)
    rate = tokens / statistics.mean(seconds)
    limit = limits[f"{precision}_gflops"]
    product_seconds = groups["layers, products"] + groups["loss, products"]
    other_seconds = statistics.mean(seconds) - product_seconds
    token_flops = flops(SHAPES[model], vocabulary=corpus.vocabulary)
    return {
        "model": model,
        "precision": precision,
        "tokens_an_update": round(tokens),
        "milliseconds_an_update": round(1e3 * statistics.mean(seconds), 2),
        "tokens_a_second": round(rate, 1),
        "share_of_ceiling": round(1e-9 * rate * token_flops / limit, 3),
        "gflop_an_update": round(product_gflop, 2),
        "products_gflops": round(product_gflop / product_seconds, 1),
        "products_share_of_limit": round(product_gflop / product_seconds / limit, 3),
        "other_gb_an_update": round(other_gb, 3),
        "other_gb_a_second": round(other_gb / other_seconds, 1),
        "groups": {
            name: {
                "milliseconds": round(1e3 * group, 2),
                "share": round(group / statistics.mean(seconds), 3),
            }
            for name, group in groups.items()
        },
    }


def group_seconds(events: Sequence[FunctionEvent]) -> dict[str, float]:
    """Sum the time of operators, without that of operators they call, by group."""
    names = {operator: group for group, operators in GROUPS.items() for operator in operators}
    groups = dict.fromkeys(("layers, products", "loss, products", "loss, rest", *GROUPS), 0.0)
    for event in events:
        operator = event.name.removeprefix("aten::")
        group = names.get(operator, CALLS)
        callers = set(ancestors(event))
        if "_Chunked" in callers:
            group = "loss, products" if operator in PRODUCTS else "loss, rest"
        elif any(name.startswith("Optimizer.") for name in callers):
            group = "optimizer"
        if group != CALLS:
            groups[group] += 1e-6 * event.self_cpu_time_total
    return groups


def ancestors(event: FunctionEvent) -> Iterator[str]:
    """Yield the names of an event and its callers."""
    current: FunctionEvent | None = event
    while current is not None:
        yield current.name
        current = current.cpu_parent


class CountOperations(TorchDispatchMode):
    """Counts operations of products, and bytes of all other operators that compute."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if (first := PRODUCTS.get(name)) is not None:
            left, right = args[first], args[first + 1]
            self.flops += 2 * left.numel() * right.size(-1)
        elif not func.is_view:
            outputs = result if isinstance(result, list | tuple) else [result]
            self.bytes += sum(_bytes(tensor) for tensor in (*flatten(args), *outputs))
        return result


def flatten(values: Sequence[object]) -> Iterator[object]:
    """Yield the values of lists within lists."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from flatten(value)
        else:
            yield value


def _bytes(value: object) -> int:
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def format_table(result: dict[str, object]) -> str:
    """Format a profile: a line per group."""
    lines = [json.dumps({key: value for key, value in result.items() if key != "groups"})]
    groups: dict[str, dict[str, float]] = result["groups"]  # type: ignore[assignment]
    lines += [
        f"{name:18}  {group['milliseconds']:8.1f} ms  {100 * group['share']:5.1f} %"
        for name, group in groups.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
