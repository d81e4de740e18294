"""A checkpoint gives back all that training needs, or says in one line why it cannot."""

import errno
import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import create_autospec
from weakref import ref

import pytest
import torch
from torch import Tensor

from transduce.data.batch import collate
from transduce.io.atomic_folder import check_folder
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train import checkpoint as checkpoint_module
from transduce.train.checkpoint import (
    TrainState,
    delete_old_checkpoints,
    full_state_dict,
    list_checkpoints,
    load_state,
    load_weights,
    resume_from_latest,
    save_state,
)
from transduce.train.config import TrainConfig
from transduce.train.distributed import Process
from transduce.train.events import Event
from transduce.train.optimizer import WeightEMA, make_optimizers
from transduce.train.step import train_step

STATE = TrainState(update=7, epoch=2, epoch_update=3, tokens=1_009, seconds=1.5, best_loss=2.25)


def train_once(model: Transformer, kind: str) -> Sequence[torch.optim.Optimizer]:
    optimizers = make_optimizers(model, TrainConfig(optimizer=kind))
    batch = collate([[5, 6, 7]], [[9, 4]], pad=36, eos=0)
    train_step(model, [batch], optimizers=optimizers, rates=[0.01, 0.02])
    return optimizers


def flat(optimizers: Sequence[torch.optim.Optimizer]) -> dict[tuple[int, int, str], Tensor]:
    return {
        (number, parameter, name): tensor
        for number, optimizer in enumerate(optimizers)
        for parameter, values in optimizer.state_dict()["state"].items()
        for name, tensor in values.items()
    }


@pytest.fixture
def checkpoint(tiny: Transformer, tmp_path: Path) -> Path:
    return save_state(tmp_path, STATE, model=tiny, optimizers=train_once(tiny, "adam"))


def test_a_checkpoint_is_named_by_its_update(checkpoint: Path):
    assert checkpoint.name == "update-00000007"


def test_the_numbers_come_back(checkpoint: Path, config: ModelConfig):
    model = Transformer(config)

    state = load_state(checkpoint, model=model, optimizers=make_optimizers(model, TrainConfig()))

    assert state == STATE


def test_the_first_states_endless_loss_comes_back(tiny: Transformer, tmp_path: Path):
    optimizers = make_optimizers(tiny, TrainConfig())
    checkpoint = save_state(tmp_path, TrainState(), model=tiny, optimizers=optimizers)

    assert load_state(checkpoint, model=tiny, optimizers=optimizers) == TrainState()


def test_the_weights_come_back(checkpoint: Path, tiny: Transformer, config: ModelConfig):
    model = Transformer(config)
    load_state(checkpoint, model=model, optimizers=make_optimizers(model, TrainConfig()))

    for name, weight in model.state_dict().items():
        assert torch.equal(weight, tiny.state_dict()[name]), name


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_the_optimizers_memory_comes_back(
    kind: str, tiny: Transformer, config: ModelConfig, tmp_path: Path
):
    saved = train_once(tiny, kind)
    checkpoint = save_state(tmp_path, STATE, model=tiny, optimizers=saved)
    model = Transformer(config)
    loaded = make_optimizers(model, TrainConfig(optimizer=kind))
    load_state(checkpoint, model=model, optimizers=loaded)

    assert flat(loaded).keys() == flat(saved).keys()
    for key, tensor in flat(loaded).items():
        assert torch.equal(tensor, flat(saved)[key]), key


def test_the_running_mean_comes_back(tiny: Transformer, config: ModelConfig, tmp_path: Path):
    mean = WeightEMA(tiny, decay=0.9)
    optimizers = train_once(tiny, "adam")
    mean.update(tiny, update=1)
    checkpoint = save_state(tmp_path, STATE, model=tiny, optimizers=optimizers, ema=mean)
    model = Transformer(config)
    loaded = WeightEMA(model, decay=0.9)

    adam = make_optimizers(model, TrainConfig())
    load_state(checkpoint, model=model, optimizers=adam, ema=loaded)

    for name, weight in loaded.model.state_dict().items():
        assert torch.equal(weight, mean.model.state_dict()[name]), name
    assert not torch.equal(loaded.model.embedding.weight, model.embedding.weight)


def test_a_weight_that_no_training_leaves_is_refused(tiny: Transformer, tmp_path: Path):
    with torch.no_grad():
        tiny.embedding.weight[2, 1] = 1e30
    adam = make_optimizers(tiny, TrainConfig())
    checkpoint = save_state(tmp_path, STATE, model=tiny, optimizers=adam)

    with pytest.raises(ValueError, match=r"embedding\.weight"):
        load_state(checkpoint, model=tiny, optimizers=adam)


def test_the_random_numbers_go_on_where_they_stood(
    tiny: Transformer, tmp_path: Path, config: ModelConfig
):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        optimizers = make_optimizers(tiny, TrainConfig())
        checkpoint = save_state(tmp_path, STATE, model=tiny, optimizers=optimizers)
        expected = torch.rand(3)
        torch.manual_seed(6)

        load_state(checkpoint, model=tiny, optimizers=optimizers)

        assert torch.equal(torch.rand(3), expected)


def test_a_checkpoint_of_another_shape_is_refused_in_one_line(
    checkpoint: Path, config: ModelConfig
):
    model = Transformer(replace(config, d_ff=29))

    with pytest.raises(ValueError, match=r"^.*update-00000007.*$"):
        load_state(checkpoint, model=model, optimizers=make_optimizers(model, TrainConfig()))


@pytest.mark.parametrize(("saved", "loaded"), [("adam", "muon"), ("muon", "adam")])
def test_a_checkpoint_of_another_optimizer_is_refused(
    saved: str, loaded: str, tiny: Transformer, tmp_path: Path, config: ModelConfig
):
    checkpoint = save_state(tmp_path, STATE, model=tiny, optimizers=train_once(tiny, saved))
    model = Transformer(config)
    optimizers = make_optimizers(model, TrainConfig(optimizer=loaded))

    with pytest.raises(ValueError, match=r"^.*update-00000007.*$"):
        load_state(checkpoint, model=model, optimizers=optimizers)


def test_the_memory_of_some_weights_alone_is_refused(tiny: Transformer, tmp_path: Path):
    some = torch.optim.AdamW(list(tiny.parameters())[:3])
    tiny.embedding.weight.grad = torch.ones_like(tiny.embedding.weight)
    some.step()
    checkpoint = save_state(tmp_path, STATE, model=tiny, optimizers=[some])

    with pytest.raises(ValueError, match="it was trained with another optimizer"):
        load_state(checkpoint, model=tiny, optimizers=make_optimizers(tiny, TrainConfig()))


@pytest.mark.parametrize(
    ("deleted", "checked"), [(0, [300]), (300, [300, 300, 20])], ids=["intact", "deleted"]
)
def test_a_resumed_run_checks_the_newest_checkpoint_then_those_before_it_until_one_is_intact(
    tiny: Transformer,
    tmp_path: Path,
    deleted: int,
    checked: list[int],
    monkeypatch: pytest.MonkeyPatch,
):
    adam = make_optimizers(tiny, TrainConfig())
    for update in (1, 20, 300):
        save_state(tmp_path, TrainState(update=update), model=tiny, optimizers=adam)
    updates, events = list[int](), list[Event]()

    def check(folder: Path, *, expected: str) -> None:
        updates.append(int(folder.name.removeprefix("update-")))
        if updates[-1] == deleted:  # by another process, after it was listed
            raise FileNotFoundError(errno.ENOENT, "No such file", str(folder))
        check_folder(folder, expected=expected)

    monkeypatch.setattr(checkpoint_module, "check_folder", check)
    load = partial(load_state, model=tiny, optimizers=adam)

    state = resume_from_latest(tmp_path, load, on_event=events.append)

    assert state.update == checked[-1] == (20 if deleted else 300)
    assert updates == checked
    assert len(events) == 1 + bool(deleted)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"]
)
def test_a_missing_file_is_named(checkpoint: Path, tiny: Transformer, name: str):
    (checkpoint / name).unlink()

    with pytest.raises(ValueError, match=name):
        load_state(checkpoint, model=tiny, optimizers=make_optimizers(tiny, TrainConfig()))


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_one_flipped_bit_is_found(checkpoint: Path, tiny: Transformer, name: str):
    data = bytearray((checkpoint / name).read_bytes())
    data[len(data) // 2] ^= 1
    (checkpoint / name).write_bytes(data)

    with pytest.raises(ValueError, match=rf"{name} does not match its checksum"):
        load_state(checkpoint, model=tiny, optimizers=make_optimizers(tiny, TrainConfig()))


def test_damaged_weights_are_refused_in_one_line(tmp_path: Path):
    (tmp_path / "model.safetensors").write_bytes(b"not weights")

    with pytest.raises(ValueError, match=r"^.*model\.safetensors is no safetensors file .*$"):
        load_weights(tmp_path)


def test_checkpoints_are_listed_oldest_first_and_only_whole_ones(tmp_path: Path):
    for name in ("update-00000100", "update-00000020", ".update-00000300.new-17", "other"):
        (tmp_path / name).mkdir()

    names = [path.name for path in list_checkpoints(tmp_path)]

    assert names == ["update-00000020", "update-00000100"]


def test_a_run_that_has_not_begun_has_no_checkpoints(tmp_path: Path):
    assert list_checkpoints(tmp_path / "checkpoints") == []


def test_the_newest_checkpoints_stay(tmp_path: Path):
    for update in (1, 20, 300):
        (tmp_path / f"update-{update:08d}").mkdir()

    delete_old_checkpoints(tmp_path, 2)

    assert [path.name for path in list_checkpoints(tmp_path)] == [
        "update-00000020",
        "update-00000300",
    ]


def test_what_a_killed_process_left_of_a_checkpoint_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("update-00000001", "update-00000020", "update-00000300", ".update-00000300.new-7"):
        (tmp_path / name).mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(
            shutil, "rmtree", create_autospec(shutil.rmtree, side_effect=KeyboardInterrupt)
        )
        with suppress(KeyboardInterrupt):
            delete_old_checkpoints(tmp_path, 2)
    assert [path.name for path in list_checkpoints(tmp_path)] == [
        "update-00000020",
        "update-00000300",
    ]

    delete_old_checkpoints(tmp_path, 2)

    assert {path.name for path in tmp_path.iterdir()} == {"update-00000020", "update-00000300"}


def test_the_one_before_the_newest_always_stays(tmp_path: Path):
    for update in (1, 20, 300):
        (tmp_path / f"update-{update:08d}").mkdir()

    delete_old_checkpoints(tmp_path, 1)

    assert [path.name for path in list_checkpoints(tmp_path)] == [
        "update-00000020",
        "update-00000300",
    ]


def test_a_checkpoint_holds_nothing_that_could_run(checkpoint: Path):
    names = {path.name for path in checkpoint.iterdir()}

    assert names == {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"}
    assert json.loads((checkpoint / "state.json").read_text())["update"] == 7


def test_of_gathered_weights_only_rank_zero_keeps_more_than_a_few(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    gathered: list[ref[Tensor]] = []
    alive: list[int] = []

    def gather(process: Process, tensor: Tensor) -> Tensor:
        alive.append(sum(known() is not None for known in gathered))
        gathered.append(ref(full := tensor.clone()))
        return full

    monkeypatch.setattr(Process, "gather", gather)

    assert full_state_dict(tiny, Process(rank=1, world_size=2, sharded=True)) == {}
    assert len(gathered) == len(tiny.state_dict())
    assert max(alive) <= 1
    weights = full_state_dict(tiny, Process(world_size=2, sharded=True))
    assert all(torch.equal(weights[name], weight) for name, weight in tiny.state_dict().items())
