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

from transduce.visualization.page import escape, scroll_box, table, text_width

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
_STANDALONE_STYLE = (
    "<style>text{font:13px sans-serif;fill:#1b2024}.soft{fill-opacity:.55}.paper{fill:#fff}"
    ".ground{fill:#f2f3f5}.cells rect{fill:#0a4a94}</style>\n"
    '<rect class="paper" width="100%" height="100%"/>\n'
)


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
    heatmap = heatmap_svg(rows, columns, weights, title=f"Target → source: {title}")
    return (
        f'<figure class="attention">\n<figcaption>{escape(title)}</figcaption>\n'
        f'<div class="view attention-view">\n<p class="shown">{_default_view(trace)}</p>\n'
        f'<p class="note">Rows: target pieces, when they are predicted. Columns: source pieces. '
        f"JavaScript adds a choice of kind, layer and head.</p>\n"
        f'<div class="heat">{scroll_box(heatmap, label=title)}</div>\n'
        f"{table(['piece', 'attends most to', 'weight'], largest, numbers=[2])}</div>\n"
        f'<script type="application/json">{data}</script>\n<script>\n{script}</script>\n'
        f"</figure>\n"
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
    widest = max(text_width(_shorten(piece)) for piece in columns)
    left = max(text_width(_shorten(piece)) for piece in rows) + 8
    top = widest * math.sin(_LABEL_ANGLE) + 14
    width = left + len(columns) * _CELL + widest * math.cos(_LABEL_ANGLE) + 4
    height = top + len(rows) * _CELL + 2
    labels = [
        f'<text class="row" x="{left - 6:.0f}" y="{top + (index + 0.5) * _CELL + 4.5:.1f}" '
        f'text-anchor="end">{_label(piece)}</text>'
        for index, piece in enumerate(rows)
    ]
    for index, piece in enumerate(columns):
        position = f"{left + (index + 0.5) * _CELL + 3:.1f} {top - 6:.1f}"
        labels.append(
            f'<text class="column" transform="translate({position}) rotate(-60)">'
            f"{_label(piece)}</text>"
        )
    cells = [
        f'<rect x="{left + column * _CELL:.0f}" y="{top + row * _CELL:.0f}" '
        f'width="{_CELL - 1}" height="{_CELL - 1}" fill-opacity="{opacity(weight)}">'
        f"<title>{escape(f'{rows[row]} → {columns[column]}  {weight:.3f}')}</title></rect>"
        for row, row_weights in enumerate(weights)
        for column, weight in enumerate(row_weights)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'width="{width:.0f}" height="{height:.0f}">\n<title>{escape(title)}</title>\n'
        f"{_STANDALONE_STYLE if standalone else ''}"
        f'<rect class="ground" x="{left:.0f}" y="{top:.0f}" width="{len(columns) * _CELL - 1}" '
        f'height="{len(rows) * _CELL - 1}"/>\n'
        + "\n".join(labels)
        + '\n<g class="cells">\n'
        + "\n".join(cells)
        + "\n</g>\n</svg>"
    )


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

    def line(name: str, weights: Sequence[float]) -> str:
        sums = [sum(weights[index] for index in word.piece_indices) for word in words]
        shaded = [
            f'<span class="word{" query" if query in word.piece_indices else ""}" '
            f'style="--w:{opacity(weight)}" title="{weight:.3f}">{escape(word.text)}</span>'
            for word, weight in zip(words, sums, strict=True)
        ]
        weight, text = max((weight, word.text) for word, weight in zip(words, sums, strict=True))
        return (
            f'<div class="sentence"><span class="name">{name}</span> '
            f'<span class="words">{" ".join(shaded)}</span> '
            f'<span class="strongest">{escape(text)} {weight:.2f}</span></div>\n'
        )

    means = [
        line(f"Layer {number}", mean_of_heads(heads)[position])
        for number, heads in enumerate(layers, start=1)
    ]
    single_heads = [
        line(f"Layer {number}, head {head}", weights[position])
        for number, heads in enumerate(layers, start=1)
        for head, weights in enumerate(heads, start=1)
    ]
    return (
        f'<figure class="words">\n<figcaption>{escape(title)}</figcaption>\n'
        f'<p class="note">Each layer as the mean of its heads; at the end of the line the word '
        f"with the largest weight.</p>\n"
        f"{''.join(means)}<details><summary>Each head</summary>\n{''.join(single_heads)}"
        f"</details>\n</figure>\n"
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


def _label(piece: str) -> str:
    """Format a piece, its word-boundary marker fainter than its letters."""
    text = escape(_shorten(piece))
    return f'<tspan class="soft">▁</tspan>{text[1:]}' if text.startswith("▁") else text
