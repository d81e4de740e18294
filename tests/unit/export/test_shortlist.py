"""A shortlist is learned from what a model looks at, and says honestly what it covers."""

import dataclasses

import numpy as np
import pytest
from jaxtyping import Float
from tests.conftest import Corpus, made
from tests.unit.inference.engines.conftest import bundle_of

from transduce.bundle.bundle import Bundle
from transduce.data.batch import collate
from transduce.data.corpus import Pair
from transduce.data.store import Store
from transduce.export import shortlist as learning
from transduce.export.shortlist import LearnedShortlist, learn_shortlist
from transduce.inference.engines.ct2_model import Shortlist
from transduce.model.config import ModelConfig
from transduce.model.trace import cross_attention_weights, trace

PAIRS = [Pair("one two three", "three two one"), Pair("five five", "five five")]


def _translations(bundle: Bundle) -> list[list[int]]:
    """As if the model said of both what people wrote of the first."""
    return [bundle.tokenizer.encode("three two one"), [*bundle.tokenizer.encode("three"), 0]]


@pytest.fixture
def bundle(corpus: Corpus, config: ModelConfig) -> Bundle:
    shape = dataclasses.replace(config, vocab_size=corpus.tokenizer.vocab_size)
    return bundle_of(made(shape).eval(), corpus.tokenizer)


@pytest.fixture
def learned(bundle: Bundle, corpus: Corpus) -> LearnedShortlist:
    return learn_shortlist(bundle, corpus.store, PAIRS, _translations(bundle))


def test_progress_counts_training_pairs(bundle: Bundle, corpus: Corpus):
    counts: list[int] = []

    learn_shortlist(bundle, corpus.store, PAIRS, _translations(bundle), on_progress=counts.append)

    assert counts == sorted(set(counts))
    assert counts[-1] == len(corpus.store)


def test_frequencies_are_of_the_pairs_that_the_model_reads(
    bundle: Bundle, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
):
    indices, target = list[int](), Store.target
    monkeypatch.setattr(
        Store, "target", lambda store, index: indices.append(index) or target(store, index)
    )
    monkeypatch.setattr(learning, "PAIRS", 3)

    learn_shortlist(bundle, corpus.store, PAIRS, _translations(bundle))

    assert len(indices) <= 3 < len(corpus.store)


def test_a_batch_is_looked_at_as_its_sentences_alone(bundle: Bundle):
    sources, targets = [(3, 5, 7), (11, 2)], [(4, 6), (8, 9, 10, 12)]
    batch = collate(sources, targets, pad=bundle.tokenizer.pad, eos=0)

    assert batch.source_mask is not None
    parts = (batch.source.numpy(), batch.source_mask.numpy(), batch.target_in.numpy())
    looks = cross_attention_weights(bundle.model, *parts)

    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        alone = trace(bundle.model, [*source, 0], [*target, 0]).cross
        weights = looks[:, :, row, : len(target) + 1, : len(source) + 1]
        np.testing.assert_allclose(weights, alone, atol=1e-6)


def test_the_coverage_is_the_share_of_pieces_that_their_own_source_allows():
    short = Shortlist(always=(0, 1), by_source={5: (7,), 6: (8,)})

    assert short.coverage([((5,), (7, 8, 1)), ((6, 5), (7, 8))]) == 4 / 5


def test_what_was_learned_covers_what_the_model_says(learned: LearnedShortlist, bundle: Bundle):
    cut = bundle.tokenizer.encode_all
    sources, targets = cut([s for s, _ in PAIRS]), cut([t for _, t in PAIRS])
    result = [[item for item in ids if item] for ids in _translations(bundle)]

    covered = learned.shortlist.coverage
    assert learned.coverage == covered(zip(sources, result, strict=True)) >= learning.MIN_COVERAGE
    assert learned.references == covered(zip(sources, targets, strict=True))


def test_the_sizes_are_those_of_the_list(learned: LearnedShortlist, bundle: Bundle):
    cut = bundle.tokenizer.encode_all([source for source, _ in PAIRS])

    sizes = [len(learned.shortlist.allowed(source)) for source in cut]
    assert learned.sentence == sum(sizes) / 2
    assert learned.batch == len(learned.shortlist.allowed([item for ids in cut for item in ids]))


def test_a_piece_allows_what_it_was_looked_at_for(
    bundle: Bundle, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
):
    """With looks that run backwards, each word becomes itself, as the corpus has it."""

    def backwards(cross: Float[np.ndarray, "layers heads target source"]):
        target, source = cross.shape[2:]
        looks = np.zeros((target, source))
        for row in range(target - 1):
            looks[row, max(0, source - 2 - row)] = 1.0
        return looks

    monkeypatch.setattr(learning, "combined_attention", backwards)
    pairs = [
        (corpus.store.source(index).tolist(), corpus.store.target(index).tolist())
        for index in range(len(corpus.store))
    ]
    even = [(s, t) for s, t in pairs if len(s) == len(t)]

    given = learning._cooccurrences(bundle, even, lambda pairs: None)

    expected = {(a, b) for s, t in even for a, b in zip(reversed(s), t, strict=True)}
    assert set(zip(given.sources.tolist(), given.targets.tolist(), strict=True)) == expected


def test_the_least_share_is_the_one_that_the_goal_needs(monkeypatch: pytest.MonkeyPatch):
    table = {5: {7: 0.5, 8: 0.25}, 6: {8: 0.75, 9: 0.125}}
    held = [
        learning._ValidationPair((5,), (1,), (7, 8)),
        learning._ValidationPair((5, 6), (1,), (8, 9, 2)),
    ]

    result: list[float] = []
    for goal in (1.0, 0.8, 0.6, 0.4, 0.0001):
        monkeypatch.setattr(learning, "MIN_COVERAGE", goal)
        result.append(learning._threshold(table, frozenset([2]), held))

    assert result == [0.125, 0.25, 0.5, 0.75, learning._IDENTITY]


def test_lists_hold_what_makes_up_enough_the_most_first(monkeypatch: pytest.MonkeyPatch):
    given = learning._Cooccurrences(
        sources=np.array([5, 5, 5, 5, 6]),
        targets=np.array([7, 8, 9, 4, 9]),
        shares=np.array([0.25, 0.5, 0.125, 0.75, 1.0]),
    )
    held = [learning._ValidationPair((5,), (9, 7), (8, 7))]
    monkeypatch.setattr(learning, "MIN_COVERAGE", 1.0)

    learned = learning._build(given, [4, 9, 8, 7], 1, held)

    assert learned.shortlist.always == (0, 1, 4)
    assert learned.shortlist.by_source == {9: (9,), 8: (8,), 7: (7,), 5: (8, 7), 6: (9,)}
    assert (learned.coverage, learned.references, learned.sentence) == (1.0, 0.5, 5.0)


def test_every_piece_may_stay_as_it_is(learned: LearnedShortlist, bundle: Bundle):
    for piece in range(2, bundle.tokenizer.pad):
        assert piece in learned.shortlist.allowed([piece])


def test_pairs_of_another_tokenizer_are_refused(bundle: Bundle, corpus: Corpus):
    facts = dataclasses.replace(corpus.store.metadata, tokenizer="0" * 64)
    corpus.store.metadata, before = facts, corpus.store.metadata
    try:
        with pytest.raises(ValueError, match="another tokenizer"):
            learn_shortlist(bundle, corpus.store, PAIRS, _translations(bundle))
    finally:
        corpus.store.metadata = before


def test_it_says_its_worth_in_a_line(learned: LearnedShortlist, bundle: Bundle):
    size = bundle.tokenizer.vocab_size

    assert f"of {size:,} pieces per sentence" in str(learned)
    assert f"{learned.coverage:.2%} of the model's validation translations" in str(learned)
