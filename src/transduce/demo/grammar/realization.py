"""The rules of the demo: from what is meant to an English sentence and its German twin.

A `Clause` says who does what to whom, when and whether; nothing in it belongs to either language.
`english` and `german` each put it into words: agreement, do-support and word order on one side;
gender, case, adjective endings, the place of the verb, of its prefix and of *nicht* on the other.
Tenses correspond one to one: `FORMS` is the whole table.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from transduce.demo.grammar.inflection import (
    NounPhrase,
    Phrase,
    conjugate,
    english_phrase,
    german_phrase,
    is_new,
    is_plural,
    person_of,
)
from transduce.demo.grammar.lexicon import BARE, NO, A
from transduce.demo.grammar.verbs import HABEN, KÖNNEN, MÜSSEN, SEIN, WERDEN, WOLLEN
from transduce.demo.grammar.words import Adjective, Case, Conjugation, Manner, Pronoun, Time, Verb

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
    """How a form is made: auxiliaries, and the part of the verb that follows them."""

    english: str
    """The auxiliary as the table `_AUXILIARIES` knows it; "do" hides in plain statements."""

    english_part: Literal["base", "participle", "gerund", "to"]
    german: Conjugation | None
    """None: the verb itself is finite."""

    german_past: bool = False


FORMS: dict[Form, Rule] = {
    "present": Rule("do", "base", None),
    "progressive": Rule("am", "gerund", None),
    "past": Rule("did", "base", None, german_past=True),
    "past progressive": Rule("was", "gerund", None, german_past=True),
    "perfect": Rule("have", "participle", HABEN),  # or SEIN, as the verb says
    "future": Rule("will", "base", WERDEN),
    "can": Rule("can", "base", KÖNNEN),
    "could": Rule("could", "base", KÖNNEN, german_past=True),
    "must": Rule("must", "base", MÜSSEN),
    "want": Rule("do", "to", WOLLEN),
    "wanted": Rule("did", "to", WOLLEN, german_past=True),
}

# First person, third person, and all others.
_AUXILIARIES = {
    "do": ("do", "does", "do"),
    "did": ("did", "did", "did"),
    "am": ("am", "is", "are"),
    "was": ("was", "was", "were"),
    "have": ("have", "has", "have"),
}
_NEGATED = {"can": "cannot"}
_CONTRACTED = {"can": "can't", "will": "won't", "am": "am not", "must": "must not"}

_MERGED = {
    **{"in dem": "im", "in das": "ins", "an dem": "am"},
    **{"von dem": "vom", "zu dem": "zum", "zu der": "zur"},
}
_DEGREES = {"": "", "very": "sehr", "too": "zu"}


@dataclass(frozen=True, slots=True)
class Complement:
    """What a verb governs: a phrase in a case, behind a preposition or not."""

    phrase: Phrase
    case: Case
    english: str = ""
    german: str = ""
    scene: bool = False
    """Whether it is the place where all of it happens, which in German precedes what is new."""


@dataclass(frozen=True, slots=True)
class Quality:
    """What "to be" says of its subject: an adjective, and how much of it."""

    adjective: Adjective
    degree: Literal["", "very", "too"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One statement or question, in neither language."""

    subject: Phrase
    verb: Verb
    form: Form
    complements: tuple[Complement, ...] = ()
    """In the order of English."""

    quality: Quality | None = None
    manner: Manner | None = None
    """How it is done; only where it is not negated."""

    negated: bool = False
    contracted: bool = False
    """Whether English writes "didn't" for "did not"."""

    time: Time | None = None
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

    Args:
        clause: what is said.
        order: where the finite verb stands: second in statements, first in questions (and in the
            rest of a sentence behind whatever fills its first place), final after weil and dass.
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
        helper = SEIN if verb.auxiliary == "sein" else HABEN
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
    new: list[str] = []
    if plain and is_new(plain[-1].phrase):
        last = plain.pop()
        new = [_german_complement(_with_no(last) if clause.negated else last)]
    pronouns = [_german_complement(part) for part in plain if isinstance(part.phrase, Pronoun)]
    known = [_german_complement(part) for part in plain if not isinstance(part.phrase, Pronoun)]
    if clause.quality is not None:
        others += [_DEGREES[clause.quality.degree], clause.quality.adjective.german]
    assert not (clause.negated and manner), "what is denied: that, or how?"
    if clause.negated and not new:
        return [*pronouns, *known, time, "nicht", *others, *scene]
    return [*pronouns, time, *known, *scene, manner, *new, *others]


def _with_no(part: Complement) -> Complement:
    assert isinstance(part.phrase, NounPhrase)
    assert part.phrase.determiner in (A, BARE), "a number is not negated by kein"
    return replace(part, phrase=replace(part.phrase, determiner=NO))


def _english_complement(part: Complement) -> str:
    return f"{part.english} {english_phrase(part.phrase, as_object=True)}".lstrip()


def _german_complement(part: Complement) -> str:
    phrase = german_phrase(part.phrase, part.case)
    if not part.german:
        return phrase
    article, _, rest = phrase.partition(" ")
    merged = _MERGED.get(f"{part.german} {article}") if rest else None
    return f"{merged} {rest}" if merged else f"{part.german} {phrase}"
