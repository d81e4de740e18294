"""Without positions the order is lost: section 3.5 by experiment.

The input's positions are exchanged. If the output is the same with its positions exchanged, the
stack has not seen the order: it is equivariant. The decoder's mask tells it an order even without
an encoding.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from transduce.config import load_recipe
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.paper.figures.shown import Shown
from transduce.paper.plot import Ink

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Equivariance:
    """How far a stack is from not seeing the order."""

    name: str
    error: float
    """‖f(πx) − π f(x)‖ / ‖f(x)‖, the largest of the permutations tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """Both stacks, with and without what tells them the order."""

    length: int
    permutations: int
    stacks: tuple[Equivariance, ...]


class _None(nn.Module):
    """Positions that add nothing."""

    def forward(self, x: Tensor, *, first: int = 0) -> Tensor:
        del first
        return x


def measure_order(
    config: ModelConfig, *, length: int = 24, permutations: int = 20, seed: int = 1
) -> Order:
    """Exchange positions of random sentences in front of untrained stacks.

    Args:
        config: the shape of the model; its weights are as they start.
        length: positions.
        permutations: tried; the worst one counts.
        seed: what is drawn.
    """
    config = replace(config, dropout=0.0)
    sinusoid = _model(config, seed=seed)
    learned = _model(replace(config, positions="learned"), seed=seed)
    without = _model(config, seed=seed)
    without.positions = _None()  # pyright: ignore[reportAttributeAccessIssue]

    def worst(read: Callable[[Tensor], Tensor]) -> float:
        draws, errors = torch.Generator().manual_seed(seed), list[float]()
        for _ in range(permutations):
            ids = torch.randint(1, config.pad, (1, length), generator=draws)
            order = torch.randperm(length, generator=draws)
            there = read(ids)
            errors.append(((read(ids[:, order]) - there[:, order]).norm() / there.norm()).item())
        return max(errors)

    source = torch.arange(1, 6)[None]
    with torch.inference_mode():
        stacks = (
            ("encoder, no positions", worst(lambda ids: without.encode(ids, None))),
            ("encoder, sinusoids", worst(lambda ids: sinusoid.encode(ids, None))),
            ("encoder, learned", worst(lambda ids: learned.encode(ids, None))),
            ("decoder, no positions", worst(lambda ids: without.hidden_states(source, None, ids))),
        )
    return Order(
        length=length,
        permutations=permutations,
        stacks=tuple(Equivariance(name=name, error=error) for name, error in stacks),
    )


def order_figure(*, quick: bool = False) -> Shown:
    """Measure, and draw the errors."""
    shape = replace(load_recipe("tiny").model, vocab_size=97)
    found = measure_order(shape, permutations=2 if quick else 50)
    plain, sinusoid, learned, decoder = (stack.error for stack in found.stacks)
    return Shown(
        title="Order without positions (3.5)",
        numbers=found,
        found=(
            f"Without positions an encoder whose input is permuted gives its output permuted, to "
            f"{plain:.0e}: it cannot know the order. With sinusoids the two differ by "
            f"{sinusoid:.2f} of their size, with learned positions by {learned:.2f}. The decoder's "
            f"mask tells it an order even without positions ({decoder:.2f})."
        ),
        draw=lambda figure, ink: _draw(found, figure, ink),
        height=2.4,
    )


def _model(config: ModelConfig, *, seed: int) -> Transformer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer(config).eval()


def _draw(found: Order, figure: "Figure", ink: Ink) -> None:
    axes = figure.subplots()
    rows = range(len(found.stacks))
    errors = [stack.error for stack in found.stacks]
    floor = 1e-8
    axes.hlines(rows, floor, errors, color=ink.faint, linewidth=3)
    axes.plot(errors, rows, "o", color=ink.lines[0], markersize=7)
    for row, error in zip(rows, errors, strict=True):
        axes.annotate(
            f"{error:.1e}" if error < 0.01 else f"{error:.2f}",
            (error, row),
            textcoords="offset points",
            xytext=(8, -3),
            fontsize=9,
        )
    axes.set_xscale("log")
    axes.set_yticks(rows, [stack.name for stack in found.stacks])
    axes.set(xlim=(floor, 30), ylim=(3.5, -0.5), xlabel="‖f(πx) − π f(x)‖ / ‖f(x)‖")
    axes.grid(visible=False, axis="y")
