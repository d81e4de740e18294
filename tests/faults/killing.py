"""Kill a training run at many points, go on with it, and compare with one that was never killed.

    .venv/bin/python tests/faults/killing.py --points 50 --record benchmarks/results/killing

Half of the points are touches of the run's files, counted by an audit hook, so that a process dies
(SIGKILL, by its own hand) in the middle of writing, flushing, renaming and deleting; the other half
are moments, at which it is killed from outside wherever it happens to be. Then the run is gone on
with by --resume, and must end in the same bytes. Processes are forked from one that has loaded
torch, so that fifty of them take minutes.
"""

import argparse
import datetime
import json
import os
import platform
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from transduce.cli import main
from transduce.io.machine import VERSION, commit

sys.path.insert(0, str(Path(__file__).parents[1]))

from conftest import SMALL, write_corpus

MEDLEY = (
    *SMALL,
    *("--set", "train.updates=60", "--set", "train.validate_every=12"),
    *("--set", "train.log_every=1", "--set", "train.ema=0.9", "--set", "model.dropout=0.1"),
    *("--set", "batch.micro_tokens=100", "--set", "data.max_pieces=60"),
    *("--set", "batch.subword_sampling=0.1", "--set", "train.patience=9"),
)
"""A run with all that has to be remembered: a mean, drawn pieces, dropout, micro-batches."""

_TOUCHES = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.listdir")
_SAME = ("model/model.safetensors", "model/confidence.json", "hypotheses.*")
_TIMES = ("seconds", "tokens_per_second")


class Whole(NamedTuple):
    """A run that was not killed."""

    folder: Path
    touches: tuple[str, ...]
    """What it did to its files, in order."""
    seconds: float


class Killed(NamedTuple):
    """What became of a run that was."""

    where: str
    equal: bool
    difference: str
    """What differs, or how going on failed; "" if all is equal."""


def whole_run(corpus: Path) -> Whole:
    """Carry the run out in one go, and write down how it touches its files."""
    noted = corpus / "touches"
    started = time.perf_counter()

    def note() -> None:
        touches: list[str] = []
        _on_touch(corpus / "whole", touches.append)
        code = main(_command(corpus, "whole"))
        noted.write_text("\n".join(touches))
        os._exit(code)

    ended = _in_a_child(note, log=corpus / "whole.log")
    assert ended == 0, (corpus / "whole.log").read_text()
    seconds = time.perf_counter() - started
    return Whole(corpus / "whole", tuple(noted.read_text().split("\n")), seconds)


def kill_and_go_on(
    corpus: Path, reference: Whole, *, name: str, touch: int, after: float
) -> Killed:
    """Kill a run at a touch of its files, or after so many seconds, go on with it, and compare."""
    out, log = corpus / name, corpus / f"{name}.log"

    def until_killed() -> None:
        left = [touch]

        def count(_: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        if touch:
            _on_touch(out, count)
        os._exit(main(_command(corpus, name)))

    ended = _in_a_child(until_killed, log=log, kill_after=after)
    where = f"touch {touch}: {reference.touches[touch - 1]}" if touch else f"after {after:.2f} s"
    if ended != -signal.SIGKILL:
        where += f" (it had ended with {ended})"
    again = _in_a_child(lambda: os._exit(main([*_command(corpus, name), "--resume"])), log=log)
    output = (
        f"exit code {again}: {log.read_text()[-300:]}"
        if again
        else differences(out, reference.folder)
    )
    return Killed(where, not output, output)


def differences(folder: Path, other: Path) -> str:
    """What two finished runs differ in, of all that must not."""
    files = [file.relative_to(other) for name in _SAME for file in sorted(other.glob(name))]
    result = [
        str(file) for file in files if (folder / file).read_bytes() != (other / file).read_bytes()
    ]
    assert len(files) >= len(_SAME), files
    if _metrics(folder) != _metrics(other):
        result.append("metrics.jsonl")
    left = {path.name for path in folder.iterdir()} - {path.name for path in other.iterdir()}
    return ", ".join([*result, *(f"{name} is left" for name in sorted(left))])


def points(reference: Whole, count: int, *, seed: int) -> list[tuple[int, float]]:
    """Where to kill: touches of which half are inside the writing of a folder, and moments."""
    chance = random.Random(seed)
    every = range(1, len(reference.touches) + 1)
    writing = [touch for touch in every if "/." in reference.touches[touch - 1]]
    inside = chance.sample(writing, k=count // 4)
    anywhere = chance.sample(every, k=count // 2 - count // 4)
    moments = [chance.uniform(0.02, reference.seconds) for _ in range(count - count // 2)]
    return [*((touch, 0.0) for touch in inside + anywhere), *((0, after) for after in moments)]


def _metrics(run: Path) -> list[dict[str, object]]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{key: fact for key, fact in line.items() if key not in _TIMES} for line in lines]


def _command(corpus: Path, name: str) -> list[str]:
    files = ["--source", str(corpus / "train.src"), "--target", str(corpus / "train.rev")]
    return ["train", *files, *MEDLEY, "--out", str(corpus / name)]


def _on_touch(folder: Path, tell: Callable[[str], None]) -> None:
    """Call back each time this process touches a file below `folder`; for good."""
    below = f"{folder}/"

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in _TOUCHES and arguments and str(arguments[0]).startswith(below):
            tell(f"{event} {str(arguments[0]).removeprefix(below)}")

    sys.addaudithook(hook)


def _in_a_child(work: Callable[[], None], *, log: Path, kill_after: float = 0.0) -> int:
    """Do some work in a process of its own; return its exit code, or minus the signal's number."""
    child = os.fork()
    if child == 0:
        with log.open("ab") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        try:
            work()
        finally:
            os._exit(99)
    if kill_after:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def harness(corpus: Path, count: int, *, seed: int) -> list[Killed]:
    """Kill a run at so many points, and say what became of each."""
    write_corpus(corpus)
    reference = whole_run(corpus)
    killed: list[Killed] = []
    for number, (touch, after) in enumerate(points(reference, count, seed=seed), 1):
        single = kill_and_go_on(
            corpus, reference, name=f"killed-{number}", touch=touch, after=after
        )
        print(
            f"{number:3} {'equal' if single.equal else 'DIFFERS'}  {single.where}  "
            f"{single.difference}",
            flush=True,
        )
        killed.append(single)
    return killed


def run(argv: Sequence[str] | None = None) -> int:
    """Read the command line, run the harness, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="a folder for record.json")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        killed = harness(Path(folder), arguments.points, seed=arguments.seed)
    equal = sum(item.equal for item in killed)
    print(f"{equal} of {len(killed)} ended in the bytes of the run that was never killed")
    if arguments.record:
        record = {
            "command": f"python tests/faults/killing.py --points {arguments.points} "
            f"--seed {arguments.seed}",
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": commit(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
            "versions": {"transduce": VERSION, "torch": str(torch.__version__)},
            "equal": equal,
            "points": [item._asdict() for item in killed],
        }
        arguments.record.mkdir(parents=True, exist_ok=True)
        (arguments.record / "record.json").write_text(json.dumps(record, indent=2) + "\n")
    return 0 if equal == len(killed) else 1


if __name__ == "__main__":
    sys.exit(run())
