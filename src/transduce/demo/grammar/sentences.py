"""What the demo says: random sentences that make sense, handed to the grammar to be worded.

One function a kind of sentence. `sentence` draws from all kinds but the one with "it", whose
meaning is drawn by `reference`, and of which `corpus` keeps some for the test alone.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from random import Random
from typing import NamedTuple

from transduce.data.corpus import Pair
from transduce.demo.grammar.draw import (
    FORMS_OF,
    clause,
    describing,
    is_vague,
    person,
    pronoun_for,
)
from transduce.demo.grammar.lexicon import IT, adjective
from transduce.demo.grammar.realization import Clause, Quality, english, german
from transduce.demo.grammar.reference import It, clauses
from transduce.demo.grammar.verbs import BE, CLAUSE_VERBS, RAIN
from transduce.demo.grammar.words import Pronoun

SHORTEST, LONGEST = 4, 16
"""English words in a sentence."""

_DONE = ("past", "progressive", "must", "want", "wanted")
_NOT_DONE = ("past", "progressive", "can", "could", "future", "want", "wanted")
_PAST = ("past", "past progressive", "could", "wanted")


class Kind(NamedTuple):
    """A kind of sentence and how often it is said, in hundredths of all but those with "it"."""

    share: int
    make: Callable[[Random], Pair]


def sentence(rng: Random) -> Pair:
    """Say something: an English sentence of 4 to 16 words and its one German translation."""
    while True:
        (kind,) = rng.choices(KINDS, cum_weights=_SHARES)
        pair = kind.make(rng)
        if _fits(pair):
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


def reference(rng: Random, it: It) -> Pair:
    """A scene in words: "The dog did not cross the street because it was too wide." """
    while True:
        pair = _because(*clauses(rng, it))
        if _fits(pair):
            return pair


KINDS = (
    Kind(52, statement),
    Kind(11, description),
    Kind(13, question),
    Kind(12, reason),
    Kind(9, report),
    Kind(3, two),
)
_SHARES = tuple(accumulate(kind.share for kind in KINDS))


def _fits(pair: Pair) -> bool:
    return SHORTEST <= pair.source.count(" ") + 1 <= LONGEST


def _pair(source: str, target: str, *, mark: str = ".") -> Pair:
    return Pair(source[0].upper() + source[1:] + mark, target[0].upper() + target[1:] + mark)


def _because(said: Clause, why: Clause) -> Pair:
    return _pair(
        f"{english(said)} because {english(why)}",
        f"{german(said)}, weil {german(why, order='final')}",
    )
