"""Where a run computes, and with whom. tests/parity/test_processes.py has real others."""

import itertools
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from transduce.io.machine import keep_freed_memory
from transduce.model.transformer import Transformer
from transduce.train import distributed as process
from transduce.train.distributed import (
    SINGLE_PROCESS,
    Process,
    compute_device,
    find_device,
    is_rank_zero,
    process_group,
)


def test_auto_is_a_device_of_this_machine():
    assert find_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_auto_takes_mps_for_one_process_where_there_is_no_cuda(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    alone, two = (Process(rank=0, world_size=size, local_rank=0) for size in (1, 2))

    assert [p.find_device("auto").type for p in (alone, two)] == ["mps", "cpu"]


def test_a_device_can_be_named():
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["toaster", "cuda:97", "meta"])
def test_a_device_that_is_not_here_is_refused_in_one_line(name: str):
    with pytest.raises(ValueError, match=rf"^there is no train\.device '{name}' .*\"auto\"$"):
        find_device(name)


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A machine that seems to have them; the devices that were chosen for good."""
    chosen: list[object] = []
    monkeypatch.setattr(
        process, "find_device", lambda name: torch.device("cuda" if name == "auto" else name)
    )
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    return chosen


def test_every_process_on_a_machine_takes_a_gpu_of_its_own(two_gpus: list[object]):
    device = Process(rank=5, world_size=6, local_rank=1).find_device("auto")

    assert (device, two_gpus) == (torch.device("cuda:1"), [1])


def test_a_gpu_that_is_named_is_the_current_one(two_gpus: list[object]):
    devices = [SINGLE_PROCESS.find_device(name) for name in ("auto", "cuda", "cuda:1")]

    assert two_gpus == devices[2:] == [torch.device("cuda:1")]


def test_more_processes_than_gpus_are_refused_in_one_line(two_gpus: list[object]):
    with pytest.raises(
        ValueError, match=r"^this machine has 2 CUDA devices, .* --nproc-per-node 2$"
    ):
        Process(rank=2, world_size=3, local_rank=2).find_device("auto")


def test_one_gpu_for_several_processes_is_refused_in_one_line(two_gpus: list[object]):
    with pytest.raises(ValueError, match=r"^train\.device 'cuda:1' is one .*to \"cuda\"$"):
        Process(world_size=2).find_device("cuda:1")


def test_a_process_of_one_is_the_first_and_asks_nobody(tiny: Transformer):
    called: list[str] = []
    tiny.embedding.weight.grad = torch.ones_like(tiny.embedding.weight)

    SINGLE_PROCESS.broadcast_weights(tiny)
    SINGLE_PROCESS.all_reduce_gradients(tiny, torch.zeros(()))
    SINGLE_PROCESS.shard(tiny)
    SINGLE_PROCESS.on_rank_zero(lambda: called.append("once"))

    assert SINGLE_PROCESS.is_rank_zero
    assert (SINGLE_PROCESS.sum_tokens(7), SINGLE_PROCESS.broadcast_from_rank_zero(2.5), called) == (
        7,
        2.5,
        ["once"],
    )
    assert (SINGLE_PROCESS.max(3), SINGLE_PROCESS.sharded) == (3, False)
    weight = tiny.embedding.weight
    assert SINGLE_PROCESS.gather(weight) is SINGLE_PROCESS.shard_like(weight, like=weight) is weight
    assert sum(weight.grad is not None for weight in tiny.parameters()) == 1


def test_a_process_of_one_goes_on_drawing_from_where_it_stands():
    before = torch.get_rng_state()

    SINGLE_PROCESS.seed(1, update=3)

    assert torch.equal(torch.get_rng_state(), before)


def test_each_of_several_processes_draws_its_own_numbers_in_each_update():
    def drawn(rank: int, seed: int, update: int) -> float:
        Process(rank=rank, world_size=2).seed(seed, update=update)
        return torch.rand(()).item()

    with torch.random.fork_rng(devices=[]):
        first = drawn(0, 1, 3)
        others = [drawn(1, 1, 3), drawn(0, 2, 3), drawn(0, 1, 4)]
        again = drawn(0, 1, 3)

    assert again == first
    assert len({first, *others}) == 4


class Others:
    """What the other processes of a run put into each call, and what they were asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *added: float) -> None:
        self.groups: list[object] = []
        self._added = added
        monkeypatch.setattr(torch.distributed, "all_reduce", self._sum)
        monkeypatch.setattr(torch.distributed, "broadcast", self._tell)

    def _sum(self, tensor: Tensor) -> None:
        if self._added:
            tensor += torch.tensor(self._added).to(tensor.dtype).view_as(tensor)

    def _tell(self, tensor: Tensor, *, src: int, group: object = None) -> None:
        assert src == 0
        self.groups.append(group)
        tensor.fill_(7.0)


def test_tokens_are_those_of_all_and_seconds_waited_their_mean(monkeypatch: pytest.MonkeyPatch):
    Others(monkeypatch, 5.0, 1.0)
    ticks = itertools.count()
    monkeypatch.setattr(
        "transduce.train.distributed.time", SimpleNamespace(perf_counter=lambda: next(ticks) / 4)
    )
    process = Process(world_size=2, _waited=3.0)

    assert (process.sum_tokens(7), process.sum_tokens(1)) == (12, 6)

    assert process.communication_seconds == (3.0 + 1.0) / 2 + (0.25 + 1.0) / 2
    assert process._waited == 0.25


def test_a_process_without_a_gradient_adds_zeros(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    Others(monkeypatch)
    tiny.embedding.weight.grad = torch.full_like(tiny.embedding.weight, 3.0)
    nats = torch.tensor(5.0)

    Process(world_size=2).all_reduce_gradients(tiny, nats)

    assert nats == 5.0
    for name, weight in tiny.named_parameters():
        assert weight.grad is not None
        assert (weight.grad == (3.0 if name == "embedding.weight" else 0.0)).all(), name


def test_all_start_from_the_first_ones_weights(tiny: Transformer, monkeypatch: pytest.MonkeyPatch):
    Others(monkeypatch)

    Process(rank=1, world_size=2).broadcast_weights(tiny)

    assert all((weight == 7.0).all() for weight in tiny.parameters())


@pytest.mark.parametrize(("rank", "calls"), [(0, ["done"]), (1, [])])
def test_what_is_done_once_the_first_does_and_the_others_wait_for_patiently(
    rank: int, calls: list[str], monkeypatch: pytest.MonkeyPatch
):
    others, patient, called = Others(monkeypatch), object(), list[str]()
    process = Process(rank=rank, world_size=2)
    object.__setattr__(process, "_patient", patient)

    process.on_rank_zero(lambda: called.append("done"))

    assert called == calls
    assert others.groups == [patient]


def test_where_weights_are_shared_out_the_loss_alone_is_added_up(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    Others(monkeypatch, 2.0)
    nats = torch.tensor(5.0)

    Process(world_size=2, sharded=True).all_reduce_gradients(tiny, nats)

    assert nats == 7.0
    assert all(weight.grad is None for weight in tiny.parameters())


def test_all_learn_the_most_of_what_each_has_to_do(monkeypatch: pytest.MonkeyPatch):
    Others(monkeypatch, 4.0, 0.0, 1.0)

    assert Process(rank=1, world_size=3, sharded=True).max(3) == 4


def test_outside_of_torchrun_a_process_is_alone():
    with process_group() as group:
        assert (group.is_rank_zero, group.world_size, group.restarts) == (True, 1, 0)
    assert is_rank_zero()


@pytest.mark.parametrize(("rank", "first"), [("0", True), ("3", False)])
def test_torchrun_says_which_process_speaks(
    monkeypatch: pytest.MonkeyPatch, rank: str, first: bool
):
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", rank)

    assert is_rank_zero() == first


def test_half_an_environment_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")

    with (
        pytest.raises(ValueError, match=r"^.*variable LOCAL_RANK is '', .*torchrun.*$"),
        process_group(),
    ):
        pass


def test_threads_are_put_back():
    before = torch.get_num_threads()

    with compute_device(device="cpu", threads=before + 2):
        inside = torch.get_num_threads()

    assert (inside, torch.get_num_threads()) == (before + 2, before)


def test_threads_are_put_back_after_a_failure():
    before = torch.get_num_threads()

    with pytest.raises(ZeroDivisionError), compute_device(device="cpu", threads=before + 2):
        raise ZeroDivisionError

    assert torch.get_num_threads() == before


def test_where_the_c_library_cannot_hold_memory_training_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")

    assert not keep_freed_memory()
