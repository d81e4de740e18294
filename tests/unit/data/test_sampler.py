"""Every pair once an epoch, the same plan from the same seed, little padding."""

import itertools
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.data.config import BatchConfig
from transduce.data.sampler import Sampler, SamplerState, UpdatePlan

Case = tuple[np.ndarray, BatchConfig, int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    pairs = draw(
        st.lists(st.tuples(st.integers(0, 23), st.integers(0, 23)), min_size=1, max_size=71)
    )
    config = BatchConfig(tokens=draw(st.integers(1, 211)), micro_tokens=draw(st.integers(1, 97)))
    return np.array(pairs, dtype=np.int64), config, draw(st.integers(0, 5))


def like_multi30k(pairs: int) -> np.ndarray:
    """Lengths in pieces with the means and spreads of its training set (14.1 ± 4.7, 14.4 ± 5.3)."""
    rng = np.random.default_rng(7)
    both = rng.normal(size=(pairs, 1)) * 0.32
    noise = rng.normal(size=(pairs, 2)) * (0.11, 0.15)
    return np.clip(np.exp(both + noise + np.log((13.3, 13.5))).round(), 2, 50).astype(np.int64)


def epoch(sampler: Sampler, number: int) -> list[UpdatePlan]:
    return list(
        itertools.islice(sampler.updates(SamplerState(number, 0)), sampler.epoch_updates(number))
    )


def flat(planned: list[UpdatePlan]) -> list[list[list[int]]]:
    return [[micro.tolist() for micro in update.micro_batches] for update in planned]


@settings(max_examples=25, deadline=None)
@given(cases())
def test_every_pair_comes_exactly_once_an_epoch(case: Case):
    lengths, config, seed = case
    sampler = Sampler(lengths, config=config, seed=seed)

    for number in range(3):
        pairs = np.concatenate([np.concatenate(u.micro_batches) for u in epoch(sampler, number)])
        assert sorted(pairs.tolist()) == list(range(len(lengths)))


def planned_at_once(lengths: np.ndarray, *, tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """The updates of an epoch by the rule, with all of the corpus in hand."""
    lengths = lengths.astype(np.int64) + 1
    rng = np.random.default_rng([seed, epoch])
    near = (lengths * (1.0 + rng.random(lengths.shape, dtype=np.float32) / 16)).astype(np.int64)
    source, target = np.minimum(near, (1 << 20) - 1).T
    source = np.where(target % 2 == 0, source, (1 << 20) - 1 - source)
    tie = rng.integers(1 << 23, size=len(lengths))
    order = np.lexsort((tie, source, target))
    ends = lengths[order, 1].cumsum()
    updates = max(1, round(int(ends[-1]) / tokens))
    full = ends[-1] / updates * np.arange(1, updates)
    cuts = np.searchsorted(ends - lengths[order, 1] / 2, full)
    filled = [pairs.tolist() for pairs in np.split(order, cuts) if len(pairs)]
    return [sorted(filled[index]) for index in rng.permutation(len(filled)).tolist()]


@settings(max_examples=50, deadline=None)
@given(cases(), st.integers(0, 1), st.sampled_from([1, 2, 3, 7, 1 << 18]), st.booleans())
def test_a_plan_made_in_blocks_is_the_one_made_at_once(
    case: Case, number: int, block: int, small: bool
):
    lengths, config, seed = case
    given = lengths.astype(np.uint16) if small else lengths

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("transduce.data.sampler._BLOCK", block)
        made = epoch(Sampler(given, config=config, seed=seed), number)

    expected = planned_at_once(lengths, tokens=config.tokens, seed=seed, epoch=number)
    assert [sorted(np.concatenate(u.micro_batches).tolist()) for u in made] == expected


def test_planning_an_epoch_takes_a_few_bytes_a_pair(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("transduce.data.sampler._BLOCK", 1009)
    sampler = Sampler(
        like_multi30k(100_003).astype(np.uint16), config=BatchConfig(tokens=25_000), seed=1
    )

    tracemalloc.start()
    for number in range(2):
        sampler.epoch_updates(number)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 22 * 100_003
    assert kept < 5 * 100_003


@settings(max_examples=25, deadline=None)
@given(cases())
def test_micro_batches_fit_unless_one_sentence_does_not(case: Case):
    lengths, config, seed = case

    for update in epoch(Sampler(lengths, config=config, seed=seed), 0):
        for micro in update.micro_batches:
            positions = len(micro) * (lengths[micro].max() + 1)
            assert len(micro) == 1 or positions <= config.micro_tokens


@settings(max_examples=25, deadline=None)
@given(cases(), st.data())
def test_going_on_from_any_place_is_as_if_never_stopped(case: Case, data: st.DataObject):
    lengths, config, seed = case
    uninterrupted = list(
        itertools.islice(Sampler(lengths, config=config, seed=seed).updates(SamplerState(0, 0)), 13)
    )
    done = data.draw(st.integers(1, len(uninterrupted) - 1))

    rest = Sampler(lengths, config=config, seed=seed).updates(uninterrupted[done - 1].state_after)
    resumed = list(itertools.islice(rest, len(uninterrupted) - done))

    assert flat(resumed) == flat(uninterrupted[done:])
    assert [u.state_after for u in resumed] == [u.state_after for u in uninterrupted[done:]]


@settings(max_examples=25, deadline=None)
@given(cases(), st.integers(1, 97))
def test_memory_does_not_change_what_an_update_learns_from(case: Case, micro_tokens: int):
    lengths, config, seed = case
    other = BatchConfig(tokens=config.tokens, micro_tokens=micro_tokens)

    single, two = (
        [
            sorted(np.concatenate(u.micro_batches).tolist())
            for u in epoch(Sampler(lengths, config=batch_config, seed=seed), 1)
        ]
        for batch_config in (config, other)
    )

    assert single == two


@settings(max_examples=25, deadline=None)
@given(cases(), st.integers(2, 7))
def test_the_number_of_processes_does_not_change_what_an_update_learns_from(case: Case, world: int):
    lengths, config, seed = case
    alone = Sampler(lengths, config=config, seed=seed)
    several = Sampler(lengths, config=config, seed=seed, world=world)

    for item, shared in zip(epoch(alone, 1), epoch(several, 1), strict=True):
        dealt = [pairs for rank in range(world) for pairs in shared.share(rank, world=world)]
        assert sorted(np.concatenate(dealt)) == sorted(np.concatenate(item.micro_batches))
        assert item.state_after == shared.state_after


@settings(max_examples=25, deadline=None)
@given(cases(), st.integers(2, 7))
def test_what_one_process_gets_of_a_micro_batch_fits_unless_one_sentence_does_not(
    case: Case, world: int
):
    lengths, config, seed = case

    for update in epoch(Sampler(lengths, config=config, seed=seed, world=world), 0):
        for rank in range(world):
            for pairs in update.share(rank, world=world):
                positions = len(pairs) * (lengths[pairs].max() + 1)
                assert len(pairs) == 1 or positions <= config.micro_tokens


def test_processes_share_the_memory_that_an_update_takes():
    lengths = np.full((60, 2), 9)
    config = BatchConfig(tokens=600, micro_tokens=100)

    passes = [
        len(epoch(Sampler(lengths, config=config, seed=3, world=world), 0)[0].micro_batches)
        for world in (1, 2, 3, 7)
    ]

    assert passes == [6, 3, 2, 1]


def test_rows_that_are_over_go_to_one_process_after_the_other():
    planned = UpdatePlan(
        SamplerState(), (np.array([2, 3, 5]), np.array([7, 11, 13]), np.array([17]))
    )

    first, second = (planned.share(rank, world=2) for rank in range(2))

    assert [pairs.tolist() for pairs in first] == [[2, 5], [11], [17]]
    assert [pairs.tolist() for pairs in second] == [[3], [7, 13]]


@settings(max_examples=25, deadline=None)
@given(cases())
def test_updates_differ_by_no_more_than_their_longest_targets(case: Case):
    lengths, config, seed = case
    sampler = Sampler(lengths, config=config, seed=seed)
    targets = lengths[:, 1] + 1
    average = targets.sum() / max(1, round(targets.sum() / config.tokens))

    for update in epoch(sampler, 0):
        pairs = np.concatenate(update.micro_batches)
        assert abs(targets[pairs].sum() - average) <= max(targets.max(), average)
        if average >= targets.max():
            assert abs(targets[pairs].sum() - average) <= targets.max()


def test_updates_hold_about_the_tokens_that_were_asked_for():
    lengths = like_multi30k(4999)
    sampler = Sampler(lengths, config=BatchConfig(tokens=4096), seed=3)

    tokens = [
        int((lengths[np.concatenate(u.micro_batches), 1] + 1).sum()) for u in epoch(sampler, 0)
    ]

    assert all(abs(count / 4096 - 1) < 0.05 for count in tokens)


def test_seed_and_epoch_change_the_plan():
    lengths = like_multi30k(997)
    plans = [
        flat(epoch(Sampler(lengths, config=BatchConfig(tokens=499), seed=seed), number))
        for seed, number in ((3, 0), (3, 1), (5, 0), (3, 0))
    ]

    assert plans[0] == plans[3]
    assert plans[0] != plans[1]
    assert plans[0] != plans[2]


def test_updates_are_not_in_order_of_length():
    lengths = like_multi30k(4999)
    sampler = Sampler(lengths, config=BatchConfig(tokens=997), seed=3)

    means = [lengths[np.concatenate(u.micro_batches), 1].mean() for u in epoch(sampler, 0)]

    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.5


@pytest.mark.parametrize("tokens", [2048, 4096, 25000])
def test_less_than_one_position_in_twenty_is_padding(tokens: int):
    sampler = Sampler(like_multi30k(28_998), config=BatchConfig(tokens=tokens), seed=1)

    assert 0.0 < sampler.padding_share < 0.05


def test_an_update_of_all_lengths_is_ordered_by_both_sides():
    """By source alone, the targets of a micro-batch would be as long as they like."""
    sampler = Sampler(like_multi30k(28_998), config=BatchConfig(tokens=10**6), seed=1)

    assert sampler.epoch_updates(0) == 1
    assert sampler.padding_share < 0.067  # 0.069 by source alone


def test_padding_share_is_what_the_batches_have():
    lengths = like_multi30k(997)
    sampler = Sampler(lengths, config=BatchConfig(tokens=499, micro_tokens=211), seed=3)
    batches = [lengths[m] + 1 for update in epoch(sampler, 0) for m in update.micro_batches]

    real = sum(batch.sum() for batch in batches)
    positions = sum(len(batch) * batch.max(axis=0).sum() for batch in batches)

    assert sampler.padding_share == pytest.approx(1 - real / positions)


def test_place_after_counts_updates_and_then_epochs():
    sampler = Sampler(like_multi30k(101), config=BatchConfig(tokens=499), seed=3)
    updates = sampler.epoch_updates(0)

    places = [
        u.state_after for u in itertools.islice(sampler.updates(SamplerState(0, 0)), updates + 1)
    ]

    assert places[:-1] == [
        *(SamplerState(0, done) for done in range(1, updates)),
        SamplerState(1, 0),
    ]
    assert places[-1] == SamplerState(1, 1)


@pytest.mark.parametrize("update", [-1, 3, 4])
def test_place_behind_the_end_of_its_epoch_is_refused(update: int):
    sampler = Sampler(np.full((30, 2), 9), config=BatchConfig(tokens=100), seed=3)

    with pytest.raises(ValueError, match=f"update {update} of epoch 5 .* has 3 updates"):
        next(sampler.updates(SamplerState(5, update)))


def test_no_pair_is_refused():
    with pytest.raises(ValueError, match=r"no pair to learn from; check data\.train"):
        Sampler(np.zeros((0, 2), dtype=np.int64), config=BatchConfig(), seed=3)


def test_planning_does_not_loop_over_sentences():
    sampler = Sampler(like_multi30k(300_007), config=BatchConfig(), seed=3)

    times = []

    for _ in range(5):
        start = time.perf_counter()
        sampler.epoch_updates(0)
        times.append(time.perf_counter() - start)

    assert min(times) < 1.0  # about a tenth on a quiet machine
