"""Phrases and finite verbs: gender, number, case and person, and the endings they ask for.

The tables are those of any school grammar. What stands before a noun decides how its adjective
ends: *der alte Hund*, *ein alter Hund*, *alte Hunde*.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from transduce.demo.grammar.lexicon import A
from transduce.demo.grammar.words import (
    Adjective,
    Case,
    Conjugation,
    Determiner,
    Gender,
    Name,
    Noun,
    Pronoun,
)

Person = Literal[1, 2, 3]

# Endings in the order masculine, feminine, neuter, plural.
_Endings = Mapping[Case, tuple[str, str, str, str]]
_GENDERS = "mfn"
_ARTICLE: _Endings = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "den"),
}
_STRONG: _Endings = {
    "nominative": ("er", "e", "es", "e"),
    "accusative": ("en", "e", "es", "e"),
    "dative": ("em", "er", "em", "en"),
}
_WEAK: _Endings = {
    "nominative": ("e", "e", "e", "en"),
    "accusative": ("en", "e", "e", "en"),
    "dative": ("en", "en", "en", "en"),
}
_INDEFINITE: _Endings = {
    "nominative": ("", "e", "", "e"),
    "accusative": ("en", "e", "", "e"),
    "dative": ("em", "er", "em", "en"),
}
_MIXED: _Endings = {
    "nominative": ("er", "e", "es", "en"),
    "accusative": ("en", "e", "es", "en"),
    "dative": ("en", "en", "en", "en"),
}
_AFTER: dict[str, _Endings] = {"der": _WEAK, "dieser": _WEAK, "ein": _MIXED, "bare": _STRONG}


@dataclass(frozen=True, slots=True, kw_only=True)
class NounPhrase:
    """A noun with what stands before it."""

    noun: Noun
    determiner: Determiner
    adjective: Adjective | None = None
    plural: bool = False


@dataclass(frozen=True, slots=True)
class Both:
    """Two people joined by "and"."""

    first: Name
    second: Name


Phrase = NounPhrase | Pronoun | Name | Both


def english_phrase(phrase: Phrase, *, as_object: bool = False) -> str:
    """A phrase in English; only pronouns differ between subject and object."""
    match phrase:
        case Pronoun():
            return phrase.object if as_object else phrase.subject
        case Name():
            return phrase.text
        case Both():
            return f"{phrase.first.text} and {phrase.second.text}"
        case NounPhrase():
            noun = phrase.noun.english_plural if phrase.plural else phrase.noun.english
            adjective = "" if phrase.adjective is None else phrase.adjective.english
            determiner = phrase.determiner.english
            if phrase.plural:
                determiner = phrase.determiner.english_plural
            elif determiner == "a" and (adjective or noun)[0] in "aeiou":
                determiner = "an"
            return " ".join(filter(None, (determiner, adjective, noun)))


def german_phrase(phrase: Phrase, case: Case) -> str:
    """A phrase in German: article, adjective and noun agree in gender, number and case."""
    match phrase:
        case Pronoun():
            if case == "nominative":
                return phrase.nominative
            return phrase.accusative if case == "accusative" else phrase.dative
        case Name():
            return phrase.text
        case Both():
            return f"{phrase.first.text} und {phrase.second.text}"
        case NounPhrase():
            column = 3 if phrase.plural else _GENDERS.index(phrase.noun.gender)
            words = (
                german_determiner(phrase.determiner, case, column=column),
                german_adjective(phrase.adjective, phrase.determiner, case, column=column),
                german_noun(phrase.noun, case, plural=phrase.plural),
            )
            return " ".join(filter(None, words))


def german_determiner(determiner: Determiner, case: Case, *, column: int) -> str:
    """The article; the column is 0 to 2 for the genders m, f, n, and 3 for the plural."""
    match determiner.pattern:
        case "bare":
            return determiner.german
        case "der":
            return _ARTICLE[case][column]
        case "dieser":
            return determiner.german + _STRONG[case][column]
        case "ein":
            return determiner.german + _INDEFINITE[case][column]


def german_adjective(
    adjective: Adjective | None, determiner: Determiner, case: Case, *, column: int
) -> str:
    """The adjective with the ending that its determiner leaves to it.

    Weak after der and dieser, which already show the case; strong where nothing shows it; mixed
    after ein, kein and the possessives, which show it only in part.
    """
    if adjective is None:
        return ""
    return (adjective.stem or adjective.german) + _AFTER[determiner.pattern][case][column]


def german_noun(noun: Noun, case: Case, *, plural: bool = False) -> str:
    """The noun: the dative plural takes -n unless it ends in n or s.

    >>> from transduce.demo.grammar.nouns import nouns
    >>> [german_noun(noun, "dative", plural=True) for noun in nouns("apple car boy")]
    ['Jungen', 'Äpfeln', 'Autos']
    """
    if not plural:
        return noun.weak if noun.weak and case != "nominative" else noun.german
    needs_n = case == "dative" and noun.german_plural[-1] not in "ns"
    return noun.german_plural + "n" * needs_n


@cache
def conjugate(
    conjugation: Conjugation, *, person: Person = 3, plural: bool = False, past: bool = False
) -> str:
    """The finite verb; the plural is that of wir and sie.

    >>> from transduce.demo.grammar.verbs import HABEN, SEIN
    >>> conjugate(HABEN, person=2), conjugate(SEIN, plural=True, past=True)
    ('hast', 'waren')
    """
    if not past:
        return conjugation.present.split()[3 if plural else person - 1]
    stem = conjugation.past
    if plural:
        return stem + ("n" if stem.endswith("e") else "en")
    if person == 2:
        return stem + ("est" if stem[-1] in "dtsß" else "st")
    return stem


def person_of(phrase: Phrase) -> Person:
    """The grammatical person: nouns and names are third."""
    return phrase.person if isinstance(phrase, Pronoun) else 3


def is_plural(phrase: Phrase) -> bool:
    """Whether the phrase takes a plural verb."""
    if isinstance(phrase, Name):
        return False
    return isinstance(phrase, Both) or phrase.plural


def gender_of(phrase: Phrase) -> Gender | None:
    """The German gender of a singular noun or name; None for all else."""
    match phrase:
        case Name():
            return phrase.gender
        case NounPhrase(plural=False):
            return phrase.noun.gender
        case _:
            return None


def is_new(phrase: Phrase) -> bool:
    """Whether the phrase is indefinite: "a dog", "dogs", "two dogs", "milk"."""
    return isinstance(phrase, NounPhrase) and (
        phrase.determiner is A or phrase.determiner.pattern == "bare"
    )
