"""Head ablation: what each head attends to when "it" is due, and what is lost without it."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transduce.bundle.bundle import Bundle
from transduce.data.batch import collate
from transduce.data.tokenizer import Tokenizer
from transduce.demo.journey import PRONOUN_PIECES, last_index
from transduce.model.attention import Attention
from transduce.model.transformer import Transformer
from transduce.paper.figures.coreference import (
    LEVEL,
    NOT_A_DEMO_MODEL,
    HeadAccuracy,
    Proportion,
    measure_coreference,
    two_readings,
)
from transduce.paper.plot import Ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["encoder", "decoder", "cross"]
"""Self-attention of the encoder or the decoder, or the decoder's attention to the source."""

_KINDS: tuple[Kind, ...] = get_args(Kind)
_RESAMPLES = 10_000


class Interval(NamedTuple):
    """A mean with its bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        value, low, high = (100 * number for number in self)
        return f"{value:.1f} points ({low:.1f} to {high:.1f})"


class HeadName(NamedTuple):
    """A head of the model; layers and heads count from 1."""

    kind: Kind
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind} {self.layer}.{self.head}"


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadAblation:
    """One head, or several together."""

    heads: tuple[HeadName, ...]
    attends: Proportion | None
    """Sentences with more attention on the referent than on the other noun; None for the decoder's
    self-attention, which sees no source, and for several heads."""
    accuracy: float
    """Sentences with the right pronoun without these heads."""
    lost: Interval
    """Accuracy of the complete model minus this one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AblationResult:
    """All heads of a model, alone and those that attend to the referent together."""

    pairs: int
    intact: float
    """Sentences with the right pronoun with all heads."""
    heads: tuple[HeadAblation, ...]
    together: HeadAblation | None
    """All heads that attend more to the referent, beyond chance; None if there are none."""


def measure_ablation(bundle: Bundle, *, count: int = 250) -> AblationResult:
    """Remove every head in turn and count right pronouns in up to `count` pairs of sentences.

    A head is removed by zeroing its columns of the output projection. The pronoun is the most
    probable of er, sie and es after the reference up to it. Intervals resample the pairs; those of
    single heads are corrected for the number of heads (Bonferroni).

    Raises:
        ValueError: if the model is not of the demo.
    """
    accuracies = {
        HeadName(head.side, head.layer, head.head): head
        for head in measure_coreference(bundle, count=count).heads
    }
    right = _pronoun_test(bundle, count)
    intact = right(())
    names = model_heads(bundle.model)
    heads = tuple(
        _ablate(right, (name,), intact, level=LEVEL / len(names), looks=accuracies)
        for name in names
    )
    sure = tuple(name for name, head in accuracies.items() if head.sentences.low > 0.5)
    return AblationResult(
        pairs=len(intact),
        intact=float(intact.double().mean()),
        heads=heads,
        together=_ablate(right, sure, intact, level=LEVEL) if sure else None,
    )


def _pronoun_test(
    bundle: Bundle, count: int
) -> Callable[[Iterable[HeadName]], Bool[Tensor, "pairs 2"]]:
    """Return what tells where the model, without some heads, prefers the right pronoun."""
    model, tokenizer = bundle.model, bundle.tokenizer
    pairs = [pair for reading in two_readings(count) for pair in (reading.first, reading.second)]
    targets = [tokenizer.target.encode(pair.target) for pair in pairs]
    positions: list[int] = []
    pronouns: list[str] = []
    for pieces in map(tokenizer.target.pieces, targets):
        position = last_index(pieces, PRONOUN_PIECES)
        if position is None:
            raise ValueError(NOT_A_DEMO_MODEL)
        positions.append(position)
        pronouns.append(pieces[position])
    ids = {
        piece: target[position]
        for piece, target, position in zip(pronouns, targets, positions, strict=True)
    }
    known = [piece for piece in PRONOUN_PIECES if piece in ids]
    choices = [ids[piece] for piece in known]
    answers = torch.tensor([known.index(piece) for piece in pronouns])
    sources = [tokenizer.encode(pair.source) for pair in pairs]
    batch = collate(sources, targets, pad=model.config.pad, eos=Tokenizer.EOS)

    def right(heads: Iterable[HeadName]) -> Bool[Tensor, "pairs 2"]:
        with without_heads(model, heads), torch.inference_mode():
            logits = model(batch.source, batch.source_mask, batch.target_in)
        preferred = logits[torch.arange(len(positions)), positions][:, choices].argmax(-1)
        return (preferred == answers).view(-1, 2)

    return right


def _attention(model: Transformer, name: HeadName) -> Attention:
    if name.kind == "encoder":
        return list(model.encoder)[name.layer - 1].self_attention
    layer = list(model.decoder)[name.layer - 1]
    return layer.self_attention if name.kind == "decoder" else layer.cross_attention


def model_heads(model: Transformer) -> list[HeadName]:
    """Return all heads: the encoder's, the decoder's, those of cross-attention."""
    return [
        HeadName(kind, layer + 1, head + 1)
        for kind in _KINDS
        for layer in range(len(model.encoder if kind == "encoder" else model.decoder))
        for head in range(model.config.heads)
    ]


@contextmanager
def without_heads(model: Transformer, heads: Iterable[HeadName]) -> Generator[None]:
    """Zero what these heads add while the context is open."""
    saved: list[tuple[Tensor, Tensor]] = []
    for name in heads:
        attention = _attention(model, name)
        columns = attention.out.weight.data.view(attention.out.out_features, attention.heads, -1)
        part = columns[:, name.head - 1]
        saved.append((part, part.clone()))
        part.zero_()
    try:
        yield
    finally:
        for part, weights in reversed(saved):
            part.copy_(weights)


def _ablate(
    right: Callable[[Iterable[HeadName]], Bool[Tensor, "pairs 2"]],
    heads: tuple[HeadName, ...],
    intact: Bool[Tensor, "pairs 2"],
    *,
    level: float,
    looks: Mapping[HeadName, HeadAccuracy] | None = None,
) -> HeadAblation:
    kept = right(heads).double()
    attended = (looks or {}).get(heads[0]) if len(heads) == 1 else None
    return HeadAblation(
        heads=heads,
        attends=attended.sentences if attended else None,
        accuracy=float(kept.mean()),
        lost=bootstrap_mean((intact.double() - kept).mean(1), level=level),
    )


def bootstrap_mean(values: Float[Tensor, " pairs"], *, level: float) -> Interval:
    """Return the mean over pairs with its percentile bootstrap interval, `level` as in `wilson`."""
    draws = torch.Generator().manual_seed(1)
    indices = torch.randint(len(values), (_RESAMPLES, len(values)), generator=draws)
    means = values[indices].mean(1)
    ends = torch.tensor([level / 2, 1 - level / 2], dtype=means.dtype)
    low, high = means.quantile(ends).tolist()
    return Interval(float(values.mean()), low, high)


def draw_ablation(result: AblationResult, figure: "Figure", ink: Ink) -> None:
    """Plot attention and loss of every head side by side."""
    figure.set_figheight(1.6 + 0.2 * len(result.heads))
    left, right = figure.subplots(1, 2, sharey=True)
    rows = range(len(result.heads))
    for row, head in zip(rows, result.heads, strict=True):
        if head.attends:
            low, high = 100 * head.attends.low, 100 * head.attends.high
            left.plot([low, high], [row, row], color=ink.lines[0], marker="", linewidth=1.4)
            left.plot([100 * head.attends.share], [row], "o", color=ink.lines[0])
    draw_lost(right, [Interval(*(100 * x for x in head.lost)) for head in result.heads], ink)
    left.axvline(50, color=ink.text, linestyle=":", linewidth=0.8)
    left.set_yticks(rows, [str(head.heads[0]) for head in result.heads])
    left.invert_yaxis()
    left.set(xlabel="more attention on the referent,\n% of sentences", xlim=(0, 100))
    right.set(xlabel="right pronouns lost without it,\npercentage points")


def draw_lost(axes: "Axes", lost: Sequence[Interval], ink: Ink) -> None:
    """Plot what is lost without each head, a row each; filled squares are beyond chance.

    Args:
        axes: with rows that count from 0.
        lost: in the order of the rows.
        ink: colours.
    """
    for row, (value, low, high) in enumerate(lost):
        axes.plot([low, high], [row, row], color=ink.text, marker="", linewidth=1.4)
        axes.plot([value], [row], "s", color=ink.text, mfc=ink.text if low > 0 else ink.paper)
    axes.axvline(0, color=ink.text, linestyle=":", linewidth=0.8)
