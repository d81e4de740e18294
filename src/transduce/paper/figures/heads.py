"""One head against eight of an eighth of its width: section 3.2.2, at equal cost.

"Due to the reduced dimension of each head, the total computational cost is similar to that of
single-head attention with full dimensionality." "With a single attention head, averaging inhibits"
attending "to information from different representation subspaces at different positions".

The task asks for two positions at once: given a sequence of names with values and two names,
predict the value of the first and of the second, in order. One softmax can put half of its weight
on each position, but their mean does not tell which value belongs to which name.
"""

import time
from dataclasses import dataclass
from statistics import mean, median
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from transduce.model.attention import Attention
from transduce.paper.figures.common import PaperFigure, line_style, test_generator, train_module
from transduce.paper.plot import Ink

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES, VALUES, PAIRS, QUERIES, WIDTH = 32, 16, 8, 4, 64


class TwoPositionLookup(nn.Module):
    """The model's attention between embeddings and one linear map."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.names = nn.Embedding(NAMES, WIDTH)
        self.values = nn.Embedding(VALUES, WIDTH)
        self.first = nn.Embedding(NAMES, WIDTH)
        self.second = nn.Embedding(NAMES, WIDTH)
        self.attend = Attention(WIDTH, heads=heads, d_k=WIDTH // heads, d_v=WIDTH // heads)
        self.out = nn.Linear(WIDTH, 2 * VALUES)

    def forward(
        self,
        names: Int[Tensor, "batch pair"],
        values: Int[Tensor, "batch pair"],
        queried: Int[Tensor, "batch query 2"],
    ) -> Float[Tensor, "batch query 2 value"]:
        """Return the logits of both queried names' values.

        Args:
            names: of the pairs.
            values: of the pairs.
            queried: two names per query.
        """
        memory = self.attend.project_kv(self.names(names) + self.values(values))
        x = self.first(queried[..., 0]) + self.second(queried[..., 1])
        return self.out(self.attend(x, memory)).unflatten(-1, (2, VALUES))


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadCost:
    """Cost of one attention of fixed width, split into heads."""

    heads: int
    parameters: int
    operations: int
    """Floating-point operations of the matrix products of one sentence, counted by torch."""
    softmaxed: int
    """Scores passed to the softmax; they grow with the heads and are not in `operations`."""
    seconds: float
    """Forward and backward, median of the repetitions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupAccuracy:
    """Accuracy on the two-position task after a fixed number of updates."""

    heads: int
    both_right: tuple[float, ...]
    """Share of unseen queries with both values right and in order, one per seed."""
    values_right: tuple[float, ...]
    """Share of single values that are right; finding one of two gives 0.5."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadComparison:
    """Cost and accuracy by number of heads."""

    length: int
    d_model: int
    costs: tuple[HeadCost, ...]
    updates: int
    answers: tuple[LookupAccuracy, ...]


def measure_heads(
    cuts: tuple[int, ...] = (1, 2, 8),
    *,
    d_model: int = 512,
    length: int = 50,
    seeds: int = 5,
    updates: int = 400,
    repeats: int = 15,
) -> HeadComparison:
    """Measure cost and learning of one attention split into different numbers of heads.

    Args:
        cuts: numbers of heads.
        d_model: width of the timed attention.
        length: positions of the timed sequence.
        seeds: training runs per number of heads.
        updates: optimizer steps per run.
        repeats: timed repetitions.
    """
    return HeadComparison(
        length=length,
        d_model=d_model,
        costs=tuple(
            _measure_cost(heads, d_model, length=length, repeats=repeats) for heads in cuts
        ),
        updates=updates,
        answers=tuple(_measure_accuracy(heads, seeds=seeds, updates=updates) for heads in cuts),
    )


def heads_figure(*, quick: bool = False) -> PaperFigure:
    """Measure, and plot costs and accuracy."""
    if quick:
        result = measure_heads((1, 4), d_model=64, length=11, seeds=1, updates=9, repeats=2)
    else:
        result = measure_heads()
    single, many = result.costs[0], result.costs[-1]
    single_accuracy, many_accuracy = result.answers[0], result.answers[-1]
    same = "the same" if single.operations == many.operations else "not the same"
    return PaperFigure(
        title="One head against eight at equal cost (3.2.2)",
        numbers=result,
        finding=(
            f"{single.heads} head of {result.d_model} and {many.heads} of "
            f"{result.d_model // many.heads} need {same} number of operations "
            f"({single.operations:,} and {many.operations:,}) and parameters; the time is "
            f"{many.seconds / single.seconds:.2f} of one head's. On two positions at once, one "
            f"head gets both right in {_percent(single_accuracy.both_right)} of the questions and "
            f"{_percent(single_accuracy.values_right)} of the single values; {many.heads} heads "
            f"have both right in {_percent(many_accuracy.both_right)} (means of "
            f"{len(single_accuracy.both_right)} seeds)."
        ),
        draw=lambda figure, ink: _draw(result, figure, ink),
        height=3.2,
    )


def _measure_cost(heads: int, d_model: int, *, length: int, repeats: int) -> HeadCost:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        attention = Attention(d_model, heads=heads, d_k=d_model // heads, d_v=d_model // heads)
        x, many = torch.randn(1, length, d_model), torch.randn(8, length, d_model)
    with FlopCounterMode(display=False) as counter:
        attention(x, attention.project_kv(x))
    spent = list[float]()
    for _ in range(repeats):
        started = time.perf_counter()
        attention(many, attention.project_kv(many)).sum().backward()
        spent.append(time.perf_counter() - started)
    return HeadCost(
        heads=heads,
        parameters=sum(weight.numel() for weight in attention.parameters()),
        operations=counter.get_total_flops(),
        softmaxed=heads * length**2,
        seconds=median(spent),
    )


def _batch(draws: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw names, their values, and the two pairs of each query."""
    names = torch.rand(32, NAMES, generator=draws).argsort(-1)[:, :PAIRS]
    values = torch.randint(VALUES, (32, PAIRS), generator=draws)
    two = torch.rand(32, QUERIES, PAIRS, generator=draws).argsort(-1)[..., :2]
    return names, values, two


def _predict(module: nn.Module, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return logits and right values per query."""
    names, values, two = _batch(draws)
    queried, right = (ids.gather(1, two.flatten(1)).view_as(two) for ids in (names, values))
    return module(names, values, queried), right


def _loss(module: nn.Module, draws: torch.Generator) -> Tensor:
    logits, right = _predict(module, draws)
    return F.cross_entropy(logits.flatten(0, 2), right.flatten())


def _measure_accuracy(heads: int, *, seeds: int, updates: int) -> LookupAccuracy:
    both, single = list[float](), list[float]()
    for seed in range(seeds):
        trained = train_module(
            lambda: TwoPositionLookup(heads), _loss, updates=updates, learning_rate=3e-3, seed=seed
        )
        draws = test_generator(seed)
        with torch.inference_mode():
            answers = [_predict(trained, draws) for _ in range(16)]
        predicted = torch.cat([logits.argmax(-1) for logits, _ in answers])
        right = torch.cat([right for _, right in answers])
        both.append((predicted == right).all(-1).double().mean().item())
        single.append((predicted == right).double().mean().item())
    return LookupAccuracy(heads=heads, both_right=tuple(both), values_right=tuple(single))


def _percent(shares: tuple[float, ...]) -> str:
    return f"{100 * mean(shares):.0f} %"


def _draw(result: HeadComparison, figure: "Figure", ink: Ink) -> None:
    left, right = figure.subplots(1, 2)
    names = [str(cut.heads) for cut in result.costs]
    first = result.costs[0]
    places = range(len(names))
    operations = [cut.operations / first.operations for cut in result.costs]
    seconds = [cut.seconds / first.seconds for cut in result.costs]
    left.plot(places, operations, color=ink.lines[0], marker="o", label="operations")
    left.plot(places, seconds, color=ink.lines[1], marker="s", label="time")
    left.set(title="cost, as a share of one head's", ylim=(0, 1.15 * max(operations + seconds)))
    for number, (name, field) in enumerate(
        (("both values", "both_right"), ("single values", "values_right"))
    ):
        shares: list[tuple[float, ...]] = [getattr(accuracy, field) for accuracy in result.answers]
        style = line_style(number, ink)
        right.plot(places, [100 * mean(by_seed) for by_seed in shares], label=name, **style)
        for place, by_seed in zip(places, shares, strict=True):
            right.plot(
                [place] * len(by_seed), [100 * x for x in by_seed], linestyle="", alpha=0.5, **style
            )
    right.set(title="right, %", ylim=(0, 105))
    for axes in (left, right):
        axes.set_xticks(places, names)
        axes.set(xlabel="heads")
        axes.legend(loc="lower right")
