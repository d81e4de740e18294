"""The verbs of the demo, found by their English; the tables are `transitive` and `intransitive`."""

from functools import cache

from transduce.demo.grammar.intransitive import INTRANSITIVE
from transduce.demo.grammar.transitive import HABEN, TRANSITIVE
from transduce.demo.grammar.words import Conjugation, Verb, weak

SEIN = Conjugation("bin bist ist sind", "war", "gewesen", infinitive="sein")
WERDEN = Conjugation("werde wirst wird werden", "wurde", "geworden")
KÖNNEN = Conjugation("kann kannst kann können", "konnte", "gekonnt")
MÜSSEN = Conjugation("muss musst muss müssen", "musste", "gemusst")
WOLLEN = Conjugation("will willst will wollen", "wollte", "gewollt")

BE = Verb("be is was been being", SEIN, auxiliary="sein", aspect="copula")
RAIN = Verb("rain rains rained rained raining", weak("regn"))
CLAUSE_VERBS = (
    Verb(
        "know knows knew known knowing",
        Conjugation("weiß weißt weiß wissen", "wusste", "gewusst"),
        aspect="state",
    ),
    Verb("say says said said saying", weak("sag"), aspect="state"),
    Verb("think thinks thought thought thinking", weak("glaub"), aspect="state"),
)

VERBS = (*TRANSITIVE, *INTRANSITIVE)

__all__ = ["BE", "CLAUSE_VERBS", "HABEN", "RAIN", "SEIN", "VERBS", "verb"]
__all__ += ["KÖNNEN", "MÜSSEN", "WERDEN", "WOLLEN"]


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
