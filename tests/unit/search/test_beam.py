"""Search is proved on toys: a table says the logits of every prefix, so all can be enumerated."""

import math
from collections.abc import Sequence

import pytest
from jaxtyping import Float, Int
from tests.unit.search.toys import (
    EOS,
    PAD,
    A,
    B,
    C,
    Logits,
    Toy,
    enumerate_all,
    log_softmax,
    random_logits,
    table,
)
from torch import Tensor

from transduce.search.beam import beam_search
from transduce.search.config import SearchConfig
from transduce.search.fast_paths import fast_search
from transduce.search.hypothesis import Hypothesis, length_penalty
from transduce.search.steps import SearchTask


def search(
    logits: Logits, *, limits: Sequence[int], beam: int, alpha: float = 0.6
) -> list[list[Hypothesis]]:
    """By the general search, and by the fast path where there is one: they agree."""
    config = SearchConfig(beam=beam, alpha=alpha)
    task = SearchTask(limits=limits, config=config, eos=EOS, pad=PAD, device="cpu")
    general, fast = (
        way(Toy(logits, sentences=len(limits), beam=beam), task)
        for way in (beam_search, fast_search)
    )
    assert [[hypothesis.ids for hypothesis in best] for best in general] == [
        [hypothesis.ids for hypothesis in best] for best in fast
    ]
    return fast


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.7])
def test_a_beam_that_holds_everything_finds_the_enumerated_best(seed: int, alpha: float):
    limits = (4, 1, 3)
    logits = random_logits(seed)

    results = search(logits, limits=limits, beam=121, alpha=alpha)  # 40 + 81 possible outputs

    for sentence, hypotheses in enumerate(results):
        scores = enumerate_all(logits, sentence=sentence, limit=limits[sentence], alpha=alpha)
        ranked = sorted(scores, key=lambda ids: -scores[ids])
        assert [hypothesis.ids for hypothesis in hypotheses] == ranked
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(
            [scores[ids] for ids in ranked], rel=1e-4
        )


@pytest.mark.parametrize("seed", range(20))
def test_a_beam_of_1_is_greedy(seed: int):
    limits = (7, 3, 5, 11)
    logits = random_logits(seed)

    results = search(logits, limits=limits, beam=1)

    for sentence, limit in enumerate(limits):
        ids: list[int] = []
        while len(ids) < limit and ids[-1:] != [EOS]:
            after = log_softmax(logits(sentence, (PAD, *ids)))
            ids.append(after.index(max(after)))
        assert [hypothesis.ids for hypothesis in results[sentence]] == [tuple(ids)]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("beam", [2, 3, 5])
def test_a_sentence_fares_the_same_alone_and_among_others(seed: int, beam: int):
    limits = (7, 2, 5, 11, 1)
    logits = random_logits(seed)

    together = search(logits, limits=limits, beam=beam)

    for sentence, limit in enumerate(limits):

        def shifted(_: int, prefix: tuple[int, ...], sentence: int = sentence) -> Sequence[float]:
            return logits(sentence, prefix)

        assert search(shifted, limits=[limit], beam=beam) == [together[sentence]]


@pytest.mark.parametrize("seed", range(5))
def test_the_log_probabilities_are_those_of_the_pieces_said(seed: int):
    logits = random_logits(seed)

    results = search(logits, limits=(5, 7), beam=3)

    for sentence, hypotheses in enumerate(results):
        for hypothesis in hypotheses:
            expected = [
                log_softmax(logits(sentence, (PAD, *hypothesis.ids[:place])))[piece]
                for place, piece in enumerate(hypothesis.ids)
            ]
            assert hypothesis.log_probs == pytest.approx(expected, rel=1e-4)
            assert hypothesis.log_prob == pytest.approx(sum(expected), rel=1e-4)


def test_an_eos_below_the_first_candidates_is_forgotten():
    # Of two beams: A 0.5, B 0.3 are the first two candidates, EOS 0.2 the third.
    logits = table({(): {A: 0.5, B: 0.3, EOS: 0.2}, (A,): {C: 1.0}, (B,): {C: 1.0}})

    (hypotheses,) = search(logits, limits=[9], beam=2)

    assert [hypothesis.ids for hypothesis in hypotheses] == [(A, C, EOS), (B, C, EOS)]


def test_an_eos_among_the_first_candidates_leaves_its_place_to_the_next():
    # EOS takes one of the two first places of step 1; B, third, goes on and wins nothing for it.
    logits = table({(): {A: 0.4, EOS: 0.35, B: 0.25}, (A,): {C: 1.0}, (B,): {EOS: 1.0}})

    (hypotheses,) = search(logits, limits=[9], beam=2, alpha=0.0)

    assert [hypothesis.ids for hypothesis in hypotheses] == [(EOS,), (B, EOS)]


def test_the_longer_of_two_wins_by_the_length_penalty():
    rows = {(): {EOS: 0.5, A: 0.5}, (A,): {B: 0.95, C: 0.05}, (A, B): {EOS: 0.95, C: 0.05}}

    (bare,) = search(table(rows), limits=[9], beam=2, alpha=0.0)
    (penalised,) = search(table(rows), limits=[9], beam=2, alpha=1.0)

    assert bare[0].ids == (EOS,)
    assert penalised[0].ids == (A, B, EOS)
    assert penalised[0].score == pytest.approx(math.log(0.5 * 0.95**2) / (8 / 6))


def test_what_the_limit_cuts_is_scored_like_what_ended():
    logits = table({(): {A: 0.9, EOS: 0.1}, (A,): {B: 0.9, EOS: 0.1}})

    (hypotheses,) = search(logits, limits=[2], beam=2, alpha=1.0)

    assert [(hypothesis.ids, hypothesis.finished) for hypothesis in hypotheses] == [
        ((A, B), False),
        ((A, EOS), True),
    ]
    assert hypotheses[0].score == pytest.approx(math.log(0.81) / (7 / 6))


def test_the_search_ends_with_the_sentence_whose_beams_have_finished():
    toy = Toy(table({(): {A: 0.6, B: 0.4}}), sentences=2, beam=2)

    beam_search(
        toy,
        SearchTask(limits=[50, 50], config=SearchConfig(beam=2), eos=EOS, pad=PAD, device="cpu"),
    )

    assert toy.sizes == [4, 4]


def test_the_rows_of_ended_sentences_are_dropped():
    toy = Toy(random_logits(0), sentences=4, beam=3)

    beam_search(
        toy,
        SearchTask(
            limits=[1, 5, 2, 3], config=SearchConfig(beam=3), eos=EOS, pad=PAD, device="cpu"
        ),
    )

    assert toy.sizes == sorted(toy.sizes, reverse=True)
    assert (toy.sizes[0], toy.sizes[1]) == (12, 9)
    assert len(toy.sizes) <= 5


def test_pad_is_never_said():
    (hypotheses,) = search(lambda *_: [0.0, 0.0, 0.0, 0.0, 99.0], limits=[3], beam=4)

    assert all(PAD not in hypothesis.ids for hypothesis in hypotheses)
    assert hypotheses[0].log_probs == pytest.approx([math.log(1 / 4)] * len(hypotheses[0].ids))


def test_equals_stand_in_the_order_of_their_ids():
    (hypotheses,) = search(lambda *_: [0.0] * 5, limits=[2], beam=3)

    assert [hypothesis.ids for hypothesis in hypotheses] == [(EOS,), (A, EOS), (A, A)]


def test_a_beam_larger_than_the_vocabulary_finds_each_way_once():
    (hypotheses,) = search(random_logits(3), limits=[1], beam=50)

    assert sorted(hypothesis.ids for hypothesis in hypotheses) == [(EOS,), (A,), (B,), (C,)]


def test_a_model_that_can_only_end_ends_at_once():
    toy = Toy(lambda *_: [0.0, -math.inf, -math.inf, -math.inf, 0.0], sentences=1, beam=4)

    (hypotheses,) = beam_search(
        toy, SearchTask(limits=[50], config=SearchConfig(beam=4), eos=EOS, pad=PAD, device="cpu")
    )

    assert [hypothesis.ids for hypothesis in hypotheses] == [(EOS,)]
    assert len(toy.sizes) == 1


def test_no_sentences_have_no_hypotheses():
    assert search(random_logits(0), limits=[], beam=4) == []


def test_logits_that_are_not_numbers_are_refused():
    with pytest.raises(ValueError, match="logits are NaN or infinite"):
        search(lambda *_: [math.nan] * 5, limits=[3], beam=2)


@pytest.mark.parametrize(
    ("length", "alpha", "penalty"),
    [(1, 0.6, 1.0), (7, 1.0, 2.0), (19, 0.5, 2.0), (13, 0.0, 1.0), (10, 0.6, 1.7328621)],
)
def test_the_length_penalty_is_that_of_gnmt(length: int, alpha: float, penalty: float):
    assert length_penalty(length, alpha) == pytest.approx(penalty)


@pytest.mark.parametrize(
    ("field", "value"),
    [("beam", 0), ("alpha", -0.1), ("alpha", math.nan), ("extra", 0), ("max_source", 0)],
)
def test_a_setting_out_of_range_is_named(field: str, value: float):
    with pytest.raises(ValueError, match=rf"^search\.{field} must be .* not {value}$"):
        SearchConfig(**{field: value})  # type: ignore[arg-type]


def test_log_probabilities_of_half_precision_logits_are_single_precision():
    class Half(Toy):
        def step(self, ids: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
            return super().step(ids).bfloat16()

    logits: Logits = lambda *_: [0.0, 1.0, 2.0, 4.0, 9.0]  # noqa: E731
    config = SearchConfig(beam=2)

    (hypotheses,) = beam_search(
        Half(logits, sentences=1, beam=2),
        SearchTask(limits=[1], config=config, eos=EOS, pad=PAD, device="cpu"),
    )

    assert hypotheses[0].log_prob == pytest.approx(log_softmax(logits(0, ()))[C], rel=1e-6)
