"""The native engine says what torch says, whatever else is in the batch."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import Corpus
from tests.unit.inference.engines.conftest import PLAIN_SHAPE, bundle_of, lively

from transduce.bundle.bundle import Bundle
from transduce.inference.engines import native_engine, native_library
from transduce.inference.engines.ct2_model import Shortlist
from transduce.inference.engines.native_engine import NativeEngine
from transduce.inference.engines.native_library import LONGEST, Sentence, load_search
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.config import ModelConfig
from transduce.search.config import DecodingConstraints, Request, SearchConfig
from transduce.search.hypothesis import Hypothesis

LIBRARY, REASON = load_search()
pytestmark = pytest.mark.skipif(LIBRARY is None, reason=f"no native engine: {REASON}")
needs_int8 = pytest.mark.skipif(
    LIBRARY is None or not LIBRARY.int8_instructions(), reason="no int8 on this processor"
)

NEAR = 1e-4
"""Two scores this close may change places in single precision."""

SHAPE = replace(PLAIN_SHAPE, d_model=48, d_ff=80, heads=3, d_k=16, d_v=32)
SHAPES = [
    *({"norm": norm, "activation": activation}
      for norm, activation in itertools.product(("post", "pre"), ("relu", "gelu", "silu"))),
    {"positions": "learned", "tie": "none", "norm": "pre"},
    {"attention_bias": True, "output_bias": True, "tie": "input"},
    {"d_model": 256, "d_ff": 144, "heads": 1, "d_k": 64, "d_v": 16, "tie": "decoder"},
]  # fmt: skip


def requests(count: int, pieces: int, *, prefix: int = 0) -> list[Request]:
    draw = torch.Generator().manual_seed(7)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(torch.randint(1, pieces - 1, (length,), generator=draw).tolist())

    lengths = torch.randint(0, 37, (count,), generator=draw).tolist()
    return [Request(ids(length), prefix=ids(prefix)) for length in lengths]


def make_bundle(corpus: Corpus, **fields: object) -> Bundle:
    config = replace(SHAPE, vocab_size=corpus.tokenizer.vocab_size, **fields)  # type: ignore[arg-type]
    model = lively(config)
    for name, parameter in model.named_parameters():
        if name.endswith(("_embedding.weight", "positions.weight")):
            torch.nn.init.normal_(parameter, std=config.d_model**-0.5)
    return bundle_of(model, corpus.tokenizer)


def in_torch(bundle: Bundle) -> TorchEngine:
    return TorchEngine(bundle.model, pad=bundle.tokenizer.pad, eos=0, device="cpu")


def check_equal(expected: Sequence[list[Hypothesis]], results: Sequence[list[Hypothesis]]) -> None:
    differ = 0
    for torch_result, result in zip(expected, results, strict=True):
        assert result[0].score == pytest.approx(torch_result[0].score, abs=NEAR)
        if [best.ids for best in result] != [best.ids for best in torch_result]:
            differ += 1
            continue
        for hypothesis, torch_hypothesis in zip(result, torch_result, strict=True):
            assert hypothesis.log_probs == pytest.approx(torch_hypothesis.log_probs, abs=NEAR)
            assert hypothesis.finished == torch_hypothesis.finished
    assert differ <= 1, "too many to be ties"


@pytest.mark.parametrize("fields", SHAPES, ids=lambda fields: "-".join(map(str, fields.values())))
@pytest.mark.parametrize("beam", [1, 4])
def test_it_finds_what_torch_finds(fields: dict[str, object], beam: int, corpus: Corpus):
    bundle = make_bundle(corpus, **fields)
    config = SearchConfig(beam=beam, alpha=0.6, extra=7)
    batch = requests(75, corpus.tokenizer.vocab_size)

    check_equal(
        in_torch(bundle).search(batch, config),
        NativeEngine(bundle.weights.to_numpy()).search(batch, config),
    )


@pytest.mark.parametrize("prefix", [0, 3])
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize(
    "constraints",
    [
        DecodingConstraints(no_repeat=1),
        DecodingConstraints(no_repeat=2, min_length=5),
        DecodingConstraints(min_length=9, max_length=12),
    ],
    ids=["no-repeat", "both", "min-length"],
)
def test_constraints_are_torchs(
    prefix: int, beam: int, constraints: DecodingConstraints, corpus: Corpus
):
    bundle = make_bundle(corpus)
    config = SearchConfig(beam=beam, extra=11)
    batch = requests(40, corpus.tokenizer.vocab_size, prefix=prefix)

    expected = in_torch(bundle).search(batch, config, constraints)
    check_equal(
        expected, NativeEngine(bundle.weights.to_numpy()).search(batch, config, constraints)
    )


def test_scores_of_given_translations_are_torchs(corpus: Corpus):
    bundle = make_bundle(corpus)
    batch = requests(70, corpus.tokenizer.vocab_size)
    pairs = [
        (request.source, other.source) for request, other in zip(batch, batch[::-1], strict=True)
    ]

    results = NativeEngine(bundle.weights.to_numpy()).score(pairs)

    for (_, target), result, expected in zip(
        pairs, results, in_torch(bundle).score(pairs), strict=True
    ):
        assert len(result) == len(target) + 1
        assert result == pytest.approx(expected, abs=NEAR)


@pytest.mark.parametrize("int8", [False, pytest.param(True, marks=needs_int8)])
@pytest.mark.parametrize("beam", [1, 4])
def test_a_translation_does_not_depend_on_its_batch(int8: bool, beam: int, corpus: Corpus):
    bundle = make_bundle(corpus)
    engine = NativeEngine(bundle.weights.to_numpy(), int8=int8, shortlist=random_shortlist(bundle))
    config = SearchConfig(beam=beam)
    batch = requests(50, corpus.tokenizer.vocab_size)

    together = engine.search(batch, config)

    assert [engine.search([request], config)[0] for request in batch] == together


@pytest.mark.parametrize("int8", [False, pytest.param(True, marks=needs_int8)])
@pytest.mark.parametrize("beam", [1, 4])
def test_two_threads_compute_a_sentence_as_one_does(
    int8: bool, beam: int, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
):
    bundle = make_bundle(corpus, d_model=512, d_ff=5600)  # large enough for two threads
    engine = NativeEngine(bundle.weights.to_numpy(), int8=int8)
    config = SearchConfig(beam=beam)

    def search(threads: int) -> list[list[Hypothesis]]:
        monkeypatch.setattr(engine, "_threads", threads)
        batch = requests(10, corpus.tokenizer.vocab_size)
        return [engine.search([request], config)[0] for request in batch]

    assert search(2) == search(1)


def test_long_sentences_are_searched_in_small_groups(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
):
    engine = NativeEngine(make_bundle(corpus).weights.to_numpy())
    sizes, search = list[list[int]](), engine._model.search

    def counted(groups: Sequence[Sequence[Sentence]], **options: Any) -> object:
        sizes.append(list(map(len, groups)))
        return search(groups, **options)

    monkeypatch.setattr(engine, "_threads", 1)
    monkeypatch.setattr(engine._model, "search", counted)
    monkeypatch.setattr(native_engine, "_MAX_POSITIONS", 100)
    batch = [Request((5,) * length) for length in (9, 30, 9, 30, 9, 200)]

    engine.search(batch, SearchConfig(beam=1))

    assert sizes == [[1, 3, 2]]


@needs_int8
def test_int8_is_near(corpus: Corpus):
    differences = int8_differences(make_bundle(corpus))

    assert 0 < differences.mean() < 0.02
    assert differences.max() < 0.2


@needs_int8
def test_sums_of_int8_are_exact(corpus: Corpus):
    """All weights are the largest of int8, so that neighbours' products exceed 16 bits."""
    bundle = make_bundle(corpus, d_model=256, d_ff=256)
    with torch.no_grad():
        for name, weights in bundle.model.named_parameters():
            if weights.dim() == 2 and "embedding" not in name:
                weights.copy_(0.02 * weights.sign())

    differences = int8_differences(bundle)

    assert 0 < differences.mean() < 0.01
    assert differences.max() < 0.1


def int8_differences(bundle: Bundle) -> np.ndarray:
    """Of the scores in int8 and in float32, in units of the scores' standard deviation."""
    batch = requests(70, bundle.tokenizer.vocab_size)
    pairs = [
        (request.source, other.source) for request, other in zip(batch, batch[::-1], strict=True)
    ]
    exact, rounded = (
        np.concatenate(NativeEngine(bundle.weights.to_numpy(), int8=int8).score(pairs))
        for int8 in (False, True)
    )
    return np.abs(exact - rounded) / exact.std()


def random_shortlist(bundle: Bundle) -> Shortlist:
    size = bundle.tokenizer.vocab_size
    draw = torch.Generator().manual_seed(3)
    by_source = {
        id: tuple(torch.randint(2, size - 1, (2,), generator=draw).tolist())
        for id in range(2, size - 1)
    }
    return Shortlist(always=(0, 1, size - 1), by_source=by_source)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_shortlist_restricts_each_sentence_to_its_own_pieces(beam: int, corpus: Corpus):
    bundle = make_bundle(corpus)
    shortlist = random_shortlist(bundle)
    engine = NativeEngine(bundle.weights.to_numpy(), shortlist=shortlist)
    batch = [request for request in requests(50, corpus.tokenizer.vocab_size) if request.source]

    results = engine.search(batch, SearchConfig(beam=beam))

    for request, hypotheses in zip(batch, results, strict=True):
        allowed = shortlist.allowed(request.source) - {bundle.tokenizer.pad}
        assert allowed.issuperset(id for best in hypotheses for id in best.ids)
    exact = engine.score(
        [(r.source, [id for id in h[0].ids if id]) for r, h in zip(batch, results, strict=True)]
    )
    for (best, *_), log_probs in zip(results, exact, strict=True):
        assert best.log_probs == log_probs[: len(best.ids)]
        assert best.log_prob >= sum(best.log_probs) - NEAR
    gains = [best.log_prob - sum(best.log_probs) for best, *_ in results]
    assert max(gains) > 1.0  # the allowed pieces share all probability


def test_a_shortlist_leaves_a_translation_of_all_positions_its_scores(corpus: Corpus):
    bundle = make_bundle(corpus, positions="learned")
    endless = Shortlist(always=(5,), by_source={})
    engine = NativeEngine(bundle.weights.to_numpy(), shortlist=endless)

    ((best,),) = engine.search([Request((7,))], SearchConfig(beam=1, extra=99))

    assert best.ids == (5,) * 61
    (expected,) = in_torch(bundle).score([((7,), best.ids[1:])])
    last = in_torch(bundle).next_pieces(Request((7,), prefix=best.ids[1:]), 10_000)
    expected = (*expected[:-1], *(piece.log_prob for piece in last if piece.id == 5))
    assert best.log_probs == pytest.approx(expected, abs=NEAR)


def test_a_shortlist_of_all_pieces_changes_nothing(corpus: Corpus):
    bundle = make_bundle(corpus, output_bias=True)
    everything = Shortlist(always=tuple(range(bundle.tokenizer.vocab_size)), by_source={})
    batch, config = requests(30, corpus.tokenizer.vocab_size), SearchConfig(beam=3)

    restricted = NativeEngine(bundle.weights.to_numpy(), shortlist=everything).search(batch, config)

    assert restricted == NativeEngine(bundle.weights.to_numpy()).search(batch, config)


@pytest.mark.parametrize("int8", [False, pytest.param(True, marks=needs_int8)])
def test_weights_that_are_no_numbers_are_an_error(int8: bool, corpus: Corpus):
    bundle = make_bundle(corpus)
    with torch.no_grad():
        bundle.model.encoder[0].feed_forward.inner.weight[3, 5] = torch.nan
    engine = NativeEngine(bundle.weights.to_numpy(), int8=int8)

    with pytest.raises(ValueError, match="logits are NaN or infinite"):
        engine.search(requests(3, corpus.tokenizer.vocab_size), SearchConfig())
    with pytest.raises(ValueError, match="logits are NaN or infinite"):
        engine.score([([5], [6])])


@pytest.mark.parametrize("id", [-1, 10_000])
def test_an_id_outside_the_vocabulary_is_an_error(id: int, corpus: Corpus):
    engine = NativeEngine(make_bundle(corpus).weights.to_numpy())

    with pytest.raises(ValueError, match="an id is not in the vocabulary"):
        engine.search([Request((5, id))], SearchConfig())
    with pytest.raises(ValueError, match="an id is not in the vocabulary"):
        engine.score([((5,), (id,))])


def test_what_it_does_not_do_it_names(corpus: Corpus):
    learned = NativeEngine(make_bundle(corpus, positions="learned").weights.to_numpy())
    request, plain = Request((5,)), DecodingConstraints()

    assert learned.unsupported_reason([request], SearchConfig(beam=100), plain) == ""
    assert "beam" in learned.unsupported_reason([request], SearchConfig(beam=101), plain)
    assert "61 pieces" in learned.unsupported_reason([Request((5,) * 61)], SearchConfig(), plain)
    with pytest.raises(ValueError, match="does not support a beam above 100; use the torch engine"):
        learned.search([request], SearchConfig(beam=101))
    assert learned.search([], SearchConfig()) == []
    ((longest, *_),) = learned.search([Request((5,) * 60)], SearchConfig(beam=1))
    assert len(longest.ids) <= 61


def test_a_high_limit_reserves_no_memory_that_nothing_needs(corpus: Corpus):
    bundle = make_bundle(corpus, output_bias=True)
    with torch.no_grad():
        bundle.model.output_bias[0] = 99.0  # EOS
    engine = NativeEngine(bundle.weights.to_numpy())
    limit = DecodingConstraints(max_length=10**9)

    ((best,),) = engine.search([Request((5,))], SearchConfig(beam=1), limit)

    assert best.ids == (0,)
    assert len(engine._model._positions) == LONGEST
    assert "more than 16384 pieces" in engine.unsupported_reason(
        [Request((5,) * LONGEST)], SearchConfig(), limit
    )


def test_positions_that_grow_in_two_threads_are_enough_for_both(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
):
    model = NativeEngine(make_bundle(corpus).weights.to_numpy())._model
    sinusoids = native_library.sinusoids

    def interrupted(length: int, d_model: int) -> np.ndarray:
        """Another thread grows the table further in the meantime."""
        if length < 400:
            model._position_table(400)
        return sinusoids(length, d_model)

    monkeypatch.setattr(native_library, "sinusoids", interrupted)

    assert len(model._position_table(100)) == 200
    assert len(model._positions) == 800


def test_a_shape_of_the_paper_is_supported():
    from transduce.inference.engines.native_library import unsupported_shape

    assert unsupported_shape(ModelConfig()) == ""
    assert "radius" not in unsupported_shape(ModelConfig(radius=3))
    assert unsupported_shape(ModelConfig(radius=3)) == "attention to near positions only"
    assert "d_k 20" in unsupported_shape(ModelConfig(d_k=20))
