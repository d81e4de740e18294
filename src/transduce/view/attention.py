"""Attention as pictures: heat maps of one sentence, and one piece's look at its words.

Weights come as nested sequences, so that nothing here needs torch. One rule of shading holds in all
pictures, from 0 to 1, so that heads and layers can be compared by eye.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

from transduce.view.page import escape, scrolling, table, text_width

Matrix = Sequence[Sequence[float]]
"""Rows of weights, a row for each piece that looks, a column for each that is looked at."""

START = "<start>"
"""Stands for what the decoder reads before the first piece."""

_EOS_PIECE = "</s>"
_CELL = 22  # pixels
_LONGEST = 18  # characters of a label
_SLANT = math.radians(60)  # of the columns' labels
_KINDS = {
    "cross": (
        "Target → source (cross)",
        "Row: a piece of the target, as it is about to be said. Column: a piece of the source.",
    ),
    "encoder": (
        "Source → source (encoder)",
        "Row: a piece of the source. Column: a piece of the source that it looks at.",
    ),
    "decoder": (
        "Target → target (decoder)",
        "Row: what the decoder has read last. Column: what it looks at, itself or before it.",
    ),
}


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


def attention_figure(traced: TracedText, *, title: str) -> str:
    """Draw every attention of a sentence: one map, and a choice of kind, layer and head.

    Without script it shows the attention to the source in the last layer, as the mean of the heads.
    """
    sides = {
        "cross": (traced.cross, traced.target_pieces, traced.source_pieces),
        "encoder": (traced.encoder, traced.source_pieces, traced.source_pieces),
        "decoder": (traced.decoder, traced.target_read, traced.target_read),
    }
    maps: list[str] = []
    data: dict[str, object] = {}
    for kind, (layers, rows, columns) in sides.items():
        name, about = _KINDS[kind]
        weights = mean(layers[-1])
        hidden = "" if kind == "cross" else " hidden"
        maps.append(
            f'<div class="map" data-kind="{kind}"{hidden}>\n<p class="note">{about}</p>\n'
            f"{attention_map(rows, columns, weights, title=f'{name}: {title}')}"
            f"<details><summary>What each piece looks at most</summary>\n"
            f"{_most(rows, columns, weights)}</details>\n</div>\n"
        )
        thousandths = [
            [[round(1000 * one) for row in head for one in row] for head in heads]
            for heads in layers
        ]
        data[kind] = {"name": name, "rows": rows, "columns": columns, "weights": thousandths}
    script = Path(__file__).with_name("attention.js").read_text(encoding="utf-8")
    return (
        f'<figure class="attention">\n<figcaption>{escape(title)}</figcaption>\n{_controls()}'
        f'<p class="shown" aria-live="polite">{_KINDS["cross"][0]}, layer {len(traced.cross)} of '
        f"{len(traced.cross)}, mean of {len(traced.cross[-1])} heads</p>\n{_SCALE}"
        f'<p class="readout" role="status" hidden></p>\n{"".join(maps)}'
        f'<script type="application/json">{_json(data)}</script>\n<script>\n{script}</script>\n'
        f"</figure>\n"
    )


def attention_map(
    rows: Sequence[str], columns: Sequence[str], weights: Matrix, *, title: str
) -> str:
    """Draw one matrix of weights as an SVG heat map, in a box in which it can scroll.

    Args:
        rows: the pieces that look, from top to bottom.
        columns: the pieces that they look at.
        weights: a row of shares from 0 to 1 for each of `rows`.
        title: what it shows, plain text.
    """
    longest = max(text_width(_short(piece)) for piece in columns)
    left = max(text_width(_short(piece)) for piece in rows) + 8
    top = longest * math.sin(_SLANT) + 14
    width = left + len(columns) * _CELL + longest * math.cos(_SLANT)
    height = top + len(rows) * _CELL + 2
    labels = [
        f'<text class="row" x="{left - 6:.0f}" y="{top + (at + 0.5) * _CELL + 4.5:.1f}" '
        f'text-anchor="end">{_label(piece)}</text>'
        for at, piece in enumerate(rows)
    ]
    for at, piece in enumerate(columns):
        place = f"{left + (at + 0.5) * _CELL + 3:.1f} {top - 6:.1f}"
        labels.append(
            f'<text class="column" transform="translate({place}) rotate(-60)">'
            f"{_label(piece)}</text>"
        )
    cells = [
        f'<rect x="{left + column * _CELL:.0f}" y="{top + row * _CELL:.0f}" '
        f'width="{_CELL - 1}" height="{_CELL - 1}" fill-opacity="{_shade(weight)}">'
        f"<title>{escape(f'{rows[row]} → {columns[column]}  {weight:.3f}')}</title></rect>"
        for row, line in enumerate(weights)
        for column, weight in enumerate(line)
    ]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'width="{width:.0f}" height="{height:.0f}">\n<title>{escape(title)}</title>\n'
        f'<rect class="ground" x="{left:.0f}" y="{top:.0f}" width="{len(columns) * _CELL - 1}" '
        f'height="{len(rows) * _CELL - 1}"/>\n' + "\n".join(labels) + '\n<g class="cells">\n'
    )
    return scrolling(svg + "\n".join(cells) + "\n</g>\n</svg>", label=title)


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
        f'style="--w:{_shade(share)}" title="{share:.3f}">{escape(word.text)}</span>'
        for word, share in zip(groups, shares, strict=True)
    ]
    share, most = max((share, word.text) for word, share in zip(groups, shares, strict=True))
    return (
        f'<div class="sentence"><span class="name">{name}</span> '
        f'<span class="words">{" ".join(shown)}</span> '
        f'<span class="most">{escape(most)} {share:.2f}</span></div>\n'
    )


def _controls() -> str:
    kinds = "".join(f'<option value="{kind}">{name}</option>' for kind, (name, _) in _KINDS.items())
    return (
        '<form class="controls" hidden>\n'
        f'<label>Attention <select name="kind">{kinds}</select></label>\n'
        '<label>Layer <select name="layer"></select></label>\n'
        '<label>Head <select name="head"></select></label>\n</form>\n'
    )


def _most(rows: Sequence[str], columns: Sequence[str], weights: Matrix) -> str:
    def best(line: Sequence[float]) -> tuple[str, str]:
        at = max(range(len(line)), key=line.__getitem__)
        return columns[at], f"{line[at]:.3f}"

    found = [(piece, *best(line)) for piece, line in zip(rows, weights, strict=True)]
    return table(["piece", "looks most at", "weight"], found, numbers=[2])


def _shade(weight: float) -> str:
    """Opacity of a weight. The square root lets small weights be seen and told apart."""
    return f"{math.sqrt(weight):.3f}".rstrip("0").rstrip(".")


def _short(piece: str) -> str:
    return piece if len(piece) <= _LONGEST else f"{piece[: _LONGEST - 1]}…"


def _label(piece: str) -> str:
    """A piece, its mark for a space fainter than its letters."""
    shown = escape(_short(piece))
    return f'<tspan class="soft">▁</tspan>{shown[1:]}' if shown.startswith("▁") else shown


def _json(data: object) -> str:
    """JSON that no markup can end."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


_SCALE = (
    '<ul class="legend scale" aria-hidden="true"><li>Weight</li>'
    + "".join(
        f'<li><svg width="14" height="14"><rect class="ground" width="14" height="14"/>'
        f'<rect class="swatch" width="14" height="14" fill-opacity="{_shade(weight)}"/></svg>'
        f"{weight:g}</li>"
        for weight in (0.0, 0.05, 0.1, 0.25, 0.5, 1.0)
    )
    + "</ul>\n"
)
