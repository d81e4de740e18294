"""What every figure of `transduce paper figures` is: numbers, what they say, how they look."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

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
