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
    asked = requests(23, corpus.tokenizer.vocab_size)
    ours = TorchEngine(model, pad=corpus.tokenizer.pad, eos=0, device="cpu")
    theirs = Ct2Engine(bundle, cache=Cache(cache))
    return list(
        zip(
            ours.search(asked, config),
            theirs.search(asked, config, token_scores=False),
            strict=True,
        )
    )


@pytest.mark.parametrize("shape", SHAPES, ids="-".join)
@pytest.mark.parametrize("beam", [1, 4])
def test_both_engines_find_the_same(
    shape: tuple[str, str, str], beam: int, corpus: Corpus, tmp_path: Path
):
    found = both(shape, corpus, tmp_path, SearchConfig(beam=beam, alpha=0.6, extra=11))

    differ = [(one[0], other[0]) for one, other in found if one[0].ids != other[0].ids]
    far = [pair for pair in differ if abs(pair[0].score - pair[1].score) > NEAR]
    assert not far
    assert len(differ) <= 1, f"too many to be ties: {differ}"
    for one, other in found:
        assert other[0].score == pytest.approx(one[0].score, abs=NEAR)


def test_both_engines_rank_all_hypotheses_alike(corpus: Corpus, tmp_path: Path):
    config = SearchConfig(beam=3, alpha=0.0, extra=17)

    found = both(("post", "relu", "sinusoid"), corpus, tmp_path, config)

    pairs = [pair for one, other in found for pair in zip(one, other, strict=True)]
    assert [one.ids for one, _ in pairs] == [other.ids for _, other in pairs]
    assert [one.finished for one, _ in pairs] == [other.finished for _, other in pairs]
    assert [other.log_prob for _, other in pairs] == pytest.approx(
        [one.log_prob for one, _ in pairs], abs=NEAR
    )


def test_the_sentences_end_of_themselves_and_by_their_limit(corpus: Corpus, tmp_path: Path):
    config = SearchConfig(beam=4, alpha=0.6, extra=11)

    found = both(("post", "relu", "sinusoid"), corpus, tmp_path, config)

    assert {other.finished for _, hypotheses in found for other in hypotheses} == {True, False}


def test_int8_cuts_no_product_off(corpus: Corpus, tmp_path: Path):
    """All weights of a row are alike in size: 8 bits in full would be too many everywhere."""
    model = lively(replace(PLAIN_SHAPE, vocab_size=corpus.tokenizer.vocab_size))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2 and name != "embedding.weight":
                weight.copy_(weight.sign() * weight.std())
    asked = requests(23, corpus.tokenizer.vocab_size)
    config = SearchConfig(beam=1, extra=11)
    ours = TorchEngine(model, pad=corpus.tokenizer.pad, eos=0, device="cpu")
    engine = Ct2Engine(
        bundle_of(model, corpus.tokenizer), compute_type="int8", cache=Cache(tmp_path)
    )

    found = [hypotheses[0] for hypotheses in engine.search(asked, config)]

    pairs = [(one.source, said.ids) for one, said in zip(asked, found, strict=True)]
    gaps = [
        abs(a - b)
        for said, exact in zip(found, ours.score(pairs), strict=True)
        for a, b in zip(said.log_probs, exact, strict=False)
    ]
    assert sum(gaps) / len(gaps) < 0.1  # 3.0 where products are cut off
