"""The three masks of section 3.2.3, recovered from the attention itself.

With the rows of an identity matrix as values, equation (1) returns its own weights; a position is
visible where the weight is above zero.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool
from torch import Tensor

from transduce.data.batch import collate
from transduce.model.attention import KeyValue
from transduce.model.kernels import scaled_dot_product_attention_cpu
from transduce.paper.figures.common import PaperFigure
from transduce.paper.plot import Ink

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAD, EOS = 18, 0
SOURCES, TARGETS = ([3, 4, 5, 6], [7, 8, 9, 10, 11, 12, 13]), ([5, 3, 4], [8, 7, 9, 10, 11])

VisibleMatrix = tuple[tuple[bool, ...], ...]
"""For each query position, which memory positions are visible."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Masks:
    """Visibility for the shorter sentence of a batch of two."""

    source_pieces: int
    """EOS included; the rest of the row is padding."""
    target_pieces: int
    encoder: VisibleMatrix
    decoder: VisibleMatrix
    cross: VisibleMatrix


def measure_masks() -> Masks:
    """Collate two sentences of different lengths and recover each attention's mask."""
    batch = collate(SOURCES, TARGETS, pad=PAD, eos=EOS)
    source, target, mask = batch.source.size(1), batch.target_in.size(1), batch.source_mask
    assert mask is not None, "one sentence is shorter"
    return Masks(
        source_pieces=len(SOURCES[0]) + 1,
        target_pieces=len(TARGETS[0]) + 1,
        encoder=_visible(source, source, mask=mask),
        decoder=_visible(target, target, mask=None),
        cross=_visible(target, source, mask=mask),
    )


def masks_figure(*, quick: bool = False) -> PaperFigure:
    """Plot the mask of each kind of attention."""
    del quick  # always fast
    result = measure_masks()
    ahead = sum(seen for row, line in enumerate(result.decoder) for seen in line[row + 1 :])
    padding = sum(seen for line in result.encoder for seen in line[result.source_pieces :])
    padding += sum(seen for line in result.cross for seen in line[result.source_pieces :])
    return PaperFigure(
        title="The masks (3.2.3)",
        numbers=result,
        finding=(
            f"Recovered from equation (1): the decoder attends to {ahead} future positions; "
            f"encoder and cross-attention attend to {padding} padding positions."
        ),
        draw=lambda figure, ink: _draw(result, figure, ink),
        height=2.9,
    )


def _visible(
    queries: int, memory: int, *, mask: Bool[Tensor, "batch 1 1 memory"] | None
) -> VisibleMatrix:
    """Return visibility for the first sentence; without `mask`, attention is causal."""
    rows = 1 if mask is None else mask.size(0)
    flat = torch.zeros(rows, 1, queries, 4)
    kv = KeyValue(
        torch.zeros(rows, 1, memory, 4), torch.eye(memory).expand(rows, 1, memory, memory)
    )
    weights = scaled_dot_product_attention_cpu(flat, *kv, mask=mask, causal=mask is None)[0, 0]
    return tuple(tuple(weight > 0 for weight in row) for row in weights.tolist())


def _draw(result: Masks, figure: "Figure", ink: Ink) -> None:
    from matplotlib.colors import ListedColormap

    panels = (
        ("encoder", result.encoder, "source", "source"),
        ("decoder: causal", result.decoder, "target", "target"),
        ("decoder to encoder", result.cross, "target", "source"),
    )
    colours = ListedColormap([ink.faint, ink.lines[0]])
    for axes, (title, seen, rows, columns) in zip(figure.subplots(1, 3), panels, strict=True):
        axes.imshow(seen, cmap=colours, vmin=0, vmax=1)
        axes.grid(visible=False)
        axes.set(title=title, xlabel=f"{columns} position", ylabel=f"{rows} position")
        axes.set_xticks(range(len(seen[0])), [str(place) for place in range(len(seen[0]))])
        axes.set_yticks(range(len(seen)), [str(place) for place in range(len(seen))])
        axes.set_xticks([place + 0.5 for place in range(len(seen[0]) - 1)], minor=True)
        axes.set_yticks([place + 0.5 for place in range(len(seen) - 1)], minor=True)
        axes.grid(which="minor", color=ink.paper, linewidth=1.5)
        axes.tick_params(which="both", length=0)
        axes.spines[:].set_visible(False)
        for row, line in enumerate(seen):
            for column, visible in enumerate(line):
                if not visible:  # readable without colour
                    axes.text(column, row, "×", ha="center", va="center", fontsize=8)
