"""A sentence and its translation as a bundle reads them, and the page that shows it."""

import math
from typing import NamedTuple

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import tidy
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.trace import trace
from transduce.search.config import Request
from transduce.visualization.attention import START, TracedText, attention_figure, mean
from transduce.visualization.page import Section, escape, page, table

MOST = 150
"""Pieces of one side that a map has room for."""


def traced_text(bundle: Bundle, source: str, target: str | None = None) -> TracedText:
    """Read a sentence with its translation, and keep what every attention looked at.

    Args:
        bundle: the model.
        source: a sentence.
        target: its translation; None lets the model translate, searching as the bundle says.

    Raises:
        ValueError: if a side is blank or has more than `MOST` pieces.
    """
    return _traced(bundle, _encoded(bundle, source, target), source)


def sentence_page(bundle: Bundle, source: str, target: str | None = None) -> str:
    """Show a sentence, its translation piece by piece, and every attention, as one HTML file.

    Raises:
        ValueError: as `traced_text`.
    """
    traced = traced_text(bundle, source, target)
    languages = bundle.languages
    from_, to = (
        languages.source_name or languages.source,
        languages.target_name or languages.target,
    )
    whose = "as the model translates it" if target is None else "as it was given to the model"
    nats = -math.fsum(traced.log_probs)
    sentences = (
        f'<dl class="pair">\n<dt>{escape(from_)}</dt><dd>{escape(traced.source)}</dd>\n'
        f"<dt>{escape(to)}</dt><dd>{escape(traced.text)}</dd>\n</dl>\n"
    )
    return page(
        "What the model looks at",
        [
            Section("Sentence", sentences),
            Section("Attention", attention_figure(traced, title=f"{from_} → {to}")),
            Section(
                "Translation, piece by piece",
                _pieces(traced),
                f"p is the model's probability of the piece, given the source and the pieces above "
                f"it: {nats:.2f} nats in all. Beside it the source piece that it looks at most, in "
                f"the last layer, as the mean of the heads.",
            ),
        ],
        lead=f"A sentence in {from_}, and in {to} {whose}.",
    )


class _Ids(NamedTuple):
    """Both sides, with EOS."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def _encoded(bundle: Bundle, source: str, target: str | None) -> _Ids:
    read = _checked(bundle.tokenizer, source, what="the sentence")
    if target is not None:
        said = _checked(bundle.tokenizer.target, target, what="the target")
        return _Ids((*read, Tokenizer.EOS), (*said, Tokenizer.EOS))
    engine = TorchEngine(
        bundle.model,
        pad=bundle.tokenizer.pad,
        eos=Tokenizer.EOS,
        device=bundle.model.embedding.weight.device,
    )
    best = engine.search([Request(tuple(read))], bundle.search)[0][0]
    return _Ids((*read, Tokenizer.EOS), best.ids)


def _checked(tokenizer: Tokenizer, text: str, *, what: str) -> list[int]:
    ids = tokenizer.encode(tidy(text))
    if not ids:
        raise ValueError(f"{what} is blank: there is nothing to look at")
    if len(ids) > MOST:
        raise ValueError(f"{what} has {len(ids)} pieces, more than the {MOST} of a map: shorten it")
    return ids


def _traced(bundle: Bundle, ids: _Ids, source: str) -> TracedText:
    found = trace(bundle.model, ids.source, ids.target)
    target = tuple(bundle.tokenizer.pieces(ids.target))
    return TracedText(
        source_pieces=tuple(bundle.tokenizer.pieces(ids.source)),
        target_pieces=target,
        target_read=(START, *target[:-1]),
        encoder=found.encoder.tolist(),
        decoder=found.decoder.tolist(),
        cross=found.cross.tolist(),
        log_probs=tuple(found.log_probs.tolist()),
        source=tidy(source),
        text=bundle.tokenizer.decode(ids.target).strip(),
    )


def _pieces(traced: TracedText) -> str:
    rows: list[tuple[str, ...]] = []
    looks = mean(traced.cross[-1])
    for piece, log_prob, look in zip(traced.target_pieces, traced.log_probs, looks, strict=True):
        at = max(range(len(look)), key=look.__getitem__)
        rows.append(
            (piece, f"{math.exp(log_prob):.3f}", traced.source_pieces[at], f"{look[at]:.3f}")
        )
    return table(["piece", "p", "looks most at", "weight"], rows, numbers=[1, 3])
