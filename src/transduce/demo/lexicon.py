"""The words of the demo: classes for parts of speech, filled from `words.toml`.

A noun has a kind; verbs, adjectives and prepositions name the kinds or nouns they go with. Words
compare by identity, since equal spellings may differ: animals that "eat" are *fressen*.
"""

import tomllib
from dataclasses import KW_ONLY, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]
Aspect = Literal["action", "event", "perception", "state", "copula"]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages; without a plural it is a mass noun."""

    english: str
    english_plural: str
    gender: Gender
    german: str
    german_plural: str
    kind: str
    weak: str = ""
    """Accusative and dative singular, if different from the nominative."""


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A person's name: no article, no endings."""

    text: str
    gender: Gender


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective in both languages."""

    english: str
    german: str
    nouns: str = ""
    """Kinds and English nouns that it may modify; empty: only after "to be"."""
    stem: str = ""
    """Inflectional stem, if different from the word (teuer, teur-)."""


@dataclass(frozen=True, slots=True, eq=False)
class Conjugation:
    """A German verb: present (ich du er wir), first person of the Präteritum, participle."""

    present: str
    past: str
    participle: str
    infinitive: str = ""
    """If different from the form of *wir*: only *sein*."""


def weak(stem: str, prefix: str = "") -> Conjugation:
    """Conjugate a weak verb from its stem, the infinitive without -en, and its separable prefix.

    >>> weak("mach", "auf")
    Conjugation(present='mache machst macht machen', past='machte', participle='aufgemacht', \
infinitive='')
    >>> weak("zeichn").present, weak("tanz").present, weak("verkauf").participle
    ('zeichne zeichnest zeichnet zeichnen', 'tanze tanzt tanzt tanzen', 'verkauft')
    """
    e = "e" if stem.endswith(("t", "d", "fn", "gn", "chn")) else ""
    s = "" if stem.endswith(("s", "ß", "z", "x")) else "s"
    inseparable = stem.startswith(("be", "er", "ver", "über")) or stem.endswith("ier")
    return Conjugation(
        present=f"{stem}e {stem}{e}{s}t {stem}{e}t {stem}en",
        past=f"{stem}{e}te",
        participle=f"{prefix}{'' if inseparable else 'ge'}{stem}{e}t",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages with its complements."""

    english: str
    """Base, third person, past, participle, -ing."""
    german: Conjugation
    _: KW_ONLY
    particle: str = ""
    """Particle after every English form: *up*, *for*."""
    prefix: str = ""
    """Separable prefix; the participle already includes it."""
    auxiliary: Literal["haben", "sein"] = "haben"
    aspect: Aspect = "action"
    subjects: str = "person kin"
    objects: str = ""
    case: Case = "accusative"
    preposition: str = ""
    """The German preposition of the object (warten *auf*)."""
    receivers: str = ""
    """Recipients, a dative before the object."""
    where: str = ""
    """Nouns in, on or near which it may take place."""
    motion: bool = False
    """Whether it needs a direction: into, through, across."""
    needs_place: bool = False
    """Whether the place is obligatory."""
    partner: Literal["", "with", "for"] = ""
    """Whether it may be done with or for someone."""
    manner: str = ""
    """Fitting adverbs of manner."""
    pronouns: bool = False
    """Whether the object may be a personal pronoun."""
    indefinite: Literal["no", "one", "any"] = "any"
    """Whether the object may be "a door" (one), or also "doors" and "two doors" (any)."""
    because: str = ""
    """Adjectives that are a reason for doing it."""
    because_not: str = "tired sick lazy"
    """Adjectives that are a reason for not doing it."""
    habit: bool = True
    """Whether it can be a daily habit."""


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """A preposition of place in both languages, with its case and fitting nouns."""

    english: str
    german: str
    case: Case
    nouns: str = ""


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
    """A determiner; the pattern selects its declension and that of adjectives."""

    english: str
    english_plural: str
    german: str
    pattern: Literal["der", "dieser", "ein", "bare"]


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverb of time or manner in both languages."""

    english: str
    german: str


def load_table(name: str) -> dict[str, Any]:
    """Parse one of the package's TOML files."""
    return tomllib.loads((files("transduce.demo") / name).read_text(encoding="utf-8"))


def _verb(*, german: str | list[str], **row: Any) -> Verb:
    """A verb of the table, whose German is a weak stem or the forms of a strong verb."""
    weak_verb = isinstance(german, str)
    forms = weak(german, row.get("prefix", "")) if weak_verb else Conjugation(*german)
    return Verb(german=forms, **row)


_WORDS = load_table("words.toml")
GRAMMAR = load_table("grammar.toml")
"""Forms and endings, and which words fit where."""

NOUNS = tuple(Noun(*row) for row in _WORDS["nouns"])
NAMES = tuple(Name(*row) for row in _WORDS["names"])
ADJECTIVES = tuple(Adjective(*row) for row in _WORDS["adjectives"])
VERBS = tuple(_verb(**row) for row in _WORDS["verbs"])

PRONOUNS = tuple(Pronoun(*row) for row in _WORDS["pronouns"])
IT = dict(zip("mfn", (Pronoun(*row) for row in _WORDS["it"]), strict=True))

THE, THIS, A, NO, BARE = (Determiner(*row) for row in _WORDS["determiners"])
POSSESSIVES = tuple(Determiner(*row) for row in _WORDS["possessives"])
NUMBERS = tuple(Determiner(*row) for row in _WORDS["numbers"])

WHERE = tuple(Preposition(*row) for row in _WORDS["where"])
WHITHER = tuple(Preposition(*row) for row in _WORDS["whither"])
WITH = Preposition("with", "mit", "dative", "person kin")
FOR = Preposition("for", "für", "accusative", "person kin")

TODAY = Adverb("today", "heute")
NOW = Adverb("now", "jetzt")
YESTERDAY = tuple(Adverb(*row) for row in _WORDS["yesterday"])
LATER = (TODAY, *(Adverb(*row) for row in _WORDS["later"]))
HABITS = tuple(Adverb(*row) for row in _WORDS["habits"])
MANNERS = {row[0]: Adverb(*row) for row in _WORDS["manners"]}

AUXILIARIES = {name: Conjugation(*forms) for name, forms in _WORDS["auxiliaries"].items()}
"""By the infinitive."""
HABEN, SEIN = AUXILIARIES["haben"], AUXILIARIES["sein"]

BE = Verb("be is was been being", SEIN, auxiliary="sein", aspect="copula")
RAIN = Verb("rain rains rained rained raining", weak("regn"))
CLAUSE_VERBS = tuple(_verb(**row) for row in _WORDS["clause_verbs"])


@cache
def matches(noun: Noun, wanted: str) -> bool:
    """Whether a noun or its kind is among these words."""
    words = wanted.split()
    return noun.english in words or noun.kind in words


@cache
def nouns(wanted: str) -> tuple[Noun, ...]:
    """All nouns among these words or of these kinds.

    >>> [noun.german for noun in nouns("height bus")]
    ['Bus', 'Berg', 'Baum', 'Dach']
    """
    known = {noun.kind for noun in NOUNS} | {noun.english for noun in NOUNS}
    assert known.issuperset(wanted.split()), f"no noun and no kind: {set(wanted.split()) - known}"
    return tuple(noun for noun in NOUNS if matches(noun, wanted))


@cache
def adjectives(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that may modify a noun."""
    return tuple(adjective for adjective in ADJECTIVES if matches(noun, adjective.nouns))


@cache
def adjective(english: str) -> Adjective:
    """Look up an adjective by its English word."""
    return next(adjective for adjective in ADJECTIVES if adjective.english == english)


@cache
def verb(english: str, *, subject: str = "") -> Verb:
    """The first verb with this English base form and particle that such a subject does.

    >>> verb("look for").german.past, verb("eat", subject="beast").german.past
    ('suchte', 'fraß')
    """
    return next(
        verb
        for verb in VERBS
        if f"{verb.english.split()[0]} {verb.particle}".strip() == english
        and subject in ("", *verb.subjects.split())
    )
