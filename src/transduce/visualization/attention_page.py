"""Attention weights of a model for a sentence, and the HTML page that shows them."""

import math
from html import escape

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import tidy
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.base import reference_engine
from transduce.inference.translator import add_target_tag, only_target_tag
from transduce.model.trace import trace
from transduce.search.config import Request
from transduce.visualization.attention_view import (
    START,
    AttentionTrace,
    attention_figure,
    mean_of_heads,
    strongest,
)
from transduce.visualization.page import Section, page, table

MAX_PIECES = 150
"""Maximum number of pieces of a given side, for a legible heat map."""


def trace_attention(bundle: Bundle, source: str, target: str | None = None) -> AttentionTrace:
    """Compute the attention weights for a sentence and its translation.

    Args:
        bundle: the model.
        source: a sentence; for a model of several target languages with a tag, such as <2de>.
        target: its translation; None searches with the bundle's settings.

    Raises:
        ValueError: if a given side is blank or has more than `MAX_PIECES` pieces.
    """
    tokenizer, directions, text = bundle.tokenizer, bundle.directions, tidy(source)
    if text:
        tag = only_target_tag(tokenizer, directions)
        text = add_target_tag(text, tokenizer, directions, tag=tag)
    source_ids = (*_encode(tokenizer, text, side="sentence"), Tokenizer.EOS)
    if target is None:
        target_ids = _translate(bundle, source_ids)
    else:
        target_ids = (*_encode(bundle.tokenizer.target, target, side="target"), Tokenizer.EOS)
    weights = trace(bundle.weights, source_ids, target_ids)
    target_pieces = tuple(bundle.tokenizer.target.pieces(target_ids))
    return AttentionTrace(
        source_pieces=tuple(bundle.tokenizer.pieces(source_ids)),
        target_pieces=target_pieces,
        target_read=(START, *target_pieces[:-1]),
        encoder=weights.encoder.tolist(),
        decoder=weights.decoder.tolist(),
        cross=weights.cross.tolist(),
        log_probs=tuple(weights.log_probs.tolist()),
        source=tidy(source),
        text=bundle.tokenizer.target.decode(target_ids).strip(),
    )


def attention_page(bundle: Bundle, source: str, target: str | None = None) -> str:
    """Make an HTML page of a sentence, its translation piece by piece, and all attention weights.

    Args, and errors: those of `trace_attention`.
    """
    traced = trace_attention(bundle, source, target)
    source_name, target_name = _language_names(bundle, traced.source_pieces[0])
    origin = "the model's translation" if target is None else "the given translation"
    nats = -math.fsum(traced.log_probs)
    sentences = (
        f'<dl class="pair">\n<dt>{escape(source_name)}</dt><dd>{escape(traced.source)}</dd>\n'
        f"<dt>{escape(target_name)}</dt><dd>{escape(traced.text)}</dd>\n</dl>\n"
    )
    return page(
        "Attention weights",
        [
            Section("Sentence", sentences),
            Section("Attention", attention_figure(traced, title=f"{source_name} → {target_name}")),
            Section(
                "Translation, piece by piece",
                _piece_table(traced),
                f"p: probability of the piece given the source and the preceding pieces; "
                f"{nats:.2f} nats in total. Right: the source piece with the largest weight in "
                f"the last layer, averaged over the heads.",
            ),
        ],
        lead=f"A sentence in {source_name} and {origin} in {target_name}.",
    )


def _language_names(bundle: Bundle, tag: str) -> tuple[str, str]:
    """The names of both languages; of a model of several directions, by the target's tag."""
    names = bundle.languages
    pairs = [pair for pair in bundle.directions if bundle.tokenizer.find_tag(pair.target) == tag]
    if not pairs:
        return names.source_name or names.source, names.target_name or names.target
    display = {names.source: names.source_name, names.target: names.target_name}
    sources, targets = (
        " or ".join(dict.fromkeys(display.get(code) or code for code in side))
        for side in zip(*pairs, strict=True)
    )
    return sources, targets


def _translate(bundle: Bundle, source_ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return the best hypothesis, with EOS."""
    engine = reference_engine(bundle)
    return engine.search([Request(source_ids[:-1])], bundle.search)[0][0].ids


def _encode(tokenizer: Tokenizer, text: str, *, side: str) -> list[int]:
    ids = tokenizer.encode(tidy(text))
    if not ids:
        raise ValueError(f"the {side} is blank: enter at least one word")
    if len(ids) > MAX_PIECES:
        raise ValueError(
            f"the {side} has {len(ids)} pieces, more than the maximum of {MAX_PIECES}: shorten it"
        )
    return ids


def _piece_table(traced: AttentionTrace) -> str:
    cross = mean_of_heads(traced.cross[-1])
    rows = [
        (piece, f"{math.exp(log_prob):.3f}", *strongest(traced.source_pieces, weights))
        for piece, log_prob, weights in zip(
            traced.target_pieces, traced.log_probs, cross, strict=True
        )
    ]
    return table(["piece", "p", "attends most to", "weight"], rows, numbers=[1, 3])
