"""Sampling: what is drawn is distributed as asked, and depends on nothing but the sentence."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from tests.unit.search.toys import (
    EOS,
    PAD,
    A,
    B,
    C,
    Logits,
    Toy,
    log_softmax,
    random_logits,
    search_requests,
    shifted,
    table,
)

from transduce.search.config import (
    UNCONSTRAINED,
    DecodingConstraints,
    Request,
    SamplingConfig,
    SearchConfig,
)
from transduce.search.constraints import ConstraintMask
from transduce.search.hypothesis import Hypothesis
from transduce.search.sampling import TokenSampler, sample
from transduce.search.steps import SearchTask

CHANCES = {EOS: 0.1, A: 0.45, B: 0.3, C: 0.15}


def drawn(
    logits: Logits,
    requests: Sequence[Request],
    *,
    limits: Sequence[int],
    beam: int,
    draw: SamplingConfig,
    constraints: DecodingConstraints = UNCONSTRAINED,
) -> list[list[Hypothesis]]:
    sources = [request.source for request in requests]
    return sample(
        Toy(logits, sentences=len(limits), beam=beam),
        SearchTask(
            limits=limits,
            config=SearchConfig(beam=beam),
            eos=EOS,
            pad=PAD,
            device="cpu",
            constraint_mask=ConstraintMask.of(
                requests, constraints, limits=limits, eos=EOS, pad=PAD, device="cpu"
            ),
        ),
        sampler=TokenSampler(draw, sources, beam=beam, device="cpu"),
    )


def picked(draw: SamplingConfig, *, count: int = 5000) -> dict[int, float]:
    """How often each piece comes first by these chances."""
    chance = TokenSampler(draw, [(7, 11)], beam=count, device="cpu")
    row = [math.log(CHANCES[piece]) if piece in CHANCES else -math.inf for piece in range(5)]
    ids = chance.sample(torch.tensor([row]).expand(count, -1), 0)
    return {piece: many / count for piece, many in Counter(ids.tolist()).items()}


def near(chances: dict[int, float]) -> object:
    """Within 4 standard deviations of 5,000 draws."""
    total = sum(chances.values())
    return pytest.approx({key: part / total for key, part in chances.items()}, abs=0.028)


def test_pieces_are_drawn_as_often_as_they_are_likely():
    assert picked(SamplingConfig()) == near(CHANCES)


def test_translations_are_drawn_as_often_as_they_are_likely():
    logits = table({(): {A: 0.6, B: 0.4}, (A,): {C: 0.5, EOS: 0.5}, (B,): {A: 0.25, EOS: 0.75}})

    (hypotheses,) = drawn(
        logits, [Request((3,))], limits=[5], beam=3000, draw=SamplingConfig(seed=5)
    )

    counts = Counter(hypothesis.ids for hypothesis in hypotheses)
    assert {ids: many / 3000 for ids, many in counts.items()} == pytest.approx(
        {(A, C, EOS): 0.3, (A, EOS): 0.3, (B, A, EOS): 0.1, (B, EOS): 0.3}, abs=0.034
    )


def test_a_temperature_sharpens_or_flattens():
    cold, hot = picked(SamplingConfig(temperature=0.5)), picked(SamplingConfig(temperature=2.0))

    assert cold == near({piece: part**2.0 for piece, part in CHANCES.items()})
    assert hot == near({piece: part**0.5 for piece, part in CHANCES.items()})


def test_top_k_leaves_the_likeliest_few():
    assert picked(SamplingConfig(top_k=2)) == near({A: 0.45, B: 0.3})


def test_no_piece_below_the_k_likeliest_is_drawn():
    rows = torch.randn(2000, 97, generator=torch.Generator().manual_seed(3)).log_softmax(1)
    chance = TokenSampler(SamplingConfig(top_k=13), [(2,)], beam=2000, device="cpu")

    ids = chance.sample(rows, 0)

    least = rows.topk(13).values[:, -1]
    assert (rows.gather(1, ids[:, None])[:, 0] >= least).all()


def test_top_k_above_the_vocabulary_leaves_all():
    assert picked(SamplingConfig(top_k=99)) == near(CHANCES)


@pytest.mark.parametrize(
    ("top_p", "left"), [(0.4, [A]), (0.5, [A, B]), (0.74, [A, B]), (0.8, [A, B, C])]
)
def test_top_p_leaves_the_likeliest_that_reach_it(top_p: float, left: list[int]):
    assert picked(SamplingConfig(top_p=top_p)) == near({piece: CHANCES[piece] for piece in left})


def test_top_p_counts_within_what_top_k_leaves():
    # A holds 0.6 of what A and B share.
    assert set(picked(SamplingConfig(top_k=2, top_p=0.59))) == {A}
    assert set(picked(SamplingConfig(top_k=2, top_p=0.61))) == {A, B}


@pytest.mark.parametrize("temperature", [1e-3, 1e-300])
def test_a_temperature_near_0_is_greedy(temperature: float):
    limits, logits = (7, 3, 11), random_logits(4)
    requests = [Request((source,)) for source in range(3)]

    cold = SamplingConfig(temperature=temperature)
    results = drawn(logits, requests, limits=limits, beam=2, draw=cold)

    greedy = search_requests(logits, requests, limits=limits, beam=1)
    for some, (best,) in zip(results, greedy, strict=True):
        assert [hypothesis.ids for hypothesis in some] == [best.ids] * 2
        assert some[0].log_probs == pytest.approx(best.log_probs, rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_a_sentence_draws_the_same_alone_and_among_others(seed: int):
    requests = [Request((5, 7)), Request(()), Request((5, 7, 11)), Request((13,))]
    limits, logits = (7, 2, 11, 1), random_logits(seed)
    draw = SamplingConfig(seed=seed, temperature=1.5, top_p=0.9)

    together = drawn(logits, requests, limits=limits, beam=3, draw=draw)

    for place, (request, limit) in enumerate(zip(requests, limits, strict=True)):
        alone = drawn(shifted(logits, place), [request], limits=[limit], beam=3, draw=draw)
        assert alone == [together[place]]


def test_a_narrower_beam_draws_the_first_of_a_wider_one():
    logits, requests = random_logits(1), [Request((2, 3))]

    (wide,) = drawn(logits, requests, limits=[9], beam=7, draw=SamplingConfig())
    (narrow,) = drawn(logits, requests, limits=[9], beam=3, draw=SamplingConfig())

    assert not Counter(hypothesis.ids for hypothesis in narrow) - Counter(
        hypothesis.ids for hypothesis in wide
    )


def test_a_higher_limit_draws_the_same_and_reserves_nothing():
    logits, requests = random_logits(1), [Request((2, 3)), Request((5,))]

    low, high = (
        drawn(logits, requests, limits=[limit] * 2, beam=3, draw=SamplingConfig())
        for limit in (60, 10**15)
    )

    assert low == high


def test_numbers_do_not_depend_on_when_they_are_made():
    rows, places = torch.zeros(6, 97), range(200)
    sources, remaining = [(2,), (3,), (5,)], torch.tensor([0, 2])
    gradual, direct = (
        TokenSampler(SamplingConfig(), sources, beam=2, device="cpu") for _ in range(2)
    )
    direct.sample(rows, places[-1])
    for sampler in (gradual, direct):
        sampler.select(remaining)

    for place in places:
        assert gradual.sample(rows[:4], place).equal(direct.sample(rows[:4], place))


def test_seeds_sentences_and_draws_have_numbers_of_their_own():
    def first(seed: int, source: tuple[int, ...]) -> list[list[int]]:
        chance = TokenSampler(SamplingConfig(seed=seed), [source], beam=2, device="cpu")
        rows = torch.zeros(2, 97)
        return [chance.sample(rows, place).tolist() for place in range(50)]

    streams = [
        tuple(stream)
        for seed, source in [(1, (2, 3)), (2, (2, 3)), (1, (3, 2)), (1, (23,)), (1, ())]
        for stream in zip(*first(seed, source), strict=True)
    ]

    assert len(set(streams)) == 10
    assert all(len(set(stream)) > 25 for stream in streams)


def test_draws_are_ranked_by_score_and_worth_what_the_model_says():
    logits = random_logits(8)
    draw = SamplingConfig(temperature=3.0, top_k=3)

    (hypotheses,) = drawn(logits, [Request(())], limits=[7], beam=11, draw=draw)

    assert len(hypotheses) == 11
    assert [hypothesis.score for hypothesis in hypotheses] == sorted(
        (hypothesis.score for hypothesis in hypotheses), reverse=True
    )
    for hypothesis in hypotheses:
        model = [
            log_softmax(logits(0, (PAD, *hypothesis.ids[:place])))[piece]
            for place, piece in enumerate(hypothesis.ids)
        ]
        assert hypothesis.log_probs == pytest.approx(model, rel=1e-4)
        assert hypothesis.finished == (hypothesis.ids[-1] == EOS)
        assert hypothesis.finished or len(hypothesis.ids) == 7


def test_what_is_drawn_keeps_the_rules():
    requests = [Request((2,), prefix=(C, A)), Request((3,))]
    constraints = DecodingConstraints(no_repeat=2, min_length=4)

    results = drawn(
        random_logits(2),
        requests,
        limits=(9, 7),
        beam=13,
        draw=SamplingConfig(),
        constraints=constraints,
    )

    every = [hypothesis.ids for some in results for hypothesis in some]
    assert all(len(ids) >= 5 or ids[-1] != EOS for ids in every)
    assert all(len(set(itertools.pairwise(ids))) == len(ids) - 1 for ids in every)
    assert all(hypothesis.ids[:2] == (C, A) for hypothesis in results[0])


def test_draws_that_come_to_nothing_are_left_out():
    # B bars A and cannot end; A can go on to B only, as no piece comes twice.
    logits = table({(): {A: 0.5, B: 0.5}, (A,): {EOS: 1.0}, (B,): {B: 1.0}})

    (hypotheses,) = drawn(
        logits,
        [Request(())],
        limits=[5],
        beam=20,
        draw=SamplingConfig(),
        constraints=DecodingConstraints(no_repeat=1),
    )

    assert {hypothesis.ids for hypothesis in hypotheses} == {(A, EOS)}
    assert 0 < len(hypotheses) < 20


def test_draws_that_all_come_to_nothing_are_refused():
    with pytest.raises(ValueError, match="no translation that satisfies all constraints"):
        drawn(
            random_logits(0),
            [Request(())],
            limits=[9],
            beam=3,
            draw=SamplingConfig(),
            constraints=DecodingConstraints(no_repeat=1, min_length=4),
        )


def test_logits_that_are_not_numbers_are_refused():
    with pytest.raises(ValueError, match="logits are NaN or infinite"):
        drawn(lambda *_: [math.nan] * 5, [Request(())], limits=[3], beam=2, draw=SamplingConfig())


def test_no_sentences_have_no_draws():
    assert drawn(random_logits(0), [], limits=[], beam=3, draw=SamplingConfig()) == []
