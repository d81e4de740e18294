"""torchrun with `--nnodes 1:2`: a node is lost and another added in the middle of a training."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import SMALL

PATIENCE = 120.0


def start_node(name: str, folder: Path, *, port: int) -> subprocess.Popen[bytes]:
    """Start torchrun with one process, as on a machine of its own; its output goes to a file."""
    rendezvous = "last_call_timeout=5"  # seconds that it waits for further nodes
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2"),
                *("--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-backend", "c10d"),
                *("--rdzv-id", "x", "--rdzv-endpoint", f"localhost:{port}"),
                *("--rdzv-conf", rendezvous, "-m", "transduce", "train", "tiny"),
                *("--source", "c.en", "--target", "c.de", "--out", "run", "--resume", *SMALL),
                *("--set", "train.updates=100000", "--set", "train.device=cpu"),
            ],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        )


def lose(node: subprocess.Popen[bytes]) -> None:
    """Kill torchrun and its process, which has a session of its own."""
    children = Path(f"/proc/{node.pid}/task/{node.pid}/children")
    pids = [*map(int, children.read_text().split()), node.pid] if node.poll() is None else []
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    node.wait()


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.slow
def test_a_training_goes_on_with_fewer_and_with_more_nodes(tmp_path: Path):
    rng = random.Random(1)
    words = [rng.choices("abcdefgh", k=rng.randint(3, 8)) for _ in range(400)]
    (tmp_path / "c.en").write_text("".join(f"{' '.join(line)}\n" for line in words))
    (tmp_path / "c.de").write_text("".join(f"{' '.join(line[::-1])}\n" for line in words))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def log() -> str:
        """All that is said since the last start."""
        text = "".join(file.read_text() for file in sorted(tmp_path.glob("*.log")))
        return text.rpartition("resuming after update")[2]

    def starts() -> int:
        return sum(
            file.read_text().count("resuming after update") for file in tmp_path.glob("*.log")
        )

    nodes = [start_node("a", tmp_path, port=port)]
    try:
        time.sleep(1)  # the first one hosts the rendezvous
        nodes.append(start_node("b", tmp_path, port=port))
        wait_until(lambda: "validation at update" in log() and "(2 processes" in log())
        lose(nodes[1])
        wait_until(lambda: starts() == 1)
        wait_until(lambda: re.search(r"\nupdate .* tokens/s, learning", log()))
        nodes.append(start_node("c", tmp_path, port=port))
        wait_until(lambda: starts() == 2 and "(2 processes" in log())
    finally:
        for node in nodes:
            lose(node)
