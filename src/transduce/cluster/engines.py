"""Workers, which process shards and record them, and the engines that run them.

Ray on this machine or on a cluster, and job arrays of Slurm, restart a worker that is killed;
docs/decisions.md says why these two.
"""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from getpass import getuser
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pydantic

from transduce.cluster.formats import optional_module, resolve, write_atomically

RECORDS = "_transduce/shards"
"""Folder of the records of finished shards, in the output folder."""

_RETRIES = 5  # per shard, of a worker that was killed while it worked on it
_POLL = 5.0  # seconds between two looks at what Slurm's workers have finished
_DAY = 24 * 60  # minutes; SBATCH_TIMELIMIT sets another limit


@runtime_checkable
class ShardTask(Protocol):
    """Rows of a corpus that become one output file."""

    @property
    def number(self) -> int:
        """Place among all shards of the corpus."""
        ...

    @property
    def output(self) -> str:
        """Name of the output file, relative to the output folder."""
        ...

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...


ProcessShard = Callable[[Any], bytes]
"""Turns a shard into the content of its output file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardRecord:
    """A finished shard."""

    number: int
    output: str
    rows: int
    bytes: int
    sha256: str
    seconds: float
    """Time to read, process and write it; a worker's first one includes loading the model."""
    worker: str
    """Host and process."""


def record_name(number: int) -> str:
    """Return the name of a shard's record in the output folder."""
    return f"{RECORDS}/{number:08}.json"


@dataclass(kw_only=True)
class ShardWorker:
    """Processes shards one after the other, by what it loads for the first one."""

    load: Callable[[], ProcessShard]
    output: str
    _process: ProcessShard | None = None

    def run(self, shard: ShardTask) -> ShardRecord:
        """Process and write a shard, unless it is finished, and then its record.

        Raises:
            ValueError: if the input cannot be read any more, or the model not loaded.
        """
        output = resolve(self.output)
        file = output / record_name(shard.number)
        if file.is_file():  # of a worker that was killed before it could report
            return _parse(file.read_bytes())
        started = time.monotonic()
        process = self._process = self._process or self.load()
        data = process(shard)
        write_atomically(output / shard.output, data)
        record = ShardRecord(
            number=shard.number,
            output=shard.output,
            rows=shard.rows,
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            seconds=time.monotonic() - started,
            worker=f"{socket.gethostname()}:{os.getpid()}",
        )
        write_atomically(file, f"{json.dumps(asdict(record), indent=2)}\n".encode())
        return record

    def run_all(self, shards: Iterable[ShardTask]) -> None:
        """Process several shards."""
        for shard in shards:
            self.run(shard)


def finished_shards(output: Any, numbers: Collection[int]) -> list[ShardRecord]:
    """Return the records of those of these shards that are finished in the output folder."""
    folder = output / RECORDS
    recorded = {file.name for file in folder.iterdir()} if folder.is_dir() else set[str]()
    names = [Path(record_name(number)).name for number in numbers]
    paths = [(folder / name).path for name in names if name in recorded]
    # Object stores are asked for all at once; `cat` would take names for patterns.
    return [*map(_parse, folder.fs.cat_ranges(paths, None, None, on_error="raise"))]


def _parse(record: bytes) -> ShardRecord:
    return pydantic.TypeAdapter(ShardRecord).validate_json(record)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterConfig:
    """Where shards are processed, how large they are, and which field of them is processed.

    Raises:
        ValueError: if a value is out of range or names no engine.
    """

    engine: str = "local"
    """"local": Ray on this machine; "ray" or "ray:ADDRESS": a running Ray cluster; "slurm"."""

    workers: int | None = None
    """Workers, each with a model. None: all cores or GPUs; Slurm needs a number."""

    threads: int = 1
    """Cores per worker."""

    device: str = "cpu"
    """"cpu", or "cuda": a GPU per worker."""

    shard_rows: int = 8192
    """Rows that are processed and written together: what a killed worker has to repeat."""

    field: str = "text"
    """Field of JSONL, or column of tables, that holds the text."""

    @property
    def gpus(self) -> int:
        """GPUs per worker."""
        return int(self.device == "cuda")

    def __post_init__(self) -> None:
        if self.engine not in ("local", "ray", "slurm") and not self.engine.startswith("ray:"):
            raise ValueError(f"--cluster must be local, ray[:ADDRESS] or slurm, not {self.engine}")
        for name in ("workers", "threads", "shard_rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"--cluster needs --device cpu or cuda, not {self.device}")
        if self.engine == "slurm" and self.workers is None:
            raise ValueError("--cluster slurm needs --workers: the tasks of the job array")


def check_installed(config: ClusterConfig) -> None:
    """Raise a ValueError that says what to install, if a package of the engine is missing."""
    for name in ("upath", "submitit" if config.engine == "slurm" else "ray"):
        optional_module(name)


def run_shards(
    worker: ShardWorker, shards: Sequence[ShardTask], config: ClusterConfig
) -> Iterator[ShardRecord]:
    """Process shards, and yield a record of each as it is finished.

    Raises:
        ValueError: if the engine is not installed or reached, or a shard fails repeatedly.
    """
    run = _run_on_slurm if config.engine == "slurm" else _run_on_ray
    with connected(config):
        yield from run(worker, shards, config)


def _run_on_ray(
    worker: ShardWorker, shards: Sequence[ShardTask], config: ClusterConfig
) -> Generator[ShardRecord]:
    ray = optional_module("ray")
    try:
        actor = ray.remote(
            num_cpus=config.threads,
            num_gpus=config.gpus,
            max_restarts=-1,
            max_task_retries=_RETRIES,
        )(ShardWorker)
        fitting = _fitting_workers(ray, config)
        workers = config.workers or max(1, fitting)  # a cluster may grow for them
        if config.engine == "local":
            workers = min(workers, fitting)
        workers = min(workers, len(shards))
        same = {"load": worker.load, "output": worker.output}
        pool = optional_module("ray.util").ActorPool([actor.remote(**same) for _ in range(workers)])
        yield from pool.map_unordered(lambda actor, shard: actor.run.remote(shard), shards)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayActorError as error:
        raise ValueError(
            f"a worker was lost {_RETRIES + 1} times at one shard, perhaps for lack of memory "
            "(lower --batch-tokens or --workers), or cannot start (all nodes need transduce): "
            + str(error).strip().rpartition("\n")[2]
        ) from error


@contextmanager
def connected(config: ClusterConfig) -> Generator[None]:
    """Start or join Ray for several calls of `run_shards`; Slurm needs nothing.

    Raises:
        ValueError: if the engine is not installed or reached.
    """
    check_installed(config)
    if config.engine == "slurm":
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = optional_module("ray")
    owner = not ray.is_initialized()
    if owner:
        _connect(ray, config)
    try:
        yield
    finally:
        if owner:
            ray.shutdown()


def _connect(ray: Any, config: ClusterConfig) -> None:
    """Start Ray here, or join a cluster."""
    kind, _, address = config.engine.partition(":")
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if kind == "local":
            cores = config.workers * config.threads if config.workers else None
            ray.init("local", num_cpus=cores, include_dashboard=False, **quiet)
            return
        host, _, port = address.rpartition(":")
        if host and "/" not in host:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address or "auto", **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        fault = "Ray does not start" if kind == "local" else "no Ray cluster there"
        raise ValueError(f"--cluster {config.engine}: {fault} ({_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _fitting_workers(ray: Any, config: ClusterConfig) -> int:
    """Return how many workers fit on the nodes; Ray waits for others until the cluster grows."""
    sizes = {kind: n for kind, n in (("CPU", config.threads), ("GPU", config.gpus)) if n}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fitting = sum(min(int(node.get(kind, 0)) // sizes[kind] for kind in sizes) for node in nodes)
    if not fitting and config.engine == "local":
        needed = " and ".join(f"{n} {kind}" for kind, n in sizes.items())
        remedies = ["lower --threads"] * (config.threads > 1)
        remedies += ["leave out --device cuda"] * config.gpus
        raise ValueError(
            f"--cluster local: a worker needs {needed}, which this machine lacks: "
            f"{', or '.join(remedies)}"
        )
    return fitting


def _run_on_slurm(
    worker: ShardWorker, shards: Sequence[ShardTask], config: ClusterConfig
) -> Generator[ShardRecord]:
    """Submit a job array, each task of which processes every n-th shard."""
    submitit = optional_module("submitit")
    for program in ("sbatch", "srun", "squeue"):
        if shutil.which(program) is None:
            raise ValueError(
                f"--cluster slurm: this machine has no {program}; log in to a node of the cluster"
            )
    output = resolve(worker.output)
    if not isinstance(output, Path):
        raise ValueError("--cluster slurm needs its output in a folder that all nodes share")
    name = f"transduce-{hashlib.sha256(worker.output.encode()).hexdigest()[:12]}"
    with suppress(OSError):  # tasks of a killed driver would repeat the work of the new ones
        subprocess.run(
            ["scancel", "--user", getuser(), "--name", name], capture_output=True, check=False
        )
    logs = output / "_transduce" / "slurm"
    executor = submitit.AutoExecutor(folder=logs, cluster="slurm")
    executor.update_parameters(
        name=name,
        timeout_min=_DAY,
        cpus_per_task=config.threads,
        gpus_per_node=config.gpus,
        slurm_setup=[f"export OMP_NUM_THREADS={config.threads}"],
        slurm_array_parallelism=config.workers,  # else submitit allows 256
    )
    missing = {shard.number: shard for shard in shards}
    while missing:
        before, workers = len(missing), min(config.workers or 1, len(missing))
        parts = [list(missing.values())[index::workers] for index in range(workers)]
        try:
            executor.map_array(worker.run_all, parts)
        except RuntimeError as error:
            raise ValueError(
                f"--cluster slurm: sbatch refused the tasks: {_first_line(error)} (SBATCH_* "
                "variables set partition, account and time limit)"
            ) from error
        running = True
        while running and missing:
            running = _is_queued(name)
            for record in finished_shards(output, missing):
                del missing[record.number]
                yield record
            time.sleep(_POLL if running and missing else 0)
        if len(missing) == before:
            lines = [log.read_text().strip() for log in sorted(logs.glob("*_log.err"))]
            reason = next((text.rpartition("\n")[2] for text in reversed(lines) if text), "no log")
            raise ValueError(f"no task of Slurm finished a shard: {reason}; its logs are in {logs}")


def _is_queued(name: str) -> bool:
    """Whether tasks of this name wait or run; sacct, which knows more, is not on all clusters."""
    command = ["squeue", "--noheader", "--user", getuser(), "--name", name]
    listed = subprocess.run(command, capture_output=True, check=False)
    # The controller may be away for a while.
    return bool(listed.returncode or listed.stdout.strip())
