"""Where the torch engine's time for one sentence goes.

    .venv/bin/python benchmarks/single_sentence.py MODEL --source FILE

Sentences are translated one at a time, greedily and with a beam of 5. Parts, timed without the
profiler, in milliseconds a sentence:

encoder     the encoder, and the decoder's arrangement of its output and weights
steps       the decoder: one step for each piece
search      all else: candidates, the reordering of beams, Python

Operators that compute are counted in further passes, and those of products with weights apart. Two
limits: each step reads the decoder's matrices, but for the keys and values of the source, and the
output matrix, at the rate of the fastest of many products of a row with such matrices; and an
operator takes at least as long as the fastest of many sums of eight numbers. Writes
benchmarks/results/single-sentence/record.json. Run nothing else meanwhile.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from record import header, read_lines, write
from roofline import PRODUCTS
from torch.utils._python_dispatch import TorchDispatchMode

from transduce.bundle.bundle import Bundle
from transduce.inference.engines.base import select_engines
from transduce.inference.engines.parallel import single_thread
from transduce.model.fused_decoder import FusedDecoder
from transduce.model.transformer import Transformer
from transduce.search.config import Request

ROUNDS = 3

_ONCE = ("cross_attention.key.weight", "cross_attention.value.weight")
"""Matrices that are read once for a sentence."""


def main() -> None:
    """Measure both searches, print a table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a bundle or a run's folder")
    parser.add_argument("--source", required=True, help="sentences, one per line; may be .gz")
    parser.add_argument("--lines", type=int, default=60)
    parser.add_argument("--dry", action="store_true", help="write no record")
    arguments = parser.parse_args()
    bundle = Bundle.load(arguments.model)
    sources = bundle.tokenizer.encode_all(read_lines(arguments.source)[: arguments.lines])
    with single_thread():
        limits = {"gb_a_second": weight_rate(bundle.model), "microseconds_a_call": call_time()}
    rows = [measure(bundle, sources, beam) for beam in (1, 5)]
    record = {**header("python " + " ".join(sys.argv)), "limits": limits, "rows": rows}
    print(json.dumps({"limits": limits, "rows": rows}, indent=1))
    if not arguments.dry:
        hide = {arguments.model: "MODEL", arguments.source: "SOURCES"}
        write("single-sentence", record, hide=hide)


def measure(bundle: Bundle, sources: Sequence[Sequence[int]], beam: int) -> dict[str, float]:
    """Time the parts, count the operators of a sentence and the bytes of weights that it reads."""
    (engine,) = select_engines(bundle, engine="torch").engines
    config, steps = replace(bundle.search, beam=beam), 0

    def translate() -> None:
        nonlocal steps
        steps = 0
        for source in sources:
            (hypotheses,) = engine.search([Request(tuple(source))], config)
            steps += max(len(hypothesis.ids) for hypothesis in hypotheses)

    translate()
    totals: list[float] = []
    parts: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        translate()
        totals.append(time.perf_counter() - started)
        with timed_parts() as seconds:
            translate()
        parts.append(seconds)
    with CountCalls() as counter:
        translate()
    count, total = len(sources), statistics.median(totals)
    encoder, inside = (statistics.median(part[name] for part in parts) for name in parts[0])
    megabytes = 4e-6 * sum(matrix.numel() for matrix in step_matrices(bundle.model))
    milliseconds = {
        "milliseconds": total,
        "encoder": encoder,
        "steps": inside,
        "search": total - encoder - inside,
    }
    return {
        "beam": beam,
        **{name: round(1e3 * value / count, 3) for name, value in milliseconds.items()},
        "steps_a_sentence": round(steps / count, 1),
        "calls": round(counter.calls / count),
        "calls_of_products": round(counter.products / count),
        "megabytes_of_weights": round(megabytes * steps / count, 1),
    }


@contextmanager
def timed_parts() -> Generator[dict[str, float]]:
    """Collect the seconds within the decoder's beginning and its steps."""
    seconds = {"encoder": 0.0, "steps": 0.0}
    methods = {"encoder": FusedDecoder.__init__, "steps": FusedDecoder.step}

    def timed(part: str) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            started = time.perf_counter()
            try:
                return methods[part](*arguments, **named)  # type: ignore[arg-type]
            finally:
                seconds[part] += time.perf_counter() - started

        return call

    FusedDecoder.__init__, FusedDecoder.step = timed("encoder"), timed("steps")  # type: ignore[method-assign, assignment]
    try:
        yield seconds
    finally:
        FusedDecoder.__init__, FusedDecoder.step = methods["encoder"], methods["steps"]  # type: ignore[method-assign, assignment]


class CountCalls(TorchDispatchMode):
    """Counts operators that compute or copy, not views."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.products = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if not func.is_view:
            self.calls += 1
            self.products += func.overloadpacket.__name__ in PRODUCTS
        return func(*args, **(kwargs or {}))


def step_matrices(model: Transformer) -> list[torch.Tensor]:
    """Return the matrices that each step of the decoder reads."""
    matrices = [
        weight.detach()
        for name, weight in model.decoder.named_parameters()
        if weight.dim() == 2 and not name.endswith(_ONCE)
    ]
    return [*matrices, model.output_matrix.detach()]


def weight_rate(model: Transformer) -> float:
    """Return the GB/s at which products of one row read these matrices, one after another."""
    matrices = step_matrices(model)
    rows = {matrix.size(1): torch.randn(1, matrix.size(1)) for matrix in matrices}

    def read() -> None:
        for matrix in matrices:
            torch.mm(rows[matrix.size(1)], matrix.t())

    return round(4e-9 * sum(matrix.numel() for matrix in matrices) / fastest(read, 200), 1)


def call_time() -> float:
    """Return the microseconds of an operator that has next to nothing to do."""
    x, out = torch.ones(8), torch.empty(8)
    return round(1e6 * fastest(lambda: [torch.add(x, x, out=out) for _ in range(100)], 50) / 100, 2)


def fastest(run: Callable[[], object], times: int) -> float:
    """Return the least seconds of a run."""
    seconds: list[float] = []
    with torch.inference_mode():
        for _ in range(times):
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
