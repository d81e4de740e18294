"""Draw random clauses that make sense: verbs with fitting subjects, objects, places and adverbs.

Forms that German avoids (du + Präteritum of a full verb) are not drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from random import Random

from transduce.demo import lexicon
from transduce.demo.lexicon import (
    Adjective,
    Adverb,
    Aspect,
    Determiner,
    Noun,
    Preposition,
    Pronoun,
    Verb,
)
from transduce.demo.realization import (
    Clause,
    Complement,
    Coordination,
    Form,
    NounPhrase,
    Phrase,
    Quality,
    gender_of,
    is_plural,
)

_I, _YOU, _HE, _SHE, _WE, _THEY = lexicon.PRONOUNS
# Verbs that separate, and the forms of ich and du, are many and deserve their practice.
_VERBS = (*lexicon.VERBS, *(verb for verb in lexicon.VERBS if verb.prefix))
_SUBJECTS = (*lexicon.PRONOUNS, _I, _YOU)

_KINDS: Mapping[str, str] = lexicon.GRAMMAR["kinds"]
FORMS_OF: Mapping[Aspect, Sequence[Form]] = lexicon.GRAMMAR["forms_of"]
_TIMES: dict[Form, tuple[Adverb, ...]] = {
    "progressive": (lexicon.NOW, lexicon.TODAY),
    "past": (*lexicon.YESTERDAY, lexicon.TODAY),
    "future": lexicon.LATER,
    "can": lexicon.LATER,
    "must": lexicon.LATER,
    "want": lexicon.LATER,
}


def clause(
    rng: Random, *, positive: bool = False, plain: bool = False, backshifted: bool = False
) -> Clause:
    """Draw a clause with a full verb.

    Args:
        rng: random generator.
        positive: forbid negation.
        plain: the clause is part of a longer sentence: no adverb of time, few adjectives.
        backshifted: the clause is governed by a verb in the past.
    """
    verb = rng.choice(_VERBS)
    negated = not positive and rng.random() < 0.3
    while True:
        form = _form(rng, verb, negated=negated, plain=plain, backshifted=backshifted)
        subject = subject_of(rng, verb, negated=negated, plain=plain)
        if not _is_odd(subject, form):
            break
    time = None
    if form == "present" and verb.aspect == "action":
        time = rng.choice(lexicon.HABITS)
    elif not plain and form in _TIMES and verb.aspect != "state" and rng.random() < 0.35:
        time = rng.choice(_TIMES[form])
    complements = _complements(rng, verb, subject, negated=negated)
    return Clause(
        subject=subject,
        verb=verb,
        form=form,
        complements=complements,
        manner=None if negated or plain or form == "present" else _manner(rng, verb, complements),
        negated=negated,
        contracted=rng.random() < 0.5,
        time=time,
        time_first=rng.random() < 0.35,
    )


def _is_odd(subject: Phrase, form: Form) -> bool:
    """Whether German avoids the form with this subject, or a vehicle would want something."""
    if form in ("past", "past progressive"):
        return subject is _YOU
    lifeless = isinstance(subject, NounPhrase) and subject.noun.kind == "vehicle"
    return lifeless and form in ("want", "wanted")


def _form(rng: Random, verb: Verb, *, negated: bool, plain: bool, backshifted: bool) -> Form:
    """A form that the verb has and that fits the context."""
    if backshifted:
        return "past progressive" if verb.aspect == "action" else "past"
    while True:
        form = rng.choice(FORMS_OF[verb.aspect])
        needs_habit = form == "present" and verb.aspect == "action"
        if needs_habit and not verb.habit:
            continue
        # "must not" is not "muss nicht", and a negated habit is ambiguous.
        if not (negated and (form == "must" or needs_habit)) and not (plain and needs_habit):
            return form


def subject_of(rng: Random, verb: Verb, *, negated: bool, plain: bool) -> Phrase:
    """Draw a subject of the verb; definite in a negated clause.

    Args:
        rng: random generator.
        verb: the verb.
        negated: whether the clause is negated.
        plain: whether adjectives are rare.
    """
    if "person" in verb.subjects or "boy" in verb.subjects:
        draw = rng.random()
        if draw < 0.24:
            return rng.choice(_SUBJECTS)
        if draw < 0.36:
            return rng.choice(lexicon.NAMES)
        if draw < 0.39:
            first, second = rng.sample(lexicon.NAMES, 2)
            return Coordination(first, second)
    return noun_phrase(rng, verb.subjects, known=negated, counted=True, plain=plain)


def definite_person(rng: Random) -> Phrase:
    """Draw one or several definite persons."""
    return subject_of(rng, lexicon.CLAUSE_VERBS[0], negated=True, plain=True)


def _complements(
    rng: Random, verb: Verb, subject: Phrase, *, negated: bool
) -> tuple[Complement, ...]:
    """The verb's complements, in English order."""
    parts: list[Complement] = []
    if verb.receivers:
        parts.append(Complement(_receiver(rng, verb.receivers, subject), "dative"))
    if verb.objects:
        if verb.pronouns and rng.random() < 0.2:
            phrase = _other_pronoun(rng, subject)
        else:
            governed = verb.case == "dative" or verb.preposition
            phrase = noun_phrase(
                rng,
                verb.objects,
                known=verb.indefinite == "no" or (negated and bool(governed)),
                counted=verb.indefinite == "one",
                but=subject,
                countless=negated,
            )
        # The English preposition (look *for*) is the verb's particle.
        parts.append(Complement(phrase, verb.case, "", verb.preposition))
    # "nicht mit ihm" and "kein Buch im Garten" are clear, "das Buch nicht im Garten" is not.
    clear = not (negated and verb.objects)
    if verb.partner and clear and rng.random() < 0.25:
        with_or_for = lexicon.WITH if verb.partner == "with" else lexicon.FOR
        whom = _receiver(rng, with_or_for.nouns, subject)
        parts.append(Complement(whom, with_or_for.case, with_or_for.english, with_or_for.german))
    if verb.motion or (verb.where and (verb.needs_place or (clear and rng.random() < 0.4))):
        parts.append(_place(rng, verb, known=negated, others=parts))
    return tuple(parts)


def _manner(rng: Random, verb: Verb, complements: tuple[Complement, ...]) -> Adverb | None:
    """An adverb of manner, unless the clause has a place or a partner."""
    full = any(part.scene or part.english in ("with", "for") for part in complements)
    if not verb.manner or full or rng.random() < 0.7:
        return None
    return lexicon.MANNERS[rng.choice(verb.manner.split())]


def _place(rng: Random, verb: Verb, *, known: bool, others: list[Complement]) -> Complement:
    """A place or direction whose noun is not in the clause yet."""
    used = [part.phrase.noun for part in others if isinstance(part.phrase, NounPhrase)]
    while True:
        preposition, category = rng.choice(_places(verb))
        place = noun_phrase(rng, category, known=known, plural=False)
        if place.noun not in used:
            break
    words = preposition.english, preposition.german
    return Complement(place, preposition.case, *words, scene=not verb.motion)


@cache
def _places(verb: Verb) -> tuple[tuple[Preposition, str], ...]:
    """The prepositions that fit the verb, each with its nouns that do."""
    candidates = {
        preposition: [
            noun.english
            for noun in lexicon.nouns(preposition.nouns)
            if noun in lexicon.nouns(verb.where)
        ]
        for preposition in (lexicon.WHITHER if verb.motion else lexicon.WHERE)
    }
    return tuple((preposition, " ".join(fit)) for preposition, fit in candidates.items() if fit)


def _receiver(rng: Random, wanted: str, subject: Phrase) -> Phrase:
    draw = rng.random()
    if draw < 0.3:
        return _other_pronoun(rng, subject)
    if draw < 0.45:
        name = rng.choice(lexicon.NAMES)
        if subject != name and not isinstance(subject, Coordination):
            return name
    return noun_phrase(rng, wanted, known=True, but=subject, plain=True)


def _other_pronoun(rng: Random, subject: Phrase) -> Pronoun:
    """A pronoun that does not overlap the subject: no "I see me", no "we see me"."""
    while True:
        pronoun = rng.choice(lexicon.PRONOUNS)
        both_first = isinstance(subject, Pronoun) and subject.person == pronoun.person == 1
        if pronoun is not subject and not both_first:
            return pronoun


def noun_phrase(
    rng: Random,
    wanted: str,
    *,
    known: bool = False,
    plain: bool = False,
    counted: bool = False,
    countless: bool = False,
    plural: bool = True,
    but: Phrase | None = None,
) -> NounPhrase:
    """Draw a noun phrase.

    Args:
        rng: random generator.
        wanted: kinds and nouns to draw from.
        known: whether it must be definite.
        plain: whether adjectives are rare.
        counted: whether an indefinite plural needs a number.
        countless: whether numbers are forbidden.
        plural: whether it may be plural.
        but: a phrase whose noun must not be repeated.
    """
    taken = but.noun if isinstance(but, NounPhrase) else None
    choices = lexicon.nouns(wanted)
    noun = rng.choice(choices)
    while noun is taken and len(choices) > 1:
        noun = rng.choice(choices)
    plural = plural and bool(noun.english_plural) and rng.random() < 0.28
    if known or noun.kind == "kin":
        determiner = definite_determiner(rng, noun)
    else:
        determiner = _determiner(rng, noun, plural=plural, counted=counted, countless=countless)
    adjectives = lexicon.adjectives(noun)
    described = bool(adjectives) and rng.random() < (0.1 if plain else 0.3)
    adjective = rng.choice(adjectives) if described else None
    return NounPhrase(noun=noun, determiner=determiner, adjective=adjective, plural=plural)


def definite_determiner(rng: Random, noun: Noun) -> Determiner:
    """Draw a definite determiner; relatives always have a possessive."""
    if noun.kind == "kin":
        return rng.choice(lexicon.POSSESSIVES)
    draw = rng.random()
    if draw < 0.15 and lexicon.matches(noun, _KINDS["owned"]):
        return rng.choice(lexicon.POSSESSIVES)
    return lexicon.THIS if draw > 0.92 else lexicon.THE


def _determiner(
    rng: Random, noun: Noun, *, plural: bool, counted: bool, countless: bool
) -> Determiner:
    draw = rng.random()
    if draw < 0.5:
        return definite_determiner(rng, noun)
    if not plural:
        return lexicon.A if noun.english_plural else lexicon.BARE
    if counted and countless:
        return lexicon.THE
    uncounted = countless or (not counted and draw < 0.65)
    return lexicon.BARE if uncounted else rng.choice(lexicon.NUMBERS)


def copula_clause(rng: Random, *, form: Form) -> Clause:
    """Draw a clause with "to be" and an adjective."""
    subject, possible = _copula_parts(rng)
    times = {"past": lexicon.YESTERDAY[0], "present": lexicon.TODAY}
    predicate = rng.choice(possible)
    very = predicate.english not in _KINDS["plain"].split() and rng.random() < 0.3
    passing = predicate.english in _KINDS["moods"].split() and rng.random() < 0.3
    return Clause(
        subject=subject,
        verb=lexicon.BE,
        form=form,
        quality=Quality(predicate, "very" if very else ""),
        negated=rng.random() < 0.25,
        contracted=rng.random() < 0.5,
        time=times[form] if passing else None,
        time_first=rng.random() < 0.4,
    )


def _copula_parts(rng: Random) -> tuple[Phrase, tuple[Adjective, ...]]:
    """A subject and the adjectives that fit it; for persons at least moods."""
    if rng.random() < 0.4:
        subject = definite_person(rng)
        fitting = lexicon.adjectives(subject.noun) if isinstance(subject, NounPhrase) else ()
        possible = fitting or tuple(map(lexicon.adjective, _KINDS["moods"].split()))
    else:
        subject = noun_phrase(rng, _KINDS["described"], known=True)
        while not (possible := lexicon.adjectives(subject.noun)):
            subject = noun_phrase(rng, _KINDS["described"], known=True)
    if isinstance(subject, NounPhrase):
        subject = replace(subject, adjective=None)
    return subject, possible


def pronoun_for(phrase: Phrase) -> Pronoun | None:
    """The pronoun for a person, if it is the same in both languages, else None.

    A child or girl is neuter in German, and an animal is "it": those are left to `scenes`.
    """
    if isinstance(phrase, Pronoun):
        return phrase
    if is_plural(phrase):
        return _THEY
    if isinstance(phrase, NounPhrase) and phrase.noun.kind not in ("person", "kin"):
        return None
    return {"m": _HE, "f": _SHE}.get(gender_of(phrase) or "n")
