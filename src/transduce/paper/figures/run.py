"""The figures of `transduce paper figures`: measured, summarised, plotted and written."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import torch

from transduce.bundle.bundle import Bundle
from transduce.io.machine import VERSION
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

IT = "it"
"""Name of the figure that needs a model of the demo."""

FIGURES: Mapping[str, Callable[..., PaperFigure]] = MappingProxyType(
    {
        "scaling": scaling_figure,
        "compatibility": compatibility_figure,
        "heads": heads_figure,
        "masks": masks_figure,
        "order": order_figure,
        "lengths": lengths_figure,
        "waves": waves_figure,
        "rate": curves_figure,
    }
)
"""By name, in the paper's order; each takes `quick`."""


def select_figures(only: Sequence[str], *, model: bool) -> tuple[str, ...]:
    """Return the names of the figures to make, in the paper's order.

    Args:
        only: requested names; empty selects all.
        model: whether there is a model for the figure "it".

    Raises:
        ValueError: if a name is unknown, or "it" is requested without a model.
    """
    names = (*FIGURES, IT)
    for name in only:
        if name not in names:
            raise ValueError(f"there is no figure {name!r}: --only takes {', '.join(names)}")
    if IT in only and not model:
        raise ValueError(f'the figure "{IT}" needs a model of the demo: --model runs/demo')
    return tuple(name for name in names if (name in only if only else name != IT or model))


def make_figure(name: str, *, bundle: Bundle | None = None, quick: bool = False) -> PaperFigure:
    """Measure one figure.

    Args:
        name: one of `FIGURES`, or "it".
        bundle: a model of the demo, for "it".
        quick: measure little, only to check that it works.
    """
    if name != IT:
        return FIGURES[name](quick=quick)
    assert bundle is not None, "`select_figures` requires one"
    return coreference_figure(bundle, quick=quick)


def make_figures(
    names: Sequence[str],
    folder: Path,
    *,
    bundle: Bundle | None = None,
    quick: bool = False,
    on_progress: Callable[[str], None],
) -> str:
    """Measure figures, write them and `figures.md`, and return the findings as a table.

    Args:
        names: from `select_figures`.
        folder: where they go; other figures in it stay.
        bundle: for the figure of "it".
        quick: only to see that all works.
        on_progress: called with what is being measured.
    """
    parts, rows = ["# Figures"], ["| figure | finding |", "|---|---|"]
    for name in names:
        on_progress(f"measuring: {name}")
        figure = make_figure(name, bundle=bundle, quick=quick)
        save_plot(folder, name, figure.draw, height=figure.height)
        record = _record(name, figure, quick=quick)
        write_files(folder, {f"{name}.json": json_text(record, indent=1)})
        parts.append(f"## {figure.title}\n\n{figure.finding}\n\n![]({name}.svg)")
        rows.append(f"| {name} | {figure.finding} |")
    write_files(folder, {"figures.md": "\n\n".join(parts) + "\n"})
    return "\n".join(rows)


def _record(name: str, figure: PaperFigure, *, quick: bool) -> dict[str, object]:
    return {
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
    }
