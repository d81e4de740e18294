"""Capitals and title case: a sentence in them is translated in its usual case, the result recased.

A vocabulary learned from running text cuts "CLOSE THE WINDOW" into letters, which the model has
rarely read. The vocabulary also tells a word's usual case: the form that it has the longest pieces
for, "Paris" but "window". Languages without case, and abbreviations alone, stay as they are.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

import regex

from transduce.data.corpus import tidy
from transduce.data.protection import protection_of
from transduce.data.tokenizer import Tokenizer, without_tag
from transduce.inference.glossary import Term, match_terms

_MIN_RATIO: Final = 1.2
"""Times as many pieces as in the usual case, at least, for a sentence to be recased."""

_MIN_LETTERS: Final = 5  # fewer are an abbreviation: "US" is not "us"
_MAX_LENGTH: Final = 2000  # characters; what is longer is no sentence
_SHORT: Final = 3  # letters of a word that titles may leave in lower case: "of", "the"
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}'’-]*")
_OPENING: Final = " \"'“”„«»¿¡("
_KEPT: Final = ("url", "code", r"<[^<>]*>|>>[^<>]*<<")  # addresses, identifiers, tags


class Recasing(NamedTuple):
    """A sentence to translate, and the case of its translation."""

    text: str
    """The sentence in the case in which it is translated."""

    style: Literal["", "capitals", "title", "every word"] = ""
    """Case of the translation: "title" leaves short words as they are; "": as translated."""

    terms: tuple[str, ...] = ()
    """Parts of the translation whose case stays."""

    def restore(self, translation: str) -> str:
        """Give a translation the case of its source.

        >>> Recasing("See www.ab.c now", "capitals").restore("Siehe www.ab.c")
        'SIEHE www.ab.c'
        """
        if not self.style:
            return translation
        shortest = _SHORT + 1 if self.style == "title" else 1

        def change(word: str, start: int) -> str:
            if self.style == "capitals":
                return word.upper()
            return word[0].title() + word[1:] if len(word) >= shortest else word

        return _change_words(translation, self.terms, change)


def recase(text: str, tokenizer: Tokenizer, *, terms: tuple[Term, ...] = ()) -> Recasing:
    """Return a sentence in the case in which to translate it: as it is, or the usual one.

    Args:
        text: a source sentence. Addresses, identifiers, tags and `terms` in it keep their case.
    """
    text = tidy(text)
    blocks = without_tag(text).split()
    if len(text) > _MAX_LENGTH or 2 * sum(map(str.isupper, text)) < len(blocks):  # most sentences
        return Recasing(text)
    capitals = sum(block.lstrip(_OPENING)[:1].isupper() for block in blocks)
    if 2 * capitals < len(blocks):
        return Recasing(text)
    matched = match_terms(text, terms)
    phrases, words = [tidy(term.source) for term in matched], list[str]()
    _change_words(text, phrases, lambda word, start: words.append(word) or word)
    style = _style(words)

    def usual(word: str, start: int) -> str:
        if style != "capitals" and word[1:] and not word[1:].islower():  # "NATO" in a title
            return word
        before = re.sub(_KEPT[-1], "", text[:start]).rstrip(_OPENING)
        forms = [word.lower(), word.capitalize()]
        if not before or before[-1] in ".!?…":
            forms.reverse()
        return min(forms, key=lambda form: _cost(form, tokenizer))

    changed = _change_words(text, phrases, usual) if style else text
    given_cost, cost = (_cost(form, tokenizer) for form in (text, changed))
    if given_cost[0] <= cost[0] and given_cost[1] < _MIN_RATIO * cost[1]:
        return Recasing(text)
    return Recasing(changed, style, tuple(tidy(term.target) for term in matched))


def _style(words: Sequence[str]) -> Literal["", "capitals", "title", "every word"]:
    """The case of a sentence by its words; "" is that of running text."""
    letters = "".join(words)
    if len(letters) < _MIN_LETTERS or any(c.upper() == c.lower() for c in letters if c.isalpha()):
        return ""
    if letters.isupper():
        return "capitals"
    if all(word[0].isupper() for word in words):
        return "every word" if len(words) > 1 else ""
    titled = all(word[0].isupper() or len(word) <= _SHORT for word in words)
    return "title" if titled and words[0][0].isupper() else ""


def _cost(text: str, tokenizer: Tokenizer) -> tuple[int, int]:
    ids = tokenizer.encode(text)
    return ids.count(tokenizer.UNK), len(ids)


def _change_words(text: str, phrases: Sequence[str], change: Callable[[str, int], str]) -> str:
    """Apply `change` to words and their positions, but not in phrases, addresses, code and tags."""
    kept = protection_of(_KEPT).spans(text, time_limit=None)
    for phrase in phrases:
        literal = rf"(?<!\w){re.escape(phrase)}(?!\w)"
        kept += [match.span() for match in re.finditer(literal, text, re.IGNORECASE)]

    def changed(match: "regex.Match[str]") -> str:
        inside = any(start <= match.start() < end for start, end in kept)
        return match[0] if inside else change(match[0], match.start())

    return _WORD.sub(changed, text)
