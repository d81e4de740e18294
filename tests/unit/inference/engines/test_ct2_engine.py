"""CTranslate2 as an engine: our limits, our scores, our refusals. Equal tokens: tests/parity."""

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import ctranslate2
import pytest
import torch
from tests.unit.inference.engines.conftest import bundle_of, lively

from transduce.bundle.bundle import Bundle
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines import interface
from transduce.inference.engines.ct2_engine import Ct2Engine
from transduce.inference.engines.ct2_model import Cache
from transduce.inference.engines.ct2_runtime import Plan
from transduce.inference.engines.interface import Engine
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.config import ModelConfig
from transduce.search.config import DecodingConstraints, Request, SamplingConfig, SearchConfig
from transduce.search.hypothesis import Hypothesis, length_penalty

SOURCES = [(5, 7, 11), (13, 2, 3, 17, 19), (23,), (29, 31)]
REQUESTS = [Request(source) for source in SOURCES]
NEAR = 1e-4


@pytest.fixture
def engine(bundle: Bundle, cache: Cache) -> Ct2Engine:
    return Ct2Engine(bundle, cache=cache)


@pytest.fixture
def exact(bundle: Bundle) -> TorchEngine:
    return TorchEngine(bundle.model, pad=bundle.tokenizer.pad, eos=0, device="cpu")


def endless(bundle: Bundle) -> None:
    """Let EOS be the unlikeliest piece of all."""
    with torch.no_grad():
        norm = bundle.model.decoder[-1].feed_forward_norm.norm
        norm.bias += 5.0
        bundle.model.embedding.weight[0] = -5.0


def ids_of(results: Sequence[Sequence[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in results]


def test_it_is_an_engine(engine: Ct2Engine):
    assert isinstance(engine, Engine)


def test_torch_keeps_its_threads_beside_it(bundle: Bundle, cache: Cache):
    before = torch.get_num_threads()

    try:
        torch.set_num_threads(3)
        Ct2Engine(bundle, plan=Plan("float32", workers=1, threads=1), cache=cache)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_it_likes_several_batches_for_each_worker(bundle: Bundle, cache: Cache):
    engine = Ct2Engine(bundle, plan=Plan("float32", 3, 1), cache=cache)

    assert engine.preferred_batches >= 2 * 3


@pytest.mark.parametrize("beam", [1, 3])
def test_each_sentence_has_its_own_limit(bundle: Bundle, cache: Cache, beam: int):
    endless(bundle)
    engine = Ct2Engine(bundle, cache=cache)

    result = engine.search(REQUESTS, SearchConfig(beam=beam, extra=2))

    for source, hypotheses in zip(SOURCES, result, strict=True):
        assert {len(hypothesis.ids) for hypothesis in hypotheses} == {len(source) + 2}
        assert not any(hypothesis.finished for hypothesis in hypotheses)


@pytest.mark.parametrize(("beam", "extra"), [(1, 3), (4, 1), (4, 2), (4, 3)])
def test_a_sentence_fares_the_same_alone_and_among_others(engine: Ct2Engine, beam: int, extra: int):
    config = SearchConfig(beam=beam, extra=extra)

    together = engine.search(REQUESTS, config)

    assert ids_of(together) == ids_of([engine.search([item], config)[0] for item in REQUESTS])


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_hypotheses_are_scored_and_ranked_by_our_penalty(engine: Ct2Engine, alpha: float):
    result = engine.search(REQUESTS, SearchConfig(beam=4, alpha=alpha, extra=7))

    for hypotheses in result:
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for item in hypotheses:
            assert item.score == item.log_prob / length_penalty(len(item.ids), alpha)


def test_given_translations_are_scored_as_torch_scores_them(engine: Ct2Engine, exact: TorchEngine):
    pairs = [(SOURCES[0], SOURCES[1]), (SOURCES[1], (5, 7))]

    for scores, expected in zip(engine.score(pairs), exact.score(pairs), strict=True):
        assert scores == pytest.approx(expected, abs=NEAR)


def test_long_translations_are_scored_in_smaller_batches(
    engine: Ct2Engine, exact: TorchEngine, monkeypatch: pytest.MonkeyPatch
):
    pairs = [(SOURCES[0], SOURCES[1])] * 5
    model, sizes = engine._model(engine.plans.throughput), list[int]()
    score_batch = model._translator.score_batch

    def counting(sources: list[list[str]], targets: list[list[str]], **options: Any) -> Any:
        sizes.append(len(sources))
        return score_batch(sources, targets, **options)

    monkeypatch.setattr(model, "_translator", SimpleNamespace(score_batch=counting))
    monkeypatch.setattr(interface, "MAX_SCORE_LOGITS", 2 * 7 * len(engine._pieces))

    result = engine.score(pairs)

    assert sizes == [2, 2, 1]
    assert result == [pytest.approx(exact.score(pairs[:1])[0], abs=NEAR)] * 5


@pytest.mark.parametrize(("beam", "rows"), [(1, 64), (5, 16), (10, 8), (30, 8)])
def test_batches_have_fewer_rows_with_a_larger_beam(
    engine: Ct2Engine, batch_sizes: list[int], beam: int, rows: int
):
    engine.search([REQUESTS[0]] * 200, SearchConfig(beam=beam, extra=1))

    assert max(batch_sizes) == rows


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_sums_are_those_of_the_pieces(engine: Ct2Engine, alpha: float):
    result = engine.search(REQUESTS, SearchConfig(beam=4, alpha=alpha, extra=7))

    for item in (hypothesis for hypotheses in result for hypothesis in hypotheses):
        assert len(item.log_probs) == len(item.ids)
        assert math.fsum(item.log_probs) == pytest.approx(item.log_prob, abs=NEAR)


def test_what_stands_at_a_limit_is_a_hypothesis_also_where_others_ended_there(
    engine: Ct2Engine, exact: TorchEngine
):
    requests = [*(Request((item,)) for item in range(3, 80)), Request((3, 5, 7, 11))]
    config = SearchConfig(beam=3, alpha=0.0, extra=2)

    result = engine.search(requests, config, token_scores=False)

    assert ids_of(result) == ids_of(exact.search(requests, config))


def test_without_an_exponent_search_ends_when_the_beam_has_finished(bundle: Bundle, cache: Cache):
    with torch.no_grad():
        bundle.model.embedding.weight[0] *= 0.9  # EOS is rarely the likeliest, but often likely
    exact = TorchEngine(bundle.model, pad=bundle.tokenizer.pad, eos=0, device="cpu")
    requests = [Request((first, second)) for first in range(3, 13) for second in range(3, 9)]
    config = SearchConfig(beam=3, alpha=0.0, extra=7)

    result = Ct2Engine(bundle, cache=cache).search(requests, config, token_scores=False)

    assert ids_of(result) == ids_of(exact.search(requests, config))


def test_where_no_detail_is_wanted_the_translations_are_the_same(engine: Ct2Engine):
    config = SearchConfig(beam=3)

    result = engine.search(REQUESTS, config, token_scores=False)

    detailed = engine.search(REQUESTS, config)
    assert [[replace(item, log_probs=()) for item in some] for some in detailed] == result


def test_greedy_search_without_token_scores_computes_no_sum(engine: Ct2Engine):
    config = SearchConfig(beam=1)

    result = engine.search(REQUESTS, config, token_scores=False)

    assert ids_of(result) == ids_of(engine.search(REQUESTS, config))
    assert all(math.isnan(item.log_prob) and math.isnan(item.score) for (item,) in result)


def test_on_a_gpu_greedy_search_always_computes_sums(
    engine: Ct2Engine, monkeypatch: pytest.MonkeyPatch
):
    """They show logits that overflow in float16."""
    monkeypatch.setattr(engine, "_device", "cuda")  # the model is loaded already, on the CPU

    result = engine.search(REQUESTS, SearchConfig(beam=1), token_scores=False)

    assert all(math.isfinite(item.log_prob) for (item,) in result)


def test_a_prefix_begins_the_translation_and_counts(engine: Ct2Engine, exact: TorchEngine):
    requests = [Request((5, 7, 11), prefix=(29, 31)), Request((13, 2))]
    config = SearchConfig(beam=1)

    result = engine.search(requests, config, token_scores=False)

    expected = exact.search(requests, config)
    assert ids_of(result) == ids_of(expected)
    assert result[0][0].ids[:2] == (29, 31)
    assert result[0][0].log_prob == pytest.approx(expected[0][0].log_prob, abs=NEAR)


@pytest.mark.parametrize(
    "constraints",
    [
        DecodingConstraints(no_repeat=1),
        DecodingConstraints(no_repeat=2),
        DecodingConstraints(min_length=7),
        DecodingConstraints(max_length=3),
    ],
)
def test_greedy_wishes_are_honoured_as_torch_honours_them(
    engine: Ct2Engine, exact: TorchEngine, constraints: DecodingConstraints
):
    config = SearchConfig(beam=1, extra=11)

    result = engine.search(REQUESTS, config, constraints)

    expected = exact.search(REQUESTS, config, constraints)
    assert ids_of(result) == ids_of(expected)
    assert ids_of(result) != ids_of(engine.search(REQUESTS, config))
    for item, other in zip(result, expected, strict=True):
        assert item[0].log_prob == pytest.approx(other[0].log_prob, abs=NEAR)


@pytest.mark.parametrize(
    ("request_", "beam", "constraints", "message"),
    [
        (Request((5,)), 1, DecodingConstraints(sampling=SamplingConfig()), "sampling"),
        (Request((5,), prefix=(7,)), 2, DecodingConstraints(), "a prefix with a beam above 1"),
        (Request((5,)), 2, DecodingConstraints(no_repeat=3), "no-repeat with a beam above 1"),
        (Request((5,)), 2, DecodingConstraints(min_length=3), "min-length with a beam above 1"),
        (
            Request((5,), prefix=(7,) * 51),
            1,
            DecodingConstraints(),
            "a prefix or min-length as long as",
        ),
        (Request((5,) * 5000), 1, DecodingConstraints(), "more than 4096 pieces"),
        (Request((5,)), 1, DecodingConstraints(max_length=5000), "more than 4096 pieces"),
        (Request((5,)), 48, DecodingConstraints(), "a beam of 48 with so few pieces"),
        (Request(()), 1, DecodingConstraints(), "an empty source"),
        (
            Request((5,)),
            1,
            DecodingConstraints(no_repeat=1, max_length=96),
            "a beam of 1 with so few pieces",
        ),
    ],
)
def test_what_it_cannot_do_it_refuses_by_name(
    engine: Ct2Engine, request_: Request, beam: int, constraints: DecodingConstraints, message: str
):
    config = SearchConfig(beam=beam)

    assert engine.unsupported_reason([Request((3,)), request_], config, constraints).startswith(
        message
    )
    with pytest.raises(ValueError, match="use the torch engine"):
        engine.search([request_], config, constraints)


def test_it_refuses_nothing_of_the_usual(engine: Ct2Engine):
    assert (
        engine.unsupported_reason(REQUESTS, SearchConfig(), DecodingConstraints(max_length=7)) == ""
    )


def test_no_sentences_have_no_hypotheses(engine: Ct2Engine):
    assert engine.search([], SearchConfig()) == []


def test_a_translation_ends_with_the_learned_positions(
    shape: ModelConfig, tokenizer: Tokenizer, cache: Cache
):
    learned = replace(shape, positions="learned", max_positions=6)
    bundle = bundle_of(lively(learned), tokenizer)
    endless(bundle)
    engine = Ct2Engine(bundle, cache=cache)

    result = engine.search(REQUESTS, SearchConfig(beam=2, extra=50))

    assert {len(hypothesis.ids) for hypotheses in result for hypothesis in hypotheses} == {6}


@pytest.mark.parametrize("beam", [1, 3])
def test_a_model_that_answers_with_no_number_is_found_out(bundle: Bundle, cache: Cache, beam: int):
    with torch.no_grad():
        bundle.model.decoder[0].feed_forward.outer.weight.fill_(1e38)
    engine = Ct2Engine(bundle, cache=cache)

    with pytest.raises(ValueError, match="logits are NaN or infinite"):
        engine.search(REQUESTS, SearchConfig(beam=beam))


def test_a_model_is_converted_once(bundle: Bundle, cache: Cache):
    for _ in range(2):
        Ct2Engine(bundle, cache=cache)

    assert len([path for path in cache.root.iterdir() if path.is_dir()]) == 1


def test_other_weights_are_another_model(bundle: Bundle, cache: Cache):
    Ct2Engine(bundle, cache=cache)

    with torch.no_grad():
        bundle.model.encoder[0].feed_forward.inner.bias[3] += 1e-6
    Ct2Engine(bundle, cache=cache)

    assert len([path for path in cache.root.iterdir() if path.is_dir()]) == 2


def test_eight_bits_are_computed_from_weights_that_are_written_in_them(
    bundle: Bundle, cache: Cache
):
    Ct2Engine(bundle, compute_type="int8_float32", cache=cache)

    (folder,) = [path for path in cache.root.iterdir() if path.is_dir()]
    assert ctranslate2.Translator(str(folder)).compute_type == "int8_float32"


def test_to_choose_between_two_kinds_of_numbers_both_are_written(bundle: Bundle, cache: Cache):
    Ct2Engine(bundle, compute_type="auto", cache=cache)

    names = sorted(path.name for path in cache.root.iterdir() if path.is_dir())
    assert names == [names[0], f"{names[0]}-int8"]


def test_a_plan_of_ones_own_is_followed(bundle: Bundle, cache: Cache):
    engine = Ct2Engine(bundle, plan=Plan("int8", 2, 1), cache=cache)

    assert set(engine.plans) == {Plan("int8", 2, 1)}
    assert len(engine.search(REQUESTS, SearchConfig())) == len(REQUESTS)


def test_several_threads_may_ask_at_one_time(engine: Ct2Engine):
    config = SearchConfig(beam=2, extra=5)
    alone = engine.search(REQUESTS, config)
    result: list[list[list[Hypothesis]]] = []

    threads = [
        threading.Thread(target=lambda: result.append(engine.search(REQUESTS, config)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [ids_of(item) for item in result] == [ids_of(alone)] * 3
