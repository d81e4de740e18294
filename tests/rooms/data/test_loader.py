"""The loader: whole epochs in the sampler's order, and pieces drawn by seed, epoch and update."""

from itertools import islice

import numpy as np
import torch
from tests.conftest import Corpus

from transduce.data.batch import Batch
from transduce.data.config import BatchConfig
from transduce.data.loader import Loaded
from transduce.data.sampler import Place, Sampler


def first(
    corpus: Corpus, count: int, *, place: Place | None = None, sampling: float
) -> list[Loaded]:
    return list(islice(corpus.loader(sampling=sampling).updates(place or Place()), count))


def texts(corpus: Corpus, batch: Batch) -> list[str]:
    return [corpus.tokenizer.decode(row.tolist()) for row in batch.source]


def equal(one: Loaded, other: Loaded) -> bool:
    return len(one.batches) == len(other.batches) and all(
        torch.equal(ours.source, theirs.source) and torch.equal(ours.target_out, theirs.target_out)
        for ours, theirs in zip(one.batches, other.batches, strict=True)
    )


def test_updates_come_as_the_sampler_plans_them(corpus: Corpus):
    lengths = corpus.store.lengths
    sampler = Sampler(lengths, config=BatchConfig(tokens=101, micro_tokens=4096), seed=1)

    loaded = first(corpus, 7, sampling=0.0)

    for update, planned in zip(loaded, islice(sampler.updates(Place()), 7), strict=True):
        assert update.place_after == planned.place_after
        tokens = sum(int((lengths[pairs, 1] + 1).sum()) for pairs in planned.micro_batches)
        assert sum(batch.target_tokens for batch in update.batches) == tokens


def test_drawn_pieces_spell_the_same_sentences(corpus: Corpus):
    (drawn,), (usual,) = first(corpus, 1, sampling=0.5), first(corpus, 1, sampling=0.0)

    assert [texts(corpus, batch) for batch in drawn.batches] == [
        texts(corpus, batch) for batch in usual.batches
    ]
    assert drawn.batches[0].source.size(1) > usual.batches[0].source.size(1)


def test_an_update_draws_the_same_pieces_wherever_the_run_began(corpus: Corpus):
    straight = first(corpus, 5, sampling=0.3)

    resumed = first(corpus, 3, place=straight[1].place_after, sampling=0.3)

    assert all(map(equal, resumed, straight[2:]))


def test_another_epoch_draws_other_pieces_of_a_sentence(corpus: Corpus):
    whole = corpus.loader(tokens=10**6, sampling=0.3).updates(Place())

    pieces = [
        {
            text: tuple(row.tolist())
            for batch in next(whole).batches
            for text, row in zip(texts(corpus, batch), batch.source, strict=True)
        }
        for _ in range(2)
    ]

    assert pieces[0].keys() == pieces[1].keys()
    assert np.mean([pieces[0][text] != pieces[1][text] for text in pieces[0]]) > 0.5


def test_a_drawing_that_is_over_long_gives_way_to_the_usual_pieces(corpus: Corpus):
    loaded = first(corpus, 20, sampling=0.99)

    longest = max(batch.source.size(1) for update in loaded for batch in update.batches)
    assert longest <= corpus.store.facts.max_pieces + 1
