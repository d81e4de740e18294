"""A Ray cluster of two cores, and a corpus processed by a stub."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.cluster.stub import load_stub

from transduce.cluster.engines import ClusterConfig
from transduce.cluster.translate import ClusterResult, process_corpus

if find_spec("ray") is None:  # only `make test-cluster` installs it
    collect_ignore_glob = ["test_*.py"]

LINES = [
    "" if number % 13 == 0 else f"line {number} \u2028 é {random.Random(number).random()}"
    for number in range(1, 101)
]


@pytest.fixture(scope="session")
def by_value() -> None:
    """Pickle the stub with its code: workers cannot import the tests."""
    import cloudpickle
    import ray

    for pickler in (cloudpickle, ray.cloudpickle):
        pickler.register_pickle_by_value(sys.modules[load_stub.__module__])


@pytest.fixture(scope="session")
def cluster() -> Generator[None]:
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


Run = Callable[..., ClusterResult]


@pytest.fixture
def run(tmp_path: Path, by_value: None) -> Run:
    """Process a corpus into tmp_path/out, ten rows a shard."""

    def run(
        source: Path | str,
        *,
        settings: Mapping[str, str] | None = None,
        engine: str = "local",
        workers: int | None = None,
        field: str = "text",
        output: str = "out",
        **stub: object,
    ) -> ClusterResult:
        return process_corpus(
            partial(load_stub, tmp_path / "attempts", **stub),  # type: ignore[arg-type]
            str(source),
            str(tmp_path / output),
            settings=settings or {},
            config=ClusterConfig(engine=engine, workers=workers, shard_rows=10, field=field),
            on_event=lambda event: None,
        )

    return run


def kill_driver(records: Path, *command: object) -> None:
    """Run stub.py, and kill it when three of these records of shards are there."""
    driver = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("stub.py"), *map(str, command)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while len(list(records.glob("*.json"))) < 3 and time.monotonic() < end:
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.05)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    time.sleep(1.5)  # Ray ends the workers of a dead driver


def attempts(file: Path) -> list[int]:
    """First lines, or numbers, of the shards that workers began, with repetitions."""
    return sorted(map(int, file.read_text().split()))
