"""Workers, which translate shards and record them, and the engines that run them.

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
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from getpass import getuser
from pathlib import Path
from typing import Any

import pydantic

from transduce.cluster.formats import (
    Shard,
    encode_rows,
    optional_module,
    read_rows,
    resolve,
    write_atomically,
)

RECORDS = "_transduce/shards"
"""Folder of the records of finished shards, in the output folder."""

_CHUNK = 4096  # rows per call, as `transduce translate` has them: batches are the same

TranslateTexts = Callable[[list[str], int], list[str]]
"""Translates texts, given the line number of the first."""

_RETRIES = 5  # per shard, of a worker that was killed while it worked on it
_POLL = 5.0  # seconds between two looks at what Slurm's workers have finished
_DAY = 24 * 60  # minutes; SBATCH_TIMELIMIT sets another limit


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardRecord:
    """A finished shard."""

    number: int
    output: str
    rows: int
    bytes: int
    sha256: str
    seconds: float
    """Time to read, translate and write it; a worker's first one includes loading the model."""
    worker: str
    """Host and process."""


def record_name(number: int) -> str:
    """Return the name of a shard's record in the output folder."""
    return f"{RECORDS}/{number:08}.json"


@dataclass(kw_only=True)
class ShardWorker:
    """Translates shards one after the other, with a translator that it loads for the first one."""

    load: Callable[[], TranslateTexts]
    output: str
    field: str
    _translate: TranslateTexts | None = None

    def run(self, shard: Shard) -> ShardRecord:
        """Translate and write a shard, unless it is finished, and then its record.

        Raises:
            ValueError: if the input cannot be read any more, or the translator not loaded.
        """
        output = resolve(self.output)
        file = output / record_name(shard.number)
        if file.is_file():  # of a worker that was killed before it could report
            return _parse(file.read_bytes())
        begun = time.monotonic()
        translate = self._translate = self._translate or self.load()
        rows = read_rows(shard, field=self.field)
        translations: list[str] = []
        for start in range(0, len(rows.texts), _CHUNK):
            chunk = rows.texts[start : start + _CHUNK]
            translations += translate(chunk, shard.first + start + 1)
        data = encode_rows(shard, rows, translations)
        write_atomically(output / shard.output, data)
        record = ShardRecord(
            number=shard.number,
            output=shard.output,
            rows=shard.rows,
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            seconds=time.monotonic() - begun,
            worker=f"{socket.gethostname()}:{os.getpid()}",
        )
        write_atomically(file, f"{json.dumps(asdict(record), indent=2)}\n".encode())
        return record

    def run_all(self, shards: Iterable[Shard]) -> None:
        """Translate several shards."""
        for shard in shards:
            self.run(shard)


def finished_shards(output: Any, numbers: Collection[int]) -> list[ShardRecord]:
    """Return the records of those of these shards that are finished in the output folder."""
    folder = output / RECORDS
    recorded = {file.name for file in folder.iterdir()} if folder.is_dir() else set[str]()
    names = [Path(record_name(number)).name for number in numbers]
    paths = [(folder / name).path for name in names if name in recorded]
    # Object stores are asked for all at once.
    return [_parse(data) for data in folder.fs.cat(paths).values()] if paths else []


def _parse(record: bytes) -> ShardRecord:
    return pydantic.TypeAdapter(ShardRecord).validate_json(record)


def load_translator(
    model: str, loading: Mapping[str, Any], options: Mapping[str, Any]
) -> TranslateTexts:
    """Load a translator for a worker, which uses as many threads as OMP_NUM_THREADS says.

    Args:
        model: the model folder.
        loading: options of `Translator.load`.
        options: of `Translator.translate`; the default beam is the model's for sampling, too.

    Raises:
        ValueError: as for `Translator.load`.
    """
    from transduce.inference.translator import Translator  # loads torch

    translator, options = Translator.load(model, **loading), dict(options)
    if options.get("num_beams") is None:
        options["num_beams"] = translator.search.beam
    translator.translate([], **options)  # checks the options

    def translate(texts: list[str], first_line: int) -> list[str]:
        translations = translator.translate(
            texts, first_line=first_line, token_scores=False, **options
        )
        return [translation.text for translation in translations]

    return translate


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterConfig:
    """Where shards are translated. Nothing of it changes the translations.

    Raises:
        ValueError: if a value is out of range or names no engine.
    """

    engine: str = "local"
    """"local": Ray on this machine; "ray" or "ray:ADDRESS": a running Ray cluster; "slurm"."""

    workers: int | None = None
    """Workers, each with a translator. None: all cores or GPUs; Slurm needs a number."""

    threads: int = 1
    """Cores per worker."""

    gpus: int = 0
    """GPUs per worker."""

    shard_rows: int = 8192
    """Rows that are translated and written together: what a killed worker has to repeat."""

    field: str = "text"
    """Field of JSONL, or column of tables, that holds the text."""

    def __post_init__(self) -> None:
        if self.engine.partition(":")[0] not in ("local", "ray", "slurm"):
            raise ValueError(f"--cluster must be local, ray[:ADDRESS] or slurm, not {self.engine}")
        for name in ("workers", "threads", "shard_rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.engine == "slurm" and self.workers is None:
            raise ValueError("--cluster slurm needs --workers: the tasks of the job array")


def run_shards(
    worker: ShardWorker, shards: Sequence[Shard], config: ClusterConfig
) -> Iterator[ShardRecord]:
    """Translate shards, and yield a record of each as it is finished.

    Raises:
        ValueError: if the engine is not installed or reached, or a shard fails repeatedly.
    """
    if config.engine == "slurm":
        return _run_on_slurm(worker, shards, config)
    return _run_on_ray(worker, shards, config)


def _run_on_ray(
    worker: ShardWorker, shards: Sequence[Shard], config: ClusterConfig
) -> Generator[ShardRecord]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = optional_module("ray")
    owner = not ray.is_initialized()
    if owner:
        _connect(ray, config)
    try:
        actor = ray.remote(
            num_cpus=config.threads,
            num_gpus=config.gpus,
            max_restarts=-1,
            max_task_retries=_RETRIES,
        )(ShardWorker)
        workers = min(config.workers or _fitting_workers(ray, config), len(shards))
        same = {"load": worker.load, "output": worker.output, "field": worker.field}
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
    finally:
        if owner:
            ray.shutdown()


def _connect(ray: Any, config: ClusterConfig) -> None:
    """Start Ray here, or join a cluster."""
    kind, _, address = config.engine.partition(":")
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if kind == "local":
        cores = config.workers * config.threads if config.workers else None
        ray.init("local", num_cpus=cores, include_dashboard=False, **quiet)
        return
    try:
        host, _, port = address.rpartition(":")
        if host and "/" not in host:  # Ray itself would try for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address or "auto", **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        message = str(error).partition("\n")[0]
        raise ValueError(f"--cluster {config.engine}: no Ray cluster there ({message})") from None


def _fitting_workers(ray: Any, config: ClusterConfig) -> int:
    kind, size = ("GPU", config.gpus) if config.gpus else ("CPU", config.threads)
    return max(1, int(ray.cluster_resources().get(kind, 0)) // size)


def _run_on_slurm(
    worker: ShardWorker, shards: Sequence[Shard], config: ClusterConfig
) -> Generator[ShardRecord]:
    """Submit a job array, each task of which translates every n-th shard."""
    submitit = optional_module("submitit")
    if shutil.which("sbatch") is None:
        raise ValueError("--cluster slurm: there is no sbatch on this machine, log in to one of it")
    output = resolve(worker.output)
    if not isinstance(output, Path):
        raise ValueError("--cluster slurm needs --output in a folder that all nodes share")
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
    )
    missing = {shard.number: shard for shard in shards}
    while missing:
        before, workers = len(missing), min(config.workers or 1, len(missing))
        parts = [list(missing.values())[index::workers] for index in range(workers)]
        executor.map_array(worker.run_all, parts)
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
    return bool(
        listed.returncode or listed.stdout.strip()
    )  # the controller may be away for a while
