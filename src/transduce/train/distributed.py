"""Data-parallel training: the ranks of a run, and the device and threads of each.

The only module that uses torch.distributed. Every rank reads its share of the rows, gradients are
summed over ranks, and every rank updates its own copy of the weights alike. A single process makes
no collective call.
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
"""How long the other ranks wait while rank 0 prepares, validates, writes or evaluates."""


@dataclass(kw_only=True, slots=True)
class Process:
    """One of a run's processes, by default the only one; torchrun's terms."""

    rank: int = 0
    """Over all machines; rank 0 alone prepares, validates and writes."""
    world_size: int = 1
    """Processes over all machines."""
    local_rank: int = 0
    """Rank on this machine, and so the index of its GPU."""
    local_world_size: int = 1
    """Processes on this machine."""
    restarts: int = 0
    """How often torchrun restarted all of them, after one had died."""
    sharded: bool = False
    """Whether each rank holds a shard of the weights, so that all must run each pass together."""
    communication_seconds: float = 0.0
    """Seconds, averaged over ranks, spent in collectives and waiting for them, but for the last
    update's, which are summed with the next one's tokens."""
    _waited: float = 0.0
    _patient: "dist.ProcessGroup | None" = None

    @property
    def is_rank_zero(self) -> bool:
        """Whether this is the rank that writes."""
        return self.rank == 0

    def seed(self, seed: int, *, update: int) -> None:
        """Seed each of several ranks differently for one update.

        A single process continues its random state, which checkpoints store.
        """
        if self.world_size > 1:
            # Python's generator hashes the text, so that neighbours are unrelated. By update, as a
            # resumed run must not depend on what the ranks drew before it.
            torch.manual_seed(Random(f"{seed}/{self.rank}/{update}").getrandbits(63))

    def sum_tokens(self, tokens: int) -> int:
        """Return the target tokens of all ranks. The numbers stay on the CPU."""
        if self.world_size == 1:
            return tokens
        # One collective for two numbers; a double holds whole numbers up to 2**53 exactly.
        sums = torch.tensor([tokens, self._waited], dtype=torch.float64)
        self._waited = 0.0
        self._sum(sums)
        self.communication_seconds += sums[1].item() / self.world_size
        return int(sums[0])

    def all_reduce_gradients(self, model: nn.Module, loss_sum: Tensor) -> None:
        """Replace each gradient, and `loss_sum`, by its sum over ranks.

        One flat buffer in the order of the parameters, so that all ranks get the same bits. A rank
        without rows, and so without gradients, adds zeros.
        """
        if self.world_size == 1:
            return
        if self.sharded:  # the backward pass has reduced and scattered the gradients
            return self._sum(loss_sum)
        tensors = [loss_sum]
        for parameter in model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            tensors.append(parameter.grad)
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        self._sum(flat)
        for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def broadcast_weights(self, *models: nn.Module) -> None:
        """Copy rank 0's weights to all ranks."""
        if self.world_size == 1:
            return
        with _report_lost_peer():
            for model in models:
                for tensor in model.state_dict().values():  # in the same order on every rank
                    dist.broadcast(tensor, src=0)

    def shard(self, model: Transformer) -> None:
        """Shard a model layer by layer (FSDP2); it must be the same on all ranks.

        A layer's weights are gathered for its passes and freed again. The embedding, which is used
        first and last, stays gathered from the forward pass to the end of the backward pass.
        """
        if self.world_size == 1:
            return
        from torch.distributed import fsdp  # half a second that few runs need
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh(model.embedding.weight.device.type, (self.world_size,))
        # FSDP warns about views of its parameters; no view here is written to.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module", category=UserWarning)
        for layer in model.decoder:  # projects the source before its own forward
            fsdp.fully_shard(layer.cross_attention, mesh=mesh)
            fsdp.register_fsdp_forward_method(layer.cross_attention, "project_kv")
        for layer in (*model.encoder, *model.decoder):
            fsdp.fully_shard(layer, mesh=mesh)
        fsdp.fully_shard(model, mesh=mesh)
        fsdp.register_fsdp_forward_method(model, "hidden_states")
        for module in model.modules():
            if isinstance(module, fsdp.FSDPModule):
                # Losses are divided by the tokens of all ranks already.
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)  # gloo knows no scaled sum
        self.sharded = True

    def max(self, number: int) -> int:
        """Maximum over sharded ranks, so that all run the same number of collectives."""
        if not self.sharded:
            return number
        # Each rank fills in its own entry, so that a sum, the timed collective, gathers them.
        numbers = torch.zeros(self.world_size, dtype=torch.float64)
        numbers[self.rank] = number
        self._sum(numbers)
        return int(numbers.max())

    def gather(self, tensor: Tensor) -> Tensor:
        """All-gather a possibly sharded tensor. Collective: every rank must call it."""
        if not self.sharded:
            return tensor
        from torch.distributed.tensor import DTensor

        with _report_lost_peer():
            return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def shard_like(self, tensor: Tensor, *, like: Tensor) -> Tensor:
        """Return this rank's shard of `tensor`, laid out like `like`."""
        if not self.sharded:
            return tensor
        from torch.distributed.tensor import DTensor, distribute_tensor

        if not isinstance(like, DTensor) or tensor.shape != like.shape:
            return tensor
        return distribute_tensor(
            tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None
        )

    def collective(self) -> AbstractContextManager[None]:
        """A context for passes that may communicate: names a lost peer in one line."""
        return _report_lost_peer() if self.sharded else nullcontext()

    def broadcast_from_rank_zero(self, number: float) -> float:
        """Return rank 0's number; the others wait for it as long as it takes."""
        if self.world_size == 1:
            return number
        shared = torch.tensor(number, dtype=torch.float64)
        # A group with a timeout of its own: rank 0 may validate for hours, gradients take seconds.
        with _report_lost_peer():
            dist.broadcast(shared, src=0, group=self._patient)
        return shared.item()

    def on_rank_zero(self, call: Callable[[], object]) -> None:
        """Call `call` on rank 0 alone; the others wait until it returns."""
        if self.is_rank_zero:
            call()
        self.broadcast_from_rank_zero(0.0)  # a barrier: what rank 0 wrote may be read after it

    def find_device(self, name: str) -> torch.device:
        """Return the device of that name; for "cuda", the GPU of this process's local rank.

        Raises:
            ValueError: if there is no such device, or there are fewer than processes.
        """
        device = find_device(name)
        if device.type == "mps" and name == "auto" and self.world_size > 1:
            return torch.device("cpu")  # no backend of torch.distributed takes its tensors
        if self.world_size == 1 and device.type == "cuda" and ":" in name:
            torch.cuda.set_device(device)  # whose random state checkpoints hold
        if self.world_size == 1 or device.type != "cuda":
            return device
        if ":" in name:
            raise ValueError(
                f"train.device {name!r} is one device, for {self.world_size} processes: "
                f'set it to "cuda"'
            )
        if self.local_rank >= (count := torch.cuda.device_count()):
            raise ValueError(
                f"this machine has {count} CUDA devices, too few for local rank {self.local_rank}: "
                f"start fewer processes, torchrun --nproc-per-node {count}"
            )
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)

    def _sum(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over ranks, and time that."""
        if tensor.is_cuda:  # or the time of the passes before it would count as communication
            torch.cuda.synchronize(tensor.device)
        began = time.perf_counter()
        with _report_lost_peer():
            dist.all_reduce(tensor)
            if tensor.is_cuda:
                torch.cuda.synchronize(tensor.device)
        self._waited += time.perf_counter() - began


SINGLE_PROCESS = Process()
"""No torchrun: one rank, no collectives."""


def is_rank_zero() -> bool:
    """Whether this process prints and writes, by torchrun's environment variables."""
    return _environment_integer("WORLD_SIZE", 1) == 1 or _environment_integer("RANK", 0) == 0


@contextmanager
def process_group() -> Generator[Process]:
    """Join the process group that torchrun started, and yield this rank; without torchrun, alone.

    After an exception the group is not destroyed, which would be a collective call that a dead rank
    cannot answer: connections close with the process.

    Raises:
        ValueError: if torchrun's environment variables are incomplete.
        OSError: if the other ranks cannot be reached.
    """
    world = _environment_integer("WORLD_SIZE", 1)
    restarts = _environment_integer("TORCHELASTIC_RESTART_COUNT", 0)
    if world == 1:
        yield Process(restarts=restarts)
        return
    rank, local = _environment_integer("RANK"), _environment_integer("LOCAL_RANK")
    local_world = max(1, _environment_integer("LOCAL_WORLD_SIZE", world))
    if not dist.is_available():
        raise ValueError("this torch was built for one process only: install another build")
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with _report_lost_peer():
        store, _, _ = next(rendezvous("env://"))
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            # torchrun keeps the store over restarts, with the addresses of ranks that died.
            store = dist.distributed_c10d.PrefixStore(f"start {restarts}", store)
        dist.init_process_group(backend, store=store, rank=rank, world_size=world)
        patient = dist.new_group(backend="gloo", timeout=_PATIENCE)
        restarts_seen = torch.tensor(restarts)  # each machine's torchrun counts its own restarts
        dist.all_reduce(restarts_seen, op=dist.ReduceOp.MAX, group=patient)
    assert isinstance(patient, dist.ProcessGroup), "a group of all holds this process"
    yield Process(
        rank=rank,
        world_size=world,
        local_rank=local,
        local_world_size=local_world,
        restarts=int(restarts_seen),
        _patient=patient,
    )
    dist.destroy_process_group()


@contextmanager
def compute_device(
    *, device: str = "auto", threads: int = 0, process: Process = SINGLE_PROCESS
) -> Generator[torch.device]:
    """Set the CPU threads, yield the device, and restore the threads.

    Args:
        device: a torch name, or "auto".
        threads: of a CPU operation; 0 keeps torch's.
        process: this rank.

    Raises:
        ValueError: if there is no such device.
    """
    before = torch.get_num_threads()
    if threads:
        torch.set_num_threads(threads)
    try:
        yield process.find_device(device)
    finally:
        torch.set_num_threads(before)


def find_device(name: str) -> torch.device:
    """Return the device of that name; "auto" is the first CUDA device, else MPS, else the CPU.

    Raises:
        ValueError: if there is no such device.
    """
    if name == "auto":
        others = "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device("cuda" if torch.cuda.is_available() else others)
    try:
        device = torch.device(name)
        # torch.device accepts names of devices that are not there, or hold no numbers ("meta").
        torch.zeros((), device=device).item()
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ValueError(f'there is no train.device {name!r} ({first}); try "auto"') from None
    return device


@contextmanager
def _report_lost_peer() -> Generator[None]:
    """Turn torch's error about a lost rank into one line."""
    try:
        yield
    except torch.OutOfMemoryError:  # a RuntimeError too, and no rank is lost by it
        raise
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise OSError(
            errno.EIO, f"another process of this run has ended or cannot be reached ({reason})"
        ) from None


def _environment_integer(name: str, default: int | None = None) -> int:
    """Read one of torchrun's environment variables."""
    text = os.environ.get(name, "" if default is None else str(default))
    if not text.isdecimal():
        raise ValueError(
            f"the environment variable {name} is {text!r}, not a number: start several processes "
            f"with torchrun (docs/several-processes.md)"
        )
    return int(text)
