"""The loader: whole epochs in the sampler's order, and pieces drawn by seed, epoch and update."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.conftest import Corpus

from transduce.data.batch import Batch
from transduce.data.config import BatchConfig
from transduce.data.corpus import NumberedPair, Pair
from transduce.data.loader import LoadedUpdate
from transduce.data.sampler import Sampler, SamplerState
from transduce.data.store import Store


def first(
    corpus: Corpus, count: int, *, place: SamplerState | None = None, sampling: float
) -> list[LoadedUpdate]:
    return list(islice(corpus.loader(sampling=sampling).updates(place or SamplerState()), count))


def texts(corpus: Corpus, batch: Batch) -> list[str]:
    return [corpus.tokenizer.decode(row.tolist()) for row in batch.source]


def equal(loaded: LoadedUpdate, other: LoadedUpdate) -> bool:
    return len(loaded.batches) == len(other.batches) and all(
        torch.equal(batch.source, other_batch.source)
        and torch.equal(batch.target_out, other_batch.target_out)
        for batch, other_batch in zip(loaded.batches, other.batches, strict=True)
    )


def test_updates_come_as_the_sampler_plans_them(corpus: Corpus):
    lengths = corpus.store.lengths
    sampler = Sampler(lengths, config=BatchConfig(tokens=101, micro_tokens=4096), seed=1)

    loaded = first(corpus, 7, sampling=0.0)

    for update, planned in zip(loaded, islice(sampler.updates(SamplerState()), 7), strict=True):
        assert update.state_after == planned.state_after
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

    resumed = first(corpus, 3, place=straight[1].state_after, sampling=0.3)

    assert all(map(equal, resumed, straight[2:]))


def test_processes_load_an_update_together_with_the_pieces_that_one_would_draw(corpus: Corpus):
    (alone,) = first(corpus, 1, sampling=0.3)
    loaders = [corpus.loader(sampling=0.3, rank=rank, world=3) for rank in range(3)]

    shares = [next(loader.updates(SamplerState())) for loader in loaders]

    def sources(*loaded: LoadedUpdate) -> list[list[int]]:
        batches = [batch for update in loaded for batch in update.batches]
        return sorted(row[: row.index(0)] for b in batches for row in b.source.tolist())

    assert sources(*shares) == sources(alone)
    assert [share.state_after for share in shares] == [alone.state_after] * 3


def test_every_process_can_say_the_lines_of_the_whole_update(corpus: Corpus):
    (alone,) = first(corpus, 1, sampling=0.0)

    share = next(corpus.loader(rank=2, world=3).updates(SamplerState()))

    assert share.lines() == alone.lines()
    assert sum(batch.target_tokens for batch in share.batches) < alone.batches[0].target_tokens


def test_another_epoch_draws_other_pieces_of_the_same_sentence(corpus: Corpus, tmp_path: Path):
    single = alone(
        corpus, tmp_path, Pair("one two three four", "four three two one"), max_pieces=50
    )

    epochs = islice(single.loader(sampling=0.3).updates(SamplerState()), 5)

    assert len({tuple(update.batches[0].source[0].tolist()) for update in epochs}) > 1


def test_a_drawing_that_is_over_long_gives_way_to_the_usual_pieces(corpus: Corpus, tmp_path: Path):
    pair = Pair("one two three four", "four three two one")
    usual = corpus.tokenizer.encode(pair.source)
    single = alone(corpus, tmp_path, pair, max_pieces=len(usual))

    for update in islice(single.loader(sampling=0.9).updates(SamplerState()), 5):
        assert update.batches[0].source[0].tolist() == [*usual, 0]


def alone(corpus: Corpus, folder: Path, pair: Pair, *, max_pieces: int) -> Corpus:
    """A store of one pair, so that every update is that pair."""
    store = Store.write(
        folder / "store", [NumberedPair(1, pair)], tokenizer=corpus.tokenizer, max_pieces=max_pieces
    )
    return Corpus(store=store, tokenizer=corpus.tokenizer)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_forged_id_that_the_vocabulary_lacks_is_refused_in_one_line(
    corpus: Corpus, tmp_path: Path, side: str
):
    pairs = [NumberedPair(line, Pair("one two", "two one")) for line in (3, 5)]
    written = Store.write(tmp_path / "s", pairs, tokenizer=corpus.tokenizer, max_pieces=50)
    ids = np.fromfile(tmp_path / "s" / f"{side}.ids", dtype="<u2")
    ids[-1] = corpus.tokenizer.pad
    ids.tofile(tmp_path / "s" / f"{side}.ids")
    forged = replace(corpus, store=Store.open(tmp_path / "s", verify=False))

    with pytest.raises(ValueError, match=r"^the prepared corpus has id 36 near line 3, .* 35: "):
        next(forged.loader().updates(SamplerState()))

    assert len(written) == 2
