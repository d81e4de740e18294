"""What is known of a word: the classes that the tables of `lexicon` and `verbs` are made of.

A word is itself and equals no other, even one that looks the same: what animals do when they "eat"
is *fressen*.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]
Aspect = Literal["action", "event", "perception", "state", "copula"]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun of both languages; without a plural it is a mass noun."""

    english: str
    english_plural: str
    gender: Gender
    german: str
    german_plural: str
    kind: str
    weak: str = ""
    """The accusative and dative singular of the few nouns that have one of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A person by name: no article, no endings."""

    text: str
    gender: Gender


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective, and the kinds or nouns that it may describe."""

    english: str
    german: str
    says_of: str = ""
    """Kinds and English nouns in whose phrases it may stand; empty: only after "to be"."""

    stem: str = ""
    """What endings are put on, where it is not the word itself (teuer, teur-)."""


@dataclass(frozen=True, slots=True, eq=False)
class Conjugation:
    """A German verb: present (ich du er wir), first person of the Präteritum, participle."""

    present: str
    past: str
    participle: str
    infinitive: str = ""
    """Where it differs from the form of *wir*: only *sein*."""


def weak(stem: str, *, prefix: str = "", participle: str = "") -> Conjugation:
    """The conjugation of a verb that keeps its vowel: the stem is all there is to know.

    >>> weak("mach", prefix="auf")
    Conjugation(present='mache machst macht machen', past='machte', participle='aufgemacht', \
infinitive='')
    >>> weak("zeichn").present, weak("zeichn").past, weak("tanz").present
    ('zeichne zeichnest zeichnet zeichnen', 'zeichnete', 'tanze tanzt tanzt tanzen')

    Args:
        stem: the infinitive without -en.
        prefix: one that separates.
        participle: where it is not ge- and -t: *repariert*, *verkauft*.
    """
    e = "e" if stem.endswith(("t", "d", "fn", "gn", "chn")) else ""
    du = "" if stem.endswith(("s", "ß", "z", "x")) else "s"
    return Conjugation(
        present=f"{stem}e {stem}{e}{du}t {stem}{e}t {stem}en",
        past=f"{stem}{e}te",
        participle=participle or f"{prefix}ge{stem}{e}t",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb of both languages with its complements."""

    english: str
    """Base, third person, past, participle, -ing."""

    german: Conjugation
    _: KW_ONLY
    particle: str = ""
    """What follows every English form: *up*, *for*."""

    prefix: str = ""
    """A prefix that separates in main clauses; the participle above already holds it."""

    auxiliary: Literal["haben", "sein"] = "haben"
    aspect: Aspect = "action"
    subjects: str = "person kin"
    objects: str = ""
    case: Case = "accusative"
    preposition: str = ""
    """The German preposition of the object (warten *auf*)."""

    receivers: str = ""
    """Whom a thing is given: a dative before the object."""

    where: str = ""
    """Nouns in, on or near which it may happen."""

    motion: bool = False
    """Whether it always goes somewhere: into, through, across."""

    needs_place: bool = False
    """Whether it is no sentence without the place."""

    beside: Literal["", "with", "for"] = ""
    """Whether it may be done with someone, or for someone."""

    manner: str = ""
    """The adverbs that say how it may be done."""

    pronouns: bool = False
    """Whether the object may be a personal pronoun."""

    indefinite: Literal["no", "one", "any"] = "any"
    """Whether the object may be "a door", or even "doors" and "two doors"."""

    because: str = ""
    """States that are a reason for doing it."""

    because_not: str = "tired sick lazy"
    """States that are a reason for not doing it."""

    habit: bool = True
    """Whether one does it to the same thing every day."""


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """A preposition of place in both languages, with its case and the nouns it goes with."""

    english: str
    german: str
    case: Case
    nouns: str


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal pronoun: subject and object in English, three cases in German."""

    subject: str
    object: str
    nominative: str
    accusative: str
    dative: str
    person: Literal[1, 2, 3]
    plural: bool


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    """An article or what stands in its place; the pattern says how it and adjectives decline."""

    english: str
    english_plural: str
    german: str
    pattern: Literal["der", "dieser", "ein", "bare"]


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """An adverb of time."""

    english: str
    german: str


@dataclass(frozen=True, slots=True, eq=False)
class Manner:
    """An adverb that says how."""

    english: str
    german: str
