"""The figures of `transduce paper figures`: measured, summarised, plotted and written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any, Final, Literal, get_type_hints

import torch
from pydantic import TypeAdapter

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import Pair
from transduce.io.records import read_record
from transduce.paper.figures import (
    ablation,
    coreference,
    formulas,
    importance,
    lookups,
    positions,
    sentences,
)
from transduce.paper.plot import Ink, require_matplotlib, save_plot
from transduce.paper.report import PAGES, json_text, versions, write_files
from transduce.visualization.template import open_template

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperFigure:
    """One claim of the paper: how it is measured and drawn."""

    title: str
    measure: Callable[..., Any]
    """Returns the measurements, a dataclass; a figure of a model takes the bundle."""
    draw: Callable[[Any, "Figure", Ink], None]
    """Puts axes with the measurements on a figure."""
    quick: Mapping[str, object] = field(default_factory=dict[str, object])
    """Arguments of `measure` for a smoke test."""
    height: float = 3.4
    """Of the plot in inches."""
    needs: Literal["", "demo", "model", "run"] = ""
    """The demo's model, any, or that of a run with test text, which `measure` takes as `pairs`. A
    figure of any model is made only if it is named."""


FIGURES: Final[Mapping[str, PaperFigure]] = {
    "scaling": PaperFigure(
        title="Softmax with and without 1/√d_k (3.2.1, footnote 4)",
        measure=formulas.measure_scaling,
        draw=formulas.draw_scaling,
        quick={"widths": formulas.WIDTHS[:5], "queries": 256},
    ),
    "compatibility": PaperFigure(
        title="Additive, dot-product and scaled dot-product attention (3.2.1)",
        measure=lookups.measure_compatibility,
        draw=lookups.draw_compatibility,
        quick={"lengths": (16, 32), "widths": (4, 16), "seeds": 1, "updates": 9, "repeats": 2},
    ),
    "heads": PaperFigure(
        title="One head against eight at equal cost (3.2.2)",
        measure=lookups.measure_heads,
        draw=lookups.draw_heads,
        quick=dict(cuts=(1, 4), d_model=64, length=11, seeds=1, updates=9, repeats=2),
        height=3.2,
    ),
    "masks": PaperFigure(
        title="The masks (3.2.3)",
        measure=formulas.measure_masks,
        draw=formulas.draw_masks,
        height=2.9,
    ),
    "order": PaperFigure(
        title="Order without positions (3.5)",
        measure=positions.measure_order,
        draw=positions.draw_order,
        quick={"permutations": 2},
        height=2.4,
    ),
    "lengths": PaperFigure(
        title="Longer than in training: sinusoids and learned positions (3.5)",
        measure=positions.measure_lengths,
        draw=positions.draw_lengths,
        quick={"trained": 8, "seeds": 1, "updates": 9},
    ),
    "waves": PaperFigure(
        title="The sinusoids, their products, their shifts (3.5)",
        measure=formulas.measure_waves,
        draw=formulas.draw_waves,
        quick={"length": 64, "d_model": 64},
        height=5.6,
    ),
    "rate": PaperFigure(
        title="The learning rate, equation (3) (5.3)",
        measure=formulas.measure_curves,
        draw=formulas.draw_curves,
        quick={"every": 1000},
    ),
    "it": PaperFigure(
        title="“it” resolved, over all heads",
        measure=coreference.measure_coreference,
        draw=coreference.draw_coreference,
        quick={"count": 6},
        height=5.0,
        needs="demo",
    ),
    "ablation": PaperFigure(
        title="Looking is not deciding: heads removed",
        measure=ablation.measure_ablation,
        draw=ablation.draw_ablation,
        quick={"count": 6},
        needs="demo",
    ),
    "making": PaperFigure(
        title="Figure 3: “making … more difficult”",
        measure=sentences.measure_making,
        draw=sentences.draw_making,
        height=3.6,
        needs="model",
    ),
    "its": PaperFigure(
        title="Figure 4: what “its” attends to",
        measure=sentences.measure_its,
        draw=sentences.draw_its,
        height=6.4,
        needs="model",
    ),
    "tasks": PaperFigure(
        title="Figure 5: two heads, two tasks",
        measure=sentences.measure_tasks,
        draw=sentences.draw_tasks,
        height=6.4,
        needs="model",
    ),
    "importance": PaperFigure(
        title="Every head of a model of text: what it looks at, what is lost without it",
        measure=importance.measure_importance,
        draw=importance.draw_importance,
        quick={"count": 6},
        needs="run",
    ),
}
"""By name, in the paper's order; figures of a model come last."""


def select_figures(only: Sequence[str], *, model: bool) -> tuple[str, ...]:
    """Return the names of the figures to make, in the paper's order.

    If `only` is empty, they are all but those of any model, and of those that need a `model`.

    Raises:
        ValueError: if a name is unknown, or a figure of a model is requested without one.
    """
    for name in only:
        if name not in FIGURES:
            raise ValueError(f"there is no figure {name!r}: --only takes {', '.join(FIGURES)}")
        if FIGURES[name].needs and not model:
            demo = FIGURES[name].needs == "demo"
            which = " of the demo: --model runs/demo" if demo else ": --model MODEL"
            raise ValueError(f'the figure "{name}" needs a model{which}')
    by_default = ("", "demo") if model else ("",)
    return tuple(
        name
        for name, figure in FIGURES.items()
        if (name in only if only else figure.needs in by_default)
    )


def measurements(name: str, numbers: object) -> object:
    """Return what a figure measured, from the numbers of its record."""
    return TypeAdapter(get_type_hints(FIGURES[name].measure)["return"]).validate_python(numbers)


def finding(name: str, numbers: object) -> str:
    """Return the result of a figure in a sentence or two, from its template in pages/figures.md."""
    template: Any = open_template(PAGES / "figures.md").make_module(
        {"mean": mean, "median": median, "shifts": formulas.SHIFTS}
    )
    return " ".join(getattr(template, name)(numbers).split())


def make_figures(
    names: Sequence[str],
    folder: Path,
    *,
    bundle: Bundle | None = None,
    weights: str = "",
    pairs: Sequence[Pair] = (),
    quick: bool = False,
    on_progress: Callable[[str], None],
) -> str:
    """Measure figures, write them and `figures.md`, and return the findings as a table.

    Args:
        names: from `select_figures`.
        folder: where they go; other figures in it stay.
        bundle: for figures of a model.
        weights: SHA-256 of its weights, for the record.
        pairs: for figures of text.
        quick: only to see that all works.
        on_progress: called with what is being measured.

    Raises:
        ValueError: if matplotlib is not installed, or the model is not one that a figure needs.
    """
    require_matplotlib()
    if bundle and any(FIGURES[name].needs == "demo" for name in names):
        coreference.check_demo_model(bundle)
    rows = ["| figure | finding |", "|---|---|"]
    for name in names:
        on_progress(f"measuring: {name}")
        figure = FIGURES[name]
        model = [bundle] if figure.needs else []
        text = {"pairs": pairs} if figure.needs == "run" else {}
        numbers = figure.measure(*model, **text, **(figure.quick if quick else {}))
        result = finding(name, numbers)
        save_plot(folder, name, partial(figure.draw, numbers), height=figure.height)
        record = {
            "figure": name,
            "title": figure.title,
            "found": result,
            "quick": quick and bool(figure.quick),  # else it is measured as ever
            "versions": versions("torch"),
            "threads": torch.get_num_threads(),
            "numbers": asdict(numbers),
            **({"model": weights} if figure.needs else {}),
        }
        write_files(folder, {f"{name}.json": json_text(record, indent=1)})
        rows.append(f"| {name} | {_marked_finding(record)} |")
    write_files(folder, {"figures.md": _page(folder)})
    return "\n".join(rows)


def _page(folder: Path) -> str:
    """The findings and plots of all figures in a folder, also of earlier calls."""
    parts = ["# Figures"]
    for name, figure in FIGURES.items():
        if (file := folder / f"{name}.json").is_file():
            record = read_record(file, dict, remedy=f"delete it, or repeat --only {name}")
            parts.append(f"## {figure.title}\n\n{_marked_finding(record)}\n\n![]({name}.svg)")
    return "\n\n".join(parts) + "\n"


def _marked_finding(record: Mapping[str, Any]) -> str:
    """The finding of a figure's record; that of a quick run is marked."""
    mark = " A quick run: too small to find anything, good for trying the command."
    return f"{record['found']}{mark if record['quick'] else ''}"
