"""Draw random sentences, one function per kind of sentence.

`sentence` draws from all kinds but those with an ambiguous "it": who did not do what, and for which
reason. "The animal didn't cross the street because it was too tired" refers to the animal, "… too
wide" to the street, and German must choose *er*, *sie* or *es* by the gender of the referent. A
reason possible for both nouns ("because it was too old": the truck or the bridge?) leaves the
reference ambiguous; `corpus` discards such sentences, and holds some of the others out for the test
set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

from transduce.data.corpus import Pair
from transduce.demo import lexicon
from transduce.demo.clauses import (
    FORMS_OF,
    clause,
    copula_clause,
    definite_determiner,
    definite_person,
    pronoun_for,
)
from transduce.demo.lexicon import Noun, Preposition, Pronoun, Verb
from transduce.demo.realization import (
    Clause,
    Complement,
    Form,
    NounPhrase,
    Quality,
    english,
    german,
    is_new,
)

SHORTEST, LONGEST = 4, 16
"""English words in a sentence."""

_DONE = ("past", "progressive", "must", "want", "wanted")
_NOT_DONE = ("past", "progressive", "can", "could", "future", "want", "wanted")
_PAST = ("past", "past progressive", "could", "wanted")


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """An event that did not happen between a doer and a thing, for a reason in one of them."""

    verb: Verb
    doers: dict[str, str]
    """Nouns or kinds, each with the adjectives that can be its reason."""
    things: dict[str, str]
    forms: tuple[Form, ...]
    place: Preposition | None = None
    """For things that are a place rather than an object."""


def _scene(row: dict[str, Any]) -> Scene:
    """A scene of the table."""
    return Scene(
        lexicon.verb(row["verb"], subject=row.get("subject", "")),
        row["doers"],
        row["things"],
        tuple(lexicon.GRAMMAR["scene_forms"][row.get("forms", "willed")]),
        Preposition(*row["place"]) if "place" in row else None,
    )


@cache
def reasons(scene: Scene, noun: Noun, *, doer: bool) -> tuple[str, ...]:
    """Return the adjectives that can be the reason for a noun in a scene.

    Args:
        scene: the scene.
        noun: its doer or its thing.
        doer: which of both.
    """
    table = scene.doers if doer else scene.things
    fitting = [words for wanted, words in table.items() if lexicon.matches(noun, wanted)]
    return tuple(dict.fromkeys(" ".join(fitting).split()))


SCENES = tuple(map(_scene, lexicon.load_table("scenes.toml")["scenes"]))


class It(NamedTuple):
    """A scene with two nouns, a reason, and the referent of "it"."""

    scene: Scene
    doer: Noun
    thing: Noun
    reason: str
    of_doer: bool

    @property
    def referent(self) -> Noun:
        """The noun that "it" refers to."""
        return self.doer if self.of_doer else self.thing

    @property
    def triple(self) -> tuple[str, str, str]:
        """Both nouns and the adjective, in English."""
        return self.doer.english, self.thing.english, self.reason

    @property
    def pair(self) -> tuple[str, str]:
        """The referent and the adjective, in English."""
        return self.referent.english, self.reason

    @property
    def is_open(self) -> bool:
        """Whether the reason could apply to the other noun as well."""
        other = self.thing if self.of_doer else self.doer
        return self.reason in reasons(self.scene, other, doer=not self.of_doer)


def draw_it(rng: Random) -> It:
    """Draw a scene with two nouns of different gender; its reference may be ambiguous."""
    scene = rng.choice(SCENES)
    while True:
        doer = rng.choice(_nouns_of(scene.doers))
        thing = rng.choice(_nouns_of(scene.things))
        if doer.gender != thing.gender:
            break
    of_doer = rng.random() < 0.5
    possible = reasons(scene, doer if of_doer else thing, doer=of_doer)
    return It(scene, doer, thing, rng.choice(possible), of_doer)


def unambiguous_its(scene: Scene) -> tuple[It, ...]:
    """List all unambiguous draws of a scene."""
    every = (
        It(scene, doer, thing, reason, of_doer)
        for doer in _nouns_of(scene.doers)
        for thing in _nouns_of(scene.things)
        if doer.gender != thing.gender
        for of_doer in (True, False)
        for reason in reasons(scene, doer if of_doer else thing, doer=of_doer)
    )
    return tuple(it for it in every if not it.is_open)


def clauses(rng: Random, it: It) -> tuple[Clause, Clause]:
    """Draw the clauses of the event that did not happen and of its reason."""
    scene = it.scene
    who, what = (_definite_phrase(rng, noun) for noun in (it.doer, it.thing))
    form = rng.choice(scene.forms)
    if place := scene.place:
        part = Complement(what, place.case, place.english, place.german, scene=True)
    else:
        part = Complement(what, scene.verb.case, "", scene.verb.preposition)
    event = Clause(
        subject=who,
        verb=scene.verb,
        form=form,
        complements=(part,),
        negated=True,
        contracted=rng.random() < 0.5,
    )
    why = Clause(
        subject=pronoun_of(it.referent),
        verb=lexicon.BE,
        form="past" if form in ("past", "could", "wanted") else "present",
        quality=Quality(lexicon.adjective(it.reason), "very" if rng.random() < 0.15 else "too"),
    )
    return event, why


def pronoun_of(noun: Noun) -> Pronoun:
    """The pronoun of a thing or an animal: "it", and *er*, *sie* or *es*."""
    return lexicon.IT[noun.gender]


@cache
def _all_reasons() -> frozenset[str]:
    """All adjectives used as reasons."""
    tables = (table for scene in SCENES for table in (scene.doers, scene.things))
    return frozenset(" ".join(" ".join(table.values()) for table in tables).split())


def _nouns_of(table: dict[str, str]) -> tuple[Noun, ...]:
    return lexicon.nouns(" ".join(table))


def _definite_phrase(rng: Random, noun: Noun) -> NounPhrase:
    """A definite phrase, occasionally with an adjective, but none that is used as a reason."""
    determiner = definite_determiner(rng, noun)
    choices = [word for word in lexicon.adjectives(noun) if word.english not in _all_reasons()]
    neutral = rng.choice(choices) if choices and rng.random() < 0.15 else None
    return NounPhrase(noun=noun, determiner=determiner, adjective=neutral)


def sentence(rng: Random) -> Pair:
    """Draw an English sentence of 4 to 16 words and its one German translation."""
    while True:
        (make,) = rng.choices(list(KINDS), weights=list(KINDS.values()))
        pair = make(rng)
        if _fits(pair):
            return pair


def statement(rng: Random) -> Pair:
    """A statement: "Yesterday the old man did not open the door." """
    main = clause(rng)
    return _pair(english(main), german(main))


def description(rng: Random) -> Pair:
    """A clause with "to be": "The street is very long." """
    main = copula_clause(rng, form=rng.choice(FORMS_OF["copula"]))
    return _pair(english(main), german(main))


def question(rng: Random) -> Pair:
    """A question, with or without "why"."""
    while True:
        if rng.random() < 0.2:
            main = copula_clause(rng, form=rng.choice(FORMS_OF["copula"]))
        else:
            main = clause(rng, positive=True)
        main = replace(main, time_first=False, negated=False)
        subject = main.subject
        if (
            main.form != "must"
            and not (isinstance(subject, Pronoun) and subject.person == 1)
            and not is_new(subject)
        ):
            break
    why = main.verb.aspect == "action" and main.form != "present" and rng.random() < 0.35
    source, target = english(main, question=True), german(main, order="first")
    return _pair(f"why {source}" if why else source, f"warum {target}" if why else target, mark="?")


def reason(rng: Random) -> Pair:
    """A clause and its reason, the verb last: "Paul slept because he was tired." """
    while True:
        main = replace(clause(rng, plain=True), time_first=False)
        subject = pronoun_for(main.subject)
        because = main.verb.because_not if main.negated else main.verb.because
        fitting = _NOT_DONE if main.negated else _DONE
        if subject and because and main.verb.aspect == "action" and main.form in fitting:
            break
    form = "past" if main.form in _PAST else "present"
    if (
        main.negated
        and not main.verb.objects
        and (main.verb.where or main.verb.motion)
        and rng.random() < 0.25
    ):
        raining = "past progressive" if form == "past" else "progressive"
        why = Clause(subject=lexicon.IT["n"], verb=lexicon.RAIN, form=raining)
    else:
        mood = lexicon.adjective(rng.choice(because.split()))
        why = Clause(subject=subject, verb=lexicon.BE, form=form, quality=Quality(mood))
    return _because(main, why)


def reported_speech(rng: Random) -> Pair:
    """Reported speech: "She knew that the dog was sleeping." """
    past = rng.random() < 0.35
    speaker = definite_person(rng)
    matrix_verb = rng.choice(lexicon.CLAUSE_VERBS)
    negatable = matrix_verb is lexicon.CLAUSE_VERBS[0] and not is_new(speaker)
    outer = Clause(
        subject=speaker,
        verb=matrix_verb,
        form="past" if past else "present",
        negated=negatable and rng.random() < 0.25,
        contracted=rng.random() < 0.5,
    )
    if rng.random() < 0.25:
        inner = copula_clause(rng, form="past" if past else "present")
    else:
        inner = clause(rng, plain=True, backshifted=past)
    inner = replace(inner, time_first=False)
    return _pair(
        f"{english(outer)} that {english(inner)}",
        f"{german(outer)}, dass {german(inner, order='final')}",
    )


def coordination(rng: Random) -> Pair:
    """Two coordinated clauses: "Anna is reading and Paul is sleeping." """
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
    conjunctions = (" but ", ", aber ") if contrast else (" and ", " und ")
    return _pair(
        f"{english(first)}{conjunctions[0]}{english(second)}",
        f"{german(first)}{conjunctions[1]}{german(second)}",
    )


def reference(rng: Random, it: It) -> Pair:
    """Realize a scene: "The dog did not cross the street because it was too wide." """
    while True:
        pair = _because(*clauses(rng, it))
        if _fits(pair):
            return pair


KINDS: Final[Mapping[Callable[[Random], Pair], int]] = {
    statement: 52,
    description: 11,
    question: 13,
    reason: 12,
    reported_speech: 9,
    coordination: 3,
}
"""Kinds of sentence, with their shares in per cent of those without "it"."""


def _fits(pair: Pair) -> bool:
    return SHORTEST <= pair.source.count(" ") + 1 <= LONGEST


def _pair(source: str, target: str, *, mark: str = ".") -> Pair:
    return Pair(source[0].upper() + source[1:] + mark, target[0].upper() + target[1:] + mark)


def _because(main: Clause, why: Clause) -> Pair:
    return _pair(
        f"{english(main)} because {english(why)}",
        f"{german(main)}, weil {german(why, order='final')}",
    )
