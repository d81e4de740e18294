"""The attention weights of one sentence: as data, an interactive figure, a heat map, shaded words.

`attention.js` draws the interactive figure, here and in the page of `transduce serve`; without
JavaScript the figure shows one heat map and a table. Weights are nested sequences, so that this
module does not import torch.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

from transduce.visualization.page import table, text_width
from transduce.visualization.template import open_template

Matrix = Sequence[Sequence[float]]
"""Attention weights: a row per query, a column per key."""

START = "<start>"
"""Shown for the decoder's input before the first piece."""

SCRIPTS = ("attention_weights.js", "drawing.js", "attention.js")
"""The scripts of the interactive figure, in loading order."""

_EOS_PIECE = "</s>"
_CELL = 24  # pixels
_MAX_LABEL = 18  # characters
_LABEL_ANGLE = math.radians(60)  # of the columns' labels


class AttentionTrace(NamedTuple):
    """The attention weights of a sentence and its translation: [layer][head][query][key]."""

    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]
    target_read: tuple[str, ...]
    """Decoder input: `START`, then the target without its last piece."""
    encoder: Sequence[Sequence[Matrix]]
    """Source to source."""
    decoder: Sequence[Sequence[Matrix]]
    """Decoder input to itself, causal."""
    cross: Sequence[Sequence[Matrix]]
    """Target to source, when the target piece is predicted."""
    log_probs: Sequence[float] = ()
    """Log-probability of each target piece."""
    source: str = ""
    """The sentence as given."""
    text: str = ""
    """Its translation as text."""

    def _repr_html_(self) -> str:
        """Show the heat map of the last layer's cross-attention in a notebook."""
        return attention_svg(self)


def attention_json(trace: AttentionTrace) -> str:
    """Serialize the fields of a trace as JSON, weights rounded to four decimals.

    >>> pair = AttentionTrace(("a",), ("b",), ("<start>",), [], [], [[[[1.0]]]], (-0.25,), "a", "b")
    >>> json.loads(attention_json(pair))["cross"]
    [[[[1.0]]]]
    """
    data = trace._asdict() | {"log_probs": [round(log_prob, 4) for log_prob in trace.log_probs]}
    kinds = {"encoder": trace.encoder, "decoder": trace.decoder, "cross": trace.cross}
    for kind, layers in kinds.items():
        data[kind] = [
            [[[round(weight, 4) for weight in row] for row in head] for head in heads]
            for heads in layers
        ]
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def attention_figure(trace: AttentionTrace, *, title: str) -> str:
    """Make the interactive figure of all attention weights: lines and a heat map.

    Without JavaScript it shows the cross-attention of the last layer, averaged over the heads.
    """
    weights = mean_of_heads(trace.cross[-1])
    rows, columns = trace.target_pieces, trace.source_pieces
    data = attention_json(trace).replace("<", "\\u003c")  # so that no piece can end the script
    folder = Path(__file__).parent
    script = "".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
    largest = [(piece, *strongest(columns, row)) for piece, row in zip(rows, weights, strict=True)]
    return open_template(folder / "attention.html").render(
        title=title,
        view=_default_view(trace),
        heatmap=heatmap_svg(rows, columns, weights, title=f"Target → source: {title}"),
        table=table(["piece", "attends most to", "weight"], largest, numbers=[2]),
        data=data,
        script=script,
    )


def attention_svg(trace: AttentionTrace) -> str:
    """Draw the heat map that the figure shows without JavaScript, as an SVG file."""
    title = f"{_default_view(trace)}: {trace.source} → {trace.text}"
    rows, columns, weights = (
        trace.target_pieces,
        trace.source_pieces,
        mean_of_heads(trace.cross[-1]),
    )
    return heatmap_svg(rows, columns, weights, title=title, standalone=True) + "\n"


def heatmap_svg(
    rows: Sequence[str],
    columns: Sequence[str],
    weights: Matrix,
    *,
    title: str,
    standalone: bool = False,
) -> str:
    """Draw a matrix of attention weights as an SVG heat map; `attention.js` draws the same.

    Opacity has a fixed scale from 0 to 1, so that heads and layers can be compared.

    Args:
        rows: the query pieces, from top to bottom.
        columns: the key pieces.
        weights: a row of weights from 0 to 1 for each of `rows`.
        title: plain text.
        standalone: whether to include colours (for a file) or take those of the page.
    """
    row_labels, column_labels = ([_shorten(piece) for piece in side] for side in (rows, columns))
    widest = max(map(text_width, column_labels))
    left = max(map(text_width, row_labels)) + 8
    top = widest * math.sin(_LABEL_ANGLE) + 14
    drawing = open_template(Path(__file__).with_name("heatmap.svg")).render(
        rows=rows,
        columns=columns,
        weights=weights,
        title=title,
        standalone=standalone,
        row_labels=row_labels,
        column_labels=column_labels,
        cell=_CELL,
        left=left,
        top=top,
        width=left + len(columns) * _CELL + widest * math.cos(_LABEL_ANGLE) + 4,
        height=top + len(rows) * _CELL + 2,
        opacity=opacity,
        zip=zip,
    )
    return drawing.rstrip("\n")


def opacity(weight: float) -> str:
    """Return the opacity for a weight: its square root, which makes small weights visible.

    >>> opacity(0.25), opacity(0.0)
    ('0.5', '0')
    """
    return f"{math.sqrt(weight):.3f}".rstrip("0").rstrip(".")


def word_attention_figure(
    trace: AttentionTrace, *, position: int, side: Literal["source", "target"], title: str
) -> str:
    """Show the attention of one piece to the source as words shaded by weight.

    There is a line per layer (mean of the heads), and a line per head in a collapsed section.

    Args:
        trace: the sentence.
        position: index of the piece on its side.
        side: "source" shows the encoder's self-attention, "target" the cross-attention when the
            piece is predicted.
        title: plain text.
    """
    layers = trace.encoder if side == "source" else trace.cross
    query = position if side == "source" else None
    words = group_words(trace.source_pieces)

    def by_word(weights: Sequence[float]) -> list[tuple[WordPieces, float]]:
        return [(word, sum(weights[index] for index in word.piece_indices)) for word in words]

    return open_template(Path(__file__).with_name("words.html")).render(
        title=title,
        query=query,
        means=[
            (f"Layer {number}", by_word(mean_of_heads(heads)[position]))
            for number, heads in enumerate(layers, start=1)
        ],
        heads=[
            (f"Layer {number}, head {head}", by_word(weights[position]))
            for number, heads in enumerate(layers, start=1)
            for head, weights in enumerate(heads, start=1)
        ],
        opacity=opacity,
    )


class WordPieces(NamedTuple):
    """A word of a sentence and the indices of its pieces."""

    text: str
    piece_indices: tuple[int, ...]


def group_words(pieces: Sequence[str]) -> tuple[WordPieces, ...]:
    """Group pieces into words; the end of the sentence is a word of its own.

    >>> [(word.text, word.piece_indices) for word in group_words(["▁a", "▁b", "c", "</s>"])]
    [('a', (0,)), ('bc', (1, 2)), ('</s>', (3,))]
    """
    words: list[WordPieces] = []
    for index, piece in enumerate(pieces):
        if words and not piece.startswith("▁") and piece != _EOS_PIECE:
            words[-1] = WordPieces(words[-1].text + piece, (*words[-1].piece_indices, index))
        else:
            words.append(WordPieces(piece.removeprefix("▁"), (index,)))
    return tuple(words)


def mean_of_heads(heads: Sequence[Matrix]) -> list[list[float]]:
    """Average the weights of several heads.

    >>> mean_of_heads([[[1.0, 0.0]], [[0.0, 1.0]]])
    [[0.5, 0.5]]
    """
    return [
        [fmean(weights) for weights in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)
    ]


def _default_view(trace: AttentionTrace) -> str:
    layers = len(trace.cross)
    return f"Target → source, layer {layers} of {layers}, mean of {len(trace.cross[-1])} heads"


def strongest(columns: Sequence[str], row: Sequence[float]) -> tuple[str, str]:
    """Return the piece with the largest weight in a row, and that weight as text."""
    index = max(range(len(row)), key=row.__getitem__)
    return columns[index], f"{row[index]:.3f}"


def _shorten(piece: str) -> str:
    return piece if len(piece) <= _MAX_LABEL else f"{piece[: _MAX_LABEL - 1]}…"
