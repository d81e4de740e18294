"""The figures of `transduce paper figures`: measured, summarised, plotted and written."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import torch

from transduce.bundle.bundle import Bundle
from transduce.io.machine import VERSION
from transduce.paper.figures.ablation import ablation_figure
from transduce.paper.figures.coreference import coreference_figure
from transduce.paper.figures.formulas import (
    curves_figure,
    masks_figure,
    scaling_figure,
    waves_figure,
)
from transduce.paper.figures.lookups import compatibility_figure, heads_figure
from transduce.paper.figures.positions import lengths_figure, order_figure
from transduce.paper.plot import PaperFigure, save_plot
from transduce.paper.report import json_text, write_files

OF_MODEL: Final[Mapping[str, Callable[..., PaperFigure]]] = {
    "it": coreference_figure,
    "ablation": ablation_figure,
}
"""Figures of a model of the demo, by name; each takes the model and `quick`."""

FIGURES: Final[Mapping[str, Callable[..., PaperFigure]]] = {
    "scaling": scaling_figure,
    "compatibility": compatibility_figure,
    "heads": heads_figure,
    "masks": masks_figure,
    "order": order_figure,
    "lengths": lengths_figure,
    "waves": waves_figure,
    "rate": curves_figure,
}
"""By name, in the paper's order; each takes `quick`."""


def select_figures(only: Sequence[str], *, model: bool) -> tuple[str, ...]:
    """Return the names of the figures to make, in the paper's order.

    Args:
        only: requested names; empty selects all.
        model: whether there is a model of the demo.

    Raises:
        ValueError: if a name is unknown, or a figure of a model is requested without one.
    """
    names = (*FIGURES, *OF_MODEL)
    for name in only:
        if name not in names:
            raise ValueError(f"there is no figure {name!r}: --only takes {', '.join(names)}")
        if name in OF_MODEL and not model:
            raise ValueError(f'the figure "{name}" needs a model of the demo: --model runs/demo')
    return tuple(n for n in names if (n in only if only else n in FIGURES or model))


def make_figures(
    names: Sequence[str],
    folder: Path,
    *,
    bundle: Bundle | None = None,
    weights: str = "",
    quick: bool = False,
    on_progress: Callable[[str], None],
) -> str:
    """Measure figures, write them and `figures.md`, and return the findings as a table.

    Args:
        names: from `select_figures`.
        folder: where they go; other figures in it stay.
        bundle: for figures of a model.
        weights: SHA-256 of its weights, for the record.
        quick: only to see that all works.
        on_progress: called with what is being measured.
    """
    parts, rows = ["# Figures"], ["| figure | finding |", "|---|---|"]
    for name in names:
        on_progress(f"measuring: {name}")
        if name in FIGURES:
            figure = FIGURES[name](quick=quick)
        else:
            assert bundle is not None, "`select_figures` requires one"
            figure = OF_MODEL[name](bundle, quick=quick)
        save_plot(folder, name, figure.draw, height=figure.height)
        record = {
            "figure": name,
            "title": figure.title,
            "found": figure.finding,
            "quick": quick,  # quick numbers mean little
            "versions": {
                "transduce": VERSION,
                "torch": str(torch.__version__),
                "python": platform.python_version(),
            },
            "threads": torch.get_num_threads(),
            "numbers": asdict(figure.numbers),
            **({"model": weights} if name in OF_MODEL else {}),
        }
        write_files(folder, {f"{name}.json": json_text(record, indent=1)})
        parts.append(f"## {figure.title}\n\n{figure.finding}\n\n![]({name}.svg)")
        rows.append(f"| {name} | {figure.finding} |")
    write_files(folder, {"figures.md": "\n\n".join(parts) + "\n"})
    return "\n".join(rows)
