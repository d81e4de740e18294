"""Results of `growth.py` as tables and plots."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from transduce.paper.plot import Ink, save_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Line = dict[str, float]
"""Least-squares fit of y = always + each x; `furthest` is the largest relative residual."""


class Record(TypedDict):
    """Measurements; each list of results follows the list that it belongs to."""

    update: int
    """Tokens of an update where the sentence length varies."""
    length: int
    """Tokens of a sentence where the tokens of an update vary."""
    rows: int
    """Sentences translated at once."""
    lengths: list[int]
    train_us: list[float]
    """Training, per token."""
    decode_us: list[float]
    """Greedy translation, per token."""
    lengths_mb: list[float]
    tokens: list[int]
    tokens_mb: list[float]
    line: Line
    widths: list[int]
    parameters: list[int]
    """Of the models of these widths."""
    widths_us: list[float]
    """Training, per token."""
    widths_mb: list[float]
    beams: list[int]
    beams_us: list[float]
    """Translation, per token of the best hypothesis."""


def page(record: Record) -> str:
    """Format both tables and the fitted line as Markdown."""
    line = record["line"]
    rows = [
        f"| {length:,} | {train:.0f} | {decode:.0f} | {megabytes:,.0f} |"
        for length, train, decode, megabytes in zip(
            *(record["lengths"], record["train_us"], record["decode_us"], record["lengths_mb"]),
            strict=True,
        )
    ]
    token_rows = [
        f"| {tokens:,} | {megabytes:,.0f} | {line['always'] + line['each'] * tokens:,.0f} |"
        for tokens, megabytes in zip(record["tokens"], record["tokens_mb"], strict=True)
    ]
    head = "| pieces a sentence | training, µs a token | greedy, µs a token | training's peak, MB |"
    width_rows = [
        f"| {width:,} | {parameters / 1e6:.1f} | {train:,.0f} | {megabytes:,.0f} |"
        for width, parameters, train, megabytes in zip(
            *(record["widths"], record["parameters"], record["widths_us"], record["widths_mb"]),
            strict=True,
        )
    ]
    beam_rows = [
        f"| {beam} | {time:,.0f} | {time / record['beams_us'][0]:.1f} |"
        for beam, time in zip(record["beams"], record["beams_us"], strict=True)
    ]
    return "\n".join(
        [
            *(head, "|--:|--:|--:|--:|", *rows, ""),
            *(
                "| tokens in one micro-batch | peak, MB | the line, MB |",
                "|--:|--:|--:|",
                *token_rows,
            ),
            f"\n{1e3 * line['each']:.1f} kB a token and {line['always']:.0f} MB always; "
            f"R² {line['r_squared']:.4f}, no measurement is further than "
            f"{100 * line['furthest']:.1f} % from the line.\n",
            *(
                "| width | million parameters | training, µs a token | training's peak, MB |",
                "|--:|--:|--:|--:|",
                *(*width_rows, ""),
            ),
            *("| beam | µs a token | times greedy search |", "|--:|--:|--:|", *beam_rows, ""),
        ]
    )


def draw(record: Record, out: Path) -> None:
    """Draw a plot of time, one of memory, and one of model size and beam."""
    save_plot(out, "time", lambda figure, ink: draw_time(record, figure))
    save_plot(out, "memory", lambda figure, ink: draw_memory(record, figure, ink), height=3.6)
    save_plot(out, "size", lambda figure, ink: draw_size(record, figure, ink), height=3.6)


def draw_time(record: Record, figure: "Figure") -> None:
    """Plot the times of training and decoding against length, both axes logarithmic."""
    axes = figure.subplots()
    axes.plot(
        record["lengths"],
        record["train_us"],
        label=f"training, {record['update']:,} tokens an update",
    )
    axes.plot(
        record["lengths"],
        record["decode_us"],
        label=f"greedy translation, {record['rows']} at once",
    )
    set_power_axis(axes, record["lengths"])
    axes.set(xlabel="pieces a sentence", ylabel="microseconds a token", yscale="log")
    ticks = [first * ten for ten in (10, 100, 1000, 10_000) for first in (1, 2, 5)]
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    times = [*record["train_us"], *record["decode_us"]]
    axes.set_ylim(0.7 * min(times), 1.7 * max(times))
    axes.minorticks_off()
    axes.legend(loc="upper left")


def draw_memory(record: Record, figure: "Figure", ink: Ink) -> None:
    """Plot memory against tokens with the fitted line, and against length."""
    left, right = figure.subplots(1, 2)
    line, range_ends = record["line"], [0, record["tokens"][-1]]
    label = f"{1e3 * line['each']:.1f} kB a token, {line['always']:.0f} MB always"
    fitted = [line["always"] + line["each"] * end for end in range_ends]
    left.plot(
        range_ends, fitted, color=ink.text, linewidth=1.0, linestyle=":", marker="", label=label
    )
    left.plot(record["tokens"], record["tokens_mb"], linestyle="", color=ink.lines[0], marker="o")
    left.set(xlabel=f"tokens in one micro-batch, {record['length']} a sentence", ylabel="peak, MB")
    left.xaxis.set_major_formatter("{x:,.0f}")
    left.legend(loc="upper left")
    for axes, highest in ((left, max(record["tokens_mb"])), (right, max(record["lengths_mb"]))):
        axes.set_ylim(0, 1.25 * highest)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    right.plot(record["lengths"], record["lengths_mb"], color=ink.lines[1], marker="s")
    set_power_axis(right, record["lengths"])
    right.set(xlabel=f"pieces a sentence, {record['update']:,} tokens")


def draw_size(record: Record, figure: "Figure", ink: Ink) -> None:
    """Plot training's time against parameters, and translation's against the beam."""
    left, right = figure.subplots(1, 2)
    millions = [parameters / 1e6 for parameters in record["parameters"]]
    left.plot(millions, record["widths_us"], color=ink.lines[0], marker="o")
    left.set(xlabel="million parameters", ylabel="training, µs a token", xscale="log", yscale="log")
    ticks = [1, 3, 10, 30, 100]
    left.set_xticks(ticks, [str(tick) for tick in ticks])
    right.plot(record["beams"], record["beams_us"], color=ink.lines[1], marker="s")
    right.set(xlabel="beam", ylabel="translation, µs a token", yscale="log")
    set_power_axis(right, record["beams"])
    for axes, times in ((left, record["widths_us"]), (right, record["beams_us"])):
        marks = [first * ten for ten in (10, 100, 1000, 10_000) for first in (1, 2, 5)]
        axes.set_yticks(marks, [f"{mark:,}" for mark in marks])
        axes.set_ylim(0.7 * min(times), 1.5 * max(times))
        axes.minorticks_off()


def set_power_axis(axes: "Axes", ticks: Sequence[int]) -> None:
    """Set a logarithmic axis with labeled powers of two."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.tick_params(axis="x", labelsize=8)
    axes.minorticks_off()
