"""Scenes with an ambiguous "it": who did not do what, and for which reason.

"The animal didn't cross the street because it was too tired" refers to the animal, "… too wide" to
the street, and German must choose *er*, *sie* or *es* by the gender of the referent. A reason
possible for both nouns ("because it was too old": the truck or the bridge?) leaves the reference
ambiguous, and the sentence is not used.
"""

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import NamedTuple

from transduce.demo.grammar.clauses import definite_determiner
from transduce.demo.grammar.lexicon import (
    IT,
    Adjective,
    Noun,
    Preposition,
    Pronoun,
    Verb,
    adjective,
    adjectives,
    matches,
    nouns,
)
from transduce.demo.grammar.realization import Clause, Complement, Form, NounPhrase, Quality
from transduce.demo.grammar.verbs import BE, verb

_Forms = tuple[Form, ...]
# Forms for what an animal would not do, for what it cannot do, and for what happens to a thing.
WILLED: _Forms = ("past", "past", "past", "could", "could", "wanted", "can", "want", "future")
ABLE: _Forms = ("past", "past", "past", "could", "could", "can", "future")
BEFALLS: _Forms = ("past", "past", "past", "present", "future")

_REST = "tired sick weak lazy"
_STRONG = "horse donkey camel elephant pony cow"
_HUNTERS = "dog fox wolf lion bear cat snake owl goose animal pig pony chicken"
_CLIMBERS = "cat monkey bear goat mouse snake fox lamb rabbit animal chicken calf"
_JUMPERS = (
    "dog wolf fox lion frog monkey donkey cat goat cow goose mouse "
    "horse pig rabbit calf pony lamb animal"
)
_SLEEPERS = "dog cat rabbit mouse monkey goose chicken lamb pig fox duck goat"
_TRAFFIC = "car truck tractor bus taxi carriage tram"


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """An event that did not happen between a doer and a thing, for a reason in one of them."""

    verb: Verb
    doers: dict[str, str]
    """Nouns or kinds, each with the adjectives that can be its reason."""

    things: dict[str, str]
    forms: _Forms = WILLED
    place: Preposition | None = None
    """For things that are a place rather than an object."""

    def reasons(self, noun: Noun, *, doer: bool) -> tuple[str, ...]:
        """The adjectives that can be the reason for this noun."""
        return _reasons(self, noun, doer)


@cache
def _reasons(scene: Scene, noun: Noun, doer: bool, /) -> tuple[str, ...]:
    table = scene.doers if doer else scene.things
    fitting = [reasons for wanted, reasons in table.items() if matches(noun, wanted)]
    return tuple(dict.fromkeys(" ".join(fitting).split()))


SCENES = (
    Scene(
        verb("cross"),
        {"beast": f"{_REST} slow young old", "mouse frog turtle duck chicken lamb": "small"},
        {
            "street": "wide loud",
            "bridge": "narrow high long old",
            "river stream": "wide deep cold",
            "square": "wide loud",
            "field meadow": "wide wet",
        },
    ),
    Scene(
        verb("cross"),
        {_TRAFFIC: "heavy slow old"},
        {
            "bridge": "narrow old",
            "meadow field": "wet soft",
            "river stream": "deep wide",
            "street": "full narrow",
            "square": "full",
        },
        forms=ABLE,
    ),
    Scene(
        verb("eat", subject="beast"),
        {"beast": f"{_REST} old"},
        {
            "apple pear": "hard sour",
            "bread": "hard dry old",
            "potato": "hot hard",
            "carrot nut": "hard dirty",
            "grass": "wet dry dirty",
            "cheese": "hard salty old",
        },
    ),
    Scene(
        verb("eat", subject="beast"),
        {"dog wolf fox lion bear cat owl snake pig animal": f"{_REST} old"},
        {"meat": "hot salty old", "sausage": "hot salty big", "cheese": "salty old", "egg": "hot"},
    ),
    Scene(
        verb("drink", subject="beast"),
        {"beast": f"{_REST} shy old"},
        {"milk": "hot cold sour old", "water": "hot cold dirty salty"},
    ),
    Scene(
        verb("pull"),
        {f"{_STRONG} dog goat": f"{_REST} young old"},
        {"carriage": "heavy big old", "sled boat box car": "heavy big"},
    ),
    Scene(
        verb("pull"),
        {"tractor truck car taxi": "weak small light old"},
        {"boat ship carriage": "heavy big old", "ferry sled": "heavy big"},
        forms=ABLE,
    ),
    Scene(
        verb("climb"),
        {_CLIMBERS: f"{_REST} young fat heavy", "mouse lamb chicken rabbit": "small"},
        {
            "tree": "high thin wet",
            "wall tower": "high wet",
            "mountain": "high steep",
            "roof": "high steep wet",
            "fence": "high thin",
        },
    ),
    Scene(
        verb("jump over"),
        {_JUMPERS: f"{_REST} slow young fat heavy", "frog lamb rabbit cat": "small"},
        {
            "wall hedge": "high thick",
            "fence": "high",
            "ditch stream": "wide deep",
            "puddle hole": "wide deep",
            "bench box": "high wide",
        },
    ),
    Scene(
        verb("catch"),
        {_HUNTERS: f"{_REST} slow old fat"},
        {"mouse frog rabbit bird chicken": "fast clever"},
        forms=ABLE,
    ),
    Scene(
        verb("chase"),
        {f"{_HUNTERS} goat pony donkey": f"{_REST} slow old shy"},
        {"mouse rabbit bird chicken frog cat fox": "fast"},
    ),
    Scene(
        verb("follow"),
        {"beast": f"{_REST} slow shy old young"},
        {"vehicle": "fast loud", "horse lion wolf": "fast"},
    ),
    Scene(
        verb("hear"),
        {"beast": "old tired sick"},
        {"radio clock bell": "quiet", "bicycle tram": "quiet"},
        forms=ABLE,
    ),
    Scene(
        verb("see"),
        {"beast": "old tired sick"},
        {"mouse frog": "small fast", "nut coin key ball bone": "small"},
        forms=ABLE,
    ),
    Scene(
        verb("reach"),
        {"beast": "small tired weak slow lazy"},
        {"roof window shelf wall tower mountain": "high"},
        forms=ABLE,
    ),
    Scene(
        verb("enter"),
        {
            "beast": "shy sick tired",
            f"{_STRONG} bear giraffe": "big fat",
        },
        {
            "cave cellar": "dark low cold wet",
            "barn stable tent": "dark small low",
            "kitchen room": "hot loud dirty",
            "office house hotel": "loud clean",
        },
    ),
    Scene(
        verb("sleep"),
        {
            _SLEEPERS: "hungry thirsty sick",
            "dog pig goat monkey goose fox": "big fat",
        },
        {
            "basket": "small hard wet",
            "bed": "soft hard warm small",
            "box": "small hard",
            "barn stable": "cold loud dark",
            "kitchen": "loud warm dirty",
            "tent cellar": "cold wet",
        },
        place=Preposition("in", "in", "dative", ""),
    ),
    Scene(
        verb("fly over"),
        {"bird duck goose owl chicken": f"{_REST} young fat heavy small old"},
        {
            "mountain tower castle": "high",
            "wall hedge fence": "high",
            "lake forest city": "big",
            "river": "wide",
        },
    ),
    Scene(
        verb("swim through"),
        {"beast": f"{_REST} slow young heavy"},
        {"river stream": "wide deep cold", "lake": "big deep cold"},
    ),
    Scene(
        verb("drive through"),
        {f"{_TRAFFIC} train": "wide big", "truck bus tractor train carriage": "high heavy"},
        {"tunnel gate": "narrow small low", "street": "narrow full"},
        forms=ABLE,
    ),
    Scene(
        verb("fit into"),
        {"furniture": "big wide long", "lamp computer mirror carpet": "big wide"},
        {"car": "small full", "kitchen room cellar": "small full"},
        forms=BEFALLS,
    ),
    Scene(
        verb("fit into"),
        {
            "clothes": "big thick",
            "bottle plate book picture": "big",
            "radio clock": "big wide",
        },
        {"bag suitcase basket": "small full", "box cupboard": "small full"},
        forms=BEFALLS,
    ),
    Scene(
        verb("cover"),
        {"blanket towel": "short small narrow thin", "carpet coat": "short small narrow"},
        {"table bed bench": "long big wide", "sofa window hole": "big wide"},
        forms=BEFALLS,
    ),
    Scene(
        verb("break"),
        {"ball apple potato nut": "small light soft", "stone bone": "small light"},
        {"window mirror bottle plate": "thick hard", "glass cup": "thick"},
        forms=BEFALLS,
    ),
    Scene(
        verb("carry"),
        {f"{_STRONG} dog monkey bear": f"{_REST} young old"},
        {
            "box suitcase basket": "heavy full",
            "bag": "heavy full",
            "table carpet bed": "heavy wide",
        },
    ),
    Scene(
        verb("push"),
        {f"{_STRONG} bear pig goat": f"{_REST} young old"},
        {"car boat sled": "heavy big", "box bed cupboard": "heavy wide"},
    ),
    Scene(
        verb("steal"),
        {"fox monkey mouse goose cat dog bear rabbit animal pig": f"{_REST} slow fat shy"},
        {"cheese sausage cake": "big hard", "egg potato soup": "hot", "bread": "hard dry"},
    ),
)


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
        return self.reason in self.scene.reasons(other, doer=not self.of_doer)


def draw_it(rng: Random) -> It:
    """Draw a scene with two nouns of different gender; its reference may be ambiguous."""
    scene = rng.choice(SCENES)
    while True:
        doer = rng.choice(_nouns_of(scene.doers))
        thing = rng.choice(_nouns_of(scene.things))
        if doer.gender != thing.gender:
            break
    of_doer = rng.random() < 0.5
    reasons = scene.reasons(doer if of_doer else thing, doer=of_doer)
    return It(scene, doer, thing, rng.choice(reasons), of_doer)


def unambiguous_its(scene: Scene) -> tuple[It, ...]:
    """List all unambiguous draws of a scene."""
    every = (
        It(scene, doer, thing, reason, of_doer)
        for doer in _nouns_of(scene.doers)
        for thing in _nouns_of(scene.things)
        if doer.gender != thing.gender
        for of_doer in (True, False)
        for reason in scene.reasons(doer if of_doer else thing, doer=of_doer)
    )
    return tuple(it for it in every if not it.is_open)


def clauses(rng: Random, it: It) -> tuple[Clause, Clause]:
    """Draw the clauses of the event that did not happen and of its reason."""
    scene, mood = it.scene, adjective(it.reason)
    who, what = (
        NounPhrase(
            noun=noun,
            determiner=definite_determiner(rng, noun),
            adjective=_neutral_adjective(rng, noun),
        )
        for noun in (it.doer, it.thing)
    )
    form = rng.choice(scene.forms)
    place = scene.place
    if place is None:
        part = Complement(what, scene.verb.case, "", scene.verb.preposition)
    else:
        part = Complement(what, place.case, place.english, place.german, scene=True)
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
        verb=BE,
        form="past" if form in ("past", "could", "wanted") else "present",
        quality=Quality(mood, "very" if rng.random() < 0.15 else "too"),
    )
    return event, why


def pronoun_of(noun: Noun) -> Pronoun:
    """The pronoun of a thing or an animal: "it", and *er*, *sie* or *es*."""
    return IT[noun.gender]


@cache
def _all_reasons() -> frozenset[str]:
    """All adjectives used as reasons."""
    tables = (table for scene in SCENES for table in (scene.doers, scene.things))
    return frozenset(" ".join(" ".join(table.values()) for table in tables).split())


def _nouns_of(table: dict[str, str]) -> tuple[Noun, ...]:
    return nouns(" ".join(table))


def _neutral_adjective(rng: Random, noun: Noun) -> Adjective | None:
    """Occasionally an adjective, but none that is used as a reason."""
    choices = [word for word in adjectives(noun) if word.english not in _all_reasons()]
    return rng.choice(choices) if choices and rng.random() < 0.15 else None
