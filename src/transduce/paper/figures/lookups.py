"""Attention trained to look something up: three score functions (3.2.1), one head or many (3.2.2).

"Due to the reduced dimension of each head, the total computational cost is similar to that of
single-head attention with full dimensionality." "With a single attention head, averaging inhibits"
attending "to information from different representation subspaces at different positions".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from timeit import repeat
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from transduce.model.attention import Attention
from transduce.paper.plot import Ink, LineStyle, line_style, log_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def train_module(
    make: Callable[[], nn.Module],
    loss: Callable[[nn.Module, torch.Generator], Tensor],
    *,
    updates: int,
    seed: int,
) -> nn.Module:
    """Build a module and train it with Adam: warmup over a tenth of the updates, linear decay.

    Args:
        make: builds it; its weights are drawn from torch's default generator.
        loss: of a fresh batch, drawn from the generator it is given.
        updates: as many for every variant.
        seed: of the weights and of the batches; variants of one seed see the same batches.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make().train()
    draws = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(module.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
    for update in range(1, updates + 1):
        share = min(update / max(1, updates // 10), (updates + 1 - update) / (0.9 * updates))
        for group in adam.param_groups:
            group["lr"] = 3e-3 * share
        adam.zero_grad(set_to_none=True)
        loss(module, draws).backward()
        adam.step()
    return module.eval()


def test_generator(seed: int) -> torch.Generator:
    """Return the generator of test batches; its seed differs from every training seed."""
    return torch.Generator().manual_seed(1_000_003 + seed)


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
        inputs = _storages((args, kwargs))
        output = func(*args, **(kwargs or {}))
        self.sizes |= {ref: size for ref, size in _storages(output).items() if ref not in inputs}
        self.sizes = {ref: size for ref, size in self.sizes.items() if not ref.expired()}
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


def _storages(tree: object) -> dict[StorageWeakRef, int]:
    """Return the sizes in bytes of all tensors' storages."""
    tensors = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
    storages = [tensor.untyped_storage() for tensor in tensors]
    return {StorageWeakRef(storage): storage.nbytes() for storage in storages}


ScoreFunction = Literal["scaled", "dot", "additive"]
SCORE_FUNCTIONS: tuple[ScoreFunction, ...] = ("scaled", "dot", "additive")
LABELS = {"scaled": "q · k / √d_k", "dot": "q · k", "additive": "vᵀ tanh(W q + U k)"}
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
        self, x: Float[Tensor, "batch query d_model"], memory: Float[Tensor, "batch memory d_model"]
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
        """Return the logits of the queried names' values, given names and values of all pairs."""
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
    costs = tuple(
        _cost(kind, batch=batch, length=length, d_k=width, repeats=repeats)
        for length in lengths
        for kind in SCORE_FUNCTIONS
    )
    learned = tuple(
        LookupLosses(
            kind=kind,
            d_k=d_k,
            losses=tuple(_loss_of(kind, d_k, updates=updates, seed=seed) for seed in range(seeds)),
        )
        for d_k in widths
        for kind in SCORE_FUNCTIONS
    )
    return Compatibility(width=width, batch=batch, costs=costs, updates=updates, learned=learned)


def _cost(kind: ScoreFunction, *, batch: int, length: int, d_k: int, repeats: int) -> ScoreCost:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        scores = ScoreModule(kind, d_model=d_k, d_k=d_k)
        x = torch.randn(batch, length, d_k)

    def forward_backward() -> None:
        scores.zero_grad(set_to_none=True)
        scores(x, x).softmax(-1).square().sum().backward()

    return ScoreCost(
        kind=kind,
        length=length,
        peak_bytes=peak_bytes(forward_backward),
        seconds=median(repeat(forward_backward, number=1, repeat=repeats)),
    )


def _loss(module: nn.Module, draws: torch.Generator) -> Tensor:
    names = torch.rand(16, KEYS, generator=draws).argsort(-1)[:, :PAIRS]
    values = torch.randint(VALUES, (16, PAIRS), generator=draws)
    queried = torch.randint(PAIRS, (16, QUERIES), generator=draws)
    logits = module(names, values, names.gather(1, queried))
    return F.cross_entropy(logits.flatten(0, 1), values.gather(1, queried).flatten())


def _loss_of(kind: ScoreFunction, d_k: int, *, updates: int, seed: int) -> float:
    trained = train_module(lambda: KeyLookup(kind, d_k=d_k), _loss, updates=updates, seed=seed)
    draws = test_generator(seed)
    with torch.inference_mode():
        return sum(_loss(trained, draws).item() for _ in range(16)) / 16


def draw_compatibility(result: Compatibility, figure: "Figure", ink: Ink) -> None:
    """Plot time, memory and losses."""
    fast, small, good = figure.subplots(1, 3)
    lengths = sorted({cost.length for cost in result.costs})
    widths = sorted({run.d_k for run in result.learned})
    for number, kind in enumerate(SCORE_FUNCTIONS):
        style, label = line_style(number, ink), LABELS[kind]
        costs = [cost for cost in result.costs if cost.kind == kind]
        fast.plot(lengths, [1000 * cost.seconds for cost in costs], label=label, **style)
        small.plot(lengths, [cost.peak_bytes / 2**20 for cost in costs], label=label, **style)
        runs = [run.losses for run in result.learned if run.kind == kind]
        _plot_seeds(good, widths, runs, median, label=label, style=style)
    for axes, title, label, ticks in (
        (fast, "time, ms", "positions", lengths),
        (small, "peak memory, MiB", "positions", lengths),
        (good, "loss, same updates", "d_k", widths),
    ):
        log_axis(axes, ticks)
        axes.set_yscale("log")
        axes.set(title=title, xlabel=label)
    figure.legend(*fast.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _plot_seeds(
    axes: "Axes",
    places: Sequence[int],
    by_seed: Sequence[Sequence[float]],
    middle: Callable[[Sequence[float]], float],
    *,
    label: str,
    style: LineStyle,
) -> None:
    """Plot a line through the middle of each place's values, and the values as fainter markers."""
    axes.plot(places, [middle(values) for values in by_seed], label=label, **style)
    for place, values in zip(places, by_seed, strict=True):
        axes.plot([place] * len(values), values, linestyle="", alpha=0.5, **style)


HEAD_NAMES, HEAD_PAIRS, HEAD_QUERIES = 32, 8, 4
"""The second task: distinct names, pairs and queries per sequence; values and d_model are equal."""


class TwoPositionLookup(nn.Module):
    """The model's attention between embeddings and one linear map, which asks for two positions.

    Given a sequence of names with values and two names, predict the value of the first and of the
    second, in order. One softmax can put half of its weight on each position, but their mean does
    not tell which value belongs to which name.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.names = nn.Embedding(HEAD_NAMES, WIDTH)
        self.values = nn.Embedding(VALUES, WIDTH)
        self.first = nn.Embedding(HEAD_NAMES, WIDTH)
        self.second = nn.Embedding(HEAD_NAMES, WIDTH)
        self.attend = Attention(WIDTH, heads=heads, d_k=WIDTH // heads, d_v=WIDTH // heads)
        self.out = nn.Linear(WIDTH, 2 * VALUES)

    def forward(
        self,
        names: Int[Tensor, "batch pair"],
        values: Int[Tensor, "batch pair"],
        queried: Int[Tensor, "batch query 2"],
    ) -> Float[Tensor, "batch query 2 value"]:
        """Return the logits of the values of a query's two names, given those of all pairs."""
        memory = self.attend.project_kv(self.names(names) + self.values(values))
        x = self.first(queried[..., 0]) + self.second(queried[..., 1])
        return self.out(self.attend(x, memory)).unflatten(-1, (2, VALUES))


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadCost:
    """Cost of one attention of fixed width, split into heads."""

    heads: int
    parameters: int
    operations: int
    """Floating-point operations of the matrix products of one sentence, counted by torch; without
    the softmax of heads · length² scores."""
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

    Args: as for `measure_compatibility`; `cuts` are numbers of heads, and an attention of width
    `d_model` is timed on `length` positions.
    """
    return HeadComparison(
        length=length,
        d_model=d_model,
        costs=tuple(_head_cost(n, d_model, length=length, repeats=repeats) for n in cuts),
        updates=updates,
        answers=tuple(_measure_accuracy(n, seeds=seeds, updates=updates) for n in cuts),
    )


def _head_cost(heads: int, d_model: int, *, length: int, repeats: int) -> HeadCost:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        attention = Attention(d_model, heads=heads, d_k=d_model // heads, d_v=d_model // heads)
        x, batch = torch.randn(1, length, d_model), torch.randn(8, length, d_model)
    with FlopCounterMode(display=False) as counter:
        attention(x, attention.project_kv(x))

    def forward_backward() -> None:
        attention(batch, attention.project_kv(batch)).sum().backward()

    return HeadCost(
        heads=heads,
        parameters=sum(weight.numel() for weight in attention.parameters()),
        operations=counter.get_total_flops(),
        seconds=median(repeat(forward_backward, number=1, repeat=repeats)),
    )


def _predict(module: nn.Module, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw names, their values and the two pairs of each query; return logits and right values."""
    names = torch.rand(32, HEAD_NAMES, generator=draws).argsort(-1)[:, :HEAD_PAIRS]
    values = torch.randint(VALUES, (32, HEAD_PAIRS), generator=draws)
    two = torch.rand(32, HEAD_QUERIES, HEAD_PAIRS, generator=draws).argsort(-1)[..., :2]
    queried, right = (ids.gather(1, two.flatten(1)).view_as(two) for ids in (names, values))
    return module(names, values, queried), right


def _heads_loss(module: nn.Module, draws: torch.Generator) -> Tensor:
    logits, right = _predict(module, draws)
    return F.cross_entropy(logits.flatten(0, 2), right.flatten())


def _measure_accuracy(heads: int, *, seeds: int, updates: int) -> LookupAccuracy:
    both, single = list[float](), list[float]()
    for seed in range(seeds):
        trained = train_module(
            lambda: TwoPositionLookup(heads), _heads_loss, updates=updates, seed=seed
        )
        draws = test_generator(seed)
        with torch.inference_mode():
            answers = [_predict(trained, draws) for _ in range(16)]
        predicted = torch.cat([logits.argmax(-1) for logits, _ in answers])
        right = torch.cat([right for _, right in answers])
        both.append((predicted == right).all(-1).double().mean().item())
        single.append((predicted == right).double().mean().item())
    return LookupAccuracy(heads=heads, both_right=tuple(both), values_right=tuple(single))


def draw_heads(result: HeadComparison, figure: "Figure", ink: Ink) -> None:
    """Plot costs and accuracy."""
    left, right = figure.subplots(1, 2)
    names = [str(cost.heads) for cost in result.costs]
    positions, first = range(len(names)), result.costs[0]
    operations = [cost.operations / first.operations for cost in result.costs]
    seconds = [cost.seconds / first.seconds for cost in result.costs]
    left.plot(positions, operations, label="operations", **line_style(0, ink))
    left.plot(positions, seconds, label="time", **line_style(1, ink))
    left.set(title="cost, as a share of one head's", ylim=(0, 1.15 * max(operations + seconds)))
    by_seed = {
        "both values": [accuracy.both_right for accuracy in result.answers],
        "single values": [accuracy.values_right for accuracy in result.answers],
    }
    for number, (label, accuracies) in enumerate(by_seed.items()):
        percents = [[100 * share for share in shares] for shares in accuracies]
        _plot_seeds(right, positions, percents, mean, label=label, style=line_style(number, ink))
    right.set(title="right, %", ylim=(0, 105))
    for axes in (left, right):
        axes.set_xticks(positions, names)
        axes.set(xlabel="heads")
        axes.legend(loc="lower right")
