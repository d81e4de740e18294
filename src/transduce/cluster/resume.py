"""Restart: a manifest of what an output folder was begun with, and the shards that are missing."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

import pydantic

from transduce.cluster.engines import (
    ClusterConfig,
    ShardRecord,
    ShardTask,
    ShardWorker,
    finished_shards,
    record_name,
    run_shards,
)
from transduce.cluster.formats import InputFile, resolve, write_atomically
from transduce.io.resumable import changed_setting
from transduce.train.events import EventHandler, LogMessage, describe_duration

_MANIFEST = "_transduce/manifest.json"
_METRICS = "_transduce/metrics.json"
_EVERY = 15.0  # seconds between reports of progress


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What determines the output: the corpus, the model and the options that change text."""

    inputs: tuple[InputFile, ...] = ()
    settings: dict[str, str]


def check_manifest(folder: Any, output: str, manifest: Manifest, *, option: str) -> None:
    """Write the manifest, or refuse an output folder that has another one or other files.

    Args:
        output: its name, for messages.
        option: that names the folder.
    """
    file = folder / _MANIFEST
    if not file.is_file():
        if folder.is_dir() and any(folder.iterdir()):
            raise ValueError(f"{output} holds other files: name another folder by {option}")
        write_atomically(file, f"{json.dumps(asdict(manifest), indent=2)}\n".encode())
        return
    try:
        stored = pydantic.TypeAdapter(Manifest).validate_json(file.read_bytes())
    except pydantic.ValidationError:
        raise ValueError(
            f"{output}/{_MANIFEST} is damaged: name another folder by {option}"
        ) from None
    remedy = f"repeat that command, or name another folder by {option}"
    if changed := changed_setting(stored.settings, manifest.settings):
        raise ValueError(f"{output} was begun with another {changed}: {remedy}")
    for old, new in zip_longest(stored.inputs, manifest.inputs):
        if old != new:
            name = (new or old).name
            raise ValueError(f"{output} was begun with another input ({name} differs): {remedy}")


def finish_shards(
    worker: ShardWorker, shards: Sequence[ShardTask], config: ClusterConfig, on_event: EventHandler
) -> int:
    """Process the shards, numbered from 0, that are missing, and return how many rows these have.

    The metrics of all workers are written.
    """
    folder = resolve(worker.output)
    sizes = folder.fs.find(folder.path, detail=True)
    recorded = finished_shards(folder, range(len(shards)))
    records = {
        record.number: record
        for record in recorded
        if sizes.get((folder / record.output).path, {}).get("size") == record.bytes
    }
    missing = [shard for shard in shards if shard.number not in records]
    for record in recorded:
        if record.number not in records:  # its output was damaged since
            (folder / record_name(record.number)).unlink()
    progress = _Progress(shards, on_event, done=sum(record.rows for record in records.values()))
    for record in run_shards(worker, missing, config) if missing else ():
        records[record.number] = record
        progress.add(record)
    metrics = json.dumps(_worker_metrics(list(records.values())), indent=2)
    write_atomically(folder / _METRICS, f"{metrics}\n".encode())
    return sum(shard.rows for shard in missing)


def _worker_metrics(records: Sequence[ShardRecord]) -> dict[str, dict[str, int | float]]:
    """Return shards, rows, seconds and rows per second of each worker."""
    metrics: dict[str, dict[str, int | float]] = {}
    for record in records:
        own = metrics.setdefault(record.worker, {"shards": 0, "rows": 0, "seconds": 0.0})
        own["shards"] += 1
        own["rows"] += record.rows
        own["seconds"] += record.seconds
    for own in metrics.values():
        own["rows_per_second"] = own["rows"] / max(own["seconds"], 1e-9)
    return metrics


class _Progress:
    """Reports rows, rows per second and the time left."""

    def __init__(self, shards: Sequence[ShardTask], on_event: EventHandler, *, done: int) -> None:
        self._rows, self._on_event = sum(shard.rows for shard in shards), on_event
        self._done = self._before = done
        self._begun = self._last = time.monotonic()
        text = f"{self._rows:,} lines in {len(shards):,} shards"
        on_event(LogMessage(f"{text}; {done:,} lines are done already" if done else text))

    def add(self, record: ShardRecord) -> None:
        self._done += record.rows
        now = time.monotonic()
        if now - self._last < _EVERY and self._done < self._rows:
            return
        self._last = now
        rate = (self._done - self._before) / max(now - self._begun, 1e-9)
        left = describe_duration((self._rows - self._done) / rate)
        text = f"{self._done:,} of {self._rows:,} lines, {rate:,.1f} lines/s, {left} left"
        self._on_event(LogMessage(text))
