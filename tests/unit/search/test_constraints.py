"""Rules bar what may not come next, and leave ln p of the rest alone: tried against everything."""

import math
from collections.abc import Sequence

import pytest
import torch
from tests.unit.search.toys import (
    EOS,
    PAD,
    A,
    B,
    C,
    Toy,
    best_first,
    enumerate_all,
    log_softmax,
    random_logits,
    search_requests,
    shifted,
    table,
)

from transduce.search.beam import beam_search
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.constraints import ConstraintMask, next_log_probs
from transduce.search.steps import SearchTask

EVERYTHING = 121
"""A beam that holds all that can be said in 4 pieces."""


def repeats(ids: Sequence[int], count: int) -> bool:
    runs = [tuple(ids[start : start + count]) for start in range(len(ids) - count + 1)]
    return len(set(runs)) < len(runs)


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_best_of_all_that_begin_with_the_prefix(seed: int):
    prefixes, limits = [(B, A), (), (C,)], (4, 3, 2)
    logits = random_logits(seed)
    requests = [Request((), prefix=prefix) for prefix in prefixes]

    results = search_requests(logits, requests, limits=limits, beam=EVERYTHING)

    for sentence, prefix in enumerate(prefixes):
        scores = enumerate_all(logits, sentence=sentence, limit=limits[sentence], alpha=0.6)
        allowed = {ids: score for ids, score in scores.items() if ids[: len(prefix)] == prefix}
        assert [hypothesis.ids for hypothesis in results[sentence]] == best_first(allowed)
        assert [hypothesis.score for hypothesis in results[sentence]] == pytest.approx(
            sorted(allowed.values(), reverse=True), rel=1e-4
        )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_wide_beam_finds_the_best_of_all_that_repeat_nothing(seed: int, count: int):
    logits, constraints = random_logits(seed), DecodingConstraints(no_repeat=count)

    (hypotheses,) = search_requests(
        logits, [Request(())], limits=[4], beam=EVERYTHING, constraints=constraints
    )

    scores = enumerate_all(logits, sentence=0, limit=4, alpha=0.6)
    allowed = {ids: score for ids, score in scores.items() if not repeats(ids, count)}
    assert len(allowed) < len(scores)
    assert [hypothesis.ids for hypothesis in hypotheses] == best_first(allowed)


@pytest.mark.parametrize("least", [1, 2, 3])
def test_a_wide_beam_finds_the_best_of_all_that_are_long_enough(least: int):
    logits, constraints = random_logits(7), DecodingConstraints(min_length=least)

    (hypotheses,) = search_requests(
        logits, [Request(())], limits=[4], beam=EVERYTHING, constraints=constraints
    )

    scores = enumerate_all(logits, sentence=0, limit=4, alpha=0.6)
    allowed = {ids: score for ids, score in scores.items() if len(ids) - (ids[-1] == EOS) >= least}
    assert [hypothesis.ids for hypothesis in hypotheses] == best_first(allowed)


@pytest.mark.parametrize(
    "constraints",
    [DecodingConstraints(no_repeat=2), DecodingConstraints(min_length=3), UNCONSTRAINED],
)
def test_what_is_barred_does_not_make_the_rest_likelier(constraints: DecodingConstraints):
    logits = random_logits(3)

    (hypotheses,) = search_requests(
        logits, [Request((), prefix=(C,))], limits=[6], beam=3, constraints=constraints
    )

    for hypothesis in hypotheses:
        model = [
            log_softmax(logits(0, (PAD, *hypothesis.ids[:place])))[piece]
            for place, piece in enumerate(hypothesis.ids)
        ]
        assert hypothesis.log_probs == pytest.approx(model, rel=1e-4)
        assert hypothesis.log_prob == pytest.approx(sum(model), rel=1e-4)


def test_a_barred_piece_far_likelier_than_all_others_does_no_harm():
    rows = ConstraintMask.of(
        [Request((), prefix=(B,))], UNCONSTRAINED, limits=[5], eos=EOS, pad=PAD, device="cpu"
    )
    assert rows is not None

    log_probs = next_log_probs(
        torch.tensor([[0.0, 200.0, 0.0, 0.0, 0.0]]), torch.empty(1, 1, 0).long(), rows, pad=PAD
    )

    assert log_probs[0].tolist() == [-math.inf, -math.inf, -200.0, -math.inf, -math.inf]


def test_one_beam_lives_while_the_prefix_lasts():
    requests = [Request((), prefix=(A, B, C))]

    (hypotheses,) = search_requests(random_logits(5), requests, limits=[9], beam=4)

    assert {hypothesis.ids[:3] for hypothesis in hypotheses} == {(A, B, C)}
    assert len({hypothesis.ids for hypothesis in hypotheses}) == len(hypotheses) == 4


def test_a_prefix_is_said_though_the_model_would_end():
    logits = table({(): {EOS: 0.9, A: 0.1}, (A,): {EOS: 0.75, B: 0.25}})

    (hypotheses,) = search_requests(logits, [Request((), prefix=(A,))], limits=[5], beam=1)

    assert hypotheses[0].ids == (A, EOS)
    assert hypotheses[0].log_prob == pytest.approx(math.log(0.1 * 0.75))


def test_a_prefix_may_repeat_itself_and_counts_as_said():
    logits = table(
        {(): {A: 1.0}, (A,): {A: 1.0}, (A, A): {A: 0.7, B: 0.3}, (A, A, B): {A: 0.6, EOS: 0.4}}
    )
    requests = [Request((), prefix=(A, A))]

    (hypotheses,) = search_requests(
        logits, requests, limits=[9], beam=1, constraints=DecodingConstraints(no_repeat=1)
    )

    assert hypotheses[0].ids == (A, A, B, EOS)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("beam", [1, 3])
def test_a_sentence_with_wishes_fares_the_same_alone_and_among_others(seed: int, beam: int):
    requests = [Request((), prefix=(A, C, B)), Request(()), Request((), prefix=(C,))]
    limits, constraints = (7, 5, 6), DecodingConstraints(no_repeat=3, min_length=2)
    logits = random_logits(seed)

    together = search_requests(logits, requests, limits=limits, beam=beam, constraints=constraints)

    for sentence, (request, limit) in enumerate(zip(requests, limits, strict=True)):
        alone = search_requests(
            shifted(logits, sentence), [request], limits=[limit], beam=beam, constraints=constraints
        )
        assert alone == [together[sentence]]


def test_nothing_wished_is_no_rules():
    requests = [Request((A,)), Request(())]
    constraints = DecodingConstraints(max_length=5)

    assert (
        ConstraintMask.of(requests, constraints, limits=[5, 5], eos=EOS, pad=PAD, device="cpu")
        is None
    )


def test_rules_that_bar_nothing_find_what_is_found_without():
    logits, constraints = random_logits(11), DecodingConstraints(no_repeat=50)

    ruled = search_requests(
        logits, [Request(())] * 2, limits=(9, 7), beam=3, constraints=constraints
    )

    free = search_requests(logits, [Request(())] * 2, limits=(9, 7), beam=3)
    assert [[hypothesis.ids for hypothesis in some] for some in ruled] == [
        [hypothesis.ids for hypothesis in some] for some in free
    ]


@pytest.mark.parametrize("piece_id", [EOS, PAD, -1, 7])
def test_an_id_that_is_no_piece_is_refused(piece_id: int):
    request = Request((), prefix=(A, piece_id))

    with pytest.raises(
        ValueError, match=f"prefix id {piece_id} is invalid: ids must be from 0 to 3"
    ):
        search_requests(random_logits(0), [request], limits=[5], beam=2)


def test_a_prefix_as_long_as_the_limit_is_refused():
    with pytest.raises(ValueError, match=r"prefix of 3 pieces does not fit .* at most 3:"):
        search_requests(random_logits(0), [Request((), prefix=(A, B, C))], limits=[3], beam=2)


def test_a_least_length_beyond_the_limit_is_refused():
    with pytest.raises(ValueError, match=r"min-length 5 and an EOS do not fit .* at most 5 pieces"):
        search_requests(
            random_logits(0),
            [Request(())],
            limits=[5],
            beam=2,
            constraints=DecodingConstraints(min_length=5),
        )


def test_wishes_that_leave_nothing_to_say_are_refused():
    # Three pieces, none twice, and at least four of them.
    with pytest.raises(ValueError, match="no translation that satisfies all constraints"):
        search_requests(
            random_logits(0),
            [Request(())],
            limits=[9],
            beam=2,
            constraints=DecodingConstraints(no_repeat=1, min_length=4),
        )


def test_the_rules_of_ended_sentences_are_dropped():
    # The first sentence is over at once; the second's prefix must still be its own.
    toy = Toy(random_logits(1), sentences=2, beam=2)
    requests = [Request(()), Request((), prefix=(C, A, B))]
    constraint_mask = ConstraintMask.of(
        requests, UNCONSTRAINED, limits=(1, 5), eos=EOS, pad=PAD, device="cpu"
    )

    results = beam_search(
        toy,
        SearchTask(
            limits=(1, 5),
            config=SearchConfig(beam=2),
            eos=EOS,
            pad=PAD,
            device="cpu",
            constraint_mask=constraint_mask,
        ),
    )

    assert toy.sizes[1] == 2
    assert all(hypothesis.ids[:3] == (C, A, B) for hypothesis in results[1])
