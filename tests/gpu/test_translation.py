"""Translation on a GPU against translation on a CPU."""

import copy

import pytest
import torch
from tests.gpu.device import CONFIG, DEVICE

from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.transformer import Transformer, in_bfloat16
from transduce.search.config import Request, SearchConfig


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("bfloat16", [False, True])
def test_translations_have_the_probabilities_of_a_cpu(beam: int, bfloat16: bool):
    torch.manual_seed(1)
    model = Transformer(CONFIG).eval()
    requests = [Request(source=tuple(range(3, 3 + length))) for length in (1, 5, 9, 30)]
    truth = TorchEngine(model, pad=98, eos=0, device="cpu")
    placed = copy.deepcopy(model).to(DEVICE)
    if bfloat16:
        placed = in_bfloat16(placed, embedding=True)
    engine = TorchEngine(placed, pad=98, eos=0, device=DEVICE)
    hypotheses = [best[0] for best in engine.search(requests, SearchConfig(beam=beam))]
    for request, hypothesis in zip(requests, hypotheses, strict=True):
        ids = hypothesis.ids[:-1] if hypothesis.finished else hypothesis.ids
        (expected,) = truth.score([(request.source, ids)])
        expected = expected[: len(hypothesis.ids)]
        assert hypothesis.log_probs == pytest.approx(expected, abs=0.2 if bfloat16 else 1e-3)
    if not bfloat16:
        scores = [best[0].score for best in truth.search(requests, SearchConfig(beam=beam))]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(scores, rel=1e-3)
