"""An update in which memory ran out is the update that it would have been with more memory."""

import copy
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.conftest import Corpus
from tests.parity.test_micro_batches import CUTS, Keep, batches
from tests.processes import bound_memory
from torch import Tensor

from transduce.data.batch import Batch
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train.checkpoint import load_weights
from transduce.train.config import TrainConfig
from transduce.train.distributed import Process
from transduce.train.events import Event, LogMessage
from transduce.train.loop import Validation, train
from transduce.train.step import LossSettings, StepResult, train_step

WHOLE = 5 * 8  # rows x the longest side, with EOS


def made_update(
    model: Transformer, *, micro_tokens: int = 0, r_drop: float = 0.0
) -> tuple[StepResult, list[Tensor]]:
    keep = Keep(model)
    done = train_step(
        model,
        batches(CUTS[0]),
        optimizers=[keep],
        rates=[1.0],
        loss=LossSettings(r_drop=r_drop),
        micro_tokens=micro_tokens,
    )
    return done, keep.grads


@pytest.mark.parametrize("r_drop", [0.0, 3.0])
@pytest.mark.parametrize("room", [39, 25, 20, 12])
def test_gradients_are_as_if_memory_had_never_run_out(tiny: Transformer, room: int, r_drop: float):
    tiny.double()
    uninterrupted, expected = made_update(copy.deepcopy(tiny), r_drop=r_drop)
    times = 2 if r_drop else 1  # R-Drop passes every row twice
    passes = bound_memory(tiny, times * room)

    done, gradients = made_update(tiny, r_drop=r_drop)

    assert max(passes) == times * WHOLE
    torch.testing.assert_close(done.loss_sum, uninterrupted.loss_sum, rtol=0, atol=1e-12)
    assert done.tokens == uninterrupted.tokens
    for gradient, expected_gradient in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=0, atol=1e-12)


def test_the_smaller_size_is_kept_and_not_outgrown_again(tiny: Transformer):
    passes = bound_memory(tiny, 25)
    done, _ = made_update(tiny)
    passes.clear()

    again, _ = made_update(tiny, micro_tokens=done.micro_tokens)

    assert done.micro_tokens == again.micro_tokens == 3 * 8
    assert max(passes) <= 24


def test_each_micro_batch_goes_to_the_device_when_its_turn_comes(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    moved: list[torch.device | str] = []
    stay = Batch.to

    def to(batch: Batch, device: torch.device | str) -> Batch:
        moved.append(device)
        return stay(batch, device)

    monkeypatch.setattr(Batch, "to", to)

    made_update(tiny, micro_tokens=24)

    assert moved == [tiny.embedding.weight.device] * 2


def test_an_update_with_memory_enough_keeps_its_size(tiny: Transformer):
    assert made_update(tiny)[0].micro_tokens == 0


def test_a_skipped_update_keeps_the_smaller_size_too(tiny: Transformer):
    bound_memory(tiny, 25)
    tiny.embedding.weight.register_hook(lambda grad: grad * math.nan)

    done, _ = made_update(tiny)

    assert (done.skipped, done.micro_tokens) == (True, 24)


def test_a_single_pair_that_is_too_large_ends_the_run_in_one_line(tiny: Transformer):
    bound_memory(tiny, 3)

    with pytest.raises(MemoryError, match="memory runs out on a single pair of 8 positions"):
        made_update(tiny)


@pytest.mark.parametrize(
    "error", [RuntimeError("shapes cannot be multiplied"), KeyboardInterrupt(), SystemExit(143)]
)
def test_whatever_else_goes_wrong_is_not_survived(
    tiny: Transformer, error: BaseException, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> Tensor:
        raise error

    monkeypatch.setattr(tiny, "hidden_states", fail)

    with pytest.raises(type(error)):
        made_update(tiny)


class Sharing(Process):
    """As one of several that share out the weights, but alone."""

    def max(self, number: int) -> int:
        return number


@pytest.mark.parametrize("room", [39, 12])
def test_where_weights_are_shared_out_no_process_begins_again_by_itself(
    tiny: Transformer, room: int
):
    bound_memory(tiny, room)

    with pytest.raises((torch.OutOfMemoryError, OSError), match="memory"):
        train_step(
            tiny,
            batches(CUTS[0]),
            optimizers=[Keep(tiny)],
            rates=[1.0],
            process=Sharing(sharded=True),
        )


def trained(
    corpus: Corpus, folder: Path, *, room: int, planned: int = 4096, updates: int = 6
) -> tuple[list[str], list[int]]:
    """Train where memory is short; return what is told and the positions of all passes."""
    torch.manual_seed(1)
    config = ModelConfig(vocab_size=37, d_model=8, d_ff=11, heads=1, d_k=3, d_v=5, dropout=0.2)
    model = Transformer(replace(config, encoder_layers=1, decoder_layers=1))
    passes = bound_memory(model, room)
    events: list[Event] = []
    train(
        model,
        loader=corpus.loader(micro_tokens=planned),
        config=TrainConfig(updates=updates, validate_every=2, warmup=3),
        validate=lambda model: Validation(loss=1.0, bleu=0.0, signature=""),
        folder=folder,
        on_best=lambda model, evaluation: None,
        on_event=events.append,
        micro_tokens=planned,
    )
    return [event.text for event in events if isinstance(event, LogMessage)], passes


def test_the_watcher_is_told_once_what_became_of_the_size(corpus: Corpus, tmp_path: Path):
    events, passes = trained(corpus, tmp_path, room=60)

    (note,) = events
    assert "it was begun again, and micro-batches hold up to" in note
    assert "in place of 4,096 from here on (batch.micro_tokens)" in note
    assert sum(positions > 60 for positions in passes) == 1


def test_a_run_that_goes_on_remembers_the_smaller_size(corpus: Corpus, tmp_path: Path):
    trained(corpus, tmp_path, room=60)

    events, passes = trained(corpus, tmp_path, room=60, updates=9)

    assert events == ["resuming after update 6"]
    assert max(passes) <= 60


def test_going_on_with_another_size_forgets_the_smaller_one(corpus: Corpus, tmp_path: Path):
    trained(corpus, tmp_path, room=60)

    _, passes = trained(corpus, tmp_path, room=4096, planned=4095, updates=9)

    assert max(passes) > 60


def test_a_run_in_which_memory_ran_out_can_be_gone_on_with_bit_for_bit(
    corpus: Corpus, tmp_path: Path
):
    with torch.random.fork_rng(devices=[]):
        trained(corpus, tmp_path / "straight", room=60, updates=8)
        trained(corpus, tmp_path / "resumed", room=60, updates=4)
        trained(corpus, tmp_path / "resumed", room=60, updates=8)

    last = "checkpoints/update-00000008"
    resumed_weights, straight_weights = (
        load_weights(tmp_path / run / last) for run in ("resumed", "straight")
    )
    assert all(
        torch.equal(resumed_weights[name], straight_weights[name]) for name in straight_weights
    )
