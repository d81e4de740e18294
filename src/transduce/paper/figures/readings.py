"""Sentences told twice: "it" is the first noun, or by another reason the second.

They come from the demo's grammar, and are drawn so that all but the last word is the same.
"""

from random import Random
from typing import NamedTuple

from transduce.data.corpus import Pair
from transduce.demo.corpus import UnseenCombinations, unseen_combinations
from transduce.demo.grammar.lexicon import Noun
from transduce.demo.grammar.scenes import SCENES, It, its_of
from transduce.demo.grammar.sentences import reference


class TwoReadings(NamedTuple):
    """A scene told twice with different reasons, and its translations."""

    first: Pair
    """"It" is the first noun."""
    second: Pair
    doer: Noun
    thing: Noun


def two_readings(count: int, *, seed: int = 1, fresh: bool = True) -> list[TwoReadings]:
    """Draw pairs of sentences that differ in the last word alone.

    Args:
        count: of pairs, at most; there are about 280 fresh ones.
        seed: what is drawn.
        fresh: only nouns with adjectives that training of the demo never had in one sentence.
    """
    unseen, rng = (
        unseen_combinations(Random(1)),
        Random(seed),
    )  # the demo's corpus has seed 1
    couples = [couple for scene in range(len(SCENES)) for couple in _couples(scene, unseen, fresh)]
    rng.shuffle(couples)
    pairs: list[TwoReadings] = []
    for number, (first, second) in enumerate(couples):
        said = [reference(Random(seed * 100_003 + number), it) for it in (first, second)]
        words = [sentence.source.split() for sentence in said]
        if words[0][:-1] == words[1][:-1]:
            pairs.append(TwoReadings(said[0], said[1], first.doer, first.thing))
        if len(pairs) == count:
            break
    return pairs


def _couples(scene: int, unseen: UnseenCombinations, fresh: bool) -> list[tuple[It, It]]:
    """Two readings of the same two nouns, one couple of reasons for each two nouns."""
    by_nouns: dict[tuple[str, str], tuple[list[It], list[It]]] = {}
    for it in its_of(SCENES[scene]):
        if not fresh or it.pair in unseen.pairs:
            both = by_nouns.setdefault((it.doer.english, it.thing.english), ([], []))
            both[0 if it.of_doer else 1].append(it)
    return [(a, b) for firsts, seconds in by_nouns.values() for a in firsts for b in seconds]
