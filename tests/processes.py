"""Several processes of one run, found by each other as torchrun would have it, but soon there.

They are forked from a server that has loaded torch and this program, and nothing of the tests.
"""

import faulthandler
import json
import math
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVarTuple, Unpack

import torch
from torch import Tensor

from transduce.cli import main
from transduce.data.config import BatchConfig
from transduce.data.loader import LoadedUpdate, Loader
from transduce.data.sampler import Sampler, SamplerState
from transduce.data.store import Store
from transduce.data.tokenizer import Tokenizer
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train import loop, step
from transduce.train.config import TrainConfig
from transduce.train.distributed import process_group
from transduce.train.events import Event, Progress
from transduce.train.loop import Validation, train
from transduce.train.step import StepResult

Given = TypeVarTuple("Given")

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["torch", "transduce.cli", "transduce.pipeline.run"])
_PATIENCE = 600.0


def together(
    world: int, work: Callable[[Unpack[Given]], None], *given: *Given, restarts: int = 0
) -> list[int]:
    """Do some work in so many processes; return their exit codes, minus a signal's number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RESTART_COUNT": str(restarts),
    }
    started = [
        _CONTEXT.Process(
            target=_begin,
            args=(environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, work, given),
        )
        for rank in range(world)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(_PATIENCE)
        process.kill()
        process.join()
    return [process.exitcode or 0 for process in started]


def _begin(
    environment: dict[str, str], work: Callable[[Unpack[Given]], None], given: tuple[*Given]
) -> None:
    os.environ.update(environment)
    faulthandler.dump_traceback_later(0.8 * _PATIENCE)  # where it hangs, if it does
    torch.set_num_threads(1)
    work(*given)


class End(NamedTuple):
    """How some of the processes end on the first start."""

    update: int = 0
    """Before the gradients of which update; 0: never."""
    by: int = signal.SIGKILL
    ranks: tuple[int, ...] = (1,)


def commanded(argv: list[str], log: Path, end: End) -> None:
    """The command line; what it says goes to a file for each process."""
    with log.with_name(f"{log.name}-{os.environ['RANK']}").open("ab") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    die_at(end)
    sys.exit(main(argv))


def die_at(end: End) -> None:
    """Let this process send itself a signal, if it is one of those that end, on the first start."""
    first_start = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if not (end.update and first_start and int(os.environ["RANK"]) in end.ranks):
        return
    made = step.train_step
    left = [end.update]

    def until_then(*given: object, **named: object) -> StepResult:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), end.by)
        return made(*given, **named)  # type: ignore[arg-type]

    loop.train_step = until_then


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What is learned, by however many processes."""

    store: Path
    tokenizer: Path
    model: ModelConfig
    training: TrainConfig
    folder: Path
    """The run's; what each process saw is written into it too."""
    tokens: int = 101
    micro_tokens: int = 4096
    sampling: float = 0.0
    double: bool = False
    stop_at: int = 0
    """The update after which all stop, as by Ctrl-C; 0: at the end."""
    spoilt: int = 0
    """The update in which the last process finds a gradient that is no number; 0: none."""
    room: int = 0
    """Positions beyond which a micro-batch has no memory in the last process; 0: none."""


@dataclass(frozen=True)
class Seen:
    """What one process saw, by update."""

    losses: dict[str, float] = field(default_factory=dict)
    sentences: dict[str, list[list[int]]] = field(default_factory=dict)
    passes: list[list[int]] = field(default_factory=list)
    """Positions of each pass, where memory is bounded."""


def learn(lesson: Lesson) -> None:
    """Train as `run_recipe` does, and write down what was learned from in each update."""
    seen = Seen()

    def validate(model: Transformer) -> Validation:
        return Validation(loss=model.embedding.weight.norm().item(), bleu=0.0, signature="")

    def on_event(event: Event) -> None:
        if isinstance(event, Progress):
            seen.losses[str(event.update)] = event.loss
            if event.update == lesson.stop_at:
                raise KeyboardInterrupt

    with process_group() as process:
        tokenizer = Tokenizer.from_bytes(lesson.tokenizer.read_bytes())
        store = Store.open(lesson.store, tokenizer_checksum=tokenizer.checksum)
        batches = BatchConfig(
            tokens=lesson.tokens, micro_tokens=lesson.micro_tokens, subword_sampling=lesson.sampling
        )
        sampler = Sampler(store.lengths, config=batches, seed=1, world=process.world_size)
        loader = Noting(
            store,
            sampler=sampler,
            tokenizer=tokenizer,
            sampling=lesson.sampling,
            seed=1,
            rank=process.rank,
        )
        loader.seen = seen
        torch.manual_seed(lesson.training.seed)
        model = Transformer(lesson.model)

        def spoil(grad: Tensor) -> Tensor:
            on_last_rank = (
                process.rank == process.world_size - 1 and len(seen.sentences) == lesson.spoilt
            )
            return grad * math.nan if on_last_rank else grad

        model.embedding.weight.register_hook(spoil)
        if lesson.room and process.rank == process.world_size - 1:
            seen.passes.append(bound_memory(model, lesson.room))
        with suppress(KeyboardInterrupt):
            train(
                model.double() if lesson.double else model,
                loader=loader,
                config=lesson.training,
                validate=validate,
                folder=lesson.folder,
                on_best=lambda model, validation: None,
                on_event=on_event,
                process=process,
            )
    result = json.dumps(asdict(seen))
    (lesson.folder / f"seen-{process.rank}-of-{process.world_size}.json").write_text(result)


def bound_memory(model: Transformer, room: int) -> list[int]:
    """Let memory run out in any pass over more positions; return the positions of all passes.

    Of more than twice as many it runs out in the forward pass, else in the middle of the backward
    pass, when the decoder's gradients are there and the encoder's are not.
    """
    passes: list[int] = []
    hidden_states, encode = model.hidden_states, model.encode

    def bounded(source: Tensor, mask: Tensor | None, target_in: Tensor) -> Tensor:
        passes.append(len(source) * max(source.size(1), target_in.size(1)))
        if passes[-1] > 2 * room:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you ...")
        return hidden_states(source, mask, target_in)

    def read(source: Tensor, mask: Tensor | None) -> Tensor:
        memory = encode(source, mask)
        if memory.requires_grad:
            memory.register_hook(fail if passes[-1] > room else lambda grad: grad)
        return memory

    def fail(grad: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate ...")

    model.hidden_states, model.encode = bounded, read  # type: ignore[method-assign]
    return passes


class Noting(Loader):
    """A loader that notes the targets of each update."""

    seen: Seen

    def updates(self, place: SamplerState) -> Generator[LoadedUpdate, None, None]:

        for loaded in super().updates(place):
            name = f"{loaded.state_after.epoch}/{loaded.state_after.update}"
            self.seen.sentences[name] = [
                row[: row.index(0)] for batch in loaded.batches for row in batch.target_out.tolist()
            ]
            yield loaded
