"""Results of `growth.py` as tables and plots."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from transduce.paper.plot import Ink, save_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Line(TypedDict):
    """What fits y = always + each x best, by least squares."""

    always: float
    each: float
    r_squared: float
    furthest: float
    """Largest distance of a measurement from the line, as a share of the measurement."""


class Record(TypedDict):
    """What is measured; lists go with `lengths` or `tokens` as they are named."""

    update: int
    """Tokens of an update whose sentences grow."""
    length: int
    """Pieces of a sentence where the tokens of an update grow."""
    rows: int
    """Sentences translated at once."""
    lengths: list[int]
    tokens: list[int]
    train_us: list[float]
    decode_us: list[float]
    tokens_mb: list[float]
    lengths_mb: list[float]
    line: Line


def page(found: Record) -> str:
    """Both tables, and the line, as Markdown."""
    line = found["line"]
    rows = [
        f"| {length:,} | {train:.0f} | {decode:.0f} | {held:,.0f} |"
        for length, train, decode, held in zip(
            *(found["lengths"], found["train_us"], found["decode_us"], found["lengths_mb"]),
            strict=True,
        )
    ]
    growing = [
        f"| {many:,} | {held:,.0f} | {line['always'] + line['each'] * many:,.0f} |"
        for many, held in zip(found["tokens"], found["tokens_mb"], strict=True)
    ]
    head = "| pieces a sentence | training, µs a token | greedy, µs a token | training's peak, MB |"
    return "\n".join(
        [
            *(head, "|--:|--:|--:|--:|", *rows, ""),
            *("| tokens in one micro-batch | peak, MB | the line, MB |", "|--:|--:|--:|", *growing),
            f"\n{1e3 * line['each']:.1f} kB a token and {line['always']:.0f} MB always; "
            f"R² {line['r_squared']:.4f}, no measurement is further than "
            f"{100 * line['furthest']:.1f} % from the line.\n",
        ]
    )


def draw(found: Record, out: Path) -> None:
    """One plot of time, one of memory."""
    save_plot(out, "time", lambda figure, ink: draw_time(found, figure))
    save_plot(out, "memory", lambda figure, ink: draw_memory(found, figure, ink), height=3.6)


def draw_time(found: Record, figure: "Figure") -> None:
    """Both kinds of work against length; both axes in powers."""
    axes = figure.subplots()
    axes.plot(
        found["lengths"], found["train_us"], label=f"training, {found['update']:,} tokens an update"
    )
    axes.plot(
        found["lengths"], found["decode_us"], label=f"greedy translation, {found['rows']} at once"
    )
    powers(axes, found["lengths"])
    axes.set(xlabel="pieces a sentence", ylabel="microseconds a token", yscale="log")
    ticks = [first * ten for ten in (10, 100, 1000, 10_000) for first in (1, 2, 5)]
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    both = [*found["train_us"], *found["decode_us"]]
    axes.set_ylim(0.7 * min(both), 1.7 * max(both))
    axes.minorticks_off()
    axes.legend(loc="upper left")


def draw_memory(found: Record, figure: "Figure", ink: Ink) -> None:
    """Against tokens with the line, and against length."""
    left, right = figure.subplots(1, 2)
    line, ends = found["line"], [0, found["tokens"][-1]]
    label = f"{1e3 * line['each']:.1f} kB a token, {line['always']:.0f} MB always"
    fitted = [line["always"] + line["each"] * end for end in ends]
    left.plot(ends, fitted, color=ink.text, linewidth=1.0, linestyle=":", marker="", label=label)
    left.plot(found["tokens"], found["tokens_mb"], linestyle="", color=ink.lines[0], marker="o")
    left.set(xlabel=f"tokens in one micro-batch, {found['length']} a sentence", ylabel="peak, MB")
    left.xaxis.set_major_formatter("{x:,.0f}")
    left.legend(loc="upper left")
    for axes, highest in ((left, max(found["tokens_mb"])), (right, max(found["lengths_mb"]))):
        axes.set_ylim(0, 1.25 * highest)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    right.plot(found["lengths"], found["lengths_mb"], color=ink.lines[1], marker="s")
    powers(right, found["lengths"])
    right.set(xlabel=f"pieces a sentence, {found['update']:,} tokens")


def powers(axes: "Axes", at: Sequence[int]) -> None:
    """An axis of powers of two, each written out."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(at, [str(one) for one in at])
    axes.tick_params(axis="x", labelsize=8)
    axes.minorticks_off()
