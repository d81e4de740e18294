"""Head importance: what each head of any model looks at, and what is lost on text without it.

After "Are Sixteen Heads Really Better than One?" (Michel et al. 2019): heads are removed from a
trained model one at a time, and then those together that nothing was lost without.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from transduce.bundle.bundle import Bundle
from transduce.data.batch import Batch, collate
from transduce.data.corpus import Pair
from transduce.data.tokenizer import Tokenizer
from transduce.evaluation.scoring import encode_pairs
from transduce.model.trace import trace
from transduce.model.transformer import Transformer
from transduce.paper.figures.ablation import (
    HeadName,
    Interval,
    bootstrap_mean,
    draw_lost,
    model_heads,
    without_heads,
)
from transduce.paper.figures.coreference import LEVEL
from transduce.paper.plot import Ink

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLACES: Final = ("the piece before", "the piece itself", "the next piece", "EOS or the start")
"""Positions that many heads attend to; in cross-attention "itself" is the same position of the
source, and the last is EOS where the memory is the source, the start where it is the target."""
_BATCH = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadImportance:
    """One head."""

    head: HeadName
    places: tuple[float, ...]
    """Share of the weight on each of `PLACES`, the mean over all queries."""
    lost: Interval
    """Nats per piece that the loss grows by without it."""

    @property
    def clearest(self) -> float:
        """The largest share."""
        return max(self.places)

    @property
    def place(self) -> str:
        """The place with the largest share."""
        return PLACES[self.places.index(self.clearest)]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportanceResult:
    """All heads of a model, alone, and together those that nothing is lost without."""

    parameters: int
    sentences: int
    loss: float
    """Nats per piece of the complete model."""
    heads: tuple[HeadImportance, ...]
    idle: tuple[HeadName, ...]
    """Heads without which the loss does not grow beyond chance."""
    idle_lost: Interval | None
    """Nats per piece that the loss grows by without all of `idle`; None if there are none."""


def measure_importance(
    bundle: Bundle, *, pairs: Sequence[Pair], count: int = 300
) -> ImportanceResult:
    """Remove every head in turn, and measure the loss on references.

    Intervals resample the sentences; those of single heads are corrected for the number of heads
    (Bonferroni).

    Args:
        bundle: any model.
        pairs: text that it was not trained on.
        count: pairs at most, the first.

    Raises:
        ValueError: if there are no pairs.
    """
    if not pairs:
        raise ValueError("the figure importance needs test text: give --model a run that has some")
    model, pad, eos = bundle.model, bundle.model.config.pad, Tokenizer.EOS
    encoded = encode_pairs(pairs[:count], bundle.tokenizer)
    batches = [
        collate(*zip(*encoded[start : start + _BATCH], strict=True), pad=pad, eos=eos)
        for start in range(0, len(encoded), _BATCH)
    ]
    pieces = sum(len(target) + 1 for _, target in encoded) / len(encoded)

    def nats(heads: Sequence[HeadName]) -> Float[Tensor, " sentences"]:
        with without_heads(model, heads):
            return _sentence_losses(model, batches) / pieces

    intact, names = nats(()), model_heads(model)
    shares = _place_shares(bundle, [([*source, eos], [*target, eos]) for source, target in encoded])
    heads = tuple(
        HeadImportance(
            head=name,
            places=places,
            lost=bootstrap_mean(nats([name]) - intact, level=LEVEL / len(names)),
        )
        for name, places in zip(names, shares, strict=True)
    )
    idle = tuple(head.head for head in heads if head.lost.low <= 0)
    return ImportanceResult(
        parameters=model.size,
        sentences=len(encoded),
        loss=float(intact.mean()),
        heads=heads,
        idle=idle,
        idle_lost=bootstrap_mean(nats(idle) - intact, level=LEVEL) if idle else None,
    )


@torch.inference_mode()
def _sentence_losses(model: Transformer, batches: Sequence[Batch]) -> Float[Tensor, " sentences"]:
    """The nats of each reference, its EOS included."""
    pad, sums = model.config.pad, list[Tensor]()
    for batch in batches:
        logits = model(batch.source, batch.source_mask, batch.target_in)[..., :pad]
        nats = F.cross_entropy(
            logits.transpose(1, 2), batch.target_out, ignore_index=pad, reduction="none"
        )
        sums.append(nats.double().sum(1))
    return torch.cat(sums)


def _place_shares(
    bundle: Bundle, encoded: Sequence[tuple[list[int], list[int]]]
) -> list[tuple[float, ...]]:
    """Each head's shares of `PLACES`, in the order of `model_heads`; ids have EOS."""
    sums: list[Float[np.ndarray, "layers heads places"]] = []
    for source, target in encoded:
        traced = trace(bundle.weights, source, target)
        weighted = [
            places_of(traced.encoder, edge=-1) * len(source),
            places_of(traced.decoder, edge=0) * len(target),
            places_of(traced.cross, edge=-1) * len(target),
        ]
        sums = [a + b for a, b in zip(sums, weighted, strict=True)] if sums else weighted
    sources, targets = (sum(map(len, side)) for side in zip(*encoded, strict=True))
    counts = (sources, targets, targets)
    return [
        tuple(head)
        for kind, count in zip(sums, counts, strict=True)
        for head in (kind / count).reshape(-1, len(PLACES)).tolist()
    ]


def places_of(
    weights: Float[np.ndarray, "layers heads query memory"], *, edge: int
) -> Float[np.ndarray, "layers heads places"]:
    """Return the shares of the weight on `PLACES`, the mean over the queries of one sentence.

    At `edge` is EOS or the start, which counts as nothing else.

    >>> places_of(np.array([[[[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]]]]), edge=-1).round(3).tolist()
    [[[0.25, 0.5, 0.125, 0.125]]]
    """
    others = weights.copy()
    others[..., edge] = 0.0
    diagonals = [np.diagonal(others, offset, -2, -1).sum(-1) for offset in (-1, 0, 1)]
    return np.stack([*diagonals, weights[..., edge].sum(-1)], axis=-1) / weights.shape[-2]


def draw_importance(result: ImportanceResult, figure: "Figure", ink: Ink) -> None:
    """Plot what every head looks at, and what is lost without it, side by side."""
    figure.set_figheight(1.8 + 0.19 * len(result.heads))
    left, right = figure.subplots(1, 2, sharey=True)
    rows = range(len(result.heads))
    begin = np.zeros(len(rows))
    for number, place in enumerate(PLACES):
        shares = np.array([100 * head.places[number] for head in result.heads])
        left.barh(rows, shares, left=begin, color=ink.lines[number], label=place, height=0.7)
        begin += shares
    draw_lost(right, [head.lost for head in result.heads], ink)
    left.set_yticks(rows, [str(head.head) for head in result.heads])
    left.set(xlabel="weight on these places, %", xlim=(0, 100), ylim=(len(rows) - 0.4, -0.6))
    right.set(xlabel="loss without the head,\nnats per piece more")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=2)
