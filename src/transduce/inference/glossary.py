"""Glossary: terms with a prescribed translation, their placement, and a report on them.

A term matches where its source occurs as whole words (`data.segmentation`), case-sensitively; the
first word of a sentence may be capitalised. Of overlapping terms the longest wins, then the first.
Each match is required once per sentence. A translation has a term where its words occur, however
they are cut into pieces: after a quotation mark or an elision ("l'eau") the pieces are others.

A term that is missing from a translation goes to the target word that attends most to the term's
source side: everything before it is kept as a prefix, the term is appended, and decoding continues
from there. In scripts without spaces between words it goes to a piece, and is joined to the text
before it. Terms are placed from left to right, one per round. (Lexically constrained search, which
only has to produce a phrase somewhere, tends to append it at the end.)
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from transduce.data.corpus import tidy
from transduce.data.pair_files import named_columns, names_languages, pair_reader
from transduce.data.protection import PLACEHOLDERS
from transduce.data.segmentation import has_unspaced_script, word_spans, words
from transduce.data.tokenizer import EOS, UNK, Tokenizer
from transduce.inference.alignment import combined_attention, group_pieces
from transduce.io.streams import read_lines
from transduce.model.numpy_transformer import TransformerWeights
from transduce.model.trace import cross_attention
from transduce.search.config import Request
from transduce.search.hypothesis import Hypothesis

_MAX_LISTED = 20  # terms that a summary lists


class Term(NamedTuple):
    """A source phrase and its prescribed translation."""

    source: str
    target: str

    def __str__(self) -> str:
        """Format it on one line.

        >>> print(Term("dog", "Hund"))
        dog → Hund
        """
        return f"{self.source} → {self.target}"


def read_glossary(path: str | Path, *, languages: tuple[str, str] = ("", "")) -> tuple[Term, ...]:
    """Read the terms of a UTF-8 TSV file (source, a tab, target), or the pairs of another file.

    In TSV, blank lines, lines that start with "#" and a header ("source", "target", or the codes of
    the languages) are ignored; elsewhere, entries that lack a side. Of several terms of a language,
    a concept in TBX is known by the first; where a file of languages (TBX, TMX, XLIFF, PO)
    translates a source in several ways, the first is taken.

    Args:
        path: file; its ending names a format that `pair_reader` knows, such as TBX, or it is TSV.
        languages: codes of source and target, for files that name them; without them, in the order
            of the file.

    Raises:
        ValueError: if the file cannot be read, is not UTF-8 or has no pairs, or a line does not
            have two non-empty columns, or gives a source a second target in a list of terms (TSV,
            CSV, JSON lines). The message names file and line.
    """
    path = Path(path)
    numbered: Iterator[tuple[int, Term]] = _tsv_terms(path, languages)
    unit, preposition = "line", "on"
    if read_pairs := pair_reader(path):
        pairs = (Term(*map(tidy, pair)) for pair in read_pairs(path, languages))
        numbered = ((number, term) for number, term in enumerate(pairs, start=1) if all(term))
        unit, preposition = "entry", "in"
    terms: dict[tuple[str, ...], tuple[Term, int]] = {}
    try:
        for number, term in numbered:
            first, first_number = terms.setdefault(tuple(words(term.source)), (term, number))
            if first.target != term.target and not names_languages(path):
                raise ValueError(
                    f"{path}, {unit} {number}: {term.source!r} is {term.target!r} here, but "
                    f"{first.target!r} {preposition} {unit} {first_number}; keep one of the two"
                )
    except OSError as error:
        raise ValueError(f"{path}: the glossary cannot be read: {error.strerror}") from error
    if read_pairs and not terms:
        sides = f"in both {' and '.join(languages)}" if all(languages) else "of two languages"
        raise ValueError(f"{path}: no entry has terms {sides}")
    return tuple(term for term, _ in terms.values())


def match_terms(sentence: str, terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Return the terms that match in a source sentence, one per match, in text order.

    >>> match_terms("Ice cream and dogs", (Term("ice", "Eis"), Term("ice cream", "Glace")))
    (Term(source='ice cream', target='Glace'),)
    """
    if not terms:  # without a glossary, do not split into words
        return ()
    index, longest = _index_of(_SameObject(terms))
    sentence_words = words(tidy(sentence))
    matches: list[tuple[int, int, Term]] = []
    for start in range(len(sentence_words)):
        for size in range(1, min(longest, len(sentence_words) - start) + 1):
            variants = case_variants(sentence_words, start, size)
            matches += [(start, size, index[variant]) for variant in variants if variant in index]
    covered: set[int] = set()
    kept: list[tuple[int, Term]] = []
    for start, size, term in sorted(matches, key=lambda match: (-match[1], match[0])):
        positions = range(start, start + size)
        if covered.isdisjoint(positions):
            covered.update(positions)
            kept.append((start, term))
    return tuple(term for _, term in sorted(kept))


def whole_term(sentence: str, terms: tuple[Term, ...]) -> Term | None:
    """Return the term that matches all words of a source sentence, if any.

    >>> whole_term("Dog", (Term("dog", "Hund"),))
    Term(source='dog', target='Hund')
    """
    matches = match_terms(sentence, terms)
    sizes = [len(words(tidy(text))) for text in (sentence, *(term.source for term in matches))]
    return matches[0] if len(matches) == 1 and sizes[0] == sizes[1] else None


def encode_term(term: Term, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids of a term's target, which start at a word boundary.

    Raises:
        ValueError: if the vocabulary lacks a character of the target.
    """
    ids = tuple(tokenizer.encode(tidy(term.target)))
    if UNK in ids:
        raise ValueError(
            f"the term {term} cannot be applied: the model's vocabulary lacks a character of "
            f"{term.target!r}; drop the term, or choose another spelling"
        )
    return ids


def case_variants(sentence_words: Sequence[str], start: int, size: int) -> list[tuple[str, ...]]:
    """Return `size` words from `start` on as written and, at the sentence's start, uncapitalised.

    >>> case_variants(["«", "Hot", "Dog", "»"], 1, 2)
    [('Hot', 'Dog'), ('hot', 'Dog')]
    >>> case_variants(["Hot", "Dog"], 1, 1)
    [('Dog',)]
    """
    exact = tuple(sentence_words[start : start + size])
    lowered = exact[0][0].lower() + exact[0][1:]
    if lowered == exact[0] or any(word[0].isalnum() for word in sentence_words[:start]):
        return [exact]
    return [exact, (lowered, *exact[1:])]


@dataclass(slots=True)
class TermCount:
    """How often one term matched and was applied."""

    term: Term
    occurrences: int = 0
    """Matches of its source."""
    applied: int = 0
    """Matches whose target occurs in the translation, as whole words."""
    inflected: int = 0
    """Other matches whose target occurs with a longer ending: "Hunde" for "Hund"."""
    first_missed_line: int = 0
    """The first line where it was not applied; 0 if there is none."""


class GlossaryReport:
    """How a glossary was applied in some translations."""

    def __init__(self, terms: tuple[Term, ...]) -> None:
        """Report on these terms."""
        self._terms = terms
        self.counts: dict[Term, TermCount] = {}
        """The terms that matched, in order of first match."""

    def add(self, source: str, translation: str, *, line: int) -> None:
        """Count matches and applications of the terms in a line; lines come in order."""
        if not (matched := match_terms(source, self._terms)):
            return
        targets = {term.target: words(tidy(term.target)) for term in matched}
        text = words(tidy(translation))
        exact, inflected = (
            {target: _occurrences(targets[target], text, inflected=kind) for target in targets}
            for kind in (False, True)
        )
        for term, times in Counter(matched).items():
            applied = min(times, exact[term.target])
            near = min(times - applied, inflected[term.target])
            exact[term.target] -= applied  # two terms may share a target
            inflected[term.target] -= near
            count = self.counts.setdefault(term, TermCount(term))
            count.occurrences += times
            count.applied += applied
            count.inflected += near
            if applied < times:
                count.first_missed_line = count.first_missed_line or line

    def summary(self) -> str:
        """Summarise in one line, and list the terms that were not always applied."""
        counts = self.counts.values()
        if not counts:
            return "glossary: no term occurs in the source"
        occurrences = sum(count.occurrences for count in counts)
        applied = sum(count.applied for count in counts)
        missed = [count for count in counts if count.applied < count.occurrences]
        lines = [f"glossary: {applied} of {occurrences} terms applied"]
        for count in missed[:_MAX_LISTED]:
            inflected = f", {count.inflected} more inflected" if count.inflected else ""
            lines.append(
                f"  {count.term}: {count.applied} of {count.occurrences}{inflected}; see line "
                f"{count.first_missed_line}"
            )
        if len(missed) > _MAX_LISTED:
            lines.append(f"  and {len(missed) - _MAX_LISTED} more terms")
        return "\n".join(lines)


def _occurrences(phrase: Sequence[str], sentence: Sequence[str], *, inflected: bool) -> int:
    """Count a phrase in a sentence: exactly, or with more letters at its end."""
    *before, last = phrase
    count = start = 0
    while start + len(phrase) <= len(sentence):
        variants = case_variants(sentence, start, len(phrase))
        ends = [variant[-1] for variant in variants if list(variant[:-1]) == before]
        if any(end.startswith(last) and (end != last) == inflected for end in ends):
            count, start = count + 1, start + len(phrase)
        else:
            start += 1
    return count


_Index = tuple[dict[tuple[str, ...], Term], int]
"""Each term by the words of its source, and the length of the longest, in words."""


class _SameObject:
    """A key that only equals one of the same terms object: hashing many terms takes long."""

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms

    def __hash__(self) -> int:
        return id(self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameObject) and self.terms is other.terms


@lru_cache(maxsize=4)
def _index_of(key: _SameObject) -> _Index:
    return _index(key.terms)


@lru_cache(maxsize=4)
def _index(terms: tuple[Term, ...]) -> _Index:
    index = {tuple(words(tidy(term.source))): term for term in terms}
    return index, max(map(len, index), default=0)


def _tsv_terms(path: Path, languages: tuple[str, str]) -> Iterator[tuple[int, Term]]:
    lines = enumerate(read_lines(path), start=1)
    rows = ((number, line) for number, line in lines if line.strip() and not line.startswith("#"))
    for index, (number, line) in enumerate(rows):
        if index or named_columns(line.split("\t"), languages) != (0, 1):
            yield number, _term(line, place=f"{path}, line {number}")


def _term(line: str, *, place: str) -> Term:
    columns = [tidy(column) for column in line.split("\t")]
    if len(columns) != 2:
        raise ValueError(
            f"{place}: {len(columns)} columns instead of 2 (source and target, one tab "
            f"between them)"
        )
    term = Term(*columns)
    if not all(term):
        side = "target" if term.source else "source"
        raise ValueError(f"{place}: the {side} is empty; fill it in, or drop the line")
    return term


class TermConstraint(NamedTuple):
    """A term that a translation must contain."""

    source_positions: tuple[int, ...]
    """Indices of the term's pieces in the source."""
    target_ids: tuple[int, ...]
    """The term's translation."""

    def shifted(self, count: int) -> "TermConstraint":
        """Return it for a source with so many more pieces at its start."""
        return self._replace(source_positions=tuple(i + count for i in self.source_positions))


def term_constraints(
    text: str, ids: Sequence[int], terms: Sequence[Term], tokenizer: Tokenizer
) -> tuple[TermConstraint, ...]:
    """Locate the pieces of each term in a source.

    A term that matches again is required once: a translation may use a pronoun the second time.

    Args:
        text: the tidied source.
        ids: its pieces, without EOS.

    Raises:
        ValueError: if the vocabulary lacks a character of a target.
    """
    surface = tokenizer.surface(text)  # as long as the text, but for rare characters
    pieces = piece_spans(surface, tokenizer.pieces(ids))
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
        overlapping = [i for i, (first, last) in enumerate(pieces) if first < end and last > start]
        target_ids = encode_term(term, tokenizer.target)
        constraints.setdefault(target_ids, TermConstraint(tuple(overlapping), target_ids))
    return tuple(constraints.values())


def missing_terms(
    hypothesis: Hypothesis, terms: Sequence[TermConstraint], tokenizer: Tokenizer
) -> list[TermConstraint]:
    """Return the terms that a translation does not contain as whole words.

    Args:
        hypothesis: the translation.
        terms: those that it must contain.
        tokenizer: of the target side.
    """
    text = words(tokenizer.decode(hypothesis.ids))
    targets = [words(tokenizer.decode(term.target_ids)) for term in terms]
    both = zip(terms, targets, strict=True)
    return [
        term for term, target in both if target and not _occurrences(target, text, inflected=False)
    ]


def place_next_term(
    model: TransformerWeights,
    request: Request,
    hypothesis: Hypothesis,
    terms: Sequence[TermConstraint],
    tokenizer: Tokenizer,
) -> tuple[Request, TermConstraint]:
    """Return the request whose prefix ends in the leftmost missing term, and that term.

    Args:
        model: its attention decides where a term goes.
        request: the request that led to `hypothesis`; its prefix is only ever extended.
        hypothesis: the translation that lacks terms.
        terms: its missing terms, at least one.
        tokenizer: of the target side.
    """
    ids, source = hypothesis.ids, (*request.source, EOS)
    attention = combined_attention(cross_attention(model, source, ids))
    text, pieces = tokenizer.decode(ids), tokenizer.pieces(ids)
    starts = [word[0] for word in group_pieces(pieces)]
    if unspaced := has_unspaced_script(text):
        ends = (i for i in range(len(ids)) if is_word_end(tokenizer.decode(ids[:i]), text))
        starts = [i for i in ends if ids[i] != EOS]
    starts = [start for start in starts if start >= len(request.prefix)] or [len(request.prefix)]

    def best_start(term: TermConstraint) -> int:
        positions = list(term.source_positions) or [0]
        share = attention[:, positions].sum(1)  # of each target piece, given to the term
        # A slice, because a start may lie behind the last row; its sum is then 0.
        return max(starts, key=lambda start: float(share[start : start + 1].sum()))

    start, term = min(((best_start(term), term) for term in terms), key=lambda placed: placed[0])
    before, target = ids[:start], term.target_ids
    if unspaced and before and not (*pieces, "")[start].startswith("▁"):
        target = _joined(before, target, tokenizer)
    return request._replace(prefix=(*before, *target)), term


def is_word_end(text: str, longer: str) -> bool:
    """Return whether a text ends with a whole word where `longer`, which begins with it, goes on.

    >>> is_word_end("ein Hund", "ein Hund."), is_word_end("ein Hund", "ein Hunde")
    (True, False)
    """
    known = words(text)
    return words(longer)[: len(known)] == known


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


def _joined(
    before: Sequence[int], target_ids: tuple[int, ...], tokenizer: Tokenizer
) -> tuple[int, ...]:
    """Return the ids of a target without a space before it, unless two words would become one."""
    text, target = tokenizer.decode(before), tokenizer.decode(target_ids)
    # A character that no text has takes the place at the beginning of the line, and is cut off.
    first = PLACEHOLDERS[0]
    joined = tuple(tokenizer.encode(f"{first}{target}")[len(tokenizer.encode(first)) :])
    line = f"{text}{target}"
    if is_word_end(text, line) and tokenizer.decode((*before, *joined)) == line:
        return joined
    return target_ids
