"""The report on Table 3 for eyes: Markdown, and the rows in order as a plot."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from transduce.io.atomic_folder import atomic_file
from transduce.io.version import VERSION, commit
from transduce.paper.plot import MARKERS, Draw, Ink, save_plot
from transduce.paper.table3.report import Agreement, Estimate, Line, Report, Side

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS: dict[Side, str] = {"better": " ▲", "worse": " ▼", "unclear": "", "equal": "", "base": ""}
_GROUPS = ("base", "A", "B", "C", "D", "E", "big")
_TOLD = ("base", "A: heads", "B: d_k", "C: size", "D: dropout, smoothing", "E: positions", "big")


def markdown(report: Report) -> str:
    """Write the report as Markdown: the rows, the ranks, and what they disagree on."""
    shared = report.settings
    seeds = report.lines[0].seeds
    over = f"over {seeds} seeds" if seeds > 1 else "over the lines of the set, of one seed"
    return "\n".join(
        [
            "# Table 3 in small",
            "",
            f"Widths divided by {shared.width_divisor}, depths by {shared.depth_divisor}; "
            f"{shared.vocab_size:,} pieces, {shared.updates:,} updates of {shared.tokens:,} target "
            f"tokens, warmup {shared.warmup:,}. No checkpoint is averaged; beam 4, α 0.6. "
            f"± is a 95 % interval {over}. ▲ better and ▼ worse than the base row by more than "
            "chance. Published figures are of newstest2013 and of the paper's sizes: only the "
            "order can be compared.",
            "",
            *_table(report),
            "",
            f"BLEU: `{report.signature}`. Perplexity: per piece, without label smoothing.",
            "",
            "## Do the orders agree?",
            "",
            "Pairs of rows in the paper's order, in the other one, and tied in one of the two; "
            "rank correlations with the published figures (validation set). Every group is taken "
            "with the base row.",
            "",
            *_ranks(report.agreements),
            "",
            *_said(report.agreements),
            "",
        ]
    )


def _table(report: Report) -> list[str]:
    lines = [
        "| row | differs | PPL published | PPL here | BLEU published | BLEU here | test PPL | "
        "test BLEU | 10⁶ parameters published | parameters here | minutes |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for one in report.lines:
        here, test = one.validation, one.test
        cells = [
            one.row,
            one.differs,
            f"{one.published_perplexity:.2f}",
            f"{_shown(here.perplexity)}{_MARKS[here.perplexity_side]}",
            f"{one.published_bleu:.1f}",
            f"{_shown(here.bleu)}{_MARKS[here.bleu_side]}",
            _shown(test.perplexity) if test else "",
            _shown(test.bleu) if test else "",
            str(one.published_millions or ""),
            f"{one.parameters:,}",
            f"{one.seconds / 60:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _ranks(agreements: Sequence[Agreement]) -> list[str]:
    lines = [
        "| group | rows | PPL: same, other, tied | Spearman | Kendall τ "
        "| BLEU: same, other, tied | Spearman | Kendall τ |",
        "|---|--:|---|--:|--:|---|--:|--:|",
    ]
    for one in agreements:
        cells = [one.group, str(len(one.rows))]
        for order in (one.perplexity, one.bleu):
            cells.append(f"{order.agree}, {order.disagree}, {order.tied}")
            cells += [
                "–" if value is None else f"{value:+.2f}"
                for value in (order.spearman, order.kendall)
            ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _said(agreements: Sequence[Agreement]) -> list[str]:
    """What each group disagrees on by more than its margins."""
    lines: list[str] = []
    for one in agreements:
        if one.group == "all":
            continue
        for name, against in (("PPL", one.perplexity_against), ("BLEU", one.bleu_against)):
            what = ", ".join(against) or "nothing"
            lines.append(f"- {one.group}, {name}: against the paper beyond the margins: {what}.")
    return lines


def _shown(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} ± {estimate.margin:.2f}"


def write(report: Report, out: Path) -> None:
    """Write table3.json, table3.md and the plot into a folder.

    Raises:
        ValueError: if matplotlib is not installed.
    """
    facts = {
        "versions": {"transduce": VERSION, "torch": version("torch")},
        "commit": commit(),
        **asdict(report),
    }
    for name, text in (
        ("table3.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n"),
        ("table3.md", markdown(report)),
    ):
        with atomic_file(out / name) as stream:
            stream.write(text.encode())
    save_plot(out, "table3", plot(report), height=5.6)


def plot(report: Report) -> Draw:
    """Draw what was measured, the rows in the published order: where the orders agree it falls."""

    def draw(figure: "Figure", ink: Ink) -> None:
        left, right = figure.subplots(1, 2)
        for axes, name, best_first in ((left, "perplexity", 1), (right, "BLEU", -1)):
            places = [_place(line, name) for line in report.lines]
            order = sorted(range(len(places)), key=lambda i: best_first * places[i].published)
            _panel(axes, [places[i] for i in order], ink)
            axes.set_xlabel(f"measured {name} (validation)")
            axes.set_ylabel(f"row, and its published {name}; the best on top")
        handles, names = left.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=3)

    return draw


class _Place(NamedTuple):
    """A row in one panel."""

    row: str
    published: float
    here: Estimate
    digits: int


def _place(line: Line, name: str) -> _Place:
    if name == "BLEU":
        return _Place(line.row, line.published_bleu, line.validation.bleu, 1)
    return _Place(line.row, line.published_perplexity, line.validation.perplexity, 2)


def _panel(axes: "Axes", places: Sequence[_Place], ink: Ink) -> None:
    """A row a line, with its margin, a marker and a colour a group."""
    for number, group in enumerate(_GROUPS):
        own = [i for i, one in enumerate(places) if group in (one.row, one.row[0])]
        if own:
            axes.errorbar(
                [places[i].here.value for i in own],
                own,
                xerr=[places[i].here.margin for i in own],
                linestyle="none",
                marker=(*MARKERS, "X")[number],
                color=ink.text if group == "base" else ink.lines[number - 1],
                label=_TOLD[number],
                elinewidth=1.2,
                markersize=6,
            )
    base = [one.here.value for one in places if one.row == "base"]
    if base:
        axes.axvline(base[0], color=ink.text, linewidth=0.8, linestyle=":")
    axes.set_yticks(
        range(len(places)), [f"{one.row}  {one.published:.{one.digits}f}" for one in places]
    )
    axes.invert_yaxis()
