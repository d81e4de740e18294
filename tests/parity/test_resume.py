"""A run that was stopped and gone on with ends in the very weights of one that never stopped."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.conftest import Corpus

from transduce.data.loader import Loader
from transduce.model.config import ModelConfig
from transduce.model.cpp_library import load_kernels
from transduce.model.transformer import Transformer
from transduce.train.checkpoint import EMA_WEIGHTS, WEIGHTS, load_weights
from transduce.train.config import TrainConfig
from transduce.train.events import Event, Progress
from transduce.train.loop import TrainResult, Validation, train


def sit(
    loader: Loader, config: ModelConfig, training: TrainConfig, *, folder: Path, stop_at: int = 0
) -> TrainResult:
    """Train as a new process does: everything made anew from the seed, the folder as it lies."""

    def validate(model: Transformer) -> Validation:
        return Validation(loss=model.embedding.weight.norm().item(), bleu=0.0, signature="")

    def on_event(event: Event) -> None:
        if isinstance(event, Progress) and event.update == stop_at:
            raise KeyboardInterrupt

    folder.mkdir(exist_ok=True)
    torch.manual_seed(training.seed)
    return train(
        Transformer(replace(config, dropout=0.3)),
        loader=loader,
        config=training,
        validate=validate,
        folder=folder,
        on_best=lambda model, evaluation: None,
        on_event=on_event,
    )


REGIMES = {
    "the paper's": TrainConfig(warmup=3),
    "linear": TrainConfig(schedule="linear", learning_rate=0.01, warmup=3),
    "muon": TrainConfig(schedule="linear", learning_rate=0.01, warmup=3, optimizer="muon"),
    "running mean": TrainConfig(warmup=3, ema=0.9),
    "R-Drop": TrainConfig(warmup=3, r_drop=5.0),
}


WIDE = {"d_model": 32, "heads": 2, "d_k": 16, "d_v": 16, "d_ff": 32}
"""A shape that has fused kernels."""


@pytest.mark.parametrize(
    ("sampling", "shape"), [(0.0, {}), (0.3, {}), (0.0, WIDE)], ids=["", "sampling", "fused"]
)
@pytest.mark.parametrize("regime", REGIMES)
def test_resumed_training_is_uninterrupted_training_bit_for_bit(
    corpus: Corpus,
    config: ModelConfig,
    tmp_path: Path,
    regime: str,
    sampling: float,
    shape: dict[str, int],
):
    config = replace(config, **shape)
    training = replace(REGIMES[regime], updates=10, validate_every=2, weight_decay=0.1, log_every=1)

    def loader() -> Loader:
        return corpus.loader(micro_tokens=97, sampling=sampling)

    with torch.random.fork_rng(devices=[]):
        straight = sit(loader(), config, training, folder=tmp_path / "straight")
        cut_short = tmp_path / "resumed"
        with pytest.raises(KeyboardInterrupt):
            sit(loader(), config, training, folder=cut_short, stop_at=5)
        resumed = sit(loader(), config, training, folder=cut_short)

    assert ("fused" in resumed.state.precision) == bool(shape and load_kernels().library)
    assert replace(resumed.state, seconds=0.0) == replace(straight.state, seconds=0.0)
    for name in (WEIGHTS, EMA_WEIGHTS) if training.ema else (WEIGHTS,):
        resumed_weights, straight_weights = (
            load_weights(run.checkpoints[-1], name=name) for run in (resumed, straight)
        )
        assert resumed_weights.keys() == straight_weights.keys()
        for key, weight in resumed_weights.items():
            assert torch.equal(weight, straight_weights[key]), key
