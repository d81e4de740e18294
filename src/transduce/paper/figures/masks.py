"""The three masks of section 3.2.3, as the attentions themselves give away what they look at.

Nothing is drawn from the masks: values that are the rows of a unit matrix come out of equation (1)
as its weights, and whatever weight is above zero was looked at.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool
from torch import Tensor

from transduce.data.batch import collate
from transduce.model.attention import KeyValue
from transduce.model.kernels import scaled_dot_product_attention_cpu
from transduce.paper.figures.common import Shown
from transduce.paper.plot import Ink

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAD, EOS = 18, 0
SOURCES, TARGETS = ([3, 4, 5, 6], [7, 8, 9, 10, 11, 12, 13]), ([5, 3, 4], [8, 7, 9, 10, 11])

Seen = tuple[tuple[bool, ...], ...]
"""Row by row, which positions of the memory a position looks at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Masks:
    """What the positions of the shorter sentence of a batch of two look at."""

    source_pieces: int
    """Of the sentence, EOS counted; the rest of its row is padding."""
    target_pieces: int
    encoder: Seen
    decoder: Seen
    cross: Seen


def measure_masks() -> Masks:
    """Put two sentences of different lengths into a batch, and see what is looked at."""
    batch = collate(SOURCES, TARGETS, pad=PAD, eos=EOS)
    source, target, mask = batch.source.size(1), batch.target_in.size(1), batch.source_mask
    assert mask is not None, "one sentence is shorter"
    return Masks(
        source_pieces=len(SOURCES[0]) + 1,
        target_pieces=len(TARGETS[0]) + 1,
        encoder=_looks(source, source, mask=mask),
        decoder=_looks(target, target, mask=None),
        cross=_looks(target, source, mask=mask),
    )


def masks_figure(*, quick: bool = False) -> Shown:
    """Draw what each kind of attention may look at."""
    del quick  # it is quick
    found = measure_masks()
    ahead = sum(seen for row, line in enumerate(found.decoder) for seen in line[row + 1 :])
    padding = sum(seen for line in found.encoder for seen in line[found.source_pieces :])
    padding += sum(seen for line in found.cross for seen in line[found.source_pieces :])
    return Shown(
        title="The masks (3.2.3)",
        numbers=found,
        found=(
            f"Read off equation (1) itself: {ahead} looks of the decoder lie ahead of their "
            f"position, {padding} of the encoder and of the attention to it fall on padding."
        ),
        draw=lambda figure, ink: _draw(found, figure, ink),
        height=2.9,
    )


def _looks(queries: int, memory: int, *, mask: Bool[Tensor, "batch 1 1 memory"] | None) -> Seen:
    """Of the batch's first sentence; without a mask by the order alone."""
    rows = 1 if mask is None else mask.size(0)
    flat = torch.zeros(rows, 1, queries, 4)
    past = KeyValue(
        torch.zeros(rows, 1, memory, 4), torch.eye(memory).expand(rows, 1, memory, memory)
    )
    weights = scaled_dot_product_attention_cpu(flat, *past, mask=mask, causal=mask is None)[0, 0]
    return tuple(tuple(weight > 0 for weight in row) for row in weights.tolist())


def _draw(found: Masks, figure: "Figure", ink: Ink) -> None:
    from matplotlib.colors import ListedColormap

    panels = (
        ("encoder", found.encoder, "source", "source"),
        ("decoder: no look ahead", found.decoder, "target", "target"),
        ("decoder to encoder", found.cross, "target", "source"),
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
            for column, looked in enumerate(line):
                if not looked:  # not told by its colour alone
                    axes.text(column, row, "×", ha="center", va="center", fontsize=8)
