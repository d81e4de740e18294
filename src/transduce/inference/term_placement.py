"""Where a glossary's term goes: where the model looks at its source side.

A term that a translation lacks is not left to chance. The word of the translation that looks most
at the term's source side is where the term belongs: all before it is kept as a prefix, the term is
said there, and the model goes on from it. Terms are placed from left to right, one a round. (A
search that must merely say a phrase somewhere likes to say it at the very end.)
"""

from collections.abc import Sequence
from typing import NamedTuple

from transduce.data.corpus import tidy
from transduce.data.segmentation import word_spans, words
from transduce.data.tokenizer import EOS, Tokenizer
from transduce.inference.alignment import agreed_look, words_of
from transduce.inference.glossary import Term, phrases, readings
from transduce.model.trace import trace
from transduce.model.transformer import Transformer
from transduce.search.config import Request
from transduce.search.hypothesis import Hypothesis


class Wanted(NamedTuple):
    """A term that a translation shall say."""

    places: tuple[int, ...]
    """Of the source's pieces that are the term."""
    ids: tuple[int, ...]
    """What is to be said."""


def wanted(
    text: str, ids: Sequence[int], terms: Sequence[Term], tokenizer: Tokenizer
) -> tuple[Wanted, ...]:
    """Find the pieces of each term in a source.

    Args:
        text: the source, tidy.
        ids: its pieces, without EOS.
        terms: those that it calls for, in their order (`glossary.terms_in`).
        tokenizer: the model's.

    Raises:
        ValueError: if a target has a character that the vocabulary cannot write.
    """
    pieces = pieces_in(text, tokenizer.pieces(ids))
    said, where = words(text), word_spans(text)
    found: dict[tuple[int, ...], Wanted] = {}
    behind = 0
    for term in terms:
        run = tuple(words(tidy(term.source)))
        place = next(
            one for one in range(behind, len(said)) if run in readings(said, one, len(run))
        )
        behind = place + len(run)
        start, end = where[place][0], where[behind - 1][1]
        taken = (at for at, (first, last) in enumerate(pieces) if first < end and last > start)
        for ids_said in phrases([term], tokenizer.target.encode):
            found.setdefault(ids_said, Wanted(tuple(taken), ids_said))
    return tuple(found.values())


def lacking(hypothesis: Hypothesis, terms: Sequence[Wanted], pieces: Sequence[str]) -> list[Wanted]:
    """Return the terms that a translation does not say as whole words.

    Args:
        hypothesis: the translation.
        terms: what it shall say.
        pieces: the translation's.
    """
    return [term for term in terms if not _says(hypothesis.ids, term.ids, pieces)]


def with_next_term(
    model: Transformer,
    request: Request,
    hypothesis: Hypothesis,
    terms: Sequence[Wanted],
    pieces: Sequence[str],
) -> Request:
    """Return the request whose prefix ends in the leftmost of the terms that are lacking.

    Args:
        model: says what each word looks at.
        request: what `hypothesis` came of; its prefix is never changed, only made longer.
        hypothesis: the translation so far.
        terms: those that it lacks, one at least.
        pieces: the translation's.
    """
    source = (*request.source, EOS)
    look = agreed_look(trace(model, source, hypothesis.ids).cross)
    starts = [places[0] for places in words_of(pieces)]
    starts = [start for start in starts if start >= len(request.prefix)] or [len(request.prefix)]
    nearest: list[tuple[int, Wanted]] = []
    for term in terms:
        share = look[:, list(term.places)].sum(1) if term.places else look[:, 0]
        nearest.append((max(starts, key=lambda start: float(share[start : start + 1].sum())), term))
    start, term = min(nearest, key=lambda one: one[0])
    return request._replace(prefix=(*hypothesis.ids[:start], *term.ids))


def ends_word(behind: Sequence[str]) -> bool:
    """Whether a word is over before these pieces: a blank, EOS, or a mark comes next."""
    return not behind or behind[0] == "</s>" or not behind[0][0].isalnum()


def pieces_in(text: str, pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Where in a text each of its pieces begins and ends; the blanks before it are no part of it.

    What the vocabulary cannot write, an UNK or the bytes of a character, takes what is left between
    the pieces around it.

    >>> pieces_in("my dog", ["▁my", "▁", "d", "og"])
    [(0, 2), (3, 3), (3, 4), (4, 6)]
    """
    line = f" {text}"  # as every text is cut
    spelt = [piece.replace("▁", " ") for piece in pieces]
    end = 0 if spelt and spelt[0].startswith(" ") else 1
    found: list[tuple[int, int]] = []
    for place, piece in enumerate(spelt):
        start = end
        if line.startswith(piece, start):
            end += len(piece)
        else:
            later = (line.find(one, start) for one in spelt[place + 1 :])
            end = next((at for at in later if at >= 0), len(line))
        blanks = len(piece) - len(piece.lstrip(" "))
        found.append((start + blanks - 1, end - 1))
    return found


def _says(ids: Sequence[int], run: Sequence[int], pieces: Sequence[str]) -> bool:
    for start in range(len(ids) - len(run) + 1):
        end = start + len(run)
        if tuple(ids[start:end]) == tuple(run) and ends_word(pieces[end:]):
            return True
    return False
