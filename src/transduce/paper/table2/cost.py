"""What it costs to train the paper's models: floating-point operations counted from the shape.

The paper estimates: wall time x GPUs x the rate that it takes a P100 to sustain. Here the matrix
products are counted, so the two can be set beside each other. A product of a row of n numbers with
a matrix [n, m] is 2nm operations; the way back makes two products of every one, so training is
three times the way there. What is no product (softmax, norms, dropout, Adam) is left out: it costs
time but hardly any operations.
"""

from typing import Final, NamedTuple

from transduce.model.config import ModelConfig

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
