"""The figures of `transduce paper figures`: measured, summarised, plotted and written."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import torch

from transduce.bundle.bundle import Bundle
from transduce.io.machine import VERSION
from transduce.paper.figures.attention_scores import compatibility_figure, scaling_figure
from transduce.paper.figures.common import PaperFigure
from transduce.paper.figures.coreference import coreference_figure
from transduce.paper.figures.heads import heads_figure
from transduce.paper.figures.masks import masks_figure
from transduce.paper.figures.positions import lengths_figure, order_figure, waves_figure
from transduce.paper.figures.schedule import curves_figure
from transduce.paper.plot import save_plot
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
    if name == IT:
        assert bundle is not None, "`select_figures` requires one"
        return coreference_figure(bundle, quick=quick)
    return FIGURES[name](quick=quick)


def write_figure(folder: Path, name: str, shown: PaperFigure, *, quick: bool) -> None:
    """Write NAME.json and the plots NAME.svg, .png, -dark.svg and -dark.png.

    Args:
        folder: where to.
        name: of the figure and its files.
        shown: the measured figure.
        quick: recorded, since quick numbers mean little.
    """
    save_plot(folder, name, shown.draw, height=shown.height)
    record = {
        "figure": name,
        "title": shown.title,
        "found": shown.finding,
        "quick": quick,
        "versions": {
            "transduce": VERSION,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        "threads": torch.get_num_threads(),
        "numbers": asdict(shown.numbers),
    }
    write_files(folder, {f"{name}.json": json_text(record, indent=1)})


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
        tell: told what is being measured.
    """
    figures: dict[str, PaperFigure] = {}
    for name in names:
        on_progress(f"measuring: {name}")
        figures[name] = make_figure(name, bundle=bundle, quick=quick)
        write_figure(folder, name, figures[name], quick=quick)
    parts = [
        f"## {figure.title}\n\n{figure.finding}\n\n![]({name}.svg)"
        for name, figure in figures.items()
    ]
    write_files(folder, {"figures.md": "\n\n".join(["# Figures", *parts]) + "\n"})
    rows = [f"| {name} | {figure.finding} |" for name, figure in figures.items()]
    return "\n".join(["| figure | finding |", "|---|---|", *rows])
