"""The layer types of Table 1, all of one width, each with its mixing apart from its projections.

A layer maps n states of width d to n states of width d. Its *mixing* transfers information between
positions; its *projections* act on each position alone. Table 1 counts the mixing.

    self-attention   the model's own; heads are 64 wide, as in the paper's models
    restricted       the same with a radius: the model's option `model.radius`
    GRU, LSTM        torch's; the mixing is what multiplies the state before
    convolution      of k positions, itself and k - 1 before: all of it is mixing

Is a dependency easier to learn when its path is short? The first of n positions holds one of a few
loud symbols; quiet ones follow, which mean nothing; at the last position the network has to recall
which loud symbol it was. Networks of the four layer types have the same embedding with sinusoids,
the same number of layers, each in a residual connection with a normalisation as in Figure 1, as
nearly equal parameters as an even width allows, and learn from the same sequences in as many
updates of Adam with the same rate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.attention import Attention
from transduce.model.layers import Positions

Kind = Literal["self-attention", "restricted", "GRU", "LSTM", "convolution"]
KINDS: tuple[Kind, ...] = ("self-attention", "restricted", "GRU", "LSTM", "convolution")
Part = Literal["mixing", "whole"]
PARTS: tuple[Part, ...] = ("mixing", "whole")

States = Float[Tensor, "batch length width"]

D_K = 64
"""How wide a head is: the paper's base and big models have more heads, not wider ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """Receptive fields of the layers with a limited one."""

    radius: int = 16
    """r, the neighbourhood of restricted self-attention."""
    kernel: int = 3
    """k, the positions that a convolution reads."""


class Recurrent(nn.Module):
    """torch's GRU or LSTM from left to right, and the same step by step.

    The mixing has an input of width one, which leaves little more than the recurrence.
    """

    def __init__(self, kind: Literal["GRU", "LSTM"], width: int, *, part: Part = "whole") -> None:
        super().__init__()
        self.width = width
        self.inputs = 1 if part == "mixing" else width
        rnn = {"GRU": nn.GRU, "LSTM": nn.LSTM}[kind]
        self.kernel = rnn(self.inputs, width, batch_first=True)

    def forward(self, x: States) -> States:
        """Run torch's fused recurrence."""
        return self.kernel(x[..., : self.inputs])[0]

    def written_out(self, x: States) -> States:
        """Compute the same step by step, so that operations and gradients can be traced."""
        state = x.new_zeros(2, len(x), self.width)
        outputs: list[Tensor] = []
        for inputs in x.unbind(1):
            state = self.step(inputs, state)
            outputs.append(state[0])
        return torch.stack(outputs, 1)

    def step(
        self, x: Float[Tensor, "rows width"], state: Float[Tensor, "2 rows width"]
    ) -> Float[Tensor, "2 rows width"]:
        """Compute the next output and, of an LSTM, the next cell from the previous ones."""
        inputs, weights = x[:, : self.inputs], self.kernel.parameters()
        if isinstance(self.kernel, nn.LSTM):
            return torch.stack(torch.lstm_cell(inputs, [*state], *weights))
        return torch.stack([torch.gru_cell(inputs, state[0], *weights), state[1]])


class Convolution(nn.Module):
    """A causal convolution: the last of its k positions is the current one."""

    def __init__(self, width: int, *, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.before = (kernel - 1) * dilation
        self.kernel = nn.Conv1d(width, width, kernel, dilation=dilation)

    def forward(self, x: States) -> States:
        """Convolve each position with itself and earlier ones, `dilation` apart."""
        return self.kernel(F.pad(x.mT, (self.before, 0))).mT


def layer(
    kind: Kind, width: int, reach: Reach, *, heads: int | None = None, part: Part = "whole"
) -> Attention | Recurrent | Convolution:
    """Build one layer, its weights drawn from torch's default generator.

    Args:
        kind: which type.
        width: d.
        reach: r and k.
        heads: of self-attention; None has them 64 wide.
        part: "mixing" leaves the projections out.
    """
    if kind == "GRU" or kind == "LSTM":
        return Recurrent(kind, width, part=part)
    if kind == "convolution":
        return Convolution(width, kernel=reach.kernel)
    heads = heads or max(1, width // D_K)
    d_k, radius = width // heads, reach.radius if kind == "restricted" else 0
    attention = Attention(width, heads=heads, d_k=d_k, d_v=d_k, radius=radius)
    if part == "mixing":
        for projection in ("query", "key", "value", "out"):
            setattr(attention, projection, nn.Identity())
    return attention


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
    for distance, kind in product(recall.distances, LEARNERS):
        by_seed = [train_network(kind, distance, seed, recall) for seed in range(recall.seeds)]
        results += by_seed
        mean = sum(result.accuracy for result in by_seed) / len(by_seed)
        tell(f"learning: distance {distance}, {kind}: {mean:.0%} right")
    return results
