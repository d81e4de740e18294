"""What every figure of `transduce paper figures` is: numbers, what they say, how they look."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import torch
from torch import Tensor, nn

from transduce.paper.plot import MARKERS, Draw, Ink

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """One claim of the paper, measured."""

    title: str
    numbers: "DataclassInstance"
    """All that was measured, for a file of JSON."""
    found: str
    """What the numbers say, in a sentence or two."""
    draw: Draw
    height: float = 3.4
    """Of the plot, in inches; its width is that of a page."""


class Look(TypedDict):
    """How one of several lines looks, as matplotlib calls it."""

    color: str
    marker: str


def look_of(number: int, ink: Ink) -> Look:
    """The look of line `number`, counted from 0: none is told by its colour alone."""
    return Look(color=ink.lines[number], marker=MARKERS[number])


def learn(
    make: Callable[[], nn.Module],
    loss: Callable[[nn.Module, torch.Generator], Tensor],
    *,
    updates: int,
    rate: float,
    seed: int,
) -> nn.Module:
    """Build a module and train it by Adam; the rate rises in a tenth of the updates, then falls.

    Args:
        make: builds it; its weights are drawn from torch's default generator.
        loss: of a fresh batch, drawn from the generator it is given.
        updates: as many for every variant.
        rate: the highest.
        seed: of the weights and of the batches; variants of one seed see the same batches.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make().train()
    draws = torch.Generator().manual_seed(seed)
    adam = torch.optim.Adam(module.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9)
    for update in range(1, updates + 1):
        share = min(update / max(1, updates // 10), (updates + 1 - update) / (0.9 * updates))
        for group in adam.param_groups:
            group["lr"] = rate * share
        adam.zero_grad(set_to_none=True)
        loss(module, draws).backward()
        adam.step()
    return module.eval()


def unseen_draws(seed: int) -> torch.Generator:
    """What to draw a test from: never what training draws from."""
    return torch.Generator().manual_seed(1_000_003 + seed)
