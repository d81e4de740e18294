"""The engine puts a model and the search together; what each does alone is tested in its room."""

import dataclasses

import pytest
import torch

from transduce.data.batch import pad_source
from transduce.engines.torch_engine import TorchEngine
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.search.request import Request
from transduce.text.tokenizer import Tokenizer

SOURCES = [[5, 7, 11], [13, 2, 3, 17, 19], [23], []]
REQUESTS = [Request(tuple(source)) for source in SOURCES]


@pytest.fixture
def engine(untrained: Transformer, tokenizer: Tokenizer) -> TorchEngine:
    return TorchEngine(untrained, pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu")


def test_each_sentence_has_its_own_limit(engine: TorchEngine):
    found = engine.search(REQUESTS, SearchConfig(beam=3, extra=2))

    for source, hypotheses in zip(SOURCES, found, strict=True):
        assert all(len(hypothesis.ids) <= len(source) + 2 for hypothesis in hypotheses)
    assert any(not h.finished and len(h.ids) == len(SOURCES[1]) + 2 for h in found[1])


def test_greedy_search_says_what_the_full_pass_finds_likeliest(
    engine: TorchEngine, untrained: Transformer, tokenizer: Tokenizer
):
    (found,) = engine.search(REQUESTS[:1], SearchConfig(beam=1, extra=7))

    source, mask = pad_source(SOURCES[:1], pad=tokenizer.pad, eos=tokenizer.EOS)
    said = torch.tensor([[tokenizer.pad, *found[0].ids[:-1]]])
    with torch.no_grad():
        logits = untrained(source, mask, said)[0, :, : tokenizer.pad]
    assert logits.argmax(-1).tolist() == list(found[0].ids)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_sentence_fares_the_same_alone_and_among_others(engine: TorchEngine, beam: int):
    config = SearchConfig(beam=beam, extra=5)

    together = engine.search(REQUESTS, config)

    alone = [engine.search([request], config)[0] for request in REQUESTS]
    assert [[h.ids for h in one] for one in alone] == [[h.ids for h in one] for one in together]
    for one, other in zip(alone, together, strict=True):
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_a_model_in_training_is_searched_without_dropout_and_trains_on(
    engine: TorchEngine, untrained: Transformer
):
    config = SearchConfig(beam=2, extra=4)
    expected = engine.search(REQUESTS, config)

    untrained.train()
    found = engine.search(REQUESTS, config)

    assert found == expected
    assert untrained.training
    assert untrained.encoder[0].training


def test_a_model_can_learn_after_a_search_that_outgrew_its_positions(
    engine: TorchEngine, untrained: Transformer
):
    untrained.positions.table = untrained.positions.table[:3]
    engine.search([Request((7,) * 11)], SearchConfig(beam=1, extra=1))
    source = torch.full((1, 13), 7)

    untrained.train()(source, None, source).sum().backward()

    assert untrained.embedding.weight.grad is not None


def test_no_sentences_have_no_hypotheses(engine: TorchEngine):
    assert engine.search([], SearchConfig()) == []


def test_a_translation_ends_with_the_learned_positions(
    untrained: Transformer, tokenizer: Tokenizer
):
    config = dataclasses.replace(untrained.config, positions="learned", max_positions=6)
    model = Transformer(config).eval()
    with torch.no_grad():
        model.embedding.weight[tokenizer.EOS] = 0.0  # so that it goes on as long as it may
        model.embedding.weight[2:-1] += 3.0
    engine = TorchEngine(model, pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu")

    found = engine.search(REQUESTS, SearchConfig(beam=2, extra=50))

    lengths = {len(hypothesis.ids) for hypotheses in found for hypothesis in hypotheses}
    assert max(lengths) == 6
