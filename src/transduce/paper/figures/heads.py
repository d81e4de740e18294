"""One head against eight of an eighth of its width: section 3.2.2, at equal cost.

"Due to the reduced dimension of each head, the total computational cost is similar to that of
single-head attention with full dimensionality." "With a single attention head, averaging inhibits"
attending "to information from different representation subspaces at different positions".

The task asks for two places at once: a sentence of names with values, two names, and the values of
the first and of the second have to be said in this order. One softmax can give both places a half
of its weight, but their mean does not tell which value is whose.
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
from transduce.paper.figures.common import Shown, learn, look_of, unseen_draws
from transduce.paper.plot import Ink

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES, VALUES, PAIRS, ASKED, WIDTH = 32, 16, 8, 4, 64


class TwoPlaces(nn.Module):
    """The model's own attention with nothing but embeddings before it and a linear map behind."""

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
        asked: Int[Tensor, "batch query 2"],
    ) -> Float[Tensor, "batch query 2 value"]:
        """The logits of the first name's value, and of the second's."""
        memory = self.attend.project_kv(self.names(names) + self.values(values))
        x = self.first(asked[..., 0]) + self.second(asked[..., 1])
        return self.out(self.attend(x, memory)).unflatten(-1, (2, VALUES))


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """One attention of the base model's width, cut into heads."""

    heads: int
    parameters: int
    operations: int
    """Floating-point operations of the matrix products of one sentence, counted by torch."""
    softmaxed: int
    """Scores that go through a softmax; they grow with the heads and are not in `operations`."""
    seconds: float
    """Forward and backward, the median of some repetitions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """The two-places task after equally many updates."""

    heads: int
    both_right: tuple[float, ...]
    """Share of questions never seen with both values right and in order, one a seed."""
    values_right: tuple[float, ...]
    """Share of single values that are right; who finds one of two always has a half."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heads:
    """What heads cost, and what they are good for."""

    length: int
    d_model: int
    costs: tuple[Cut, ...]
    updates: int
    answers: tuple[Answers, ...]


def measure_heads(
    cuts: tuple[int, ...] = (1, 2, 8),
    *,
    d_model: int = 512,
    length: int = 50,
    seeds: int = 5,
    updates: int = 400,
    repeats: int = 15,
) -> Heads:
    """Count and time an attention of `d_model` in so many heads, and let each learn the task."""
    return Heads(
        length=length,
        d_model=d_model,
        costs=tuple(_cut(heads, d_model, length=length, repeats=repeats) for heads in cuts),
        updates=updates,
        answers=tuple(_answers(heads, seeds=seeds, updates=updates) for heads in cuts),
    )


def heads_figure(*, quick: bool = False) -> Shown:
    """Measure, and draw costs and answers."""
    if quick:
        found = measure_heads((1, 4), d_model=64, length=11, seeds=1, updates=9, repeats=2)
    else:
        found = measure_heads()
    one, many = found.costs[0], found.costs[-1]
    alone, together = found.answers[0], found.answers[-1]
    same = "the same" if one.operations == many.operations else "not the same"
    return Shown(
        title="One head against eight at equal cost (3.2.2)",
        numbers=found,
        found=(
            f"{one.heads} head of {found.d_model} and {many.heads} of "
            f"{found.d_model // many.heads} need {same} number of operations "
            f"({one.operations:,} and {many.operations:,}) and parameters; the time is "
            f"{many.seconds / one.seconds:.2f} of one head's. Asked for two places at once, one "
            f"head has both right in {_percent(alone.both_right)} of the questions and "
            f"{_percent(alone.values_right)} of the single values; {many.heads} heads have both "
            f"right in {_percent(together.both_right)} (means of {len(alone.both_right)} seeds)."
        ),
        draw=lambda figure, ink: _draw(found, figure, ink),
        height=3.2,
    )


def _cut(heads: int, d_model: int, *, length: int, repeats: int) -> Cut:
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
    return Cut(
        heads=heads,
        parameters=sum(weight.numel() for weight in attention.parameters()),
        operations=counter.get_total_flops(),
        softmaxed=heads * length**2,
        seconds=median(spent),
    )


def _batch(draws: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Names, their values, and which two pairs each question is about."""
    names = torch.rand(32, NAMES, generator=draws).argsort(-1)[:, :PAIRS]
    values = torch.randint(VALUES, (32, PAIRS), generator=draws)
    two = torch.rand(32, ASKED, PAIRS, generator=draws).argsort(-1)[..., :2]
    return names, values, two


def _answered(module: nn.Module, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Logits and right values, question by question."""
    names, values, two = _batch(draws)
    asked, right = (each.gather(1, two.flatten(1)).view_as(two) for each in (names, values))
    return module(names, values, asked), right


def _loss(module: nn.Module, draws: torch.Generator) -> Tensor:
    logits, right = _answered(module, draws)
    return F.cross_entropy(logits.flatten(0, 2), right.flatten())


def _answers(heads: int, *, seeds: int, updates: int) -> Answers:
    both, single = list[float](), list[float]()
    for seed in range(seeds):
        trained = learn(lambda: TwoPlaces(heads), _loss, updates=updates, rate=3e-3, seed=seed)
        draws = unseen_draws(seed)
        with torch.inference_mode():
            answers = [_answered(trained, draws) for _ in range(16)]
        said = torch.cat([logits.argmax(-1) for logits, _ in answers])
        right = torch.cat([right for _, right in answers])
        both.append((said == right).all(-1).double().mean().item())
        single.append((said == right).double().mean().item())
    return Answers(heads=heads, both_right=tuple(both), values_right=tuple(single))


def _percent(shares: tuple[float, ...]) -> str:
    return f"{100 * mean(shares):.0f} %"


def _draw(found: Heads, figure: "Figure", ink: Ink) -> None:
    left, right = figure.subplots(1, 2)
    names = [str(cut.heads) for cut in found.costs]
    first = found.costs[0]
    places = range(len(names))
    operations = [cut.operations / first.operations for cut in found.costs]
    seconds = [cut.seconds / first.seconds for cut in found.costs]
    left.plot(places, operations, color=ink.lines[0], marker="o", label="operations")
    left.plot(places, seconds, color=ink.lines[1], marker="s", label="time")
    left.set(title="cost, as a share of one head's", ylim=(0, 1.15 * max(operations + seconds)))
    for number, (name, of) in enumerate(
        (("both values", "both_right"), ("single values", "values_right"))
    ):
        shares: list[tuple[float, ...]] = [getattr(each, of) for each in found.answers]
        look = look_of(number, ink)
        right.plot(places, [100 * mean(each) for each in shares], label=name, **look)
        for place, each in zip(places, shares, strict=True):
            right.plot(
                [place] * len(each), [100 * x for x in each], linestyle="", alpha=0.5, **look
            )
    right.set(title="right, %", ylim=(0, 105))
    for axes in (left, right):
        axes.set_xticks(places, names)
        axes.set(xlabel="heads")
        axes.legend(loc="lower right")
