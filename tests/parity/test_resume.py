"""A run that was stopped and gone on with ends in the very weights of one that never stopped."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from transduce.data.config import BatchConfig
from transduce.data.sampler import Sampler
from transduce.data.store import Store
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.events import Event, Progress
from transduce.train.loop import Trained, Validation, train
from transduce.train.state import load_weights


def sit(
    store: Store, config: ModelConfig, training: TrainConfig, *, folder: Path, stop_at: int = 0
) -> Trained:
    """Train as a new process does: everything made anew from the seed, the folder as it lies."""

    def validate(model: Transformer) -> Validation:
        return Validation(loss=model.embedding.weight.norm().item(), bleu=0.0, signature="")

    def tell(event: Event) -> None:
        if isinstance(event, Progress) and event.update == stop_at:
            raise KeyboardInterrupt

    folder.mkdir(exist_ok=True)
    torch.manual_seed(training.seed)
    return train(
        Transformer(replace(config, dropout=0.3)),
        store=store,
        sampler=Sampler(store.lengths, config=BatchConfig(tokens=101, micro_tokens=97), seed=1),
        config=training,
        validate=validate,
        folder=folder,
        on_best=lambda found: None,
        tell=tell,
    )


@pytest.mark.parametrize("kind", ["adam", "muon"])
@pytest.mark.parametrize("schedule", ["paper", "linear"])
def test_resumed_training_is_uninterrupted_training_bit_for_bit(
    store: Store, config: ModelConfig, tmp_path: Path, kind: str, schedule: str
):
    whole = TrainConfig(
        updates=10,
        optimizer=kind,
        schedule=schedule,
        rate=1.0 if schedule == "paper" else 0.01,
        warmup=3,
        validate_every=2,
        weight_decay=0.1,
        log_every=1,
    )

    with torch.random.fork_rng(devices=[]):
        straight = sit(store, config, whole, folder=tmp_path / "straight")
        cut_short = tmp_path / "resumed"
        with pytest.raises(KeyboardInterrupt):
            sit(store, config, whole, folder=cut_short, stop_at=5)
        resumed = sit(store, config, whole, folder=cut_short)

    assert replace(resumed.state, seconds=0.0) == replace(straight.state, seconds=0.0)
    ours, theirs = (load_weights(run.checkpoints[-1]) for run in (resumed, straight))
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        assert torch.equal(weight, theirs[name]), name
