"""The layer types of Table 1, all of one width, each with its mixing apart from its projections.

A layer maps n states of width d to n states of width d. Its *mixing* transfers information between
positions; its *projections* act on each position alone. Table 1 counts the mixing.

    self-attention   the model's own; heads are 64 wide, as in the paper's models
    restricted       the same with a radius: the model's option `model.radius`
    GRU, LSTM        torch's; the mixing is what multiplies the state before
    convolution      of k positions, itself and k - 1 before: all of it is mixing
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.attention import Attention

Kind = Literal["self-attention", "restricted", "GRU", "LSTM", "convolution"]
KINDS: tuple[Kind, ...] = ("self-attention", "restricted", "GRU", "LSTM", "convolution")
Part = Literal["mixing", "whole"]
PARTS: tuple[Part, ...] = ("mixing", "whole")

D_K = 64
"""How wide a head is: the paper's base and big models have more heads, not wider ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """Receptive fields of the layers with a limited one."""

    radius: int = 16
    """r, the neighbourhood of restricted self-attention."""
    kernel: int = 3
    """k, the positions that a convolution reads."""


class SelfAttention(nn.Module):
    """The model's self-attention; the mixing is the same without projections."""

    def __init__(self, width: int, *, heads: int, radius: int = 0, part: Part = "whole") -> None:
        super().__init__()
        d_k = width // heads
        self.attention = Attention(width, heads=heads, d_k=d_k, d_v=d_k, radius=radius)
        if part == "mixing":
            for projection in ("query", "key", "value", "out"):
                setattr(self.attention, projection, nn.Identity())

    def forward(
        self, x: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length width"]:
        """Attend from each position to all others, or to its neighbourhood."""
        return self.attention(x, self.attention.project_kv(x))


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
        self.cell = {"GRU": self._gru, "LSTM": self._lstm}[kind]
        self.states = {"GRU": 1, "LSTM": 2}[kind]

    def forward(
        self, x: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length width"]:
        """Run torch's fused recurrence."""
        return self.kernel(x[..., : self.inputs])[0]

    def written_out(
        self, x: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length width"]:
        """Compute the same step by step, so that operations and gradients can be traced."""
        return self.steps(self.project(x))

    def project(
        self, x: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length gates"]:
        """Project the inputs of all positions to the gates."""
        return self._linear(x[..., : self.inputs], "ih")

    def steps(
        self, gates: Float[Tensor, "batch length gates"]
    ) -> Float[Tensor, "batch length width"]:
        """Run the recurrence: each state depends on the previous one."""
        state, states = self.start(gates[:, 0]), list[Tensor]()
        for gate in gates.unbind(1):
            state = self.cell(gate, state)
            states.append(state)
        return torch.stack(states, 1)[..., : self.width]

    def start(self, gates: Float[Tensor, "*batch gates"]) -> Float[Tensor, "*batch states"]:
        """The initial state, zeros; an LSTM's is its output and its cell."""
        return gates.new_zeros(*gates.shape[:-1], self.states * self.width)

    def _linear(self, x: Tensor, which: Literal["ih", "hh"]) -> Tensor:
        weight, bias = (
            self.kernel.get_parameter(f"{part}_{which}_l0") for part in ("weight", "bias")
        )
        return F.linear(x, weight, bias)

    def _gru(self, gates: Tensor, state: Tensor) -> Tensor:
        recurrent = self._linear(state, "hh")
        both, width = 2 * self.width, self.width
        reset, keep = (gates[..., :both] + recurrent[..., :both]).sigmoid().split(width, -1)
        new = (gates[..., both:] + reset * recurrent[..., both:]).tanh()
        return new + keep * (state - new)

    def _lstm(self, gates: Tensor, state: Tensor) -> Tensor:
        output, cell = state.split(self.width, -1)
        recurrent = gates + self._linear(output, "hh")
        input_gate, forget, new, output_gate = recurrent.split(self.width, -1)
        cell = forget.sigmoid() * cell + input_gate.sigmoid() * new.tanh()
        return torch.cat([output_gate.sigmoid() * cell.tanh(), cell], -1)


class Convolution(nn.Module):
    """A causal convolution: the last of its k positions is the current one."""

    def __init__(self, width: int, *, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.before = (kernel - 1) * dilation
        self.kernel = nn.Conv1d(width, width, kernel, dilation=dilation)

    def forward(
        self, x: Float[Tensor, "batch length width"]
    ) -> Float[Tensor, "batch length width"]:
        """Convolve each position with itself and earlier ones, `dilation` apart."""
        return self.kernel(F.pad(x.mT, (self.before, 0))).mT


def layer(
    kind: Kind, width: int, reach: Reach, *, heads: int | None = None, part: Part = "whole"
) -> SelfAttention | Recurrent | Convolution:
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
    radius = reach.radius if kind == "restricted" else 0
    heads = heads or max(1, width // D_K)
    return SelfAttention(width, heads=heads, radius=radius, part=part)
