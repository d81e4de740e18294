"""Three ways to compare a query with a key: section 3.2.1's paragraph on them, measured.

    scaled    q · k / √d_k
    dot       q · k
    additive  vᵀ tanh(W q + U k), one hidden layer (Bahdanau et al. 2015)

"The two are similar in theoretical complexity, dot-product attention is much faster and more
space-efficient in practice. While for small values of d_k the two mechanisms perform similarly,
additive attention outperforms dot product attention without scaling for larger values of d_k."
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.paper.figures.memory import peak_bytes
from transduce.paper.figures.shown import Shown, look_of
from transduce.paper.figures.toy import learn, unseen_draws
from transduce.paper.plot import Ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["scaled", "dot", "additive"]
KINDS: tuple[Kind, ...] = ("scaled", "dot", "additive")
NAMES = {"scaled": "q · k / √d_k", "dot": "q · k", "additive": "vᵀ tanh(W q + U k)"}
KEYS, VALUES, PAIRS, ASKED, WIDTH = 64, 16, 16, 8, 64
"""The task: names and values there are, pairs in a sentence, questions about it; and d_model."""


class Scores(nn.Module):
    """One head's projections of d_model to d_k, and one of the three comparisons."""

    def __init__(self, kind: Kind, *, d_model: int, d_k: int) -> None:
        super().__init__()
        self.kind, self.d_k = kind, d_k
        self.query = nn.Linear(d_model, d_k, bias=False)  # W of the additive one
        self.key = nn.Linear(d_model, d_k, bias=False)  # and U
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.xavier_uniform_(self.key.weight)
        self.v = nn.Parameter(torch.randn(d_k) / d_k**0.5) if kind == "additive" else None

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch memory d_model"],
    ) -> Float[Tensor, "batch query memory"]:
        """What goes into the softmax."""
        queries, keys = self.query(x), self.key(memory)
        if self.v is not None:
            return (queries[:, :, None] + keys[:, None]).tanh() @ self.v
        products = queries @ keys.mT
        return products / self.d_k**0.5 if self.kind == "scaled" else products


class Lookup(nn.Module):
    """One attention that finds a name among others and says its value."""

    def __init__(self, kind: Kind, *, d_k: int) -> None:
        super().__init__()
        self.names = nn.Embedding(KEYS, WIDTH)
        self.values = nn.Embedding(VALUES, WIDTH)
        self.scores = Scores(kind, d_model=WIDTH, d_k=d_k)
        self.out = nn.Linear(WIDTH, VALUES)

    def forward(
        self,
        names: Int[Tensor, "batch memory"],
        values: Int[Tensor, "batch memory"],
        asked: Int[Tensor, "batch query"],
    ) -> Float[Tensor, "batch query value"]:
        """The logits of the values of the names that are asked for."""
        weights = self.scores(self.names(asked), self.names(names)).softmax(-1)
        return self.out(weights @ self.values(values))


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """One forward and backward pass of the comparison and its softmax."""

    kind: Kind
    length: int
    seconds: float
    """The median of some repetitions."""
    peak_bytes: int
    """The most that its tensors held at once, above what was there before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """The key lookup after equally many updates."""

    kind: Kind
    d_k: int
    losses: tuple[float, ...]
    """Nats a question on sentences never seen, one a seed; guessing has ln 16 = 2.77."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Speed, memory and learning."""

    width: int
    """d_k of the costs."""
    batch: int
    costs: tuple[Cost, ...]
    updates: int
    learned: tuple[Learned, ...]


def measure_compatibility(
    *,
    lengths: tuple[int, ...] = (32, 64, 128, 256),
    widths: tuple[int, ...] = (8, 64, 512),
    seeds: int = 5,
    updates: int = 150,
    repeats: int = 9,
) -> Compared:
    """Time the three, weigh their tensors, and let each learn the same lookup."""
    batch, width = 4, 64
    costs = [
        _cost(kind, batch=batch, length=length, d_k=width, repeats=repeats)
        for length in lengths
        for kind in KINDS
    ]
    learned = [
        Learned(
            kind=kind,
            d_k=d_k,
            losses=tuple(_loss_of(kind, d_k, updates=updates, seed=s) for s in range(seeds)),
        )
        for d_k in widths
        for kind in KINDS
    ]
    return Compared(
        width=width, batch=batch, costs=tuple(costs), updates=updates, learned=tuple(learned)
    )


def compatibility_figure(*, quick: bool = False) -> Shown:
    """Measure, and draw time, memory and losses."""
    if quick:
        found = measure_compatibility(
            lengths=(16, 32), widths=(4, 16), seeds=1, updates=9, repeats=2
        )
    else:
        found = measure_compatibility()
    of = {(cost.kind, cost.length): cost for cost in found.costs}
    longest = found.costs[-1].length
    scaled, additive = of["scaled", longest], of["additive", longest]
    losses = {(one.kind, one.d_k): median(one.losses) for one in found.learned}
    narrow, wide = found.learned[0].d_k, found.learned[-1].d_k
    said = {
        d_k: ", ".join(f"{losses[kind, d_k]:.3f} ({kind})" for kind in KINDS)
        for d_k in (narrow, wide)
    }
    return Shown(
        title="Additive, dot-product and scaled dot-product attention (3.2.1)",
        numbers=found,
        found=(
            f"At {longest} positions and d_k {found.width} the additive comparison takes "
            f"{additive.seconds / scaled.seconds:.0f} times the time and "
            f"{additive.peak_bytes / scaled.peak_bytes:.0f} times the memory of the scaled "
            f"products. A key lookup after {found.updates} updates, median loss of "
            f"{len(found.learned[0].losses)} seeds: at d_k {narrow} {said[narrow]}; at d_k {wide} "
            f"{said[wide]}."
        ),
        draw=lambda figure, ink: _draw(found, figure, ink),
    )


def _cost(kind: Kind, *, batch: int, length: int, d_k: int, repeats: int) -> Cost:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        scores = Scores(kind, d_model=d_k, d_k=d_k)
        x = torch.randn(batch, length, d_k)

    def once() -> None:
        scores.zero_grad(set_to_none=True)
        scores(x, x).softmax(-1).square().sum().backward()

    peak, spent = peak_bytes(once), list[float]()
    for _ in range(repeats):
        started = time.perf_counter()
        once()
        spent.append(time.perf_counter() - started)
    return Cost(kind=kind, length=length, seconds=median(spent), peak_bytes=peak)


def _loss(module: nn.Module, draws: torch.Generator) -> Tensor:
    names = torch.rand(16, KEYS, generator=draws).argsort(-1)[:, :PAIRS]
    values = torch.randint(VALUES, (16, PAIRS), generator=draws)
    asked = torch.randint(PAIRS, (16, ASKED), generator=draws)
    logits = module(names, values, names.gather(1, asked))
    return F.cross_entropy(logits.flatten(0, 1), values.gather(1, asked).flatten())


def _loss_of(kind: Kind, d_k: int, *, updates: int, seed: int) -> float:
    trained = learn(lambda: Lookup(kind, d_k=d_k), _loss, updates=updates, rate=3e-3, seed=seed)
    draws = unseen_draws(seed)
    with torch.inference_mode():
        return sum(_loss(trained, draws).item() for _ in range(16)) / 16


def _draw(found: Compared, figure: "Figure", ink: Ink) -> None:
    fast, small, good = figure.subplots(1, 3)
    lengths = sorted({cost.length for cost in found.costs})
    _lines(fast, found, ink, lambda cost: 1000 * cost.seconds)
    _lines(small, found, ink, lambda cost: cost.peak_bytes / 2**20)
    widths = sorted({one.d_k for one in found.learned})
    for number, kind in enumerate(KINDS):
        look = look_of(number, ink)
        ours = [one for one in found.learned if one.kind == kind]
        good.plot(widths, [median(one.losses) for one in ours], label=NAMES[kind], **look)
        for one in ours:
            good.plot([one.d_k] * len(one.losses), one.losses, linestyle="", alpha=0.5, **look)
    for axes, title, label, ticks in (
        (fast, "time, ms", "positions", lengths),
        (small, "peak memory, MiB", "positions", lengths),
        (good, "loss, same updates", "d_k", widths),
    ):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set(title=title, xlabel=label)
    figure.legend(*fast.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _lines(axes: "Axes", found: Compared, ink: Ink, of: Callable[[Cost], float]) -> None:
    for number, kind in enumerate(KINDS):
        ours = [cost for cost in found.costs if cost.kind == kind]
        axes.plot(
            [cost.length for cost in ours],
            [of(cost) for cost in ours],
            label=NAMES[kind],
            **look_of(number, ink),
        )
