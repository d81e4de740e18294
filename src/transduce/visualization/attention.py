"""What was looked at in one sentence: data, the interactive figure, and one piece's look at words.

The script `attention.js` draws the figure, here as in the page of `transduce serve`; without a
script the figure shows one heat map and a table. Weights come as nested sequences, so that nothing
here needs torch.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

from transduce.visualization.heat import Matrix, attention_map, attention_svg, shade
from transduce.visualization.page import escape, table

START = "<start>"
"""Stands for what the decoder reads before the first piece."""

SCRIPTS = ("look.js", "draw.js", "attention.js")
"""The files beside this one that make the figure live, in this order."""

_EOS_PIECE = "</s>"


class TracedText(NamedTuple):
    """What a model looked at in one sentence and its translation: layers of heads of matrices."""

    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]
    target_read: tuple[str, ...]
    """What the decoder read: `START`, then the target without its last piece."""
    encoder: Sequence[Sequence[Matrix]]
    """Source pieces look at source pieces."""
    decoder: Sequence[Sequence[Matrix]]
    """What was read looks at what was read, itself and before."""
    cross: Sequence[Sequence[Matrix]]
    """Target pieces, each when it is due, look at source pieces."""
    log_probs: Sequence[float] = ()
    """ln p of each target piece."""
    source: str = ""
    """The sentence as it was given."""
    text: str = ""
    """Its translation as text."""


def traced_json(traced: TracedText) -> str:
    """Write a traced sentence as JSON: the fields of `TracedText`, weights to four decimals.

    >>> one = TracedText(("a",), ("b",), ("<start>",), [], [], [[[[1.0]]]], (-0.25,), "a", "b")
    >>> json.loads(traced_json(one))["cross"]
    [[[[1.0]]]]
    """
    held: dict[str, object] = {
        "source": traced.source,
        "text": traced.text,
        "source_pieces": traced.source_pieces,
        "target_pieces": traced.target_pieces,
        "target_read": traced.target_read,
        "log_probs": [round(one, 4) for one in traced.log_probs],
    }
    for kind, layers in (
        ("encoder", traced.encoder),
        ("decoder", traced.decoder),
        ("cross", traced.cross),
    ):
        held[kind] = [
            [[[round(one, 4) for one in row] for row in head] for head in heads] for heads in layers
        ]
    return json.dumps(held, ensure_ascii=False, separators=(",", ":"))


def attention_figure(traced: TracedText, *, title: str) -> str:
    """Show every attention of a sentence: a choice of kind, layer and head, lines and a heat map.

    Without script it shows the attention to the source in the last layer, as the mean of the heads.
    """
    weights = mean(traced.cross[-1])
    rows, columns = traced.target_pieces, traced.source_pieces
    data = traced_json(traced).replace("<", "\\u003c")  # no markup can end it
    folder = Path(__file__).parent
    script = "".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return (
        f'<figure class="attention">\n<figcaption>{escape(title)}</figcaption>\n'
        f'<div class="view attention-view">\n<p class="shown">{_default(traced)}</p>\n'
        f'<p class="note">{_ABOUT}</p>\n'
        f"{attention_map(rows, columns, weights, title=f'Target → source: {title}')}"
        f"{_most(rows, columns, weights)}</div>\n"
        f'<script type="application/json">{data}</script>\n<script>\n{script}</script>\n'
        f"</figure>\n"
    )


def traced_svg(traced: TracedText) -> str:
    """Draw what the figure shows without script, as a picture of its own."""
    title = f"{_default(traced)}: {traced.source} → {traced.text}"
    return attention_svg(
        traced.target_pieces, traced.source_pieces, mean(traced.cross[-1]), title=title
    )


_ABOUT = (
    "Row: a piece of the target, as it is about to be said. Column: a piece of the source. With "
    "JavaScript, every kind, layer and head can be chosen here."
)


def _default(traced: TracedText) -> str:
    layers = len(traced.cross)
    return f"Target → source, layer {layers} of {layers}, mean of {len(traced.cross[-1])} heads"


def attention_of(
    traced: TracedText, *, position: int, side: Literal["source", "target"], title: str
) -> str:
    """Show what one piece looks at in the source, the sentence's words shaded by their shares.

    A line for each layer, the mean of its heads, and a line for each head to open.

    Args:
        traced: the sentence.
        position: the piece's place among the pieces of its side, from 0.
        side: "source" shows the encoder's self-attention, "target" the decoder's look at the source
            as the piece is about to be said.
        title: what it shows, plain text.
    """
    layers = traced.encoder if side == "source" else traced.cross
    asked = position if side == "source" else None
    groups = words(traced.source_pieces)

    def line(name: str, weights: Sequence[float]) -> str:
        return _sentence(
            name, groups, [sum(weights[at] for at in one.places) for one in groups], asked=asked
        )

    means = [
        line(f"Layer {number}", mean(heads)[position])
        for number, heads in enumerate(layers, start=1)
    ]
    single = [
        line(f"Layer {number}, head {head}", weights[position])
        for number, heads in enumerate(layers, start=1)
        for head, weights in enumerate(heads, start=1)
    ]
    return (
        f'<figure class="words">\n<figcaption>{escape(title)}</figcaption>\n'
        f'<p class="note">Each layer as the mean of its heads; at the end of the line the word '
        f"looked at most, and its share.</p>\n"
        f"{''.join(means)}<details><summary>Each head</summary>\n{''.join(single)}</details>\n"
        f"</figure>\n"
    )


class Word(NamedTuple):
    """A word of a sentence and the places of its pieces."""

    text: str
    places: tuple[int, ...]


def words(pieces: Sequence[str]) -> tuple[Word, ...]:
    """Join pieces to words; the end of the sentence is a word of its own.

    >>> words(["▁a", "▁b", "c", "</s>"])
    (Word(text='a', places=(0,)), Word(text='bc', places=(1, 2)), Word(text='</s>', places=(3,)))
    """
    found: list[Word] = []
    for place, piece in enumerate(pieces):
        if found and not piece.startswith("▁") and piece != _EOS_PIECE:
            found[-1] = Word(found[-1].text + piece, (*found[-1].places, place))
        else:
            found.append(Word(piece.removeprefix("▁"), (place,)))
    return tuple(found)


def mean(heads: Sequence[Matrix]) -> list[list[float]]:
    """The mean of some heads' weights.

    >>> mean([[[1.0, 0.0]], [[0.0, 1.0]]])
    [[0.5, 0.5]]
    """
    return [[fmean(one) for one in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)]


def _sentence(
    name: str, groups: Sequence[Word], shares: Sequence[float], *, asked: int | None
) -> str:
    shown = [
        f'<span class="word{" asked" if asked in word.places else ""}" '
        f'style="--w:{shade(share)}" title="{share:.3f}">{escape(word.text)}</span>'
        for word, share in zip(groups, shares, strict=True)
    ]
    share, most = max((share, word.text) for word, share in zip(groups, shares, strict=True))
    return (
        f'<div class="sentence"><span class="name">{name}</span> '
        f'<span class="words">{" ".join(shown)}</span> '
        f'<span class="most">{escape(most)} {share:.2f}</span></div>\n'
    )


def _most(rows: Sequence[str], columns: Sequence[str], weights: Matrix) -> str:
    def best(line: Sequence[float]) -> tuple[str, str]:
        at = max(range(len(line)), key=line.__getitem__)
        return columns[at], f"{line[at]:.3f}"

    found = [(piece, *best(line)) for piece, line in zip(rows, weights, strict=True)]
    return table(["piece", "looks most at", "weight"], found, numbers=[2])
