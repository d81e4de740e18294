"""Phrases occur, whatever the model thinks of them: tried against everything that can be said."""

import math

import pytest
from tests.unit.search.toys import (
    EOS,
    A,
    B,
    C,
    asked,
    best_first,
    enumerate_all,
    random_logits,
    table,
)

from transduce.search.hypothesis import Hypothesis
from transduce.search.phrases import width
from transduce.search.request import DecodingConstraints, Request

Ids = tuple[int, ...]


def holds(ids: Ids, phrase: Ids) -> bool:
    return any(ids[start : start + len(phrase)] == phrase for start in range(len(ids)))


def holding(scores: dict[Ids, float], *phrases: Ids) -> dict[Ids, float]:
    return {ids: score for ids, score in scores.items() if all(holds(ids, one) for one in phrases)}


def said(found: list[Hypothesis]) -> list[Ids]:
    return [one.ids for one in found]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "phrases",
    [
        ((C,),),
        ((A, B),),
        ((A, A),),
        ((A,), (B,)),
        ((A, B), (C,)),
        ((B, A, B),),
        ((A, A, B),),
        ((A, B), (A, C)),
    ],
)
def test_a_wide_beam_finds_the_best_of_all_that_hold_the_phrases(
    seed: int, phrases: tuple[Ids, ...]
):
    logits = random_logits(seed)

    (found,) = asked(logits, [Request((), phrases=phrases)], limits=[4], beam=121)

    allowed = holding(enumerate_all(logits, sentence=0, limit=4, alpha=0.6), *phrases)
    assert said(found) == best_first(allowed)
    assert found[0].score == pytest.approx(max(allowed.values()), rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_finds_the_best_of_all_that_hold_the_phrase_behind_the_prefix(seed: int):
    logits = random_logits(seed)
    request = Request((), prefix=(C, A), phrases=((A, B),))

    (found,) = asked(logits, [request], limits=[5], beam=364)

    scores = enumerate_all(logits, sentence=0, limit=5, alpha=0.6)
    allowed = {ids: one for ids, one in holding(scores, (A, B)).items() if ids[:2] == (C, A)}
    assert said(found) == best_first(allowed)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_phrases_occur_however_narrow_the_beam(seed: int, beam: int):
    phrases = ((A, B, A), (C, C), (B, B))

    (found,) = asked(random_logits(seed), [Request((), phrases=phrases)], limits=[11], beam=beam)

    assert 1 <= len(found) <= beam
    assert all(holds(one.ids, phrase) for one in found for phrase in phrases)


@pytest.mark.parametrize("seed", range(5))
def test_phrases_occur_where_the_limit_leaves_room_for_nothing_else(seed: int):
    request = Request((), prefix=(C, A), phrases=((A, B), (C, C, A)))

    (found,) = asked(random_logits(seed), [request], limits=[6], beam=3)

    assert all(holds(one.ids, phrase) for one in found for phrase in request.phrases)


def test_phrases_are_worth_what_the_model_says():
    logits = table({(): {A: 0.96, B: 0.04}, (B,): {C: 0.3, A: 0.7}})

    (found,) = asked(logits, [Request((), phrases=((B, C),))], limits=[7], beam=6)

    assert found[0].ids == (B, C, EOS)
    assert found[0].log_prob == pytest.approx(math.log(0.04 * 0.3))


def test_a_phrase_is_found_behind_a_false_start():
    # A A A B holds A A B, whose second A is not where the first start of it would have it.
    steps = {(): {A: 1.0}, (A,): {A: 1.0}, (A, A): {A: 1.0}, (A, A, A): {B: 1.0}}

    (found,) = asked(table(steps), [Request((), phrases=((A, A, B),))], limits=[7], beam=2)

    assert found[0].ids == (A, A, A, B, EOS)


def test_phrases_may_overlap_in_what_is_said():
    steps = {(): {A: 0.9, B: 0.1}, (A,): {B: 1.0}, (A, B): {C: 1.0}, (B,): {C: 1.0}}

    (found,) = asked(table(steps), [Request((), phrases=((A, B), (B, C)))], limits=[7], beam=4)

    assert found[0].ids == (A, B, C, EOS)


def test_phrases_that_begin_alike_wait_for_each_other():
    # A counts once: what is said behind it can serve one of the two only, and there is no room.
    likes_a = [0.0, 5.0, 0.0, 0.0, 0.0]
    request = Request((), phrases=((A, B), (A, C)))

    (found,) = asked(lambda *_: likes_a, [request], limits=[4], beam=1)

    assert found[0].ids in [(A, B, A, C), (A, C, A, B)]


def test_a_prefix_that_holds_overlapping_phrases_is_not_held_back():
    request = Request((), prefix=(A, B, C, A), phrases=((A, B), (B, C), (C, A)))

    (found,) = asked(random_logits(0), [request], limits=[5], beam=2)

    assert all(one.ids[:4] == (A, B, C, A) for one in found)


def test_a_likely_place_for_a_phrase_is_waited_for():
    # C fits behind A B. Were the places given to what has met most, all would begin with C.
    steps = {
        (): {A: 0.98, B: 0.01, C: 0.01},
        (A,): {B: 0.98, A: 0.01, C: 0.01},
        (A, B): {C: 0.5, EOS: 0.5},
        (C,): {A: 0.5, B: 0.5},
    }

    (found,) = asked(table(steps), [Request((), phrases=((C,),))], limits=[7], beam=2)

    assert found[0].ids == (A, B, C, EOS)


def test_an_unlikely_phrase_does_not_wait_for_the_limit():
    # By bare sums A and B would fill the beam until the limit leaves nothing but C.
    def logits(_: int, said: Ids) -> list[float]:
        chances = {EOS: 0.99, A: 0.01} if C in said else {A: 0.5, B: 0.49, C: 0.01}
        return [math.log(chances[one]) if one in chances else -math.inf for one in range(5)]

    (found,) = asked(logits, [Request((), phrases=((C,),))], limits=[9], beam=2)

    assert found[0].ids == (C, EOS)


def test_a_single_beam_says_its_phrases_at_once():
    (found,) = asked(lambda *_: [0.0] * 5, [Request((), phrases=((B, C),))], limits=[9], beam=1)

    assert found[0].ids[:2] == (B, C)


def test_a_phrase_within_another_or_asked_for_twice_is_met_with_it():
    request = Request((), phrases=((B,), (A, B, C), (A, B, C), ()))

    (found,) = asked(random_logits(0), [request], limits=[3], beam=2)

    assert said(found) == [(A, B, C)]


def test_a_phrase_of_the_prefix_is_met():
    request = Request((), prefix=(A, B), phrases=((A, B),))

    (found,) = asked(random_logits(2), [request], limits=[3], beam=40)

    assert (A, B, EOS) in said(found)


def test_no_repeat_holds_with_phrases():
    request = Request((), phrases=((A, B), (C,)))

    (found,) = asked(
        random_logits(6),
        [request],
        limits=[9],
        beam=5,
        constraints=DecodingConstraints(no_repeat=1),
    )

    assert all(len(set(one.ids)) == len(one.ids) for one in found)
    assert all(holds(one.ids, (A, B)) and C in one.ids for one in found)


def test_a_sentence_without_phrases_finds_among_others_what_it_finds_by_sums():
    requests = [Request((), phrases=((A, B, C),)), Request(())]
    logits = random_logits(9)

    mixed = asked(logits, requests, limits=(9, 9), beam=3)

    plain = asked(logits, [Request(()), Request(())], limits=(9, 9), beam=3)
    assert said(mixed[1]) == said(plain[1])


def test_phrases_that_cannot_all_be_said_are_refused_with_their_sizes():
    request = Request((), prefix=(C,), phrases=((A, B, A), (B, B)))

    with pytest.raises(
        ValueError, match=r"phrases of 3 \+ 2 pieces .* at most 5 behind a prefix of 1"
    ):
        asked(random_logits(0), [request], limits=[5], beam=2)


def test_phrases_that_repeat_what_must_not_be_repeated_are_refused():
    with pytest.raises(ValueError, match="no translation that satisfies all constraints"):
        asked(
            random_logits(0),
            [Request((), phrases=((A, A),))],
            limits=[5],
            beam=2,
            constraints=DecodingConstraints(no_repeat=1),
        )


def test_a_beam_has_room_for_two_in_each_bank():
    assert width(Request((), phrases=((A, B), (C,))), 3) == 8
    assert width(Request((), phrases=((A, B), (C,))), 11) == 11
    assert width(Request(()), 3) == 3
