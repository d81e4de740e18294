"""What limits training on a GPU, as far as it can be counted without one.

    .venv/bin/python benchmarks/gpu_limits.py RUN

Whatever batches and passes the model as a GPU has it, for the paper's base and big models on
sentences of WMT's lengths (those of `gpu.py`), and for the recipe and the corpus of a prepared run.
Counted, not timed: it may run beside anything. Prints a table and writes
benchmarks/results/gpu-limits/record.json.

padding  Share of all positions, as the sampler of `transduce train` makes batches: what could be
         gained, at most, by a model that is passed without padding.
scores   Share of an update's arithmetic that attention's scores and sums are, padding not counted:
         times the padding, about what attention of variable lengths alone could gain.
calls    Operators of torch an update that compute: forward, loss, backward, optimizers; views and
         fresh memory are not counted. Each starts one kernel or a few. Layers are as they are
         written, not compiled.
a call   Microseconds of a GPU for each of them at one million target tokens a second: where a
         processor needs longer to start it, the GPU waits.
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
from gpu import WHOLE, like_wmt, random_batch, updating
from peers.shapes import Shape, flops
from record import header, write
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

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
"""As many as WMT 2014's for English and German (section 5.1)."""

RATE = 1e6
"""Target tokens a second that are aimed at."""

FREE = ("aten::empty", "aten::new_empty", "aten::detach", "aten::alias", "aten::lift_fresh")
FREE += ("aten::_unsafe_view", "aten::_reshape_alias", "aten::_local_scalar_dense")

Row = dict[str, object]


class Case(NamedTuple):
    """What is trained, and on what."""

    name: str
    model: ModelConfig
    train: TrainConfig
    batch: BatchConfig
    lengths: np.ndarray
    """Source and target pieces of every pair, EOS not counted."""


def main() -> None:
    """Count, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="a run's folder, prepared")
    run = parser.parse_args().run
    rows = [counted(case) for case in cases(run)]
    print(table(rows))
    write("gpu-limits", {**header("python benchmarks/gpu_limits.py RUN"), "rows": rows})


def cases(run: Path) -> Iterator[Case]:
    """The paper's two models, and the run's."""
    lengths = like_wmt(PAIRS)
    for name in WHOLE.shapes:
        recipe = load_recipe(name)
        model = replace(recipe.model, vocab_size=WHOLE.vocabulary)
        yield Case(name, model, recipe.train, recipe.batch, lengths)
    recipe, prepared = load_recipe(run / "recipe.toml"), open_prepared(run)
    model = replace(recipe.model, vocab_size=prepared.tokenizer.vocab_size)
    yield Case(recipe.name, model, recipe.train, recipe.batch, prepared.store.lengths)


def counted(case: Case) -> Row:
    """Everything about one of them; an update is passed at once, as a GPU has room for it."""
    config, tokens = case.model, case.batch.tokens
    batch = replace(case.batch, micro_tokens=2 * tokens + int(case.lengths.max()) + 1)
    sampler = Sampler(case.lengths, config=batch, seed=0)
    calls = calls_of(case, next(sampler.updates(SamplerState())).micro_batches[0])
    source, target = (case.lengths + 1).astype(np.float64).T
    shape = Shape(config.decoder_layers, config.d_model, config.d_ff, config.heads, 0, 0)
    products = flops(shape, vocabulary=config.vocab_size) * target.sum()
    # Two products forward and four backward, all heads; half of the decoder's own are barred.
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


class Calls(TorchDispatchMode):
    """Counts what computes."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Count one operator."""
        self.count += not func.is_view and not func._schema.name.startswith(FREE)
        return func(*args, **(kwargs or {}))


def calls_of(case: Case, pairs: np.ndarray) -> int:
    """Count an update, after one that makes what optimizers keep. Any width has as many."""
    narrow = 8 * case.model.heads
    config = replace(case.model, d_model=narrow, d_ff=narrow, d_k=8, d_v=8)
    torch.manual_seed(0)
    model = Transformer(config).train()
    chance = np.random.default_rng(0)
    batch = random_batch(case.lengths[pairs], pad=config.pad, chance=chance)
    with as_on_a_gpu(config.vocab_size):
        update = updating(model, replace(case.train, precision="bfloat16"))
        update(batch)
        with Calls() as calls:
            update(batch)
    return calls.count


@contextmanager
def as_on_a_gpu(vocabulary: int) -> Generator[None]:
    """Take the ways that are taken there, although tensors are on a CPU."""

    def dropout(self: Dropout, x: Tensor) -> Tensor:
        return torch.native_dropout(x, self.p, True)[0] if self.p else x

    chunk = loss.chunk_size(torch.empty(vocabulary, 1, device="meta"))
    with ExitStack() as stack:
        stack.enter_context(patch.object(kernels, "WRITTEN_OUT_MAX_SCORES", 0))
        stack.enter_context(patch.object(Dropout, "forward", dropout))
        stack.enter_context(patch.object(Bf16Replica, "shaped", lambda self, batch: batch))
        stack.enter_context(patch.object(loss, "CHUNK", chunk))
        yield


def table(rows: list[Row]) -> str:
    """One line a model."""
    lines = ["model            tokens  padding  scores  calls  a call"]
    lines += [
        f"{row['model']!s:15}{row['tokens_an_update']:8,}{row['padding']:9.1%}{row['scores']:8.1%}"
        f"{row['calls_an_update']:7,}{row['microseconds_a_call']:5.1f} µs"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
