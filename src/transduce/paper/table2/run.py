"""What it costs to train the paper's models: floating-point operations counted from the shape.

The paper estimates: wall time x GPUs x the rate that it takes a P100 to sustain. Here the matrix
products are counted, so the two can be set beside each other. A product of a row of n numbers with
a matrix [n, m] is 2nm operations; the way back makes two products of every one, so training is
three times the way there. What is no product (softmax, norms, dropout, Adam) is left out: it costs
time but hardly any operations.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch

from transduce.config import load_recipe
from transduce.data.batch import collate
from transduce.evaluation.metrics import Score
from transduce.io.machine import keep_freed_memory
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train.distributed import compute_device
from transduce.train.events import EventHandler, LogMessage
from transduce.train.optimizer import make_optimizers
from transduce.train.step import train_step

P100: Final = 9.5e12
"""Floating-point operations a second that the paper takes a P100 to sustain (Table 2)."""


class Lengths(NamedTuple):
    """Pieces of an average pair, EOS counted. All pairs count as being that long."""

    source: int
    target: int


class Counted(NamedTuple):
    """Floating-point operations of the way there, for one pair."""

    projections: int
    """Of all attentions: the four matrices of each."""
    mixing: int
    """QKᵀ and the weighted sum of the values: what grows with the square of the length. A masked
    product counts in full, as it is computed."""
    feed_forward: int
    output: int
    """The product with the embedding matrix before the softmax."""

    @property
    def training(self) -> int:
        """There and back."""
        return 3 * sum(self)


class Run(NamedTuple):
    """One of the paper's training runs, and what the paper says of it."""

    name: str
    recipe: str
    updates: int
    hours: float
    """Wall time, section 5.2: 12 hours and 3.5 days."""
    seconds_an_update: float
    gpus: int
    published: float
    """Floating-point operations, Table 2."""

    @property
    def estimated(self) -> float:
        """The paper's own arithmetic."""
        return self.hours * 3600 * self.gpus * P100


RUNS: Final = (
    Run("base", "wmt14-base-de", 100_000, 12.0, 0.4, 8, 3.3e18),
    Run("big", "wmt14-big-de", 300_000, 84.0, 1.0, 8, 2.3e19),
)
"""Source: Vaswani et al. 2017, section 5.2 and Table 2."""


def count(config: ModelConfig, lengths: Lengths) -> Counted:
    """Count the matrix products of one pair's way through a model.

    >>> counted = count(ModelConfig(), Lengths(1, 1))
    >>> counted.training / 1e6  # MFLOP for a piece of each side; six times the weights, about
    378.01...
    """
    encoder, decoder = config.encoder_layers, config.decoder_layers
    source, target = lengths
    heads = config.heads * (config.d_k + config.d_v)
    ends = encoder * 2 * source + decoder * (2 * target + target + source)
    """Positions that are projected: as queries and outputs, as keys and values."""
    met = encoder * source * source + decoder * target * (target + source)
    return Counted(
        projections=2 * config.d_model * heads * ends,
        mixing=2 * heads * met,
        feed_forward=2 * 2 * config.d_model * config.d_ff * (encoder * source + decoder * target),
        output=2 * config.d_model * config.vocab_size * target,
    )


class Account(NamedTuple):
    """A training run, counted."""

    run: Run
    parameters: int
    lengths: Lengths
    tokens: int
    """Target pieces of an update; about as many source pieces come with them."""
    a_pair: Counted
    total: float
    """Of all updates."""
    utilisation: float
    """Of the paper's estimate: the share of the assumed rate that the products needed."""

    @property
    def a_token(self) -> float:
        """Training operations for one target piece and its share of the source."""
        return self.a_pair.training / self.lengths.target


class Projected(NamedTuple):
    """A whole run somewhere, from a rate."""

    where: str
    rate: str
    """What it is projected from, in words."""
    hours: float
    price: float
    """In the currency of the price an hour."""


def account(run: Run, config: ModelConfig, *, tokens: int, lengths: Lengths) -> Account:
    """Count a training run.

    Args:
        run: which of the paper's.
        config: its model.
        tokens: target pieces of an update.
        lengths: of the average pair.
    """
    from transduce.paper.table3.rows import parameters

    pair = count(config, lengths)
    total = run.updates * tokens * pair.training / lengths.target
    return Account(
        run=run,
        parameters=parameters(config),
        lengths=lengths,
        tokens=tokens,
        a_pair=pair,
        total=total,
        utilisation=total / run.estimated,
    )


def on_gpu(counted: Account, *, tflops: float, hour_price: float) -> Projected:
    """Project a run on one GPU that sustains so many TFLOPS.

    Raises:
        ValueError: if the rate is not above 0, or the price below.
    """
    if not (tflops > 0 and hour_price >= 0):
        raise ValueError(
            f"--gpu-tflops must be above 0 and --gpu-hour-price not below, not {tflops} and "
            f"{hour_price}"
        )
    hours = counted.total / (tflops * 1e12) / 3600
    return Projected("one modern GPU", f"{tflops:g} TFLOPS, assumed", hours, hours * hour_price)


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumed:
    """What is not measured."""

    source_length: int = 28
    target_length: int = 28
    """Pieces of an average pair with EOS, about those of WMT 2014 at 37,000 pieces."""
    gpu_tflops: float = 400.0
    """What one modern GPU sustains in training, in bfloat16."""
    gpu_hour_price: float = 3.0
    hour_price: float = 0.1
    """Of this machine."""


class Speed(NamedTuple):
    """How fast this machine learns."""

    tokens_per_second: float
    """Target pieces, there and back, without the optimizer."""
    step_seconds: float
    """Of the optimizer, once an update."""
    threads: int
    device: str


class Cost(NamedTuple):
    """One of the paper's runs: counted, timed, projected."""

    account: Account
    speed: Speed
    projected: tuple[Projected, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table2:
    """All that `transduce paper table2` finds."""

    assumed: Assumed
    costs: tuple[Cost, ...]
    scores: tuple[Score, ...]
    """Of a file of translations, if one was given: sacreBLEU's, then the paper's way."""


def table2(
    assumed: Assumed,
    *,
    quick: bool,
    threads: int = 0,
    scores: Sequence[Score] = (),
    on_event: EventHandler,
) -> Table2:
    """Count, time and project the paper's base and big runs.

    Args:
        assumed: what is not measured.
        quick: one small update in place of three larger ones.
        threads: of one matrix product; 0 takes torch's choice.
        scores: of translations, both ways.
        on_event: called with each event of the run.

    Raises:
        ValueError: for lengths below 2, or a price or rate that cannot be.
    """
    lengths = Lengths(assumed.source_length, assumed.target_length)
    if min(lengths) < 2:
        raise ValueError(f"a sentence has 2 pieces or more, EOS counted, not {min(lengths)}")
    keep_freed_memory()
    costs: list[Cost] = []
    for run in RUNS:
        recipe = load_recipe(run.recipe)
        counted = account(run, recipe.model, tokens=recipe.batch.tokens, lengths=lengths)
        gpu = on_gpu(counted, tflops=assumed.gpu_tflops, hour_price=assumed.gpu_hour_price)
        on_event(LogMessage(text=f"timing {run.name}: {counted.parameters:,} parameters"))
        speed = measure(
            recipe.model,
            lengths,
            tokens=256 if quick else 1024,
            updates=1 if quick else 3,
            threads=threads,
        )
        here = projected(counted, speed, hour_price=assumed.hour_price)
        costs.append(Cost(counted, speed, (here, gpu)))
    return Table2(assumed=assumed, costs=tuple(costs), scores=tuple(scores))


def measure(
    config: ModelConfig, lengths: Lengths, *, tokens: int, updates: int, threads: int = 0
) -> Speed:
    """Time the gradients of some updates over made-up sentences, and the optimizer apart from them.

    Args:
        config: the model.
        lengths: of every sentence.
        tokens: target pieces of an update, about.
        updates: how many are timed, after one that is not.
        threads: of one matrix product; 0 takes torch's choice.
    """
    draw = torch.Generator().manual_seed(1)
    rows = max(1, tokens // lengths.target)
    # EOS comes on top of what is drawn; the first ids and the last are not words.
    source, target = (
        torch.randint(3, config.vocab_size - 1, (rows, length - 1), generator=draw).tolist()
        for length in lengths
    )
    batch = collate(source, target, pad=config.pad, eos=1)
    regime = load_recipe("base").train
    with compute_device(threads=threads) as device, torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = Transformer(config).to(device).train()
        here = batch.to(device)
        optimizers = make_optimizers(model, regime)
        spent: list[float] = []
        for _ in range(updates + 1):
            model.zero_grad()
            started = time.perf_counter()
            done = train_step(model, [here], optimizers=(), rates=())
            assert float(done.loss_sum) > 0.0  # waits for a device that works apart
            spent.append(time.perf_counter() - started)
        steps: list[float] = []
        for _ in range(2):  # the first one makes room for the moments
            started = time.perf_counter()
            for optimizer in optimizers:
                optimizer.step()
            float(model.embedding.weight.detach()[0, 0])  # waits for a device that works apart
            steps.append(time.perf_counter() - started)
        return Speed(
            tokens_per_second=batch.target_tokens * updates / sum(spent[1:]),
            step_seconds=steps[-1],
            threads=torch.get_num_threads(),
            device=str(device),
        )


def projected(counted: Account, speed: Speed, *, hour_price: float) -> Projected:
    """Project a whole run on this machine.

    Raises:
        ValueError: for a price below 0.
    """
    if not hour_price >= 0:
        raise ValueError(f"--hour-price must be 0 or more, not {hour_price}")
    an_update = counted.tokens / speed.tokens_per_second + speed.step_seconds
    hours = counted.run.updates * an_update / 3600
    threads = f"{speed.threads} thread{'s' if speed.threads > 1 else ''}"
    where = "this machine" + (f" ({speed.device})" if speed.device != "cpu" else f", {threads}")
    rate = f"{speed.tokens_per_second:,.0f} target tokens/s, measured"
    return Projected(where, rate, hours, hours * hour_price)
