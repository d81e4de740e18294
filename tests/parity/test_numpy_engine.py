"""The NumPy engine returns what the torch engine does: translations, scores and next pieces."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.conftest import SHAPE, made

from transduce.inference.engines.numpy_engine import NumpyEngine
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.transformer import Transformer
from transduce.search.config import DecodingConstraints, Request, SamplingConfig, SearchConfig

EOS = 0
PAIRS = [([3, 5, 7, 11], [7, 11]), ([], [13]), ([4, 2], []), ([9], [2, 3, 5, 7, 11])]


@pytest.fixture(params=[{}, {"norm": "pre", "positions": "learned", "max_positions": 19}])
def model(request: pytest.FixtureRequest) -> Transformer:
    features: dict[str, Any] = request.param
    model = made(replace(SHAPE, **features)).eval()
    with torch.no_grad():  # sharper, so that candidates are far apart
        model.embedding.weight *= 6.0
        model.embedding.weight[EOS] *= 0.7
    return model


@pytest.fixture
def engines(model: Transformer) -> tuple[NumpyEngine, TorchEngine]:
    torch_engine = TorchEngine(model, pad=SHAPE.pad, eos=EOS, device="cpu")
    return NumpyEngine(model.to_numpy(), eos=EOS), torch_engine


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize(
    ("prefix", "constraints"),
    [
        ((), DecodingConstraints()),
        ((4, 6), DecodingConstraints()),
        ((), DecodingConstraints(no_repeat=1, min_length=5)),
        ((5, 5, 5), DecodingConstraints(no_repeat=2, max_length=9)),
    ],
)
def test_translations_are_equal_under_every_constraint(
    engines: tuple[NumpyEngine, TorchEngine],
    beam: int,
    prefix: tuple[int, ...],
    constraints: DecodingConstraints,
):
    config = SearchConfig(beam=beam, extra=8)
    sources = [(3, 5, 7, 11), (4,), (2, 9, 6, 12, 13)]
    requests = [Request(source, prefix=prefix) for source in sources]

    results, expected_results = (engine.search(requests, config, constraints) for engine in engines)

    for hypotheses, expected_hypotheses in zip(results, expected_results, strict=True):
        assert [best.ids for best in hypotheses] == [best.ids for best in expected_hypotheses]
        assert [best.finished for best in hypotheses] == [
            best.finished for best in expected_hypotheses
        ]
        for hypothesis, expected in zip(hypotheses, expected_hypotheses, strict=True):
            assert hypothesis.score == pytest.approx(expected.score, abs=1e-5)
            assert hypothesis.log_probs == pytest.approx(expected.log_probs, abs=1e-5)


def test_scores_are_equal_whatever_is_scored_together(engines: tuple[NumpyEngine, TorchEngine]):
    scores, expected_scores = (engine.score(PAIRS) for engine in engines)

    for score, expected in zip(scores, expected_scores, strict=True):
        assert score == pytest.approx(expected, abs=1e-5)


def test_next_pieces_are_equal(engines: tuple[NumpyEngine, TorchEngine]):
    request = Request((3, 5, 7), prefix=(4, 6))

    numpy_pieces, torch_pieces = (engine.next_pieces(request, 7) for engine in engines)

    assert [piece.id for piece in numpy_pieces] == [piece.id for piece in torch_pieces]
    log_probs = [piece.log_prob for piece in torch_pieces]
    assert [piece.log_prob for piece in numpy_pieces] == pytest.approx(log_probs, abs=1e-5)


def test_logits_that_are_no_numbers_are_refused_by_name(model: Transformer):
    with torch.no_grad():
        model.embedding.weight[5, 2] = torch.nan

    with pytest.raises(ValueError, match="logits are NaN or infinite"):
        NumpyEngine(model.to_numpy(), eos=EOS).search([Request((3, 5))], SearchConfig())


def test_sampling_is_left_to_torch(engines: tuple[NumpyEngine, TorchEngine]):
    constraints = DecodingConstraints(sampling=SamplingConfig())

    assert engines[0].unsupported_reason([], SearchConfig(), constraints) == "sampling"
    assert not engines[0].unsupported_reason([], SearchConfig(), DecodingConstraints())


@pytest.mark.parametrize(
    ("prefix", "message"), [((0,), "prefix id 0 is invalid"), (tuple([3] * 30), "does not fit")]
)
def test_an_unusable_prefix_is_refused(
    engines: tuple[NumpyEngine, TorchEngine], prefix: tuple[int, ...], message: str
):
    for engine in engines:
        with pytest.raises(ValueError, match=message):
            engine.search([Request((3,), prefix=prefix)], SearchConfig(extra=5))
