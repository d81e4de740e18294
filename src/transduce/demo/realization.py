"""Realize a `Clause`, which belongs to neither language, in English and in German.

`english` handles agreement, do-support and word order; `german` gender, case, adjective endings and
the positions of the verb, its prefix and *nicht*. Tenses correspond one to one: see `FORMS`. The
adjective's ending depends on the determiner: *der alte Hund*, *ein alter Hund*, *alte Hunde*.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

from transduce.demo import lexicon
from transduce.demo.lexicon import (
    Adjective,
    Adverb,
    Case,
    Conjugation,
    Determiner,
    Gender,
    Name,
    Noun,
    Pronoun,
    Verb,
)

Person = Literal[1, 2, 3]

_COLUMNS = {"m": 0, "f": 1, "n": 2}  # of the endings; the plural is the last


def _ending(
    part: Literal["determiners", "adjectives"], pattern: str, case: Case, column: int
) -> str:
    """The ending of a determiner, or of an adjective after it."""
    return lexicon.GRAMMAR[part][pattern][case].split()[column].strip("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class NounPhrase:
    """A noun with determiner and adjective."""

    noun: Noun
    determiner: Determiner
    adjective: Adjective | None = None
    plural: bool = False


@dataclass(frozen=True, slots=True)
class Coordination:
    """Two people joined by "and"."""

    first: Name
    second: Name


Phrase = NounPhrase | Pronoun | Name | Coordination


def english_phrase(phrase: Phrase, *, as_object: bool = False) -> str:
    """A phrase in English; only pronouns differ between subject and object."""
    match phrase:
        case Pronoun():
            return phrase.object if as_object else phrase.subject
        case Name():
            return phrase.text
        case Coordination():
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
            return getattr(phrase, case)
        case Name():
            return phrase.text
        case Coordination():
            return f"{phrase.first.text} und {phrase.second.text}"
        case NounPhrase():
            noun, determiner, adjective = phrase.noun, phrase.determiner, phrase.adjective
            column = 3 if phrase.plural else _COLUMNS[noun.gender]
            words = [determiner.german + _ending("determiners", determiner.pattern, case, column)]
            if adjective is not None:
                ending = _ending("adjectives", determiner.pattern, case, column)
                words.append((adjective.stem or adjective.german) + ending)
            words.append(german_noun(noun, case, plural=phrase.plural))
            return " ".join(filter(None, words))


def german_noun(noun: Noun, case: Case, *, plural: bool = False) -> str:
    """Decline a noun: the dative plural takes -n unless it ends in n or s.

    Args:
        noun: the noun.
        case: grammatical case.
        plural: whether it is plural.

    >>> from transduce.demo.lexicon import nouns
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
    """Return a finite form; the plural is that of wir and sie.

    Args:
        conjugation: the verb.
        person: grammatical person.
        plural: whether it is plural.
        past: Präteritum instead of present.

    >>> from transduce.demo.lexicon import HABEN, SEIN
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
    return isinstance(phrase, Coordination) or phrase.plural


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
        phrase.determiner is lexicon.A or phrase.determiner.pattern == "bare"
    )


Form = Literal[
    "present",
    "progressive",
    "past",
    "past progressive",
    "perfect",
    "future",
    "can",
    "could",
    "must",
    "want",
    "wanted",
]
Order = Literal["second", "final", "first"]


class Rule(NamedTuple):
    """How a form is built: auxiliaries, and the verb form that follows them."""

    english: str
    """Key of `_AUXILIARIES`; "do" is omitted in positive statements."""
    english_part: Literal["base", "participle", "gerund", "to"]
    german: Conjugation | None
    """None: the verb itself is finite."""
    german_past: bool = False


FORMS: dict[Form, Rule] = {
    form: Rule(english, part, lexicon.AUXILIARIES.get(german), past)
    for form, (english, part, german, past) in lexicon.GRAMMAR["forms"].items()
}
_AUXILIARIES, _NEGATED, _CONTRACTED, _MERGED = (
    lexicon.GRAMMAR[name] for name in ("auxiliaries", "negated", "contracted", "merged")
)
_DEGREES = {"": "", "very": "sehr", "too": "zu"}


@dataclass(frozen=True, slots=True)
class Complement:
    """A verb's complement: a phrase in a case, with or without preposition."""

    phrase: Phrase
    case: Case
    english: str = ""
    german: str = ""
    scene: bool = False
    """Whether it is the place of the event, which in German precedes new information."""


@dataclass(frozen=True, slots=True)
class Quality:
    """A predicate adjective with its degree."""

    adjective: Adjective
    degree: Literal["", "very", "too"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """A statement or question, independent of language."""

    subject: Phrase
    verb: Verb
    form: Form
    complements: tuple[Complement, ...] = ()
    """In the order of English."""
    quality: Quality | None = None
    manner: Adverb | None = None
    """Adverb of manner; only in clauses that are not negated."""
    negated: bool = False
    contracted: bool = False
    """Whether English writes "didn't" for "did not"."""
    time: Adverb | None = None
    time_first: bool = False


def english(clause: Clause, *, question: bool = False) -> str:
    """The clause in English, without capital and full stop; a question begins with its verb."""
    subject = english_phrase(clause.subject)
    first, rest = _english_verbs(clause, question=question)
    tail = [rest, clause.verb.particle, *map(_english_complement, clause.complements)]
    if clause.quality is not None:
        tail += [clause.quality.degree, clause.quality.adjective.english]
    tail.append("" if clause.manner is None else clause.manner.english)
    time = "" if clause.time is None else clause.time.english
    words = [first, subject] if question else [subject, first]
    words = [time, *words, *tail] if clause.time_first else [*words, *tail, time]
    return " ".join(filter(None, words))


def german(clause: Clause, *, order: Order = "second") -> str:
    """The clause in German, without capital and full stop.

    The finite verb is second in statements, first in questions, final after weil and dass.
    """
    subject = german_phrase(clause.subject, "nominative")
    finite, end = _german_verbs(clause)
    prefix = clause.verb.prefix if FORMS[clause.form].german is None else ""
    middle = _middle_field(clause)
    if order == "final":
        words = [subject, *middle, end, prefix + finite]
    elif order == "first":
        words = [finite, subject, *middle, end, prefix]
    elif clause.time_first and clause.time is not None:
        words = [clause.time.german, finite, subject, *middle, end, prefix]
    else:
        words = [subject, finite, *middle, end, prefix]
    return " ".join(filter(None, words))


def _english_verbs(clause: Clause, *, question: bool) -> tuple[str, str]:
    """The finite verb and what follows it (or, in a question, what follows the subject)."""
    rule = FORMS[clause.form]
    base, third, past, participle, gerund = clause.verb.english.split()
    person, plural = person_of(clause.subject), is_plural(clause.subject)
    column = 2 if plural or person == 2 else {1: 0, 3: 1}[person]
    copula = clause.verb.aspect == "copula" and clause.form in ("present", "past")
    auxiliary = {"do": "am", "did": "was"}[rule.english] if copula else rule.english
    if auxiliary in ("do", "did") and not (question or clause.negated):  # no need of "do"
        wants = rule.english_part == "to"
        simple = ("want", "wants", "want", "wanted") if wants else (base, third, base, past)
        return simple[3 if auxiliary == "did" else column], f"to {base}" if wants else ""
    finite = _AUXILIARIES.get(auxiliary, (auxiliary,) * 3)[column]
    part = {"base": base, "participle": participle, "gerund": gerund, "to": f"want to {base}"}
    rest = "" if copula else part[rule.english_part]
    if not clause.negated:
        return finite, rest
    if clause.contracted:
        return _CONTRACTED.get(finite, finite + "n't"), rest
    return _NEGATED.get(finite, finite + " not"), rest


def _german_verbs(clause: Clause) -> tuple[str, str]:
    """The finite verb without its prefix, and the infinitive or participle at the end."""
    rule, verb = FORMS[clause.form], clause.verb
    helper = rule.german
    if clause.form == "perfect":
        helper = lexicon.AUXILIARIES[verb.auxiliary]
    finite = conjugate(
        helper or verb.german,
        person=person_of(clause.subject),
        plural=is_plural(clause.subject),
        past=rule.german_past,
    )
    if helper is None:
        return finite, ""
    if clause.form == "perfect":
        return finite, verb.german.participle
    return finite, verb.prefix + (verb.german.infinitive or verb.german.present.split()[3])


def _middle_field(clause: Clause) -> list[str]:
    """All between the finite verb (or the subject) and the verb's end, in German order.

    Pronouns come first, then time, then what is known; a new object follows the place (im Garten
    einen Apfel) and how it is done (langsam einen Apfel). *nicht* comes behind time and objects and
    before prepositions and qualities, and lifts objects over the time (das Buch heute nicht); a new
    object has its *kein* instead.
    """
    time = "" if clause.time is None or clause.time_first else clause.time.german
    manner = "" if clause.manner is None else clause.manner.german
    plain = [part for part in clause.complements if not part.german]
    scene = [_german_complement(part) for part in clause.complements if part.scene]
    others = [
        _german_complement(part) for part in clause.complements if part.german and not part.scene
    ]
    focus: list[str] = []
    if plain and is_new(plain[-1].phrase):
        last = plain.pop()
        focus = [_german_complement(_with_no(last) if clause.negated else last)]
    pronouns = [_german_complement(part) for part in plain if isinstance(part.phrase, Pronoun)]
    known = [_german_complement(part) for part in plain if not isinstance(part.phrase, Pronoun)]
    if clause.quality is not None:
        others += [_DEGREES[clause.quality.degree], clause.quality.adjective.german]
    assert not (clause.negated and manner), "what is denied: that, or how?"
    if clause.negated and not focus:
        return [*pronouns, *known, time, "nicht", *others, *scene]
    return [*pronouns, time, *known, *scene, manner, *focus, *others]


def _with_no(part: Complement) -> Complement:
    assert isinstance(part.phrase, NounPhrase)
    assert part.phrase.determiner in (lexicon.A, lexicon.BARE), "a number is not negated by kein"
    return replace(part, phrase=replace(part.phrase, determiner=lexicon.NO))


def _english_complement(part: Complement) -> str:
    return f"{part.english} {english_phrase(part.phrase, as_object=True)}".lstrip()


def _german_complement(part: Complement) -> str:
    phrase = german_phrase(part.phrase, part.case)
    if not part.german:
        return phrase
    article, _, rest = phrase.partition(" ")
    merged = _MERGED.get(f"{part.german} {article}") if rest else None
    return f"{merged} {rest}" if merged else f"{part.german} {phrase}"
