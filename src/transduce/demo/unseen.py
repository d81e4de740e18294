"""What the test alone shows: nouns with reasons that training never puts into one sentence."""

import re
from collections import defaultdict
from functools import cache
from random import Random
from typing import NamedTuple

from transduce.demo.grammar.nouns import NOUNS
from transduce.demo.grammar.reference import its_of
from transduce.demo.grammar.scenes import SCENES
from transduce.demo.grammar.words import Noun

_SHARE = 0.15
"""Of all nouns with one of their reasons."""

_REASONS_LEFT, _NOUNS_LEFT = 2, 3


class Unseen(NamedTuple):
    """Nouns with reasons that training must not show together."""

    pairs: frozenset[tuple[str, str]]
    reasons: dict[str, frozenset[str]]
    """By every form of the noun."""

    def are_in(self, source: str) -> bool:
        """Whether an English sentence, of whatever kind, holds both words of one of the pairs."""
        words = set(re.findall(r"\w+", source.lower()))
        return any(not words.isdisjoint(self.reasons.get(word, ())) for word in words)


def unseen_pairs(rng: Random) -> Unseen:
    """Choose pairs of a noun and its reason that can be understood without having been seen.

    Each noun keeps other reasons, and each reason keeps, in every scene, other nouns in the same
    part and of more than one gender: all that is new is the two of them together.
    """
    groups: defaultdict[str, list[set[Noun]]] = defaultdict(list)
    reasons: defaultdict[Noun, set[str]] = defaultdict(set)
    for (*_, reason), group in _groups().items():
        groups[reason].append(set(group))
        for noun in group:
            reasons[noun].add(reason)
    order = [(noun, reason) for noun in NOUNS for reason in sorted(reasons[noun])]
    rng.shuffle(order)
    chosen: list[tuple[Noun, str]] = []
    for noun, reason in order:
        its_own = [group for group in groups[reason] if noun in group]
        if len(reasons[noun]) > _REASONS_LEFT and all(_enough(g - {noun}) for g in its_own):
            chosen.append((noun, reason))
            reasons[noun].remove(reason)
            for group in its_own:
                group.remove(noun)
        if len(chosen) >= _SHARE * len(order):
            break
    forms: defaultdict[str, set[str]] = defaultdict(set)
    for noun, reason in chosen:
        for form in filter(None, (noun.english, noun.english_plural)):
            forms[form].add(reason)
    return Unseen(
        pairs=frozenset((noun.english, reason) for noun, reason in chosen),
        reasons={form: frozenset(found) for form, found in forms.items()},
    )


@cache
def _groups() -> dict[tuple[int, bool, str], frozenset[Noun]]:
    """By scene, side and reason, the nouns that it is found in."""
    found: defaultdict[tuple[int, bool, str], set[Noun]] = defaultdict(set)
    for number, scene in enumerate(SCENES):
        for it in its_of(scene):
            found[number, it.of_doer, it.reason].add(it.referent)
    return {key: frozenset(group) for key, group in found.items()}


def _enough(group: set[Noun]) -> bool:
    """Whether a reason is shown by enough nouns, and by more than one gender."""
    return len(group) >= _NOUNS_LEFT and len({noun.gender for noun in group}) >= 2
