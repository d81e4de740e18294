"""Every search calls back before each of its steps, and ends when the callback raises."""

import pytest

from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.transformer import Transformer
from transduce.search.config import (
    UNCONSTRAINED,
    DecodingConstraints,
    Request,
    SamplingConfig,
    SearchConfig,
)
from transduce.search.interruption import interruptible

SAMPLING = DecodingConstraints(sampling=SamplingConfig())


@pytest.mark.parametrize(
    ("beam", "sentences", "constraints"),
    [(1, 1, UNCONSTRAINED), (3, 1, UNCONSTRAINED), (3, 2, UNCONSTRAINED), (3, 1, SAMPLING)],
    ids=["greedy", "single", "batch", "sampling"],
)
def test_a_search_ends_at_the_step_whose_callback_raises(
    beam: int,
    sentences: int,
    constraints: DecodingConstraints,
    tokenizer: Tokenizer,
    untrained: Transformer,
) -> None:
    engine = TorchEngine(untrained, pad=tokenizer.pad, eos=tokenizer.EOS, device="cpu")
    requests = [Request((5, 6, 7)), Request((8, 9))][:sentences]
    config = SearchConfig(beam=beam)
    steps = 0

    def end() -> None:
        nonlocal steps
        steps += 1
        if steps == 2:
            raise TimeoutError

    uninterrupted = engine.search(requests, config, constraints)
    with interruptible(end), pytest.raises(TimeoutError):
        engine.search(requests, config, constraints)

    assert steps == 2
    assert engine.search(requests, config, constraints) == uninterrupted
