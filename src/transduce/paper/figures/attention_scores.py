"""How much a computation holds at its peak, counted by the tensors that are alive."""

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

from transduce.paper.figures.common import Shown, learn, look_of, unseen_draws
from transduce.paper.plot import Ink


class _Alive(TorchDispatchMode):
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
        given = {
            _key(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
        }
        said = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(said):
            if isinstance(leaf, torch.Tensor) and _key(leaf) not in given:
                self.sizes[_key(leaf)] = leaf.untyped_storage().nbytes()
        self.sizes = {one: size for one, size in self.sizes.items() if not one.expired()}
        self.peak = max(self.peak, sum(self.sizes.values()))
        return said


def peak_bytes(compute: Callable[[], object]) -> int:
    """The most bytes that tensors made in `compute` held at once, what autograd keeps included.

    Scratch memory within one operation is not seen.

    >>> peak_bytes(lambda: torch.zeros(256) + torch.zeros(256))
    3072
    """
    with _Alive() as alive:
        compute()
    return alive.peak


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
    """Its median: the mean is that of the few queries whose best two keys are level."""
    one_key: float
    """The share of queries that give one key more than 0.99 of their weight."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """Products of all widths, each with and without the scaling."""

    keys: int
    queries: int
    rows: tuple[Saturation, ...]

    def of(self, *, scaled: bool) -> list[Saturation]:
        """The rows with the scaling, or those without."""
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
    """Draw queries and keys of every width, and look at the softmax of their products.

    Args:
        widths: values of d_k.
        keys: that each query chooses from; every query has its own.
        queries: drawn for each width.
        seed: what is drawn.
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
                for _ in range(0, queries, 64)  # piece by piece, for the memory
            ]
        ).double()
        rows += [_row(products, d_k=d_k), _row(products / d_k**0.5, d_k=d_k, scaled=True)]
    return Scaling(keys=keys, queries=queries, rows=tuple(rows))


def scaling_figure(*, quick: bool = False) -> Shown:
    """Measure, and draw variance and gradient against d_k."""
    found = measure_scaling(WIDTHS[:5], queries=256) if quick else measure_scaling(queries=4096)
    raw, scaled = found.of(scaled=False), found.of(scaled=True)
    off = max(abs(row.variance / row.d_k - 1) for row in raw)
    return Shown(
        title="Softmax with and without 1/√d_k (3.2.1, footnote 4)",
        numbers=found,
        found=(
            f"The variance of q · k is d_k to within {100 * off:.0f} % from d_k {raw[0].d_k} to "
            f"{raw[-1].d_k}. At d_k {raw[-1].d_k} a softmax over {found.keys} keys has a gradient "
            f"of {_power(raw[-1].median_gradient)} in the median and {raw[-1].gradient:.2f} in the "
            f"mean without the scaling, {scaled[-1].median_gradient:.2f} and "
            f"{scaled[-1].gradient:.2f} with it; {100 * raw[-1].one_key:.0f} % of the queries then "
            f"give more than 0.99 of their weight to one key, against "
            f"{100 * scaled[-1].one_key:.0f} %."
        ),
        draw=lambda figure, ink: _draw_scaling(found, figure, ink),
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


def _power(number: float) -> str:
    """A small number as people write it.

    >>> _power(0.031), _power(0.0000312)
    ('0.03', '3 · 10^-5')
    """
    if number >= 0.01:
        return f"{number:.2f}"
    digits, _, exponent = f"{number:.0e}".partition("e")
    return f"{digits} · 10^{int(exponent)}"


def _draw_scaling(found: Scaling, figure: "Figure", ink: Ink) -> None:
    left, right = figure.subplots(1, 2)
    widths = [row.d_k for row in found.of(scaled=True)]
    for number, scaled in enumerate((False, True)):
        rows = found.of(scaled=scaled)
        look = look_of(number, ink)
        name = "q · k / √d_k" if scaled else "q · k"
        left.plot(widths, [row.variance for row in rows], label=name, **look)
        right.plot(widths, [row.gradient for row in rows], label=f"{name}: mean", **look)
        medians = [row.median_gradient for row in rows]
        right.plot(widths, medians, label=f"{name}: median", linestyle="--", **look)
    left.plot(widths, widths, color=ink.text, marker="", linewidth=0.9, linestyle=":", label="d_k")
    left.set(title="variance of what is softmaxed", xlabel="d_k")
    right.set(title="size of the softmax's gradient", xlabel="d_k")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(widths[::2], [str(width) for width in widths[::2]])
        axes.legend()


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
        draw=lambda figure, ink: _draw_compatibility(found, figure, ink),
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


def _draw_compatibility(found: Compared, figure: "Figure", ink: Ink) -> None:
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
