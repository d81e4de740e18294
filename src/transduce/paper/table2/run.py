"""Training cost of the paper's models: FLOPs counted from their shapes.

The paper estimates FLOPs as wall time x GPUs x the assumed sustained rate of a P100. Here the
matrix products are counted: multiplying a vector of n by a matrix [n, m] takes 2nm FLOPs. The
backward pass has two products for each of the forward pass, so training is three times the forward
pass. Softmax, norms, dropout and Adam are left out: they take time but few FLOPs.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from timeit import repeat
from typing import Final, NamedTuple

import torch

from transduce.config import load_recipe
from transduce.data.batch import collate
from transduce.evaluation.metrics import Score
from transduce.io.machine import keep_freed_memory
from transduce.model.config import ModelConfig
from transduce.model.numpy_transformer import parameter_count
from transduce.model.transformer import Transformer
from transduce.paper.report import provenance, published_rows
from transduce.train.distributed import compute_device
from transduce.train.events import EventHandler, LogMessage
from transduce.train.fused_passes import make_fused_passes
from transduce.train.optimizer import make_optimizers
from transduce.train.precision import make_replica
from transduce.train.step import train_step

P100: Final = 9.5e12
"""Floating-point operations a second that the paper takes a P100 to sustain (Table 2)."""


class SentenceLengths(NamedTuple):
    """Pieces of an average pair, EOS counted. All pairs count as being that long."""

    source: int
    target: int


class Counted(NamedTuple):
    """FLOPs of the forward pass for one pair."""

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
        """FLOPs of forward and backward pass."""
        return 3 * sum(self)


class Run(NamedTuple):
    """One of the paper's training runs, as published."""

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


def count(config: ModelConfig, lengths: SentenceLengths) -> Counted:
    """Count the FLOPs of a forward pass of one pair.

    >>> counted = count(ModelConfig(), SentenceLengths(1, 1))
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
    lengths: SentenceLengths
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
    """Projected duration and price of a run."""

    where: str
    rate: str
    """What it is projected from, in words."""
    hours: float
    price: float
    """In the currency of the price an hour."""


def account(run: Run, config: ModelConfig, *, tokens: int, lengths: SentenceLengths) -> Account:
    """Count a training run.

    Args:
        run: which of the paper's.
        config: its model.
        tokens: target pieces of an update.
        lengths: of the average pair.
    """
    pair = count(config, lengths)
    total = run.updates * tokens * pair.training / lengths.target
    return Account(
        run=run,
        parameters=parameter_count(config),
        lengths=lengths,
        tokens=tokens,
        a_pair=pair,
        total=total,
        utilisation=total / run.estimated,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Assumed:
    """Assumptions of the projections.

    Raises:
        ValueError: for lengths below 2, or a price or rate that cannot be.
    """

    mean_length: int = 28
    """Pieces of an average sentence with EOS, about those of WMT 2014 at 37,000 pieces."""
    gpu_tflops: float = 100.0
    """What one modern GPU sustains in training, in bfloat16."""
    gpu_hour_price: float = 3.0
    hour_price: float = 0.1
    """Of this machine."""

    def __post_init__(self) -> None:
        if self.mean_length < 2:
            raise ValueError(
                f"--mean-length must be 2 pieces or more, EOS included, not {self.mean_length}"
            )
        if not (self.gpu_tflops > 0 and self.gpu_hour_price >= 0):
            raise ValueError(
                f"--gpu-tflops must be above 0 and --gpu-hour-price not below, not "
                f"{self.gpu_tflops} and {self.gpu_hour_price}"
            )
        if not self.hour_price >= 0:
            raise ValueError(f"--hour-price must be 0 or more, not {self.hour_price}")


class Speed(NamedTuple):
    """Measured training speed of this machine."""

    tokens_per_second: float
    """Target pieces, there and back, without the optimizer."""
    step_seconds: float
    """Of the optimizer, once an update."""
    threads: int
    device: str


PUBLISHED: Final = [
    (row["model"], *map(row.get, ("bleu_de", "bleu_fr", "cost_de", "cost_fr")))
    for row in published_rows("table2")
]
"""Rows of the paper's Table 2: the model, then BLEU and training FLOPs, each EN-DE and EN-FR."""


def table2(
    assumed: Assumed,
    *,
    quick: bool,
    threads: int = 0,
    scores: Sequence[Score] = (),
    on_event: EventHandler,
) -> dict[str, object]:
    """Count, time and project the paper's base and big runs.

    Args:
        assumed: what is not measured.
        quick: one small update in place of three larger ones.
        threads: of one matrix product; 0 takes torch's choice.
        scores: of translations: sacreBLEU's, then the paper's way.
        on_event: called with each event of the run.

    Returns:
        The content of table2.json.
    """
    lengths = SentenceLengths(assumed.mean_length, assumed.mean_length)
    keep_freed_memory()
    costs: list[dict[str, object]] = []
    for run in RUNS:
        recipe = load_recipe(run.recipe)
        counted = account(run, recipe.model, tokens=recipe.batch.tokens, lengths=lengths)
        on_event(LogMessage(text=f"timing {run.name}: {counted.parameters:,} parameters"))
        speed = measure(
            recipe.model,
            lengths,
            tokens=256 if quick else 1024,
            updates=1 if quick else 3,
            threads=threads,
        )
        projections = (project_here(counted, speed, assumed), project_on_gpu(counted, assumed))
        cost: dict[str, object] = {
            **counted._asdict(),
            "run": run._asdict(),
            "lengths": lengths._asdict(),
            "a_pair": counted.a_pair._asdict(),
            "a_token": counted.a_token,
            "estimated": run.estimated,
            "speed": speed._asdict(),
            "projected": [projection._asdict() for projection in projections],
        }
        costs.append(cost)
    return {
        **provenance(),
        "quick": quick,
        "assumed": asdict(assumed),
        "costs": costs,
        "scores": [asdict(score) for score in scores],
        "published": PUBLISHED,
    }


def measure(
    config: ModelConfig, lengths: SentenceLengths, *, tokens: int, updates: int, threads: int = 0
) -> Speed:
    """Time gradients and optimizer steps on random sentences.

    Args:
        config: the model.
        lengths: of every sentence.
        tokens: target pieces of an update, about.
        updates: how many are timed, after two that are not.
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
        optimizers = make_optimizers(model, regime)
        replica = make_replica(model, regime)
        passes = make_fused_passes(model, regime, replica)

        def compute_gradients() -> None:
            model.zero_grad()
            result = train_step(
                model, [batch], optimizers=(), rates=(), replica=replica, passes=passes
            )
            assert float(result.loss_sum) > 0.0  # synchronizes an asynchronous device

        def step() -> None:
            for optimizer in optimizers:
                optimizer.step()
            float(model.embedding.weight.detach()[0, 0])  # synchronizes an asynchronous device

        # On a GPU the second update records what later ones replay.
        _, _, *spent = repeat(compute_gradients, number=1, repeat=updates + 2)
        _, step_seconds = repeat(step, number=1, repeat=2)  # the first makes room for the moments
        return Speed(
            tokens_per_second=batch.target_tokens * updates / sum(spent),
            step_seconds=step_seconds,
            threads=torch.get_num_threads(),
            device=str(device),
        )


def project_here(counted: Account, speed: Speed, assumed: Assumed) -> Projected:
    """Project a whole run on this machine, by the speed that was measured."""
    an_update = counted.tokens / speed.tokens_per_second + speed.step_seconds
    hours = counted.run.updates * an_update / 3600
    threads = f"{speed.threads} thread{'s' if speed.threads > 1 else ''}"
    where = "this machine" + (f" ({speed.device})" if speed.device != "cpu" else f", {threads}")
    rate = f"{speed.tokens_per_second:,.0f} target tokens/s, measured"
    return Projected(where, rate, hours, hours * assumed.hour_price)


def project_on_gpu(counted: Account, assumed: Assumed) -> Projected:
    """Project a run on one GPU of the assumed rate and price."""
    hours = counted.total / (assumed.gpu_tflops * 1e12) / 3600
    rate = f"{assumed.gpu_tflops:g} TFLOPS, assumed"
    return Projected("one modern GPU", rate, hours, hours * assumed.gpu_hour_price)
