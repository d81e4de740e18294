"""Shared by all figures: the result type, line styles, and training of small modules."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import torch
from torch import Tensor, nn

from transduce.paper.plot import MARKERS, Draw, Ink

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperFigure:
    """One claim of the paper, measured."""

    title: str
    numbers: "DataclassInstance"
    """The measurements, written as JSON."""
    finding: str
    """The result in a sentence or two."""
    draw: Draw
    height: float = 3.4
    """Of the plot in inches; the width is a page's."""


class LineStyle(TypedDict):
    """Style of one of several lines, as matplotlib keywords."""

    color: str
    marker: str


def line_style(number: int, ink: Ink) -> LineStyle:
    """Return the style of line `number` (from 0): colour and marker both differ."""
    return LineStyle(color=ink.lines[number], marker=MARKERS[number])


def train_module(
    make: Callable[[], nn.Module],
    loss: Callable[[nn.Module, torch.Generator], Tensor],
    *,
    updates: int,
    learning_rate: float,
    seed: int,
) -> nn.Module:
    """Build a module and train it with Adam: warmup over a tenth of the updates, then linear decay.

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
    adam = torch.optim.Adam(module.parameters(), lr=learning_rate, betas=(0.9, 0.98), eps=1e-9)
    for update in range(1, updates + 1):
        share = min(update / max(1, updates // 10), (updates + 1 - update) / (0.9 * updates))
        for group in adam.param_groups:
            group["lr"] = learning_rate * share
        adam.zero_grad(set_to_none=True)
        loss(module, draws).backward()
        adam.step()
    return module.eval()


def test_generator(seed: int) -> torch.Generator:
    """Return the generator of test batches; its seed differs from every training seed."""
    return torch.Generator().manual_seed(1_000_003 + seed)
