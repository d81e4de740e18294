"""Which attention head resolves "it": a probe over all heads of a model of the demo."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import Pair
from transduce.data.tokenizer import Tokenizer
from transduce.demo.corpus import UnseenCombinations, unseen_combinations
from transduce.demo.journey import IT_PIECES, PRONOUN_PIECES, last_index
from transduce.demo.lexicon import Noun
from transduce.demo.sentences import SCENES, It, reference, unambiguous_its
from transduce.model.trace import trace
from transduce.paper.plot import Ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVEL = 0.05
"""Error probability of an interval, or of all intervals together (Bonferroni)."""
NOT_A_DEMO_MODEL = (
    'the model does not know "it", the nouns and the pronouns of the demo\'s sentences as pieces: '
    "give --model a model that `transduce demo` trained"
)
"""The error for a model whose tokenizer splits them."""


class Proportion(NamedTuple):
    """A proportion with Wilson's score interval."""

    right: int
    of: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The proportion."""
        return self.right / self.of

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.share:.1f} % ({low:.1f} to {high:.1f} %)"


def wilson(right: int, of: int, *, level: float = LEVEL) -> Proportion:
    """Return a proportion with Wilson's score interval.

    Args:
        right: successes.
        of: trials.
        level: probability that the interval misses the true proportion.

    >>> [round(end, 3) for end in wilson(5, 10)[2:]]
    [0.237, 0.763]
    """
    z = NormalDist().inv_cdf(1 - level / 2)
    share = right / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    reach = z / (1 + z * z / of) * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5
    return Proportion(right, of, middle - reach, middle + reach)


class TwoReadings(NamedTuple):
    """Two sentences that differ in the reason, which decides what "it" refers to."""

    first: Pair
    """"It" is the first noun."""
    second: Pair
    doer: Noun
    thing: Noun


def two_readings(count: int) -> list[TwoReadings]:
    """Draw up to `count` pairs of sentences that differ only in the last word.

    Nouns and adjectives are combined as they never are in the demo's training data; there are about
    280 such pairs.
    """
    unseen = unseen_combinations(Random(1))  # the demo's corpus has seed 1
    couples = [couple for scene in range(len(SCENES)) for couple in _reading_pairs(scene, unseen)]
    Random(1).shuffle(couples)
    pairs: list[TwoReadings] = []
    for number, (first, second) in enumerate(couples):
        pair = [reference(Random(100_003 + number), it) for it in (first, second)]
        words = [sentence.source.split() for sentence in pair]
        if words[0][:-1] == words[1][:-1]:
            pairs.append(TwoReadings(pair[0], pair[1], first.doer, first.thing))
    return pairs[:count]


def _reading_pairs(scene: int, unseen: UnseenCombinations) -> list[tuple[It, It]]:
    """Return all pairs of reasons for the same two nouns of a scene."""
    by_nouns: dict[tuple[str, str], tuple[list[It], list[It]]] = {}
    for it in unambiguous_its(SCENES[scene]):
        if it.pair in unseen.pairs:
            both = by_nouns.setdefault((it.doer.english, it.thing.english), ([], []))
            both[0 if it.of_doer else 1].append(it)
    return [(a, b) for firsts, seconds in by_nouns.values() for a in firsts for b in seconds]


Side = Literal["encoder", "cross"]
"""The encoder's self-attention from "it", or the decoder's attention to the source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadAccuracy:
    """One head."""

    side: Side
    layer: int
    """Counted from 1, as the heads are."""
    head: int
    sentences: Proportion
    """Sentences with more attention on the referent; chance is 50 %."""
    moves: Proportion
    """Pairs in which attention shifts towards the referent; chance is 50 %."""
    both: int
    """Pairs with both sentences right."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreferenceResult:
    """All heads, and the best head on held-out sentences."""

    pairs: int
    heads: tuple[HeadAccuracy, ...]
    best: HeadAccuracy
    """Selected on every other pair; its numbers cover all pairs."""
    held_out: Proportion
    """That head on the other half, with a 95 % interval."""
    held_out_both: Proportion
    """Pairs of the other half with both sentences right."""


def check_demo_model(bundle: Bundle) -> None:
    """Refuse a model that `measure_coreference` refuses, without measuring.

    Raises:
        ValueError: if the model is not of the demo.
    """
    if all(_noun_preference(bundle, pair) is None for pair in two_readings(250)):
        raise ValueError(NOT_A_DEMO_MODEL)


def measure_coreference(bundle: Bundle, *, count: int = 250) -> CoreferenceResult:
    """Measure for every head, on up to `count` pairs, whether "it" attends to the referent.

    Raises:
        ValueError: if the tokenizer splits "it", that is, the model is not of the demo.
    """
    preferences = [
        preference
        for pair in two_readings(count)
        if (preference := _noun_preference(bundle, pair)) is not None
    ]
    if not preferences:
        raise ValueError(NOT_A_DEMO_MODEL)
    leans = torch.stack(preferences)  # positive: towards the first noun
    right = torch.stack([leans[:, 0] > 0, leans[:, 1] < 0], dim=1)
    heads = _heads(right, leans[:, 0] > leans[:, 1], depth=bundle.model.config.encoder_layers)
    best = int(right[::2].sum((0, 1)).argmax())
    others = right[1::2].flatten(2)[..., best]
    return CoreferenceResult(
        pairs=len(preferences),
        heads=heads,
        best=heads[best],
        held_out=wilson(int(others.sum()), others.numel()),
        held_out_both=wilson(int(others.all(1).sum()), len(others)),
    )


def _noun_preference(bundle: Bundle, pair: TwoReadings) -> Float[Tensor, "2 layers heads"] | None:
    """Return each head's attention on the first noun minus the second, in both readings.

    Encoder layers come first, then the decoder's; None if a word is not found in the pieces.
    """
    leans: list[Tensor] = []
    for source, target in (pair.first, pair.second):
        sides = (bundle.tokenizer, source), (bundle.tokenizer.target, target)
        ids, target_ids = ([*side.encode(text), Tokenizer.EOS] for side, text in sides)
        pieces = bundle.tokenizer.pieces(ids)
        target_pieces = bundle.tokenizer.target.pieces(target_ids)
        nouns = [piece_positions(pieces, noun.english) for noun in (pair.doer, pair.thing)]
        it, pronoun = last_index(pieces, IT_PIECES), last_index(target_pieces, PRONOUN_PIECES)
        if it is None or pronoun is None or not all(nouns):
            return None
        traced = trace(bundle.weights, ids, target_ids)
        attention = np.concatenate([traced.encoder[:, :, it], traced.cross[:, :, pronoun]])
        weights = torch.from_numpy(attention)
        leans.append(weights[..., nouns[0]].sum(-1) - weights[..., nouns[1]].sum(-1))
    return torch.stack(leans)


def piece_positions(pieces: Sequence[str], word: str) -> list[int]:
    """Return the positions of a word's pieces; empty unless it occurs exactly once."""
    occurrences: list[list[int]] = []
    for begin, piece in enumerate(pieces):
        if not piece.startswith("▁"):
            continue
        spelt, end = piece[1:], begin + 1
        while spelt != word and end < len(pieces) and word.startswith(spelt + pieces[end]):
            spelt, end = spelt + pieces[end], end + 1
        complete = end == len(pieces) or not pieces[end][0].isalnum()
        if spelt == word and complete:
            occurrences.append(list(range(begin, end)))
    return occurrences[0] if len(occurrences) == 1 else []


def _heads(right: Tensor, moves: Tensor, *, depth: int) -> tuple[HeadAccuracy, ...]:
    """Every head's shares; `depth` layers are the encoder's, the others the decoder's."""
    layers, heads = right.shape[2:]
    level = LEVEL / (layers * heads)
    return tuple(
        HeadAccuracy(
            side="encoder" if layer < depth else "cross",
            layer=layer + 1 if layer < depth else layer - depth + 1,
            head=head + 1,
            sentences=wilson(int(right[..., layer, head].sum()), 2 * len(right), level=level),
            moves=wilson(int(moves[:, layer, head].sum()), len(moves), level=level),
            both=int(right[..., layer, head].all(1).sum()),
        )
        for layer in range(layers)
        for head in range(heads)
    )


def draw_coreference(result: CoreferenceResult, figure: "Figure", ink: Ink) -> None:
    """Plot all heads as a map."""
    del ink  # the map's colours are for both kinds of page
    axes = figure.subplots(2, 2)
    for row, side in enumerate(("encoder", "cross")):
        heads = [head for head in result.heads if head.side == side]
        _draw_head_map(axes[row, 0], heads, [head.sentences for head in heads])
        _draw_head_map(axes[row, 1], heads, [head.moves for head in heads])
    axes[0, 0].set(ylabel="encoder, from “it”\nlayer")
    axes[1, 0].set(ylabel="decoder, at er, sie, es\nlayer")
    axes[0, 0].set(title="more attention on the\nreferent, % of sentences")
    axes[0, 1].set(title="attention shifts with the\nreason, % of pairs")
    axes[1, 0].set(xlabel="head")
    axes[1, 1].set(xlabel="head")
    figure.colorbar(axes[0, 0].images[0], ax=axes, pad=0.02)
    figure.supxlabel("* differs from 50 % (95 %, all heads together)", fontsize=9)


def _draw_head_map(
    axes: "Axes", heads: Sequence[HeadAccuracy], shares: Sequence[Proportion]
) -> None:
    rows, columns = heads[-1].layer, heads[-1].head
    percents = [100 * proportion.share for proportion in shares]
    table = [percents[row * columns : (row + 1) * columns] for row in range(rows)]
    axes.imshow(table, cmap="RdBu", vmin=0, vmax=100, aspect="auto")
    axes.grid(visible=False)
    for axis, count in ((axes.xaxis, columns), (axes.yaxis, rows)):
        axis.set_ticks(range(count), [str(number + 1) for number in range(count)])
    for head, share, percent in zip(heads, shares, percents, strict=True):
        axes.text(
            head.head - 1,
            head.layer - 1,
            f"{percent:.0f}{'*' * (share.low > 0.5 or share.high < 0.5)}",
            ha="center",
            va="center",
            fontsize=10,
            color="#ffffff" if abs(percent - 50) > 30 else "#1c1e21",
        )
    axes.spines[:].set_visible(False)
