"""A share of a number of cases, and how sure it is: Wilson's interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import Pair
from transduce.data.tokenizer import Tokenizer
from transduce.demo.corpus import UnseenCombinations, unseen_combinations
from transduce.demo.grammar.lexicon import Noun
from transduce.demo.grammar.scenes import SCENES, It, unambiguous_its
from transduce.demo.grammar.sentences import reference
from transduce.model.trace import trace
from transduce.paper.figures.common import Shown
from transduce.paper.plot import Ink

LEVEL = 0.05
"""What an interval, or all of them together, may miss."""


class Share(NamedTuple):
    """How often, with Wilson's interval."""

    right: int
    of: int
    low: float
    high: float

    def __str__(self) -> str:
        low, high = 100 * self.low, 100 * self.high
        return f"{100 * self.right / self.of:.1f} % ({low:.1f} to {high:.1f} %)"


def wilson(right: int, of: int, *, level: float = LEVEL) -> Share:
    """Wilson's score interval of a share.

    >>> [round(end, 3) for end in wilson(5, 10)[2:]]
    [0.237, 0.763]
    """
    z = NormalDist().inv_cdf(1 - level / 2)
    share = right / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    reach = z / (1 + z * z / of) * (share * (1 - share) / of + z * z / (4 * of * of)) ** 0.5
    return Share(right, of, middle - reach, middle + reach)


class TwoReadings(NamedTuple):
    """A scene told twice with different reasons, and its translations."""

    first: Pair
    """"It" is the first noun."""
    second: Pair
    doer: Noun
    thing: Noun


def two_readings(count: int, *, seed: int = 1, fresh: bool = True) -> list[TwoReadings]:
    """Draw pairs of sentences that differ in the last word alone.

    Args:
        count: of pairs, at most; there are about 280 fresh ones.
        seed: what is drawn.
        fresh: only nouns with adjectives that training of the demo never had in one sentence.
    """
    unseen, rng = (
        unseen_combinations(Random(1)),
        Random(seed),
    )  # the demo's corpus has seed 1
    couples = [couple for scene in range(len(SCENES)) for couple in _couples(scene, unseen, fresh)]
    rng.shuffle(couples)
    pairs: list[TwoReadings] = []
    for number, (first, second) in enumerate(couples):
        said = [reference(Random(seed * 100_003 + number), it) for it in (first, second)]
        words = [sentence.source.split() for sentence in said]
        if words[0][:-1] == words[1][:-1]:
            pairs.append(TwoReadings(said[0], said[1], first.doer, first.thing))
        if len(pairs) == count:
            break
    return pairs


def _couples(scene: int, unseen: UnseenCombinations, fresh: bool) -> list[tuple[It, It]]:
    """Two readings of the same two nouns, one couple of reasons for each two nouns."""
    by_nouns: dict[tuple[str, str], tuple[list[It], list[It]]] = {}
    for it in unambiguous_its(SCENES[scene]):
        if not fresh or it.pair in unseen.pairs:
            both = by_nouns.setdefault((it.doer.english, it.thing.english), ([], []))
            both[0 if it.of_doer else 1].append(it)
    return [(a, b) for firsts, seconds in by_nouns.values() for a in firsts for b in seconds]


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_IT, _PRONOUNS = "▁it", ("▁er", "▁sie", "▁es")

Side = Literal["encoder", "cross"]
"""The encoder's self-attention from "it", or the decoder's attention to the source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadFound:
    """One head."""

    side: Side
    layer: int
    """Counted from 1, as the heads are."""
    head: int
    sentences: Share
    """Sentences in which it looks more at the noun that is meant; chance is a half."""
    moves: Share
    """Pairs in which the look moves towards the first noun where that is meant; a half too."""
    both: int
    """Pairs of which it has both sentences right."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """All heads, and the best one on sentences that it was not chosen by."""

    pairs: int
    fresh: bool
    """Whether in every sentence the noun that is meant never met its adjective in training."""
    heads: tuple[HeadFound, ...]
    best: HeadFound
    """Chosen by the sentences of every other pair; the numbers in it are of all pairs."""
    held_out: Share
    """That head on the other half, at the usual 95 %."""
    held_out_both: Share
    """Pairs of the other half of which it has both sentences right."""

    def of(self, side: Side) -> list[HeadFound]:
        """The heads of one side, layer by layer."""
        return [head for head in self.heads if head.side == side]


def measure_resolving(
    bundle: Bundle, *, count: int = 250, seed: int = 1, fresh: bool = True
) -> Resolved:
    """Read pairs of sentences, and see where every head looks from "it".

    Raises:
        ValueError: if "it" is not one piece of the bundle's tokenizer: it is no demo's model.
    """
    looks = [
        look
        for pair in two_readings(count, seed=seed, fresh=fresh)
        if (look := _look(bundle, pair)) is not None
    ]
    if not looks:
        raise ValueError(
            'the model does not know "it" and the nouns of the demo\'s sentences as pieces: give '
            "--model a model that `transduce demo` trained"
        )
    leans = torch.stack(looks)  # towards the first noun
    right = torch.stack([leans[:, 0] > 0, leans[:, 1] < 0], dim=1)
    heads = _heads(right, leans[:, 0] > leans[:, 1], depth=bundle.model.config.encoder_layers)
    best = int(right[::2].sum((0, 1)).argmax())
    others = right[1::2].flatten(2)[..., best]
    return Resolved(
        pairs=len(looks),
        fresh=fresh,
        heads=heads,
        best=heads[best],
        held_out=wilson(int(others.sum()), others.numel()),
        held_out_both=wilson(int(others.all(1).sum()), len(others)),
    )


def resolving_figure(bundle: Bundle, *, quick: bool = False) -> Shown:
    """Measure, and draw all heads as a map."""
    found = measure_resolving(bundle, count=6 if quick else 250)
    sure = [head for head in found.heads if head.sentences.low > 0.5]
    best = found.best
    where = "from “it”" if best.side == "encoder" else "as er, sie or es is due"
    fresh = " whose noun and adjective never met in training" if found.fresh else ""
    return Shown(
        title="“it” resolved, over all heads",
        numbers=found,
        found=(
            f"In {found.pairs} pairs of sentences like “tired” and “wide”{fresh}: head {best.head} "
            f"of {best.side} layer {best.layer}, chosen on half of them, looks {where} more at the "
            f"noun that is meant in {found.held_out} of the sentences of the other half, and in "
            f"both of a pair in {found.held_out_both}. Chance is 50 % and 25 %; a head that always "
            f"prefers one noun has 50 % and none. {len(sure)} of {len(found.heads)} heads are "
            f"above a half, with intervals widened for looking at all of them."
        ),
        draw=lambda figure, ink: _draw(found, figure, ink),
        height=5.0,
    )


def _look(bundle: Bundle, pair: TwoReadings) -> Float[Tensor, "2 layers heads"] | None:
    """How much more each head gives the first noun than the second, in both readings.

    The encoder's layers come first, then the decoder's; None if the pieces are not as they should.
    """
    leans: list[Tensor] = []
    for source, target in (pair.first, pair.second):
        ids, said = ([*bundle.tokenizer.encode(text), Tokenizer.EOS] for text in (source, target))
        pieces, due = bundle.tokenizer.pieces(ids), bundle.tokenizer.pieces(said)
        nouns = [places(pieces, noun.english) for noun in (pair.doer, pair.thing)]
        it, pronoun = _last(pieces, (_IT,)), _last(due, _PRONOUNS)
        if it is None or pronoun is None or not all(nouns):
            return None
        traced = trace(bundle.model, ids, said)
        looks = torch.cat([traced.encoder[:, :, it], traced.cross[:, :, pronoun]])
        leans.append(looks[..., nouns[0]].sum(-1) - looks[..., nouns[1]].sum(-1))
    return torch.stack(leans)


def _last(pieces: Sequence[str], wanted: Sequence[str]) -> int | None:
    return max((place for place, piece in enumerate(pieces) if piece in wanted), default=None)


def places(pieces: Sequence[str], word: str) -> list[int]:
    """Where the pieces of a word stand; none if it is not there, or is there twice."""
    found: list[list[int]] = []
    for begin, piece in enumerate(pieces):
        if not piece.startswith("▁"):
            continue
        spelt, end = piece[1:], begin + 1
        while spelt != word and end < len(pieces) and word.startswith(spelt + pieces[end]):
            spelt, end = spelt + pieces[end], end + 1
        whole = end == len(pieces) or not pieces[end][0].isalnum()
        if spelt == word and whole:
            found.append(list(range(begin, end)))
    return found[0] if len(found) == 1 else []


def _heads(right: Tensor, moves: Tensor, *, depth: int) -> tuple[HeadFound, ...]:
    """Every head's shares; `depth` layers are the encoder's, the others the decoder's."""
    layers, heads = right.shape[2:]
    level = LEVEL / (layers * heads)
    return tuple(
        HeadFound(
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


def _draw(found: Resolved, figure: "Figure", ink: Ink) -> None:
    axes = figure.subplots(2, 2)
    encoder, cross = found.of("encoder"), found.of("cross")
    picture = _map(axes[0, 0], encoder, [head.sentences for head in encoder])
    _map(axes[0, 1], encoder, [head.moves for head in encoder])
    _map(axes[1, 0], cross, [head.sentences for head in cross])
    _map(axes[1, 1], cross, [head.moves for head in cross])
    axes[0, 0].set(ylabel="encoder, from “it”\nlayer")
    axes[1, 0].set(ylabel="decoder, at er, sie, es\nlayer")
    axes[0, 0].set(title="looks more at the noun\nthat is meant, % of sentences")
    axes[0, 1].set(title="moves towards it with the\nreason, % of pairs")
    axes[1, 0].set(xlabel="head")
    axes[1, 1].set(xlabel="head")
    figure.colorbar(picture, ax=axes, pad=0.02)
    figure.supxlabel("* surely not 50 %: 95 % for all heads together", fontsize=9)


def _map(axes: "Axes", heads: Sequence[HeadFound], shares: Sequence[Share]) -> "AxesImage":
    rows, columns = (max(each) for each in zip(*((h.layer, h.head) for h in heads), strict=True))
    percents = [100 * share.right / share.of for share in shares]
    table = [percents[row * columns : (row + 1) * columns] for row in range(rows)]
    picture = axes.imshow(table, cmap="RdBu", vmin=0, vmax=100, aspect="auto")
    axes.grid(visible=False)
    axes.set_xticks(range(columns), [str(head + 1) for head in range(columns)])
    axes.set_yticks(range(rows), [str(layer + 1) for layer in range(rows)])
    for number, (share, percent) in enumerate(zip(shares, percents, strict=True)):
        axes.text(
            number % columns,
            number // columns,
            f"{percent:.0f}{'*' * (share.low > 0.5 or share.high < 0.5)}",
            ha="center",
            va="center",
            fontsize=10,
            color="#ffffff" if abs(percent - 50) > 30 else "#1c1e21",
        )
    axes.spines[:].set_visible(False)
    return picture
