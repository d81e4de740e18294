"""CTranslate2 says what torch says: the same ids and scores, in every shape it can express."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.conftest import Corpus
from tests.unit.inference.engines.conftest import PLAIN_SHAPE, bundle_of, lively

from transduce.inference.engines.ct2_engine import Ct2Engine
from transduce.inference.engines.ct2_model import Cache
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.search.config import Request, SearchConfig
from transduce.search.hypothesis import Hypothesis

NEAR = 1e-4
"""Two scores this close may change places in single precision."""

SHAPES = list(itertools.product(("post", "pre"), ("relu", "gelu"), ("sinusoid", "learned")))


def requests(count: int, pieces: int) -> list[Request]:
    draw = torch.Generator().manual_seed(7)
    lengths = torch.randint(1, 13, (count,), generator=draw).tolist()
    return [
        Request(tuple(torch.randint(1, pieces - 1, (length,), generator=draw).tolist()))
        for length in lengths
    ]


def both(
    shape: tuple[str, str, str], corpus: Corpus, cache: Path, config: SearchConfig
) -> Sequence[tuple[list[Hypothesis], list[Hypothesis]]]:
    """What torch and CTranslate2 find for some sentences, side by side."""
    norm, activation, positions = shape
    model = lively(
        replace(
            PLAIN_SHAPE,
            vocab_size=corpus.tokenizer.vocab_size,
            norm=norm,
            activation=activation,
            positions=positions,
        )
    )
    bundle = bundle_of(model, corpus.tokenizer)
    batch = requests(23, corpus.tokenizer.vocab_size)
    torch_engine = TorchEngine(model, pad=corpus.tokenizer.pad, eos=0, device="cpu")
    ct2_engine = Ct2Engine(bundle, cache=Cache(cache))
    return list(
        zip(torch_engine.search(batch, config), ct2_engine.search(batch, config), strict=True)
    )


@pytest.mark.parametrize("shape", SHAPES, ids="-".join)
@pytest.mark.parametrize("beam", [1, 4])
def test_both_engines_find_the_same(
    shape: tuple[str, str, str], beam: int, corpus: Corpus, tmp_path: Path
):
    results = both(shape, corpus, tmp_path, SearchConfig(beam=beam, alpha=0.6, extra=11))

    differ = [
        (torch_result[0], ct2_result[0])
        for torch_result, ct2_result in results
        if torch_result[0].ids != ct2_result[0].ids
    ]
    far = [pair for pair in differ if abs(pair[0].score - pair[1].score) > NEAR]
    assert not far
    assert len(differ) <= 1, f"too many to be ties: {differ}"
    for torch_result, ct2_result in results:
        assert ct2_result[0].score == pytest.approx(torch_result[0].score, abs=NEAR)


def test_both_engines_rank_all_hypotheses_alike(corpus: Corpus, tmp_path: Path):
    config = SearchConfig(beam=3, alpha=0.0, extra=17)

    results = both(("post", "relu", "sinusoid"), corpus, tmp_path, config)

    pairs = [
        pair
        for torch_result, ct2_result in results
        for pair in zip(torch_result, ct2_result, strict=True)
    ]
    assert [torch_result.ids for torch_result, _ in pairs] == [
        ct2_result.ids for _, ct2_result in pairs
    ]
    assert [torch_result.finished for torch_result, _ in pairs] == [
        ct2_result.finished for _, ct2_result in pairs
    ]
    assert [ct2_result.log_prob for _, ct2_result in pairs] == pytest.approx(
        [torch_result.log_prob for torch_result, _ in pairs], abs=NEAR
    )


def test_the_sentences_end_of_themselves_and_by_their_limit(corpus: Corpus, tmp_path: Path):
    config = SearchConfig(beam=4, alpha=0.6, extra=11)

    results = both(("post", "relu", "sinusoid"), corpus, tmp_path, config)

    assert {other.finished for _, hypotheses in results for other in hypotheses} == {True, False}


def test_int8_cuts_no_product_off(corpus: Corpus, tmp_path: Path):
    """All weights of a row are alike in size: 8 bits in full would be too many everywhere."""
    model = lively(replace(PLAIN_SHAPE, vocab_size=corpus.tokenizer.vocab_size))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2 and name != "embedding.weight":
                weight.copy_(weight.sign() * weight.std())
    batch = requests(23, corpus.tokenizer.vocab_size)
    config = SearchConfig(beam=1, extra=11)
    torch_engine = TorchEngine(model, pad=corpus.tokenizer.pad, eos=0, device="cpu")
    engine = Ct2Engine(
        bundle_of(model, corpus.tokenizer), compute_type="int8", cache=Cache(tmp_path)
    )

    hypotheses_found = [hypotheses[0] for hypotheses in engine.search(batch, config)]

    pairs = [
        (request.source, hypothesis.ids)
        for request, hypothesis in zip(batch, hypotheses_found, strict=True)
    ]
    gaps = [
        abs(a - b)
        for hypothesis, exact in zip(hypotheses_found, torch_engine.score(pairs), strict=True)
        for a, b in zip(hypothesis.log_probs, exact, strict=False)
    ]
    assert sum(gaps) / len(gaps) < 0.1  # 3.0 where products are cut off
