"""The figures of `transduce paper figures`: each measured, said in a sentence, drawn, written."""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import torch

from transduce.bundle.bundle import Bundle
from transduce.io.streams import open_output
from transduce.io.version import VERSION
from transduce.paper.figures.attention_scores import compatibility_figure, scaling_figure
from transduce.paper.figures.common import Shown
from transduce.paper.figures.coreference import resolving_figure
from transduce.paper.figures.heads import heads_figure
from transduce.paper.figures.masks import masks_figure
from transduce.paper.figures.positions import lengths_figure, order_figure, waves_figure
from transduce.paper.figures.schedule import curves_figure
from transduce.paper.plot import save_plot

IT = "it"
"""The figure that needs a model of the demo."""

FIGURES: Mapping[str, Callable[..., Shown]] = MappingProxyType(
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


def chosen(only: Sequence[str], *, model: bool) -> tuple[str, ...]:
    """The names of the figures to make.

    Args:
        only: names that were asked for; none are all.
        model: whether there is a model for the figure of "it".

    Raises:
        ValueError: if a name is none of a figure, or "it" is asked for without a model.
    """
    names = (*FIGURES, IT)
    for name in only:
        if name not in names:
            raise ValueError(f"there is no figure {name!r}: --only takes {', '.join(names)}")
    if IT in only and not model:
        raise ValueError(f'the figure "{IT}" needs a model of the demo: --model runs/demo')
    return tuple(name for name in names if (name in only if only else name != IT or model))


def make_figure(name: str, *, bundle: Bundle | None = None, quick: bool = False) -> Shown:
    """Measure one figure by its name; `bundle` is for that of "it"."""
    if name == IT:
        assert bundle is not None, "`chosen` asks for one"
        return resolving_figure(bundle, quick=quick)
    return FIGURES[name](quick=quick)


def write_figure(folder: Path, name: str, shown: Shown, *, quick: bool) -> None:
    """Write NAME.json and the plots NAME.svg, .png, -dark.svg and -dark.png."""
    save_plot(folder, name, shown.draw, height=shown.height)
    record = {
        "figure": name,
        "title": shown.title,
        "found": shown.found,
        "quick": quick,
        "versions": {
            "transduce": VERSION,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        "threads": torch.get_num_threads(),
        "numbers": asdict(shown.numbers),
    }
    with open_output(folder / f"{name}.json") as file:
        file.write(f"{json.dumps(record, indent=1, ensure_ascii=False)}\n".encode())


def make_figures(
    names: Sequence[str],
    folder: Path,
    *,
    bundle: Bundle | None = None,
    quick: bool = False,
    tell: Callable[[str], None],
) -> str:
    """Measure figures, write them and `figures.md`, and return what was found as a table.

    Args:
        names: as `chosen` gives them.
        folder: where they go; other figures in it stay.
        bundle: for the figure of "it".
        quick: only to see that all works.
        tell: told what is being measured.
    """
    shown: dict[str, Shown] = {}
    for name in names:
        tell(f"measuring: {name}")
        shown[name] = make_figure(name, bundle=bundle, quick=quick)
        write_figure(folder, name, shown[name], quick=quick)
    parts = [f"## {one.title}\n\n{one.found}\n\n![]({name}.svg)" for name, one in shown.items()]
    with open_output(folder / "figures.md") as file:
        file.write(("\n\n".join(["# Figures", *parts]) + "\n").encode())
    rows = [f"| {name} | {one.found} |" for name, one in shown.items()]
    return "\n".join(["| figure | found |", "|---|---|", *rows])
