"""Limits of training on a GPU, as far as they can be counted without a GPU.

    .venv/bin/python benchmarks/gpu_limits.py RUN

Takes the code paths and batches of a GPU, for the paper's base and big models on sentences of WMT's
lengths (those of `gpu.py`), and for the recipe and corpus of a prepared run. Nothing is timed, so
other programs may run at the same time. Prints a table and writes
benchmarks/results/gpu-limits/record.json.

padding  Share of padding in all positions of the batches that `transduce train` forms: the most
         that a model without padding could gain.
scores   Share of attention scores and weighted sums in an update's arithmetic, without padding:
         times the padding, about what variable-length attention could gain.
calls    Computing operators of torch per update: forward, loss, backward, optimizers, without views
         and allocations. Each launches one kernel or a few. Layers are not compiled.
a call   GPU microseconds per operator at one million target tokens per second: if the processor
         takes longer to launch it, the GPU waits.
"""

import argparse
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from peers.shapes import Shape, flops
from record import header, write
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from gpu import FULL, random_batch, sample_lengths, training_update
from transduce.config import load_recipe
from transduce.data.config import BatchConfig
from transduce.data.sampler import Sampler, SamplerState
from transduce.model import kernels, loss
from transduce.model.config import ModelConfig
from transduce.model.kernels import Dropout
from transduce.model.transformer import Transformer
from transduce.pipeline.prepared import open_prepared
from transduce.train.config import TrainConfig
from transduce.train.precision import Bf16Replica

PAIRS = 4_500_000
"""Pairs of WMT 2014 English-German (section 5.1)."""

RATE = 1e6
"""Intended target tokens per second."""

FREE = ("aten::empty", "aten::new_empty", "aten::detach", "aten::alias", "aten::lift_fresh")
FREE += ("aten::_unsafe_view", "aten::_reshape_alias", "aten::_local_scalar_dense")

Row = dict[str, object]


class Case(NamedTuple):
    """A model, its training, and the lengths of its corpus."""

    name: str
    model: ModelConfig
    train: TrainConfig
    batch: BatchConfig
    lengths: np.ndarray
    """Source and target tokens of every pair, without EOS."""


def main() -> None:
    """Count, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="folder of a prepared run")
    run = parser.parse_args().run
    rows = [count_case(case) for case in cases(run)]
    print(table(rows))
    write("gpu-limits", {**header("python benchmarks/gpu_limits.py RUN"), "rows": rows})


def cases(run: Path) -> Iterator[Case]:
    """Yield the paper's two models, and the run's."""
    lengths = sample_lengths(PAIRS)
    for name in FULL.shapes:
        recipe = load_recipe(name)
        model = replace(recipe.model, vocab_size=FULL.vocabulary)
        yield Case(name, model, recipe.train, recipe.batch, lengths)
    recipe, prepared = load_recipe(run / "recipe.toml"), open_prepared(run)
    model = replace(recipe.model, vocab_size=prepared.tokenizer.vocab_size)
    yield Case(recipe.name, model, recipe.train, recipe.batch, prepared.store.lengths)


def count_case(case: Case) -> Row:
    """Count a case's padding, attention scores and operators; an update is one micro-batch."""
    config, tokens = case.model, case.batch.tokens
    batch = replace(case.batch, micro_tokens=2 * tokens + int(case.lengths.max()) + 1)
    sampler = Sampler(case.lengths, config=batch, seed=0)
    calls = count_operators(case, next(sampler.updates(SamplerState())).micro_batches[0])
    source, target = (case.lengths + 1).astype(np.float64).T
    shape = Shape(config.decoder_layers, config.d_model, config.d_ff, config.heads, 0, 0)
    products = flops(shape, vocabulary=config.vocab_size) * target.sum()
    # Two products forward, four backward, all heads; half of the self-attention is masked.
    pairs = source * source + target * target / 2 + source * target
    scores = 3 * 4 * config.d_model * config.decoder_layers * pairs.sum()
    return {
        "model": case.name,
        "tokens_an_update": tokens,
        "pieces_a_target": round(float(target.mean()), 1),
        "padding": round(sampler.padding_share, 4),
        "scores": round(scores / (scores + products), 4),
        "calls_an_update": calls,
        "microseconds_a_call": round(1e6 * tokens / RATE / calls, 2),
    }


class OperatorCounter(TorchDispatchMode):
    """Counts the operators that compute."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Count an operator."""
        self.count += not func.is_view and not func._schema.name.startswith(FREE)
        return func(*args, **(kwargs or {}))


def count_operators(case: Case, pairs: np.ndarray) -> int:
    """Count the operators of an update, after one that allocates the optimizers' state.

    The count does not depend on the model's width.
    """
    width = 8 * case.model.heads
    config = replace(case.model, d_model=width, d_ff=width, d_k=8, d_v=8)
    torch.manual_seed(0)
    model = Transformer(config).train()
    rng = np.random.default_rng(0)
    batch = random_batch(case.lengths[pairs], pad=config.pad, rng=rng)
    with gpu_code_paths(config.vocab_size):
        train = replace(case.train, precision="bfloat16")
        update = training_update(model, train, fused=False)
        update(batch)
        with OperatorCounter() as calls:
            update(batch)
    return calls.count


@contextmanager
def gpu_code_paths(vocabulary: int) -> Generator[None]:
    """Take the code paths of a GPU for tensors on a CPU."""

    def dropout(self: Dropout, x: Tensor) -> Tensor:
        return torch.native_dropout(x, self.p, True)[0] if self.p else x

    chunk = loss.chunk_size(torch.empty(vocabulary, 1, device="meta"))
    with ExitStack() as stack:
        stack.enter_context(patch.object(kernels, "WRITTEN_OUT_MAX_SCORES", 0))
        stack.enter_context(patch.object(Dropout, "forward", dropout))
        stack.enter_context(patch.object(Bf16Replica, "pad_to_bucket", lambda self, batch: batch))
        stack.enter_context(patch.object(loss, "CHUNK", chunk))
        yield


def table(rows: list[Row]) -> str:
    """Format a line per model."""
    lines = ["model            tokens  padding  scores  calls  a call"]
    lines += [
        f"{row['model']!s:15}{row['tokens_an_update']:8,}{row['padding']:9.1%}{row['scores']:8.1%}"
        f"{row['calls_an_update']:7,}{row['microseconds_a_call']:5.1f} µs"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
