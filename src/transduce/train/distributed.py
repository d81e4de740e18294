"""The processes of a run, and where each of them computes: device, threads, memory.

The only file that knows of other processes. They all make the same updates: each reads its share of
the rows, the gradients are added up, and every process moves its own copy of the weights alike. A
process of one calls nobody and counts nothing.
"""

import errno
import os
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from random import Random

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from transduce.model.transformer import Transformer

_PATIENCE = timedelta(days=7)
"""How long the others wait while the first prepares, validates, writes or evaluates."""


@dataclass(kw_only=True, slots=True)
class Process:
    """One of a run's processes; by default the only one."""

    rank: int = 0
    """Which one it is, of all machines; the first, 0, alone prepares, validates and writes."""
    world_size: int = 1
    """How many there are."""
    local_rank: int = 0
    """Which one it is on this machine, and so which of its GPUs it takes."""
    local_world_size: int = 1
    """How many of them this machine has."""
    restarts: int = 0
    """How often torchrun started them all anew, after one of them had died."""
    sharded: bool = False
    """Whether each holds a part of the weights alone, so that all must pass forward together."""
    communication_seconds: float = 0.0
    """Seconds that the processes, on average, waited for each other in updates so far, adding up
    included; those of the last update are not known yet."""
    _waited: float = 0.0
    _patient: "dist.ProcessGroup | None" = None

    @property
    def is_rank_zero(self) -> bool:
        """Whether this is the one that writes."""
        return self.rank == 0

    def seed(self, seed: int, *, update: int) -> None:
        """Give each of several processes random numbers of its own, for one update.

        A process of one keeps drawing from where it stands, as checkpoints remember it.
        """
        if self.world_size > 1:
            torch.manual_seed(Random(f"{seed}/{self.rank}/{update}").getrandbits(63))

    def sum_tokens(self, tokens: int) -> int:
        """The target tokens of all processes. The numbers never visit a GPU."""
        if self.world_size == 1:
            return tokens
        both = torch.tensor([tokens, self._waited], dtype=torch.float64)
        self._waited = 0.0
        self._sum(both)
        self.communication_seconds += both[1].item() / self.world_size
        return int(both[0])

    def all_reduce_gradients(self, model: nn.Module, nats: Tensor) -> None:
        """Put the sum over all processes in the place of each gradient, and of `nats`.

        All go in one piece, in the order of the parameters, so that all processes get the same
        bits. One that had no rows, and so no gradient, adds zeros.
        """
        if self.world_size == 1:
            return
        if self.sharded:  # the backward passes have added the gradients up
            return self._sum(nats)
        tensors = [nats]
        for parameter in model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            tensors.append(parameter.grad)
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        self._sum(flat)
        for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def broadcast_weights(self, *models: nn.Module) -> None:
        """Give every process the first one's weights."""
        if self.world_size == 1:
            return
        with _report_lost_peer():
            for model in models:
                for tensor in model.state_dict().values():
                    dist.broadcast(tensor, src=0)

    def shard(self, model: Transformer) -> None:
        """Share a model's weights out, layer by layer; it must be the same in all processes.

        A layer's weights come together when it is passed, and part again. What all layers share,
        the embedding, stays together from the forward pass to the end of the backward pass.
        """
        if self.world_size == 1:
            return
        from torch.distributed import fsdp  # half a second that few runs need
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh(model.embedding.weight.device.type, (self.world_size,))
        # The views that it warns of are never written to.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module", category=UserWarning)
        for layer in model.decoder_layers():  # remembers the source before it is passed itself
            fsdp.fully_shard(layer.cross_attention, mesh=mesh)
            fsdp.register_fsdp_forward_method(layer.cross_attention, "project_kv")
        for layer in (*model.encoder, *model.decoder_layers()):
            fsdp.fully_shard(layer, mesh=mesh)
        fsdp.fully_shard(model, mesh=mesh)
        fsdp.register_fsdp_forward_method(model, "hidden_states")
        for module in model.modules():
            if isinstance(module, fsdp.FSDPModule):
                module.set_gradient_divide_factor(1.0)  # losses are divided by all tokens already
                module.set_force_sum_reduction_for_comms(True)
        self.sharded = True

    def max(self, number: int) -> int:
        """The largest of the processes' numbers, where all must do something equally often."""
        if not self.sharded:
            return number
        numbers = torch.zeros(self.world_size, dtype=torch.float64)
        numbers[self.rank] = number
        self._sum(numbers)
        return int(numbers.max())

    def gather(self, tensor: Tensor) -> Tensor:
        """A tensor of which each process may hold a part; all must ask for it."""
        if not self.sharded:
            return tensor
        from torch.distributed.tensor import DTensor

        with _report_lost_peer():
            return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def shard_like(self, tensor: Tensor, *, like: Tensor) -> Tensor:
        """Of a whole tensor what this process holds, as it does of another of that shape."""
        if not self.sharded:
            return tensor
        from torch.distributed.tensor import DTensor, distribute_tensor

        if not isinstance(like, DTensor) or tensor.shape != like.shape:
            return tensor
        return distribute_tensor(
            tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None
        )

    def collective(self) -> AbstractContextManager[None]:
        """Around passes in which the processes may need each other."""
        return _report_lost_peer() if self.sharded else nullcontext()

    def broadcast_from_rank_zero(self, number: float) -> float:
        """The first process's number, waited for by the others as long as it takes."""
        if self.world_size == 1:
            return number
        told = torch.tensor(number, dtype=torch.float64)
        with _report_lost_peer():
            dist.broadcast(told, src=0, group=self._patient)
        return told.item()

    def on_rank_zero(self, call: Callable[[], object]) -> None:
        """Let the first process alone do something; the others wait until it is done."""
        if self.is_rank_zero:
            call()
        self.broadcast_from_rank_zero(0.0)

    def find_device(self, name: str) -> torch.device:
        """The device of that name; of CUDA devices each process on a machine takes its own.

        Raises:
            ValueError: if torch knows no such device here, or there are too few of them.
        """
        device = find_device(name)
        if self.world_size == 1 or device.type != "cuda":
            return device
        if ":" in name:
            raise ValueError(
                f'train.device {name!r} is one device, for {self.world_size} processes: say "cuda"'
            )
        if self.local_rank >= (there := torch.cuda.device_count()):
            raise ValueError(
                f"there are {there} CUDA devices here, too few for this process, number "
                f"{self.local_rank} of this machine: start fewer, torchrun --nproc-per-node {there}"
            )
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)

    def _sum(self, tensor: Tensor) -> None:
        """Put the sum over all processes in a tensor's place, and time it."""
        if tensor.is_cuda:
            torch.cuda.synchronize(tensor.device)
        began = time.perf_counter()
        with _report_lost_peer():
            dist.all_reduce(tensor)
            if tensor.is_cuda:
                torch.cuda.synchronize(tensor.device)
        self._waited += time.perf_counter() - began


SINGLE_PROCESS = Process()
"""A process of one."""


def is_rank_zero() -> bool:
    """Whether this process is the one that speaks and writes, as torchrun has it."""
    return _environment_integer("WORLD_SIZE", 1) == 1 or _environment_integer("RANK", 0) == 0


@contextmanager
def process_group() -> Generator[Process]:
    """Meet the other processes that torchrun started, and yield which of them this is.

    Outside of torchrun it is the only one. When the block ends by an exception nobody is called any
    more: another process may be dead, and the connections close with this one.

    Raises:
        ValueError: if the environment says that there are others, and not how to find them.
        OSError: if they cannot be reached.
    """
    world, restarts = (
        _environment_integer("WORLD_SIZE", 1),
        _environment_integer("TORCHELASTIC_RESTART_COUNT", 0),
    )
    if world == 1:
        yield Process(restarts=restarts)
        return
    rank, local = _environment_integer("RANK"), _environment_integer("LOCAL_RANK")
    here = max(1, _environment_integer("LOCAL_WORLD_SIZE", world))
    if not dist.is_available():
        raise ValueError("this torch was built for one process only: install another build")
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with _report_lost_peer():
        store, _, _ = next(rendezvous("env://"))
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            # torchrun keeps it from one start to the next, with where those who died were found.
            store = dist.distributed_c10d.PrefixStore(f"start {restarts}", store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=world)
        patient = dist.new_group(backend="gloo", timeout=_PATIENCE)
        most = torch.tensor(restarts)  # each machine's torchrun counts the deaths on it
        dist.all_reduce(most, op=dist.ReduceOp.MAX, group=patient)
    assert isinstance(patient, dist.ProcessGroup), "a group of all holds this process"
    yield Process(
        rank=rank,
        world_size=world,
        local_rank=local,
        local_world_size=here,
        restarts=int(most),
        _patient=patient,
    )
    dist.destroy_process_group()


@contextmanager
def compute_device(
    *, device: str = "auto", threads: int = 0, process: Process = SINGLE_PROCESS
) -> Generator[torch.device]:
    """Arrange this process for training, yield its device, put its threads back afterwards.

    Raises:
        ValueError: if torch knows no such device here.
    """
    before = torch.get_num_threads()
    if threads:
        torch.set_num_threads(threads)
    try:
        yield process.find_device(device)
    finally:
        torch.set_num_threads(before)


def find_device(name: str) -> torch.device:
    """The device of that name; "auto" is the first CUDA device, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f'train.device {name!r} is not here ({first}); try "auto"') from None
    return device


@contextmanager
def _report_lost_peer() -> Generator[None]:
    """Say in one line that a process of the run does not answer."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise OSError(
            errno.EIO, f"another process of this run has ended or cannot be reached ({reason})"
        ) from None


def _environment_integer(name: str, default: int | None = None) -> int:
    """A number of the environment, where torchrun tells a process which one it is."""
    said = os.environ.get(name, "" if default is None else str(default))
    if not said.isdecimal():
        raise ValueError(
            f"the environment variable {name} is {said!r}, not a number: start several processes "
            f"by torchrun (docs/several-processes.md)"
        )
    return int(said)
