"""Who did not do what, and why: the table behind the sentences with "it".

A `Scene` lists who did not do what to which things, and the reasons that can be found in each. What
is made of it is in `reference`. A scene is added by adding its entry; a reason that stands on both
sides leaves open what "it" is, and is not said.
"""

from dataclasses import dataclass
from functools import cache

from transduce.demo.grammar.nouns import matches
from transduce.demo.grammar.realization import Form
from transduce.demo.grammar.verbs import verb
from transduce.demo.grammar.words import Noun, Preposition, Verb

_Forms = tuple[Form, ...]
# What an animal would or would not do; what it can or cannot; what befalls a thing.
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
    """Something that a doer did not do to a thing, for a reason in one of the two."""

    verb: Verb
    doers: dict[str, str]
    """Nouns or kinds, each with the adjectives that can be the reason in them."""

    things: dict[str, str]
    forms: _Forms = WILLED
    place: Preposition | None = None
    """Where the thing is no object but a place."""

    def reasons(self, noun: Noun, *, doer: bool) -> tuple[str, ...]:
        """The adjectives that can be the reason in this noun."""
        return _reasons(self, noun, doer)


@cache
def _reasons(scene: Scene, noun: Noun, doer: bool, /) -> tuple[str, ...]:
    table = scene.doers if doer else scene.things
    found = [reasons for wanted, reasons in table.items() if matches(noun, wanted)]
    return tuple(dict.fromkeys(" ".join(found).split()))


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
