"""What workers load in place of a translator; run as a program, a driver that is to be killed."""

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from transduce.cli.app import app
from transduce.cluster.engines import ClusterConfig, ProcessShard, ShardWorker
from transduce.cluster.translate import process_corpus
from transduce.pipeline import prepare_cluster


def load_stub(
    attempts: Path, die_at: tuple[int, ...] = (), slow: float = 0.0
) -> Callable[[list[str], int], list[str]]:
    """Load an upper-caser that notes each call, and kills its process once at certain lines."""

    def translate(texts: list[str], first_line: int) -> list[str]:
        with attempts.open("a") as file:
            file.write(f"{first_line}\n")
        time.sleep(slow)
        death = attempts.with_name(f"died-{first_line}")
        if first_line in die_at and not death.exists():
            death.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [text.upper() for text in texts]

    return translate


def load_dying(
    load: Callable[[], Callable[[Any], bytes]],
    attempts: Path,
    die_at: tuple[int, ...] = (),
    slow: float = 0.0,
) -> Callable[[Any], bytes]:
    """Load a function of shards, and note each call; kill the process once at certain shards."""
    inner = load()

    def process(shard: Any) -> bytes:
        with attempts.open("a") as file:
            file.write(f"{shard.number}\n")
        time.sleep(slow)
        death = attempts.with_name(f"{attempts.name}-died-{shard.number}")
        if shard.number in die_at and not death.exists():
            death.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return inner(shard)

    return process


def main(folder: Path, *command: str) -> None:
    """Process in.txt, or carry out a command of transduce, with workers that are slow."""
    if command:

        def slow_worker(load: Callable[[], ProcessShard], output: str) -> ShardWorker:
            load = partial(load_dying, load, folder / Path(output).name, slow=0.3)
            return ShardWorker(load=load, output=output)

        prepare_cluster.ShardWorker = slow_worker  # type: ignore[assignment, misc]
        app(command)
    process_corpus(
        partial(load_stub, folder / "attempts", slow=0.5),
        str(folder / "in.txt"),
        str(folder / "out"),
        settings={},
        config=ClusterConfig(workers=2, shard_rows=10),
        on_event=print,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
