"""The quick ways to search, greedily and one sentence alone, find what the general search finds."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from tests.unit.inference.engines.conftest import PLAIN_SHAPE, lively
from tests.unit.search.toys import EOS, PAD, A, Logits, Toy, random_logits
from torch import Tensor

from transduce.data.batch import pad_source
from transduce.model.fused_decoder import FusedDecoder
from transduce.search.beam import beam_search
from transduce.search.config import SearchConfig
from transduce.search.fast_paths import fast_search
from transduce.search.hypothesis import Hypothesis
from transduce.search.steps import SearchTask, Steps

Found = list[list[Hypothesis]]


def both(
    steps: Callable[[], Steps], limits: Sequence[int], config: SearchConfig, *, eos: int, pad: int
) -> tuple[Found, Found]:
    """What the quick way finds, and what the general one does."""
    options = {"limits": limits, "config": config, "eos": eos, "pad": pad, "device": "cpu"}
    return fast_search(steps(), SearchTask(**options)), beam_search(steps(), SearchTask(**options))


def same(quick: Found, slow: Found) -> None:
    assert [[hypothesis.ids for hypothesis in best] for best in quick] == [
        [hypothesis.ids for hypothesis in best] for best in slow
    ]
    assert [[(hypothesis.score, hypothesis.finished) for hypothesis in best] for best in quick] == [
        [(pytest.approx(hypothesis.score, abs=1e-6), hypothesis.finished) for hypothesis in best]
        for best in slow
    ]


def toys(logits: Logits, *, sentences: int, beam: int) -> Callable[[], Toy]:
    return lambda: Toy(logits, sentences=sentences, beam=beam)


@pytest.mark.parametrize("seed", range(7))
def test_greedy_search_is_beam_search_with_one_beam(seed: int):
    limits = [7, 1, 3, 11]

    steps = toys(random_logits(seed), sentences=4, beam=1)

    same(*both(steps, limits, SearchConfig(beam=1, alpha=0.7), eos=EOS, pad=PAD))


@pytest.mark.parametrize("beam", [2, 3, 5, 50])
@pytest.mark.parametrize("seed", range(7))
def test_a_sentence_alone_is_searched_as_among_others(seed: int, beam: int):
    steps = toys(random_logits(seed), sentences=1, beam=beam)

    same(*both(steps, [9], SearchConfig(beam=beam, alpha=0.7), eos=EOS, pad=PAD))


@pytest.mark.parametrize("beam", [2, 3])
def test_equals_stand_in_the_same_order_alone(beam: int):
    steps = toys(lambda *_: [0.0] * 5, sentences=1, beam=beam)

    same(*both(steps, [4], SearchConfig(beam=beam), eos=EOS, pad=PAD))


def test_of_equals_greedy_search_says_the_first():
    toy = Toy(lambda *_: [0.0, 1.0, 1.0, 1.0, 9.0], sentences=2, beam=1)

    hypotheses = fast_search(
        toy, SearchTask(limits=[3, 2], config=SearchConfig(beam=1), eos=EOS, pad=PAD, device="cpu")
    )

    assert [best[0].ids for best in hypotheses] == [(A, A, A), (A, A)]


@pytest.mark.parametrize(("sentences", "beam"), [(1, 1), (1, 3), (3, 1)])
def test_logits_that_are_not_numbers_are_refused_on_every_way(sentences: int, beam: int):
    toy = Toy(lambda *_: [math.nan] * 5, sentences=sentences, beam=beam)

    with pytest.raises(ValueError, match="logits are NaN or infinite"):
        fast_search(
            toy,
            SearchTask(
                limits=[3] * sentences,
                config=SearchConfig(beam=beam),
                eos=EOS,
                pad=PAD,
                device="cpu",
            ),
        )


def test_the_rows_of_sentences_that_ended_are_dropped_from_greedy_search():
    toy = Toy(random_logits(1), sentences=4, beam=1)

    fast_search(
        toy,
        SearchTask(
            limits=[1, 5, 2, 3], config=SearchConfig(beam=1), eos=EOS, pad=PAD, device="cpu"
        ),
    )

    assert toy.sizes == sorted(toy.sizes, reverse=True)
    assert toy.sizes[0] == 4
    assert toy.sizes[1] <= 3
    assert len(toy.sizes) <= 5


@pytest.mark.parametrize(("sentences", "beam"), [(13, 1), (1, 1), (1, 4), (1, 5)])
def test_a_model_is_searched_alike_on_every_way(sentences: int, beam: int):
    model = lively(PLAIN_SHAPE)
    draw = torch.Generator().manual_seed(sentences)
    sources = [torch.randint(1, 96, (3 + n,), generator=draw).tolist() for n in range(sentences)]
    limits = [len(source) + 11 for source in sources]
    ids, mask = pad_source(sources, pad=96, eos=0)

    with torch.no_grad():
        results = both(
            lambda: FusedDecoder(model, ids, mask, beams=beam),
            limits,
            SearchConfig(beam=beam),
            eos=0,
            pad=96,
        )

    same(*results)


def test_the_large_vocabulary_of_a_sentence_alone_is_searched_alike():
    draw = torch.Generator().manual_seed(3)
    table = torch.randn(11, 1283, generator=draw) * 2

    class Wide:
        """Says by its last id and its length alone."""

        def __init__(self) -> None:
            self.length = 0

        def step(self, ids: Tensor) -> Tensor:
            self.length += 1
            return table[(ids + self.length) % 11].clone()

        def reorder(self, beam_indices: Tensor) -> None: ...

        def select(self, batch_indices: Tensor) -> None: ...

    same(*both(Wide, [9], SearchConfig(beam=4), eos=0, pad=1282))
