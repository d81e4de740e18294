"""Attention scores: the scaling by 1/√d_k, and three ways to compare a query with a key (3.2.1)."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from transduce.paper.figures.common import PaperFigure, line_style, test_generator, train_module
from transduce.paper.plot import Ink


class _LiveTensors(TorchDispatchMode):
    """Sees every operation's results, and keeps no tensor alive by that."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[StorageWeakRef, int] = {}
        self.peak = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        del types
        inputs = {
            _key(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
        }
        output = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(output):
            if isinstance(leaf, torch.Tensor) and _key(leaf) not in inputs:
                self.sizes[_key(leaf)] = leaf.untyped_storage().nbytes()
        self.sizes = {key: size for key, size in self.sizes.items() if not key.expired()}
        self.peak = max(self.peak, sum(self.sizes.values()))
        return output


def peak_bytes(compute: Callable[[], object]) -> int:
    """Return the peak bytes of live tensors made in `compute`, those autograd saves included.

    Scratch memory within one operation is not counted.

    >>> peak_bytes(lambda: torch.zeros(256) + torch.zeros(256))
    3072
    """
    with _LiveTensors() as live:
        compute()
    return live.peak


def _key(tensor: torch.Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, kw_only=True, slots=True)
class Saturation:
    """The softmax over products of one width."""

    d_k: int
    scaled: bool
    variance: float
    """Of the products, as they go into the softmax; footnote 4 says d_k without the scaling."""
    gradient: float
    """The mean Frobenius norm of the softmax's Jacobian."""
    median_gradient: float
    """The median; few queries with two nearly equal best keys dominate the mean."""
    one_key: float
    """Share of queries with more than 0.99 of their weight on one key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """The softmax for every width, with and without scaling."""

    keys: int
    queries: int
    rows: tuple[Saturation, ...]

    def of(self, *, scaled: bool) -> list[Saturation]:
        """Return the rows with scaling, or those without."""
        return [row for row in self.rows if row.scaled == scaled]


def jacobian_norm(shares: Float[Tensor, "query key"]) -> Float[Tensor, " query"]:
    """The Frobenius norm of the softmax's Jacobian diag(p) − p pᵀ, without making the matrix.

    Its square is Σ p² − 2 Σ p³ + (Σ p²)².

    >>> round(jacobian_norm(torch.tensor([[0.5, 0.5]])).item(), 6)
    0.5
    """
    squares = shares.square().sum(-1)
    return (squares - 2 * shares.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt()


def measure_scaling(
    widths: tuple[int, ...] = WIDTHS, *, keys: int = 32, queries: int = 1024, seed: int = 1
) -> Scaling:
    """Draw queries and keys of every width and measure the softmax of their products.

    Args:
        widths: values of d_k.
        keys: keys per query; every query has its own.
        queries: queries per width.
        seed: of the random draws.
    """
    draws = torch.Generator().manual_seed(seed)
    rows: list[Saturation] = []
    for d_k in widths:
        products = torch.cat(
            [
                (
                    torch.randn(64, keys, d_k, generator=draws)
                    @ torch.randn(64, d_k, 1, generator=draws)
                )[..., 0]
                for _ in range(0, queries, 64)  # in chunks, to save memory
            ]
        ).double()
        rows += [_row(products, d_k=d_k), _row(products / d_k**0.5, d_k=d_k, scaled=True)]
    return Scaling(keys=keys, queries=queries, rows=tuple(rows))


def scaling_figure(*, quick: bool = False) -> PaperFigure:
    """Measure, and plot variance and gradient against d_k."""
    result = measure_scaling(WIDTHS[:5], queries=256) if quick else measure_scaling(queries=4096)
    raw, scaled = result.of(scaled=False), result.of(scaled=True)
    off = max(abs(row.variance / row.d_k - 1) for row in raw)
    return PaperFigure(
        title="Softmax with and without 1/√d_k (3.2.1, footnote 4)",
        numbers=result,
        finding=(
            f"The variance of q · k is d_k to within {100 * off:.0f} % from d_k {raw[0].d_k} to "
            f"{raw[-1].d_k}. At d_k {raw[-1].d_k} the gradient of a softmax over {result.keys} "
            f"keys is {_scientific(raw[-1].median_gradient)} in the median and "
            f"{raw[-1].gradient:.2f} in the mean without the scaling, "
            f"{scaled[-1].median_gradient:.2f} and {scaled[-1].gradient:.2f} with it; "
            f"{100 * raw[-1].one_key:.0f} % of the queries then give more than 0.99 of their "
            f"weight to one key, against {100 * scaled[-1].one_key:.0f} %."
        ),
        draw=lambda figure, ink: _draw_scaling(result, figure, ink),
    )


def _row(scores: Float[Tensor, "query key"], *, d_k: int, scaled: bool = False) -> Saturation:
    shares = scores.softmax(-1)
    sizes = jacobian_norm(shares)
    return Saturation(
        d_k=d_k,
        scaled=scaled,
        variance=scores.square().mean().item(),
        gradient=sizes.mean().item(),
        median_gradient=sizes.median().item(),
        one_key=(shares.max(-1).values > 0.99).double().mean().item(),
    )


def _scientific(number: float) -> str:
    """Format a small number.

    >>> _scientific(0.031), _scientific(0.0000312)
    ('0.03', '3 · 10^-5')
    """
    if number >= 0.01:
        return f"{number:.2f}"
    digits, _, exponent = f"{number:.0e}".partition("e")
    return f"{digits} · 10^{int(exponent)}"


def _draw_scaling(result: Scaling, figure: "Figure", ink: Ink) -> None:
    left, right = figure.subplots(1, 2)
    widths = [row.d_k for row in result.of(scaled=True)]
    for number, scaled in enumerate((False, True)):
        rows = result.of(scaled=scaled)
        style = line_style(number, ink)
        name = "q · k / √d_k" if scaled else "q · k"
        left.plot(widths, [row.variance for row in rows], label=name, **style)
        right.plot(widths, [row.gradient for row in rows], label=f"{name}: mean", **style)
        medians = [row.median_gradient for row in rows]
        right.plot(widths, medians, label=f"{name}: median", linestyle="--", **style)
    left.plot(widths, widths, color=ink.text, marker="", linewidth=0.9, linestyle=":", label="d_k")
    left.set(title="variance of the scores", xlabel="d_k")
    right.set(title="size of the softmax's gradient", xlabel="d_k")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(widths[::2], [str(width) for width in widths[::2]])
        axes.legend()


ScoreFunction = Literal["scaled", "dot", "additive"]
SCORE_FUNCTIONS: tuple[ScoreFunction, ...] = ("scaled", "dot", "additive")
NAMES = {"scaled": "q · k / √d_k", "dot": "q · k", "additive": "vᵀ tanh(W q + U k)"}
KEYS, VALUES, PAIRS, QUERIES, WIDTH = 64, 16, 16, 8, 64
"""The task: distinct names and values, pairs and queries per sequence; and d_model."""


class ScoreModule(nn.Module):
    """One head's query and key projections and one of the three score functions."""

    def __init__(self, kind: ScoreFunction, *, d_model: int, d_k: int) -> None:
        super().__init__()
        self.kind, self.d_k = kind, d_k
        self.query = nn.Linear(d_model, d_k, bias=False)  # W of the additive score
        self.key = nn.Linear(d_model, d_k, bias=False)  # and U
        nn.init.xavier_uniform_(self.query.weight)
        nn.init.xavier_uniform_(self.key.weight)
        self.v = nn.Parameter(torch.randn(d_k) / d_k**0.5) if kind == "additive" else None

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch memory d_model"],
    ) -> Float[Tensor, "batch query memory"]:
        """Return the scores before the softmax."""
        queries, keys = self.query(x), self.key(memory)
        if self.v is not None:
            return (queries[:, :, None] + keys[:, None]).tanh() @ self.v
        products = queries @ keys.mT
        return products / self.d_k**0.5 if self.kind == "scaled" else products


class KeyLookup(nn.Module):
    """One attention head that looks up the value of a name."""

    def __init__(self, kind: ScoreFunction, *, d_k: int) -> None:
        super().__init__()
        self.names = nn.Embedding(KEYS, WIDTH)
        self.values = nn.Embedding(VALUES, WIDTH)
        self.scores = ScoreModule(kind, d_model=WIDTH, d_k=d_k)
        self.out = nn.Linear(WIDTH, VALUES)

    def forward(
        self,
        names: Int[Tensor, "batch memory"],
        values: Int[Tensor, "batch memory"],
        queried: Int[Tensor, "batch query"],
    ) -> Float[Tensor, "batch query value"]:
        """Return the logits of the queried names' values.

        Args:
            names: the keys of the pairs.
            values: their values.
            queried: names whose values are wanted.
        """
        weights = self.scores(self.names(queried), self.names(names)).softmax(-1)
        return self.out(weights @ self.values(values))


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreCost:
    """Cost of one forward and backward pass of a score function and its softmax."""

    kind: ScoreFunction
    length: int
    seconds: float
    """Median of the repetitions."""
    peak_bytes: int
    """Peak bytes of tensors made in the pass."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupLosses:
    """Loss of the key lookup after a fixed number of updates."""

    kind: ScoreFunction
    d_k: int
    losses: tuple[float, ...]
    """Nats per query on unseen sequences, one per seed; chance is ln 16 = 2.77."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compatibility:
    """Speed, memory and learning."""

    width: int
    """d_k of the costs."""
    batch: int
    costs: tuple[ScoreCost, ...]
    updates: int
    learned: tuple[LookupLosses, ...]


def measure_compatibility(
    *,
    lengths: tuple[int, ...] = (32, 64, 128, 256),
    widths: tuple[int, ...] = (8, 64, 512),
    seeds: int = 5,
    updates: int = 150,
    repeats: int = 9,
) -> Compatibility:
    """Measure time, memory and learning of the three score functions.

    Args:
        lengths: sequence lengths of the cost measurements.
        widths: d_k of the learning measurements.
        seeds: training runs per variant.
        updates: optimizer steps per run.
        repeats: timed repetitions.
    """
    batch, width = 4, 64
    costs = [
        _cost(kind, batch=batch, length=length, d_k=width, repeats=repeats)
        for length in lengths
        for kind in SCORE_FUNCTIONS
    ]
    learned = [
        LookupLosses(
            kind=kind,
            d_k=d_k,
            losses=tuple(_loss_of(kind, d_k, updates=updates, seed=s) for s in range(seeds)),
        )
        for d_k in widths
        for kind in SCORE_FUNCTIONS
    ]
    return Compatibility(
        width=width, batch=batch, costs=tuple(costs), updates=updates, learned=tuple(learned)
    )


def compatibility_figure(*, quick: bool = False) -> PaperFigure:
    """Measure, and plot time, memory and losses."""
    if quick:
        result = measure_compatibility(
            lengths=(16, 32), widths=(4, 16), seeds=1, updates=9, repeats=2
        )
    else:
        result = measure_compatibility()
    costs = {(cost.kind, cost.length): cost for cost in result.costs}
    longest = result.costs[-1].length
    scaled, additive = costs["scaled", longest], costs["additive", longest]
    losses = {(run.kind, run.d_k): median(run.losses) for run in result.learned}
    narrow, wide = result.learned[0].d_k, result.learned[-1].d_k
    summary = {
        d_k: ", ".join(f"{losses[kind, d_k]:.3f} ({kind})" for kind in SCORE_FUNCTIONS)
        for d_k in (narrow, wide)
    }
    return PaperFigure(
        title="Additive, dot-product and scaled dot-product attention (3.2.1)",
        numbers=result,
        finding=(
            f"At {longest} positions and d_k {result.width} the additive score takes "
            f"{additive.seconds / scaled.seconds:.0f} times the time and "
            f"{additive.peak_bytes / scaled.peak_bytes:.0f} times the memory of the scaled "
            f"dot product. A key lookup after {result.updates} updates, median loss of "
            f"{len(result.learned[0].losses)} seeds: at d_k {narrow} {summary[narrow]}; at d_k "
            f"{wide} {summary[wide]}."
        ),
        draw=lambda figure, ink: _draw_compatibility(result, figure, ink),
    )


def _cost(kind: ScoreFunction, *, batch: int, length: int, d_k: int, repeats: int) -> ScoreCost:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        scores = ScoreModule(kind, d_model=d_k, d_k=d_k)
        x = torch.randn(batch, length, d_k)

    def forward_backward() -> None:
        scores.zero_grad(set_to_none=True)
        scores(x, x).softmax(-1).square().sum().backward()

    peak, spent = peak_bytes(forward_backward), list[float]()
    for _ in range(repeats):
        started = time.perf_counter()
        forward_backward()
        spent.append(time.perf_counter() - started)
    return ScoreCost(kind=kind, length=length, seconds=median(spent), peak_bytes=peak)


def _loss(module: nn.Module, draws: torch.Generator) -> Tensor:
    names = torch.rand(16, KEYS, generator=draws).argsort(-1)[:, :PAIRS]
    values = torch.randint(VALUES, (16, PAIRS), generator=draws)
    queried = torch.randint(PAIRS, (16, QUERIES), generator=draws)
    logits = module(names, values, names.gather(1, queried))
    return F.cross_entropy(logits.flatten(0, 1), values.gather(1, queried).flatten())


def _loss_of(kind: ScoreFunction, d_k: int, *, updates: int, seed: int) -> float:
    trained = train_module(
        lambda: KeyLookup(kind, d_k=d_k), _loss, updates=updates, learning_rate=3e-3, seed=seed
    )
    draws = test_generator(seed)
    with torch.inference_mode():
        return sum(_loss(trained, draws).item() for _ in range(16)) / 16


def _draw_compatibility(result: Compatibility, figure: "Figure", ink: Ink) -> None:
    fast, small, good = figure.subplots(1, 3)
    lengths = sorted({cost.length for cost in result.costs})
    _plot_costs(fast, result, ink, lambda cost: 1000 * cost.seconds)
    _plot_costs(small, result, ink, lambda cost: cost.peak_bytes / 2**20)
    widths = sorted({run.d_k for run in result.learned})
    for number, kind in enumerate(SCORE_FUNCTIONS):
        style = line_style(number, ink)
        runs = [run for run in result.learned if run.kind == kind]
        good.plot(widths, [median(run.losses) for run in runs], label=NAMES[kind], **style)
        for run in runs:
            good.plot([run.d_k] * len(run.losses), run.losses, linestyle="", alpha=0.5, **style)
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


def _plot_costs(
    axes: "Axes", result: Compatibility, ink: Ink, value: Callable[[ScoreCost], float]
) -> None:
    for number, kind in enumerate(SCORE_FUNCTIONS):
        costs = [cost for cost in result.costs if cost.kind == kind]
        axes.plot(
            [cost.length for cost in costs],
            [value(cost) for cost in costs],
            label=NAMES[kind],
            **line_style(number, ink),
        )
