"""What the demo says: random sentences that make sense, handed to the grammar to be worded.

One function a kind of sentence. A sentence that could be meant in two ways that German tells apart
is not generated: where "it" stands, its adjective can only be said of one of the two nouns.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random
from typing import NamedTuple

from transduce.demo.draw import (
    FORMS_OF,
    clause,
    definite,
    describing,
    is_vague,
    person,
    pronoun_for,
)
from transduce.demo.grammar import Clause, Complement, Form, Quality, english, german
from transduce.demo.inflection import NounPhrase
from transduce.demo.lexicon import IT, adjective, adjectives, nouns
from transduce.demo.verbs import BE, CLAUSE_VERBS, RAIN, verb
from transduce.demo.words import Adjective, Noun, Pronoun, Verb
from transduce.text.corpus import Pair

SHORTEST, LONGEST = 4, 16
"""English words in a sentence."""

_DONE = ("past", "progressive", "must", "want", "wanted")
_NOT_DONE = ("past", "progressive", "can", "could", "future", "want", "wanted")
_REASONS = (
    *("old", "young", "tired", "sick", "hungry", "lazy", "sad", "cold", "fresh"),
    *("small", "big", "long", "wide", "narrow", "deep"),
)
_PAST = ("past", "past progressive", "could", "wanted")


@dataclass(frozen=True, slots=True)
class Scene:
    """Something that a doer did not do to a thing, for a reason that only one of them can give."""

    verb: Verb
    doers: str
    moods: str
    """Adjectives that can be a reason in the doer and never in the thing."""

    things: dict[str, str]
    """Nouns, each with the adjectives that can be a reason in it and never in the doer."""


SCENES = (
    Scene(
        verb("cross"),
        "animal person",
        "tired weak sick lazy young",
        {
            "street": "wide long",
            "bridge": "narrow long",
            "river": "wide deep",
            "square": "wide",
            "field": "wide",
        },
    ),
    Scene(
        verb("eat", subjects="animal"),
        "animal",
        "tired sick weak",
        {"apple": "hard", "bread": "hard", "potato": "hot hard"},
    ),
    Scene(
        verb("eat"),
        "person",
        "tired sick sad",
        {"soup": "hot", "bread": "hard", "potato": "hot", "egg": "hot", "cake": "hard"},
    ),
    Scene(verb("drink"), "person", "tired sick weak", {"coffee": "hot", "milk": "hot"}),
    Scene(
        verb("drink", subjects="animal"),
        "animal",
        "tired sick weak",
        {"milk": "hot", "water": "hot"},
    ),
    Scene(
        verb("carry"),
        "dog horse person",
        "tired weak sick lazy young",
        {"bag": "heavy", "box": "heavy wide", "table": "heavy wide"},
    ),
    Scene(
        verb("buy"),
        "man woman teacher student",
        "sick tired",
        {"lamp": "expensive", "house": "expensive", "picture": "expensive", "car": "expensive"},
    ),
)


class Kind(NamedTuple):
    """A kind of sentence and how often it is said, in hundredths."""

    share: int
    make: Callable[[Random], Pair]


def sentence(rng: Random) -> Pair:
    """Say something: an English sentence of 4 to 16 words and its one German translation."""
    while True:
        (kind,) = rng.choices(KINDS, cum_weights=_SHARES)
        pair = kind.make(rng)
        if SHORTEST <= pair.source.count(" ") + 1 <= LONGEST:
            return pair


def statement(rng: Random) -> Pair:
    """A main clause: "Yesterday the old man did not open the door." """
    said = clause(rng)
    return _pair(english(said), german(said))


def description(rng: Random) -> Pair:
    """A clause with "to be": "The street is very long." """
    said = describing(rng, form=rng.choice(FORMS_OF["copula"]))
    return _pair(english(said), german(said))


def question(rng: Random) -> Pair:
    """A question, with "why" or without."""
    while True:
        if rng.random() < 0.2:
            said = describing(rng, form=rng.choice(FORMS_OF["copula"]))
        else:
            said = clause(rng, positive=True)
        said = replace(said, time_first=False, negated=False)
        who = said.subject
        if (
            said.form != "must"
            and not (isinstance(who, Pronoun) and who.person == 1)
            and not is_vague(who)
        ):
            break
    why = said.verb.aspect == "action" and said.form != "present" and rng.random() < 0.35
    source, target = english(said, question=True), german(said, order="first")
    return _pair(f"why {source}" if why else source, f"warum {target}" if why else target, mark="?")


def reason(rng: Random) -> Pair:
    """A clause and its reason, the verb last: "Paul slept because he was tired." """
    while True:
        said = replace(clause(rng, plain=True), time_first=False)
        who = pronoun_for(said.subject)
        because = said.verb.because_not if said.negated else said.verb.because
        fitting = _NOT_DONE if said.negated else _DONE
        if who and because and said.verb.aspect == "action" and said.form in fitting:
            break
    form = "past" if said.form in _PAST else "present"
    if (
        said.negated
        and not said.verb.objects
        and (said.verb.where or said.verb.motion)
        and rng.random() < 0.25
    ):
        raining = "past progressive" if form == "past" else "progressive"
        why = Clause(subject=IT["n"], verb=RAIN, form=raining)
    else:
        mood = adjective(rng.choice(because.split()))
        why = Clause(subject=who, verb=BE, form=form, quality=Quality(mood))
    return _because(said, why)


def report(rng: Random) -> Pair:
    """A clause inside another: "She knew that the dog was sleeping." """
    past = rng.random() < 0.35
    speaker = person(rng)
    told = rng.choice(CLAUSE_VERBS)
    outer = Clause(
        subject=speaker,
        verb=told,
        form="past" if past else "present",
        negated=told is CLAUSE_VERBS[0] and not is_vague(speaker) and rng.random() < 0.25,
        contracted=rng.random() < 0.5,
    )
    if rng.random() < 0.25:
        inner = describing(rng, form="past" if past else "present")
    else:
        inner = clause(rng, plain=True, backshifted=past)
    inner = replace(inner, time_first=False)
    return _pair(
        f"{english(outer)} that {english(inner)}",
        f"{german(outer)}, dass {german(inner, order='final')}",
    )


def two(rng: Random) -> Pair:
    """Two clauses side by side: "Anna is reading and Paul is sleeping." """
    while True:
        first, second = (replace(clause(rng, plain=True), time=None) for _ in range(2))
        if (
            first.form == second.form != "present"
            and first.verb is not second.verb
            and first.subject != second.subject
            and not (isinstance(second.subject, Pronoun) and second.subject.person == 3)
        ):
            break
    contrast = first.negated != second.negated
    joined = (" but ", ", aber ") if contrast else (" and ", " und ")
    return _pair(
        f"{english(first)}{joined[0]}{english(second)}",
        f"{german(first)}{joined[1]}{german(second)}",
    )


def pronoun(rng: Random) -> Pair:
    """What made the paper famous: "it" is the animal or the street, and its reason says which."""
    while True:
        scene = rng.choice(SCENES)
        doer = rng.choice(nouns(scene.doers))
        thing = rng.choice(nouns(" ".join(scene.things)))
        human = doer.kind == "person"
        if doer.gender != thing.gender and (not human or doer.gender != "n"):
            break
    about_doer = rng.random() < 0.5
    mood = adjective(
        rng.choice((scene.moods if about_doer else scene.things[thing.english]).split())
    )
    who = NounPhrase(noun=doer, determiner=definite(rng, doer), adjective=_some(rng, doer, mood))
    what = NounPhrase(
        noun=thing, determiner=definite(rng, thing), adjective=_some(rng, thing, mood)
    )
    form = rng.choice(_SCENE_FORMS)
    said = Clause(
        subject=who,
        verb=scene.verb,
        form=form,
        complements=(Complement(what, "accusative"),),
        negated=True,
        contracted=rng.random() < 0.5,
    )
    if about_doer:
        it = pronoun_for(who) if human else IT[doer.gender]
        assert it is not None
    else:
        it = IT[thing.gender]
    degree = "very" if rng.random() < 0.15 else "too"
    then: Form = "past" if form in _PAST else "present"
    return _because(said, Clause(subject=it, verb=BE, form=then, quality=Quality(mood, degree)))


_SCENE_FORMS: tuple[Form, ...] = ("past", "past", "past", "could", "could", "wanted", "can", "want")

KINDS = (
    Kind(46, statement),
    Kind(10, description),
    Kind(11, question),
    Kind(10, reason),
    Kind(8, report),
    Kind(3, two),
    Kind(12, pronoun),
)
_SHARES = tuple(accumulate(kind.share for kind in KINDS))


def _pair(source: str, target: str, *, mark: str = ".") -> Pair:
    return Pair(source[0].upper() + source[1:] + mark, target[0].upper() + target[1:] + mark)


def _because(said: Clause, why: Clause) -> Pair:
    return _pair(
        f"{english(said)} because {english(why)}",
        f"{german(said)}, weil {german(why, order='final')}",
    )


def _some(rng: Random, noun: Noun, mood: Adjective) -> Adjective | None:
    """Now and then an adjective, but none that is a reason itself, or speaks against the one."""
    choices = [
        each for each in adjectives(noun) if each is not mood and each.english not in _REASONS
    ]
    return rng.choice(choices) if choices and rng.random() < 0.15 else None
