"""With a SentencePiece model a side, whoever cuts text of the target cuts it with the target's."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from tests.exports import CONFIG, bundle_of, two_vocabularies

from transduce.bundle.bundle import Bundle
from transduce.corpus_check.check import probe_vocabulary
from transduce.data.config import BatchConfig
from transduce.data.corpus import NumberedPair, Pair
from transduce.data.loader import Loader
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.data.sampler import Sampler, SamplerState
from transduce.data.store import Store
from transduce.evaluation.perplexity import evaluate_perplexity
from transduce.model.loss import cross_entropy
from transduce.visualization.attention_page import trace_attention

PAIR = Pair("the small ball", "der kleine Ball")


@pytest.fixture(scope="module")
def tokenizer() -> PairTokenizer:
    return two_vocabularies()


@pytest.fixture(scope="module")
def bundle(tokenizer: PairTokenizer) -> Bundle:
    return bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer)


@pytest.fixture
def store(tokenizer: PairTokenizer, tmp_path: Path) -> Store:
    pairs = [NumberedPair(1, PAIR)]
    return Store.write(tmp_path / "store", pairs, tokenizer=tokenizer, max_pieces=97)


def test_the_sides_cut_this_pair_each_in_another_way(tokenizer: PairTokenizer):
    for text in PAIR:
        assert tokenizer.encode(text) != tokenizer.target.encode(text)


def test_a_store_holds_each_sides_own_pieces(tokenizer: PairTokenizer, store: Store):
    assert store.source(0).tolist() == tokenizer.encode(PAIR.source)
    assert store.target(0).tolist() == tokenizer.target.encode(PAIR.target)


def test_a_loader_draws_each_sides_own_pieces(tokenizer: PairTokenizer, store: Store):
    sampler = Sampler(store.lengths, config=BatchConfig(tokens=101), seed=1)
    loader = Loader(store, sampler=sampler, tokenizer=tokenizer, sampling=1e-9)

    (loaded,) = islice(loader.updates(SamplerState()), 1)

    (batch,) = loaded.batches
    assert batch.source[0].tolist() == [*tokenizer.encode(PAIR.source), 0]
    assert batch.target_out[0].tolist() == [*tokenizer.target.encode(PAIR.target), 0]


def test_perplexity_is_that_of_the_targets_pieces(tokenizer: PairTokenizer, bundle: Bundle):
    perplexity = evaluate_perplexity(bundle.model, tokenizer, pairs=[PAIR])

    target_ids = [*tokenizer.target.encode(PAIR.target), 0]
    with torch.no_grad():
        logits = bundle.model(
            torch.tensor([[*tokenizer.encode(PAIR.source), 0]]),
            None,
            torch.tensor([[tokenizer.pad, *target_ids[:-1]]]),
        )
        expected = cross_entropy(logits, torch.tensor([target_ids]), smoothing=0.0).plain.item()
    assert perplexity.tokens == len(target_ids)
    assert perplexity.loss_sum == pytest.approx(expected, rel=1e-5)


def test_a_given_target_is_traced_in_the_targets_pieces(tokenizer: PairTokenizer, bundle: Bundle):
    traced = trace_attention(bundle, *PAIR)

    target_ids = tokenizer.target.encode(PAIR.target)
    assert traced.source_pieces == (*tokenizer.pieces(tokenizer.encode(PAIR.source)), "</s>")
    assert traced.target_pieces == (*tokenizer.pieces(target_ids), "</s>")


def test_a_vocabulary_is_tried_on_each_side_by_its_own_model(tokenizer: PairTokenizer):
    tried = probe_vocabulary(tokenizer, [PAIR], part="test", max_pieces=97)

    cut = [tokenizer.encode(PAIR.source), tokenizer.target.encode(PAIR.target)]
    assert tried.pieces == sum(map(len, cut))
