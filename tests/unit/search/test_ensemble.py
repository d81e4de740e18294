"""An ensemble decides by the mean of probabilities."""

import math

import pytest
import torch
from tests.unit.search.toys import EOS, PAD, A, B, C, Logits, Toy, random_logits, table

from transduce.search.beam import beam_search
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.steps import Ensemble, SearchTask


def search(
    *members: Logits, beam: int, sentences: int = 1, limit: int = 9
) -> list[list[Hypothesis]]:
    toys = [Toy(logits, sentences=sentences, beam=beam) for logits in members]
    return beam_search(
        Ensemble(toys, pad=PAD),
        SearchTask(
            limits=[limit] * sentences,
            config=SearchConfig(beam=beam),
            eos=EOS,
            pad=PAD,
            device="cpu",
        ),
    )


def test_probabilities_are_averaged_not_their_logarithms():
    first = table({(): {A: 0.9, B: 0.1}})
    second = table({(): {B: 0.5, C: 0.4, A: 0.1}})

    (hypotheses,) = search(first, second, beam=3)

    log_probs = {hypothesis.ids[0]: hypothesis.log_probs[0] for hypothesis in hypotheses}
    assert log_probs == pytest.approx({A: math.log(0.5), B: math.log(0.3), C: math.log(0.2)})


def test_pad_takes_no_part_in_a_members_vote():
    low: Logits = lambda *_: [0.0] * 5  # noqa: E731
    high: Logits = lambda *_: [0.0, 0.0, 0.0, 0.0, 50.0]  # noqa: E731
    members = [Toy(logits, sentences=1, beam=1) for logits in (low, high)]

    log_probs = Ensemble(members, pad=PAD).step(torch.tensor([PAD]))

    assert log_probs[0].tolist() == pytest.approx([math.log(1 / 4)] * 4 + [-math.inf])


def test_members_alike_are_one_model():
    logits = random_logits(3)

    alone = search(logits, beam=3, sentences=2)
    thrice = search(logits, logits, logits, beam=3, sentences=2)

    assert [[hypothesis.ids for hypothesis in some] for some in thrice] == [
        [hypothesis.ids for hypothesis in some] for some in alone
    ]


def test_all_members_keep_and_drop_the_same_rows():
    toys = [Toy(random_logits(seed), sentences=3, beam=2) for seed in range(2)]

    beam_search(
        Ensemble(toys, pad=PAD),
        SearchTask(limits=[1, 7, 5], config=SearchConfig(beam=2), eos=EOS, pad=PAD, device="cpu"),
    )

    assert toys[0].rows == toys[1].rows
    assert toys[0].sizes == toys[1].sizes
    assert toys[0].sizes[1] == 4
