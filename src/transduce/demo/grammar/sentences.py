"""Draw random sentences, one function per kind of sentence.

`sentence` draws from all kinds but those with "it", whose meaning `scenes` draws and of which
`corpus` holds some out for the test set.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from random import Random
from typing import NamedTuple

from transduce.data.corpus import Pair
from transduce.demo.grammar.clauses import (
    FORMS_OF,
    clause,
    copula_clause,
    definite_person,
    is_vague,
    pronoun_for,
)
from transduce.demo.grammar.lexicon import IT, Pronoun, adjective
from transduce.demo.grammar.realization import Clause, Quality, english, german
from transduce.demo.grammar.scenes import It, clauses
from transduce.demo.grammar.verbs import BE, CLAUSE_VERBS, RAIN

SHORTEST, LONGEST = 4, 16
"""English words in a sentence."""

_DONE = ("past", "progressive", "must", "want", "wanted")
_NOT_DONE = ("past", "progressive", "can", "could", "future", "want", "wanted")
_PAST = ("past", "past progressive", "could", "wanted")


class SentenceKind(NamedTuple):
    """A kind of sentence and its share in per cent of those without "it"."""

    share: int
    make: Callable[[Random], Pair]


def sentence(rng: Random) -> Pair:
    """Draw an English sentence of 4 to 16 words and its one German translation."""
    while True:
        (kind,) = rng.choices(KINDS, cum_weights=_SHARES)
        pair = kind.make(rng)
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
            and not is_vague(subject)
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
        why = Clause(subject=IT["n"], verb=RAIN, form=raining)
    else:
        mood = adjective(rng.choice(because.split()))
        why = Clause(subject=subject, verb=BE, form=form, quality=Quality(mood))
    return _because(main, why)


def reported_speech(rng: Random) -> Pair:
    """Reported speech: "She knew that the dog was sleeping." """
    past = rng.random() < 0.35
    speaker = definite_person(rng)
    matrix_verb = rng.choice(CLAUSE_VERBS)
    outer = Clause(
        subject=speaker,
        verb=matrix_verb,
        form="past" if past else "present",
        negated=matrix_verb is CLAUSE_VERBS[0] and not is_vague(speaker) and rng.random() < 0.25,
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


KINDS = (
    SentenceKind(52, statement),
    SentenceKind(11, description),
    SentenceKind(13, question),
    SentenceKind(12, reason),
    SentenceKind(9, reported_speech),
    SentenceKind(3, coordination),
)
_SHARES = tuple(accumulate(kind.share for kind in KINDS))


def _fits(pair: Pair) -> bool:
    return SHORTEST <= pair.source.count(" ") + 1 <= LONGEST


def _pair(source: str, target: str, *, mark: str = ".") -> Pair:
    return Pair(source[0].upper() + source[1:] + mark, target[0].upper() + target[1:] + mark)


def _because(main: Clause, why: Clause) -> Pair:
    return _pair(
        f"{english(main)} because {english(why)}",
        f"{german(main)}, weil {german(why, order='final')}",
    )
