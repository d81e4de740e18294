"""The engine puts a model and the search together; what each does alone is tested in its room."""

import dataclasses
import itertools
import math

import pytest
import torch

from transduce.data.batch import pad_source
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines import interface
from transduce.inference.engines.torch_engine import TorchEngine, _split_evenly
from transduce.model.transformer import Transformer
from transduce.search.config import DecodingConstraints, Request, SamplingConfig, SearchConfig

SOURCES = [[5, 7, 11], [13, 2, 3, 17, 19], [23], []]
REQUESTS = [Request(tuple(source)) for source in SOURCES]


@pytest.fixture
def engine(untrained: Transformer, tokenizer: Tokenizer) -> TorchEngine:
    return TorchEngine(untrained, pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu")


def test_each_sentence_has_its_own_limit(engine: TorchEngine):
    result = engine.search(REQUESTS, SearchConfig(beam=3, extra=2))

    for source, hypotheses in zip(SOURCES, result, strict=True):
        assert all(len(hypothesis.ids) <= len(source) + 2 for hypothesis in hypotheses)
    assert any(not h.finished and len(h.ids) == len(SOURCES[1]) + 2 for h in result[1])


def test_greedy_search_says_what_the_full_pass_finds_likeliest(
    engine: TorchEngine, untrained: Transformer, tokenizer: Tokenizer
):
    (result,) = engine.search(REQUESTS[:1], SearchConfig(beam=1, extra=7))

    source, mask = pad_source(SOURCES[:1], pad=tokenizer.pad, eos=tokenizer.EOS)
    actual = torch.tensor([[tokenizer.pad, *result[0].ids[:-1]]])
    with torch.no_grad():
        logits = untrained(source, mask, actual)[0, :, : tokenizer.pad]
    assert logits.argmax(-1).tolist() == list(result[0].ids)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_sentence_fares_the_same_alone_and_among_others(engine: TorchEngine, beam: int):
    config = SearchConfig(beam=beam, extra=5)

    together = engine.search(REQUESTS, config)

    alone = [engine.search([request], config)[0] for request in REQUESTS]
    assert [[h.ids for h in item] for item in alone] == [[h.ids for h in item] for item in together]
    for item, other in zip(alone, together, strict=True):
        assert [h.score for h in item] == pytest.approx([h.score for h in other], abs=1e-4)


def test_a_model_in_training_is_searched_without_dropout_and_trains_on(
    engine: TorchEngine, untrained: Transformer
):
    config = SearchConfig(beam=2, extra=4)
    expected = engine.search(REQUESTS, config)

    untrained.train()
    result = engine.search(REQUESTS, config)

    assert result == expected
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

    result = engine.search(REQUESTS, SearchConfig(beam=2, extra=50))

    lengths = {len(hypothesis.ids) for hypotheses in result for hypothesis in hypotheses}
    assert max(lengths) == 6


PREFIX = (29, 31)


def another(model: Transformer, *, seed: int = 7) -> Transformer:
    """An untrained model of the same shape, with other weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        other = Transformer(model.config).eval()
    with torch.no_grad():
        other.embedding.weight *= 3.0
    return other


@pytest.fixture
def two(untrained: Transformer, tokenizer: Tokenizer) -> TorchEngine:
    """An ensemble of two models that do not agree."""
    models = [untrained, another(untrained)]
    return TorchEngine(models, pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu")


def test_what_is_wished_comes_about(engine: TorchEngine):
    requests = [Request((5, 7, 11), prefix=PREFIX), Request((13, 2)), Request((3,))]
    constraints = DecodingConstraints(no_repeat=2, min_length=3, max_length=11)

    result = engine.search(requests, SearchConfig(beam=3), constraints)

    every = [hypothesis.ids for hypotheses in result for hypothesis in hypotheses]
    assert all(item.ids[:2] == PREFIX for item in result[0])
    assert all(len(set(itertools.pairwise(ids))) == len(ids) - 1 for ids in every)
    assert all(4 <= len(ids) <= 11 for ids in every)


def test_draws_of_a_sentence_are_the_same_alone_and_among_others(engine: TorchEngine):
    config, constraints = (
        SearchConfig(beam=3, extra=5),
        DecodingConstraints(sampling=SamplingConfig(temperature=2.0, seed=3)),
    )

    together = engine.search(REQUESTS, config, constraints)

    alone = [engine.search([request], config, constraints)[0] for request in REQUESTS]
    assert [[h.ids for h in item] for item in alone] == [[h.ids for h in item] for item in together]
    assert len({h.ids for h in together[1]}) == 3


def test_what_was_found_is_scored_alike(engine: TorchEngine):
    result = engine.search(REQUESTS, SearchConfig(beam=3, extra=3))
    actual = [(source, h) for source, some in zip(SOURCES, result, strict=True) for h in some]
    assert len({len(hypothesis.ids) for _, hypothesis in actual}) > 1

    scores = engine.score([(source, hypothesis.ids) for source, hypothesis in actual])

    for (_, hypothesis), score in zip(actual, scores, strict=True):
        assert score[:-1] == pytest.approx(hypothesis.log_probs, abs=1e-4)


def test_the_last_score_is_that_of_eos(engine: TorchEngine, tokenizer: Tokenizer):
    (score,) = engine.score([((5, 7), PREFIX)])

    every = engine.next_pieces(Request((5, 7), prefix=PREFIX), tokenizer.vocab_size)
    (eos,) = (item.log_prob for item in every if item.id == tokenizer.EOS)
    assert score[-1] == pytest.approx(eos, abs=1e-5)


def test_pairs_are_scored_alike_whatever_is_around_them(
    engine: TorchEngine, untrained: Transformer, monkeypatch: pytest.MonkeyPatch
):
    pairs = [(SOURCES[1], [7, 11]), ([], [13]), (SOURCES[0], []), ([29], [2, 3, 5, 7, 11])]

    together = engine.score(pairs)
    monkeypatch.setattr(interface, "MAX_SCORE_LOGITS", 1)
    untrained.train()
    apart = engine.score(pairs)

    assert [len(item) for item in together] == [3, 2, 1, 6]
    assert untrained.training
    for item, other in zip(together, apart, strict=True):
        assert item == pytest.approx(other, abs=1e-5)


def test_no_pairs_have_no_scores(engine: TorchEngine):
    assert engine.score([]) == []


def test_the_likeliest_next_piece_is_what_greedy_search_says_next(engine: TorchEngine):
    request = Request((5, 7, 11), prefix=PREFIX)
    (result,) = engine.search([request], SearchConfig(beam=1, extra=7))

    best = engine.next_pieces(request, 5)

    assert best[0].id == result[0].ids[2]
    assert best[0].log_prob == pytest.approx(result[0].log_probs[2], abs=1e-4)
    assert [item.log_prob for item in best] == sorted((o.log_prob for o in best), reverse=True)


def test_all_next_pieces_are_all_but_pad(engine: TorchEngine, tokenizer: Tokenizer):
    every = engine.next_pieces(Request((5,)), 10_000)

    assert {item.id for item in every} == set(range(tokenizer.pad))
    assert math.fsum(math.exp(item.log_prob) for item in every) == pytest.approx(1.0, abs=1e-5)


def test_an_ensemble_says_what_the_mean_of_probabilities_says(
    two: TorchEngine, untrained: Transformer, tokenizer: Tokenizer
):
    pair = (SOURCES[1], [7, 11, 13])
    members = [
        TorchEngine(model, pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu").score([pair])[0]
        for model in (untrained, another(untrained))
    ]

    (score,) = two.score([pair])

    means = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(*members, strict=True)]
    assert score == pytest.approx(means, abs=1e-5)
    assert score != pytest.approx(members[0], abs=1e-3)


def test_an_ensemble_finds_what_it_scores(two: TorchEngine):
    result = two.search(REQUESTS, SearchConfig(beam=3, extra=5))

    for source, hypotheses in zip(SOURCES, result, strict=True):
        for hypothesis in hypotheses:
            (score,) = two.score([(source, hypothesis.ids[:-1])])
            actual = len(hypothesis.ids) - (not hypothesis.finished)
            assert score[:actual] == pytest.approx(hypothesis.log_probs[:actual], abs=1e-4)


def test_an_ensemble_of_different_vocabularies_is_refused(
    untrained: Transformer, tokenizer: Tokenizer
):
    other = Transformer(dataclasses.replace(untrained.config, vocab_size=41))

    with pytest.raises(ValueError, match="need one vocabulary; these have 97, 41 pieces"):
        TorchEngine([untrained, other], pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu")


def test_an_ensemble_ends_with_the_fewest_positions(untrained: Transformer, tokenizer: Tokenizer):
    config = dataclasses.replace(untrained.config, positions="learned", max_positions=6)
    models = [untrained, Transformer(config)]
    engine = TorchEngine(models, pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu")

    result = engine.search(REQUESTS[:1], SearchConfig(beam=2), DecodingConstraints(min_length=5))

    assert [len(item.ids) for item in result[0]] == [6, 6]
    with pytest.raises(ValueError, match=r"a side of 7 pieces .* 6 positions \(EOS"):
        engine.score([((2,), (3,) * 7)])


def test_large_batches_are_searched_side_by_side_with_the_same_result(engine: TorchEngine):
    requests = [Request(source=(3 + n % 17, *range(3, 3 + n % 5))) for n in range(67)]
    config = SearchConfig(beam=3, extra=5)
    one_after_another = engine.search(requests, config)

    torch.set_num_threads(2)
    try:
        side_by_side = engine.search(requests, config)
        threads, together = torch.get_num_threads(), engine.preferred_batches
    finally:
        torch.set_num_threads(1)

    assert (threads, together) == (2, 2)
    assert [[item.ids for item in best] for best in side_by_side] == [
        [item.ids for item in best] for best in one_after_another
    ]


def test_shares_of_a_batch_are_about_as_much_work():
    requests = [Request(source=(3,) * (90 - n)) for n in range(80)]

    shares = _split_evenly(requests, 2)

    work = [sum(len(request.source) + 1 for request in share) for share in shares]
    assert [request for share in shares for request in share] == requests
    assert abs(work[0] - work[1]) <= 2 * 91


def test_a_few_sentences_are_one_batch():
    requests = [Request(source=(3,))] * 31

    assert _split_evenly(requests, 2) == [requests]
