"""Placement of glossary terms, by cross-attention.

A term that is missing from a translation goes to the target word that attends most to the term's
source side: everything before it is kept as a prefix, the term is appended, and decoding continues
from there. Terms are placed from left to right, one per round. (Lexically constrained search, which
only has to produce a phrase somewhere, tends to append it at the end.)
"""

from collections.abc import Sequence
from typing import NamedTuple

from transduce.data.corpus import tidy
from transduce.data.segmentation import word_spans, words
from transduce.data.tokenizer import EOS, Tokenizer
from transduce.inference.alignment import combined_attention, group_pieces
from transduce.inference.glossary import Term, case_variants, encode_terms
from transduce.model.trace import trace
from transduce.model.transformer import Transformer
from transduce.search.config import Request
from transduce.search.hypothesis import Hypothesis


class TermConstraint(NamedTuple):
    """A term that a translation must contain."""

    source_positions: tuple[int, ...]
    """Indices of the term's pieces in the source."""
    target_ids: tuple[int, ...]
    """The term's translation."""


def term_constraints(
    text: str, ids: Sequence[int], terms: Sequence[Term], tokenizer: Tokenizer
) -> tuple[TermConstraint, ...]:
    """Locate the pieces of each term in a source.

    Args:
        text: the tidied source.
        ids: its pieces, without EOS.
        terms: those that match, in order (`glossary.match_terms`).
        tokenizer: the model's.

    Raises:
        ValueError: if the vocabulary lacks a character of a target.
    """
    pieces = piece_spans(text, tokenizer.pieces(ids))
    text_words, spans = words(text), word_spans(text)
    constraints: dict[tuple[int, ...], TermConstraint] = {}
    next_word = 0  # terms are in text order: each is searched for after the one before
    for term in terms:
        term_words = tuple(words(tidy(term.source)))
        first_word = next(
            index
            for index in range(next_word, len(text_words))
            if term_words in case_variants(text_words, index, len(term_words))
        )
        next_word = first_word + len(term_words)
        start, end = spans[first_word][0], spans[next_word - 1][1]
        overlapping = (i for i, (first, last) in enumerate(pieces) if first < end and last > start)
        for target_ids in encode_terms([term], tokenizer.target.encode):
            constraint = TermConstraint(tuple(overlapping), target_ids)
            constraints.setdefault(target_ids, constraint)
    return tuple(constraints.values())


def missing_terms(
    hypothesis: Hypothesis, terms: Sequence[TermConstraint], pieces: Sequence[str]
) -> list[TermConstraint]:
    """Return the terms that a translation does not contain as whole words.

    Args:
        hypothesis: the translation.
        terms: those that it must contain.
        pieces: the translation's pieces.
    """
    return [term for term in terms if not _contains(hypothesis.ids, term.target_ids, pieces)]


def request_with_next_term(
    model: Transformer,
    request: Request,
    hypothesis: Hypothesis,
    terms: Sequence[TermConstraint],
    pieces: Sequence[str],
) -> Request:
    """Return the request whose prefix ends in the leftmost missing term.

    Args:
        model: its attention decides where a term goes.
        request: the request that led to `hypothesis`; its prefix is only ever extended.
        hypothesis: the current translation.
        terms: its missing terms, at least one.
        pieces: the translation's pieces.
    """
    source = (*request.source, EOS)
    attention = combined_attention(trace(model, source, hypothesis.ids).cross)
    starts = [word[0] for word in group_pieces(pieces)]
    starts = [start for start in starts if start >= len(request.prefix)] or [len(request.prefix)]
    placements: list[tuple[int, TermConstraint]] = []
    for term in terms:
        positions = list(term.source_positions) or [0]
        share = attention[:, positions].sum(1)  # of each target piece, given to the term
        # A slice, because a start may lie behind the last row; its sum is then 0.
        start = max(starts, key=lambda start: float(share[start : start + 1].sum()))
        placements.append((start, term))
    start, term = min(placements, key=lambda placement: placement[0])
    return request._replace(prefix=(*hypothesis.ids[:start], *term.target_ids))


def is_word_end(following: Sequence[str]) -> bool:
    """Return whether a word ends before these pieces: a space, EOS or punctuation follows."""
    return not following or following[0] == "</s>" or not following[0][0].isalnum()


def piece_spans(text: str, pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Return where in a text each of its pieces starts and ends, leading spaces not included.

    Pieces that the text does not contain literally (UNK, bytes of a character) take the characters
    between their neighbours.

    >>> piece_spans("my dog", ["▁my", "▁", "d", "og"])
    [(0, 2), (3, 3), (3, 4), (4, 6)]
    """
    line = f" {text}"  # the tokenizer prepends a space
    texts = [piece.replace("▁", " ") for piece in pieces]
    end = 0 if texts and texts[0].startswith(" ") else 1
    result: list[tuple[int, int]] = []
    for index, piece in enumerate(texts):
        start = end
        if line.startswith(piece, start):
            end += len(piece)
        else:
            positions = (line.find(later, start) for later in texts[index + 1 :])
            end = next((position for position in positions if position >= 0), len(line))
        spaces = len(piece) - len(piece.lstrip(" "))
        result.append((start + spaces - 1, end - 1))
    return result


def _contains(ids: Sequence[int], phrase: Sequence[int], pieces: Sequence[str]) -> bool:
    for start in range(len(ids) - len(phrase) + 1):
        end = start + len(phrase)
        if tuple(ids[start:end]) == tuple(phrase) and is_word_end(pieces[end:]):
            return True
    return False
