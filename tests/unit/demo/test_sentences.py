"""What "it" is: read back from the German alone, and never left open."""

import re
from collections import defaultdict
from random import Random

import pytest

from transduce.demo.corpus import unseen_combinations
from transduce.demo.lexicon import adjective, nouns
from transduce.demo.realization import english, german
from transduce.demo.sentences import SCENES, It, Scene, clauses, draw_it, reference, unambiguous_its

ALL = tuple(it for scene in SCENES for it in unambiguous_its(scene))
GENDERS = {"er": "m", "sie": "f", "es": "n"}


def known(rng: Random) -> It:
    return next(it for it in iter(lambda: draw_it(rng), None) if not it.is_open)


def test_the_pronoun_has_the_gender_of_what_is_meant_and_not_of_the_other():
    rng = Random(17)

    for it in (known(rng) for _ in range(307)):
        target = reference(rng, it).target
        (result,) = re.findall(r", weil (er|sie|es) ", target)
        other = it.thing if it.of_doer else it.doer
        assert GENDERS[result] == it.referent.gender != other.gender, target


def test_english_never_says_he_or_she_of_it():
    rng = Random(19)

    for it in (known(rng) for _ in range(53)):
        assert " because it " in reference(rng, it).source


def test_it_is_never_a_person():
    assert not {noun.kind for it in ALL for noun in (it.doer, it.thing)} & {"person", "kin"}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.verb.english)
def test_a_scene_names_known_words_and_can_be_about_either_side(scene: Scene):
    for table in (scene.doers, scene.things):
        assert nouns(" ".join(table))
        assert all(adjective(word) for reasons in table.values() for word in reasons.split())
    assert {it.of_doer for it in unambiguous_its(scene)} == {True, False}


def test_each_verb_finds_a_reason_on_one_side_only_or_leaves_it_open():
    """So that what "it" is can be learned: from the verb and the adjective, whatever the nouns."""
    sides = defaultdict(set)
    for it in ALL:
        sides[it.scene.verb.german.participle, it.reason].add(it.of_doer)

    assert not [key for key, item in sides.items() if len(item) == 2]


def test_a_reason_on_both_sides_leaves_the_reference_open():
    scene = SCENES[0]
    (dog,), (bridge,) = nouns("dog"), nouns("bridge")

    assert It(scene, dog, bridge, "old", of_doer=True).is_open
    assert It(scene, dog, bridge, "old", of_doer=False).is_open
    assert not It(scene, dog, bridge, "tired", of_doer=True).is_open
    assert not It(scene, dog, bridge, "narrow", of_doer=False).is_open


def test_nothing_open_is_among_all_that_can_be_said():
    assert not any(it.is_open for it in ALL)


def test_the_papers_sentence_is_said():
    (animal,), (street,) = nouns("animal"), nouns("street")
    it = It(SCENES[0], animal, street, "wide", of_doer=False)
    rng = Random(3)

    result = {" because ".join(map(english, clauses(rng, it))) for _ in range(97)}
    meant = {german(clauses(rng, it)[1], order="final") for _ in range(97)}

    assert "the animal didn't cross the street because it was too wide" in result
    assert "sie zu breit war" in meant


def test_there_are_many_nouns_verbs_and_reasons():
    its = ALL

    assert len({it.triple for it in its}) > 10_000
    assert len({noun.english for it in its for noun in (it.doer, it.thing)}) > 90
    assert len({it.scene.verb.german.participle for it in its}) > 20
    assert len({it.reason for it in its}) > 35


def test_the_genders_are_meant_about_equally_often():
    rng = Random(23)
    meant = [known(rng).referent.gender for _ in range(997)]

    assert all(0.27 < meant.count(gender) / 997 < 0.4 for gender in "mfn")


def test_unseen_pairs_are_a_seventh_of_all_and_the_same_for_the_same_seed():
    every = {it.pair for it in ALL}
    unseen = unseen_combinations(Random(5))

    assert unseen.pairs < every
    assert 0.14 < len(unseen.pairs) / len(every) < 0.16
    assert unseen == unseen_combinations(Random(5)) != unseen_combinations(Random(6))


def test_what_is_unseen_can_be_understood_from_what_is_left():
    unseen = unseen_combinations(Random(5)).pairs
    reasons, genders, fellows = defaultdict(set), defaultdict(set), defaultdict(set)
    for it in ALL:
        if it.pair not in unseen:
            reasons[it.referent.english].add(it.reason)
            genders[it.reason].add(it.referent.gender)
            fellows[it.reason].add(it.referent.english)

    for noun, reason in unseen:
        assert len(reasons[noun]) >= 2
        assert len(genders[reason]) >= 2
        assert len(fellows[reason]) >= 3


def test_a_sentence_with_both_words_is_known_in_either_number():
    unseen = unseen_combinations(Random(5))
    noun, reason = next(pair for pair in sorted(unseen.pairs) if pair[0] == "mouse")

    assert unseen.are_in(f"The {reason} {noun} slept.")
    assert unseen.are_in(f"Two mice were {reason}.")
    assert not unseen.are_in(f"Something was {reason}.")
