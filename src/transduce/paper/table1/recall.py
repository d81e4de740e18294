"""Is a dependency easier to learn when its path is short? One symbol, brought back from far away.

The first of n positions holds one of a few loud symbols; quiet ones follow, which mean nothing; at
the last position the network has to say which loud symbol it was. Networks of the four layer types
have the same embedding with sinusoids, the same number of layers, each in a residual connection
with a normalisation as in Figure 1, as nearly equal parameters as an even width allows, and learn
from the same sequences in as many updates of Adam with the same rate.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.layers import Positions
from transduce.paper.table1.layer_types import Convolution, Kind, Reach, Recurrent, layer

LEARNERS: tuple[Kind, ...] = ("self-attention", "LSTM", "convolution", "restricted")


@dataclass(frozen=True, kw_only=True, slots=True)
class Recall:
    """Settings of the recall experiment."""

    distances: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    """Positions from the symbol to where it is asked for."""
    seeds: int = 3
    layers: int = 3
    width: int = 32
    """Of self-attention; the others' are chosen so that parameters are equal."""
    heads: int = 1
    radius: int = 16
    kernel: int = 7
    symbols: int = 8
    """As many loud ones as quiet ones."""
    updates: int = 300
    batch: int = 32
    rate: float = 3e-3
    tested: int = 512
    """Sequences on which accuracy is measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recalled:
    """Result of one network."""

    kind: Kind
    distance: int
    seed: int
    width: int
    parameters: int
    accuracy: float
    """Chance is one in `symbols`."""


class Network(nn.Module):
    """Layers of one type over embedded symbols; the last position says which symbol it was."""

    def __init__(self, kind: Kind, width: int, recall: Recall) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2 * recall.symbols, width)
        self.positions = Positions(width, length=max(recall.distances) + 1)
        self.layers = nn.ModuleList(
            _layer(kind, width, number, recall) for number in range(recall.layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(recall.layers))
        self.out = nn.Linear(width, recall.symbols)

    def forward(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch symbols"]:
        """Return the logits of the loud symbols."""
        x = self.positions(self.embedding(ids))
        for layer_module, norm in zip(self.layers, self.norms, strict=True):
            x = norm(x + layer_module(x))
        return self.out(x[:, -1])

    @property
    def parameters_in_all(self) -> int:
        """Number of trainable parameters."""
        return sum(weight.numel() for weight in self.parameters())


def _layer(kind: Kind, width: int, number: int, recall: Recall) -> nn.Module:
    """A layer as it is used: an LSTM starts by remembering (its forget gates' bias is one), a
    convolution is dilated, for the reach that Table 1 gives it, and ends in max(0, x).
    """
    if kind == "convolution":
        kernel = recall.kernel
        return nn.Sequential(Convolution(width, kernel=kernel, dilation=kernel**number), nn.ReLU())
    module = layer(kind, width, Reach(radius=recall.radius), heads=recall.heads)
    if isinstance(module, Recurrent):
        with torch.no_grad():
            module.kernel.get_parameter("bias_ih_l0")[width : 2 * width] = 1.0
    return module


def equal_width(kind: Kind, recall: Recall) -> int:
    """The width with which a network's parameters are nearest to self-attention's."""
    if kind in ("self-attention", "restricted"):
        return recall.width
    target = Network("self-attention", recall.width, recall).parameters_in_all
    widths = range(2, 2 * recall.width + 1, 2)  # sinusoids come in pairs
    return min(
        widths, key=lambda width: abs(Network(kind, width, recall).parameters_in_all - target)
    )


def draw_sequences(
    recall: Recall, distance: int, *, rows: int, generator: torch.Generator
) -> tuple[Int[Tensor, "rows length"], Int[Tensor, " rows"]]:
    """Draw sequences and the loud symbol at the start of each.

    Args:
        recall: settings of the experiment.
        distance: positions from the first to the last.
        rows: number of sequences.
        generator: source of the draws.
    """
    symbols = recall.symbols
    quiet = torch.randint(symbols, 2 * symbols, (rows, distance + 1), generator=generator)
    loud = torch.randint(symbols, (rows,), generator=generator)
    quiet[:, 0] = loud
    return quiet, loud


def train_network(kind: Kind, distance: int, seed: int, recall: Recall) -> Recalled:
    """Train one network and measure its accuracy on unseen sequences.

    Args:
        kind: type of its layers.
        distance: positions to the symbol.
        seed: of weights and sequences.
        recall: settings of the experiment.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network(kind, equal_width(kind, recall), recall)
    draws = torch.Generator().manual_seed(1000 + seed)  # the same for every type
    optimizer = torch.optim.Adam(network.parameters(), lr=recall.rate)
    for _ in range(recall.updates):
        ids, loud = draw_sequences(recall, distance, rows=recall.batch, generator=draws)
        optimizer.zero_grad()
        F.cross_entropy(network(ids), loud).backward()
        optimizer.step()
    unseen = torch.Generator().manual_seed(2000 + seed)
    ids, loud = draw_sequences(recall, distance, rows=recall.tested, generator=unseen)
    with torch.inference_mode():
        right = (network(ids).argmax(-1) == loud).double().mean().item()
    return Recalled(
        kind=kind,
        distance=distance,
        seed=seed,
        width=network.embedding.embedding_dim,
        parameters=network.parameters_in_all,
        accuracy=right,
    )


def learn_all(recall: Recall, tell: Callable[[str], None]) -> list[Recalled]:
    """Train a network of each type, at each distance, with each seed."""
    results: list[Recalled] = []
    for distance in recall.distances:
        for kind in LEARNERS:
            results_at_distance = [
                train_network(kind, distance, seed, recall) for seed in range(recall.seeds)
            ]
            results += results_at_distance
            mean = sum(result.accuracy for result in results_at_distance) / len(results_at_distance)
            tell(f"learning: distance {distance}, {kind}: {mean:.0%} right")
    return results
