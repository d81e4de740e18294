"""What made the paper famous: "it" is the animal or the street, and its reason says which.

"The animal didn't cross the street because it was too tired" speaks of the animal, "… too wide" of
the street. German must know: *er*, *sie* or *es* is chosen by the gender of what *it* stands for.
Where a reason can be found in both ("because it was too old": the truck or the bridge?) the
reference is open, and nothing is said.
"""

from functools import cache
from random import Random
from typing import NamedTuple

from transduce.demo.grammar.draw import definite
from transduce.demo.grammar.inflection import NounPhrase
from transduce.demo.grammar.lexicon import IT, adjective, adjectives
from transduce.demo.grammar.nouns import nouns
from transduce.demo.grammar.realization import Clause, Complement, Quality
from transduce.demo.grammar.scenes import SCENES, Scene
from transduce.demo.grammar.verbs import BE
from transduce.demo.grammar.words import Adjective, Noun, Pronoun


class It(NamedTuple):
    """A scene with its parts chosen, and which of the two is meant by "it"."""

    scene: Scene
    doer: Noun
    thing: Noun
    reason: str
    of_doer: bool

    @property
    def referent(self) -> Noun:
        """What "it" stands for."""
        return self.doer if self.of_doer else self.thing

    @property
    def triple(self) -> tuple[str, str, str]:
        """Both nouns and the adjective, in English."""
        return self.doer.english, self.thing.english, self.reason

    @property
    def pair(self) -> tuple[str, str]:
        """The noun that is meant and the adjective, in English."""
        return self.referent.english, self.reason

    @property
    def is_open(self) -> bool:
        """Whether the reason could be found in the other noun as well."""
        other = self.thing if self.of_doer else self.doer
        return self.reason in self.scene.reasons(other, doer=not self.of_doer)


def draw_it(rng: Random) -> It:
    """A scene with two nouns of different gender; its reference may be open."""
    scene = rng.choice(SCENES)
    while True:
        doer = rng.choice(_named(scene.doers))
        thing = rng.choice(_named(scene.things))
        if doer.gender != thing.gender:
            break
    of_doer = rng.random() < 0.5
    reasons = scene.reasons(doer if of_doer else thing, doer=of_doer)
    return It(scene, doer, thing, rng.choice(reasons), of_doer)


def its_of(scene: Scene) -> tuple[It, ...]:
    """Everything that `draw_it` can draw of a scene and that is not open."""
    every = (
        It(scene, doer, thing, reason, of_doer)
        for doer in _named(scene.doers)
        for thing in _named(scene.things)
        if doer.gender != thing.gender
        for of_doer in (True, False)
        for reason in scene.reasons(doer if of_doer else thing, doer=of_doer)
    )
    return tuple(it for it in every if not it.is_open)


def clauses(rng: Random, it: It) -> tuple[Clause, Clause]:
    """What did not happen, and why, in one of many ways to say it."""
    scene, mood = it.scene, adjective(it.reason)
    who, what = (
        NounPhrase(noun=noun, determiner=definite(rng, noun), adjective=_some(rng, noun))
        for noun in (it.doer, it.thing)
    )
    form = rng.choice(scene.forms)
    place = scene.place
    if place is None:
        part = Complement(what, scene.verb.case, "", scene.verb.preposition)
    else:
        part = Complement(what, place.case, place.english, place.german, scene=True)
    said = Clause(
        subject=who,
        verb=scene.verb,
        form=form,
        complements=(part,),
        negated=True,
        contracted=rng.random() < 0.5,
    )
    why = Clause(
        subject=pronoun_of(it.referent),
        verb=BE,
        form="past" if form in ("past", "could", "wanted") else "present",
        quality=Quality(mood, "very" if rng.random() < 0.15 else "too"),
    )
    return said, why


def pronoun_of(noun: Noun) -> Pronoun:
    """What stands for a thing or an animal: "it", and *er*, *sie* or *es*."""
    return IT[noun.gender]


@cache
def _reasons() -> frozenset[str]:
    """Every adjective that is a reason anywhere."""
    tables = (table for scene in SCENES for table in (scene.doers, scene.things))
    return frozenset(" ".join(" ".join(table.values()) for table in tables).split())


def _named(table: dict[str, str]) -> tuple[Noun, ...]:
    return nouns(" ".join(table))


def _some(rng: Random, noun: Noun) -> Adjective | None:
    """Now and then an adjective, but none that is a reason, or could speak against one."""
    choices = [each for each in adjectives(noun) if each.english not in _reasons()]
    return rng.choice(choices) if choices and rng.random() < 0.15 else None
