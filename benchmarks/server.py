"""A `transduce serve` for the benchmarks that send requests to it."""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Server(NamedTuple):
    """A running server."""

    process: subprocess.Popen[bytes]
    url: str
    """Without a slash at its end."""
    log: Path
    """What the server writes to stderr."""

    @property
    def port(self) -> int:
        """The server's port."""
        return int(self.url.rpartition(":")[2])


@contextmanager
def run_server(*arguments: str, python: str = sys.executable) -> Iterator[Server]:
    """Run `transduce serve` on a free port, yield it when it is ready, and end it.

    Args:
        arguments: models and options of the command.
        python: the interpreter of an environment with transduce.
    """
    command = [python, "-m", "transduce", "serve", *arguments, "--port", "0"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen(command, stderr=stream)
        try:
            while not (ready := re.search(r"ready at (\S+)/:", log.read_text())):
                if process.poll() is not None:
                    sys.exit(log.read_text())
                time.sleep(0.02)
            yield Server(process, ready[1], log)
        finally:
            process.terminate()
            process.wait(60)
