"""The paper's Figures 3 to 5: heads of an encoder on the paper's own sentences.

Figure 3 completes "making ... more difficult", Figure 4 resolves "its", Figure 5 has two heads with
different tasks. Pieces are joined to the paper's words: the weight on a word is that of all its
pieces, the weights from a word are the mean of its pieces'. A head is chosen for what it does on
one sentence, so nothing follows for another; `it` counts.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from jaxtyping import Float

from transduce.bundle.bundle import Bundle
from transduce.data.tokenizer import Tokenizer
from transduce.model.trace import trace
from transduce.paper.figures.ablation import HeadName
from transduce.paper.plot import Ink, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAKING: Final = (
    "It is in this spirit that a majority of American governments have passed new laws since 2009 "
    "making the registration or voting process more difficult ."
)
_LAW: Final = (
    "The Law will never be perfect , but its application should be just - this is what we are "
    "missing , in my opinion ."
)
_LEAST_DRAWN: Final = 0.05
"""Weights below leave no visible line."""

_Weights = Float[np.ndarray, "layers heads words words"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WordAttention:
    """One head of the encoder on one sentence."""

    head: HeadName
    score: float
    """What it was chosen by."""
    weights: tuple[tuple[float, ...], ...]
    """A row per query word, over all words."""

    def mean_at(self, offset: int) -> float:
        """Return the mean weight on the word `offset` further; 0 is the word itself."""
        rows = [(position + offset, row) for position, row in enumerate(self.weights)]
        inside = [row[position] for position, row in rows if 0 <= position < len(row)]
        return sum(inside) / len(inside)


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceHeads:
    """Heads of one encoder layer on one sentence, the chosen one first."""

    parameters: int
    words: tuple[str, ...]
    """As the paper prints them, and EOS."""
    queries: tuple[int, ...]
    """Words whose weights are kept."""
    heads: tuple[WordAttention, ...]
    compared: int
    """Heads, or pairs of heads, that were compared."""
    above: int
    """Those of them that score more than equal weights would."""
    equal: float
    """The score of equal weights."""

    def most_attended(self, head: int) -> tuple[str, float]:
        """Return the word with the largest mean weight over the query words, and that weight."""
        means: list[float] = np.mean(self.heads[head].weights, axis=0).tolist()
        return self.words[means.index(max(means))], max(means)

    def top_word(self, head: int, query: int) -> str:
        """Return the word that a head attends to most from a query word."""
        row = self.heads[head].weights[self.queries.index(query)]
        return self.words[row.index(max(row))]


def measure_from_word(
    bundle: Bundle, *, sentence: str, word: str, targets: Sequence[str], alone: bool
) -> SentenceHeads:
    """Choose the head that attends most from one word to others, and its layer.

    Args:
        bundle: any model that translates from English.
        sentence: words and punctuation separated by blanks.
        word: occurs once, as the targets do.
        targets: words whose weights are added up.
        alone: keep the weights from `word` only, of all heads of the layer; else all weights of the
            two heads with the highest score.

    Raises:
        ValueError: if the model's vocabulary lacks a part of the sentence.
    """
    words, weights, pieces = _word_weights(bundle, sentence)
    query, target_positions = words.index(word), [words.index(target) for target in targets]
    scores = weights[:, :, query, target_positions].sum(-1)
    layer = int(scores.max(1).argmax())
    order: list[int] = np.argsort(-scores[layer], kind="stable").tolist()
    queries = (query,) if alone else tuple(range(len(words)))
    equal = float(pieces[target_positions].sum() / pieces.sum())
    return SentenceHeads(
        parameters=bundle.model.size,
        words=words,
        queries=queries,
        heads=tuple(
            _kept(weights, layer, head, queries, float(scores[layer, head]))
            for head in (order if alone else order[:2])
        ),
        compared=scores.size,
        above=int((scores > equal).sum()),
        equal=equal,
    )


def measure_making(bundle: Bundle) -> SentenceHeads:
    """Choose the head that attends most from "making" to "more difficult"."""
    targets = ("more", "difficult")
    return measure_from_word(bundle, sentence=_MAKING, word="making", targets=targets, alone=True)


def measure_its(bundle: Bundle) -> SentenceHeads:
    """Choose the two heads that attend most from "its" to "Law"."""
    _check_heads(bundle, "its")
    return measure_from_word(bundle, sentence=_LAW, word="its", targets=("Law",), alone=False)


def measure_tasks(bundle: Bundle) -> SentenceHeads:
    """Choose the two heads of one layer whose weights differ most.

    The difference is the total variation distance of two rows, averaged over the words.

    Raises:
        ValueError: if the model's vocabulary lacks a part of the sentence, or it has one head.
    """
    _check_heads(bundle, "tasks")
    words, weights, _ = _word_weights(bundle, _LAW)
    layers, heads = weights.shape[:2]
    pairs = [(n, *pair) for n in range(layers) for pair in itertools.combinations(range(heads), 2)]
    distances = [float(abs(weights[n, a] - weights[n, b]).sum(-1).mean()) / 2 for n, a, b in pairs]
    largest = max(distances)
    layer, *chosen = pairs[distances.index(largest)]
    queries = tuple(range(len(words)))
    return SentenceHeads(
        parameters=bundle.model.size,
        words=words,
        queries=queries,
        heads=tuple(_kept(weights, layer, head, queries, largest) for head in chosen),
        compared=len(pairs),
        above=sum(distance > 0 for distance in distances),
        equal=0.0,
    )


def _check_heads(bundle: Bundle, figure: str) -> None:
    if bundle.model.config.heads < 2:
        raise ValueError(
            f"the figure {figure} compares heads: give --model a model with two or more"
        )


def _kept(
    weights: _Weights, layer: int, head: int, queries: Sequence[int], score: float
) -> WordAttention:
    return WordAttention(
        head=HeadName("encoder", layer + 1, head + 1),
        score=score,
        weights=tuple(tuple(row) for row in weights[layer, head, queries].round(4).tolist()),
    )


def _word_weights(
    bundle: Bundle, sentence: str
) -> tuple[tuple[str, ...], _Weights, Float[np.ndarray, " words"]]:
    """Return the words, each head's weights between them, and how many pieces each has."""
    words = sentence.split()
    natural = sentence.replace(" ,", ",").replace(" .", ".")  # as in training text
    ids = bundle.tokenizer.encode(natural)
    pieces = [piece.removeprefix("▁") for piece in bundle.tokenizer.pieces(ids)]
    if "".join(pieces).casefold() != "".join(words).casefold():
        raise ValueError(
            "the model's vocabulary lacks a part of the paper's sentence: give --model a model "
            "that translates from English, such as one of the recipe tatoeba-en-de"
        )
    word_of_letter = [index for index, word in enumerate(words) for _ in word]
    starts = itertools.accumulate(map(len, pieces[:-1]), initial=0)
    member = np.zeros((len(words) + 1, len(pieces) + 1))  # words over pieces, EOS last
    for piece, start in enumerate(starts):
        member[word_of_letter[min(start, len(word_of_letter) - 1)], piece] = 1
    member[-1, -1] = 1
    attention = trace(bundle.weights, [*ids, Tokenizer.EOS], [Tokenizer.EOS]).encoder
    mean = member / member.sum(1, keepdims=True)
    return (*words, "EOS"), mean @ attention @ member.T, member.sum(1)


def draw_making(result: SentenceHeads, figure: "Figure", ink: Ink) -> None:
    """Plot the weights from one word, of all heads of the layer."""
    _draw_lines(figure.subplots(), result, range(len(result.heads)), result.queries, ink)


def draw_its(result: SentenceHeads, figure: "Figure", ink: Ink) -> None:
    """Plot all weights of the chosen head, and those from "its" of two heads."""
    above, below = figure.subplots(2, 1)
    _draw_lines(above, result, [0], result.queries, ink)
    _draw_lines(below, result, [0, 1], [result.words.index("its")], ink)


def draw_tasks(result: SentenceHeads, figure: "Figure", ink: Ink) -> None:
    """Plot all weights of both heads."""
    for number, axes in enumerate(figure.subplots(2, 1)):
        _draw_lines(axes, result, [number], result.queries, ink)


def _draw_lines(
    axes: "Axes", result: SentenceHeads, heads: Iterable[int], queries: Iterable[int], ink: Ink
) -> None:
    """Words above attend to words below: the stronger a line, the more weight, the most in full."""
    for position, word in enumerate(result.words):
        for height, side in ((1.04, "bottom"), (-0.04, "top")):
            axes.text(position, height, word, rotation=90, ha="center", va=side, fontsize=9)
    rows = list(itertools.product(heads, queries))
    from_one_word = len({query for _, query in rows}) == 1
    lines = [result.heads[n].weights[result.queries.index(query)] for n, query in rows]
    maximum = max(map(max, lines))
    for (number, query), line in zip(rows, lines, strict=True):
        style = line_style(number, ink)
        for position, weight in enumerate(line):
            if weight >= _LEAST_DRAWN:
                alpha, ends = weight / maximum, ([query, position], [1.0, 0.0])
                axes.plot(*ends, color=style["color"], alpha=alpha, marker="")
                if from_one_word:
                    axes.plot([position], [0.06 * number], "", alpha=alpha, markersize=5, **style)
    for number in dict.fromkeys(number for number, _ in rows):
        axes.plot([], [], label=str(result.heads[number].head), **line_style(number, ink))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9)
    axes.set(xlim=(-0.7, len(result.words) - 0.3), ylim=(-0.02, 1.02))
    axes.set_axis_off()
