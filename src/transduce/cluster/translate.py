"""Translate a corpus of any size: planned in shards, resumed by a manifest, reported by worker."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pydantic

from transduce.bundle.bundle import find_bundle
from transduce.cluster.engines import (
    ClusterConfig,
    ShardRecord,
    ShardWorker,
    TranslateTexts,
    finished_shards,
    load_translator,
    record_name,
    run_shards,
)
from transduce.cluster.formats import (
    InputFile,
    Shard,
    find_inputs,
    resolve,
    scan_file,
    write_atomically,
    write_dataset_folders,
)
from transduce.io.atomic_folder import MANIFEST, sha256
from transduce.io.machine import VERSION
from transduce.train.events import EventHandler, LogMessage, describe_duration

_MANIFEST = "_transduce/manifest.json"
_METRICS = "_transduce/metrics.json"
_EVERY = 15.0  # seconds between reports of progress


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What determines the output: the corpus, the model and the options that change text."""

    inputs: tuple[InputFile, ...]
    settings: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterResult:
    """A finished translation."""

    rows: int
    files: tuple[str, ...]
    """Output files, relative to the output folder, in the order of the input."""
    translated: int
    """Rows that this call translated; the others were finished before."""
    seconds: float


def translate_corpus(
    model: str | Path,
    input: str,
    output: str,
    *,
    config: ClusterConfig | None = None,
    loading: Mapping[str, Any] | None = None,
    on_event: EventHandler = lambda event: None,
    **options: Any,
) -> ClusterResult:
    """Translate all files of a folder by workers on one or more machines.

    A second call with the same arguments translates what is missing.

        translate_corpus("runs/mine", "corpus/*.txt", "translated", num_beams=4)

    Args:
        model: the model folder, which all machines can read.
        input: a folder, a glob pattern or a file: a local path or an address of fsspec. Text, gzip,
            xz, Zstandard, JSONL, Parquet, or a folder saved by Hugging Face's `datasets`.
        output: folder for the translations, in the format of the input, in shards.
        config: where to translate; None: on all cores of this machine.
        loading: options of `Translator.load`: engine, compute_type, shortlist, ensemble, device.
        on_event: receives progress.
        options: of `Translator.translate`, such as num_beams.

    Raises:
        ValueError: if the output was begun with another corpus, model or options; for faulty input;
            or if a package is missing.
        OSError: if a file cannot be read or written.
    """
    config, loading = config or ClusterConfig(), dict(loading or {})
    others: Sequence[Path] = loading.pop("ensemble", ())
    models = [str(find_bundle(Path(path)).resolve()) for path in (model, *others)]
    shortlist = loading.get("shortlist")
    settings = {
        **{name: str(value) for name, value in {**loading, **options}.items()},
        "model": " ".join(sha256(Path(path) / MANIFEST) for path in models),
        "shortlist": sha256(Path(shortlist)) if shortlist else "",
        "version of transduce": VERSION,
    }
    loading["ensemble"] = models[1:]
    if shortlist:
        loading["shortlist"] = Path(shortlist).resolve()  # workers have other current folders
    load = partial(load_translator, models[0], loading, options)
    return process_corpus(load, input, output, settings=settings, config=config, on_event=on_event)


def process_corpus(
    load: Callable[[], TranslateTexts],
    input: str,
    output: str,
    *,
    settings: Mapping[str, str],
    config: ClusterConfig,
    on_event: EventHandler,
) -> ClusterResult:
    """Apply a function of texts to a corpus, as `translate_corpus` does with a translator.

    Args:
        load: called once by each worker; returns the function.
        input: this and the others as for `translate_corpus`.
        output: the folder.
        settings: what determines the output, besides the input.
        config: where to run.
        on_event: receives progress.
    """
    begun = time.monotonic()
    folder = resolve(output)
    inputs, shards = _plan(input, config)
    settings = {**settings, "field": config.field, "shard-rows": str(config.shard_rows)}
    _check_manifest(folder, output, Manifest(inputs=inputs, settings=settings))
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
    worker = ShardWorker(load=load, output=output, field=config.field)
    for record in run_shards(worker, missing, config) if missing else ():
        records[record.number] = record
        progress.add(record)
    names = tuple(shard.output for shard in shards)
    write_dataset_folders(folder, resolve(input), names)
    metrics = json.dumps(_worker_metrics(list(records.values())), indent=2)
    write_atomically(folder / _METRICS, f"{metrics}\n".encode())
    return ClusterResult(
        rows=sum(shard.rows for shard in shards),
        files=names,
        translated=sum(shard.rows for shard in missing),
        seconds=time.monotonic() - begun,
    )


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


def _plan(pattern: str, config: ClusterConfig) -> tuple[tuple[InputFile, ...], list[Shard]]:
    """Read all input once, and cut it into shards."""
    inputs, shards = list[InputFile](), list[Shard]()
    for address, name in find_inputs(pattern):
        file, parts = scan_file(
            address,
            name,
            field=config.field,
            shard_rows=config.shard_rows,
            first_number=len(shards),
        )
        inputs.append(file)
        shards += parts
    return tuple(inputs), shards


def _check_manifest(folder: Any, output: str, manifest: Manifest) -> None:
    """Write the manifest, or refuse an output folder that has another one or other files."""
    file = folder / _MANIFEST
    if not file.is_file():
        if folder.is_dir() and any(folder.iterdir()):
            raise ValueError(f"{output} holds other files: name another folder by --output")
        write_atomically(file, f"{json.dumps(asdict(manifest), indent=2)}\n".encode())
        return
    try:
        begun = pydantic.TypeAdapter(Manifest).validate_json(file.read_bytes())
    except pydantic.ValidationError:
        raise ValueError(
            f"{output}/{_MANIFEST} is damaged: name another folder by --output"
        ) from None
    before, now = begun.settings, manifest.settings
    changed = sorted(key for key in before | now if before.get(key) != now.get(key))
    remedy = "repeat that command, or name another folder by --output"
    if changed:
        raise ValueError(f"{output} was begun with another {changed[0]}: {remedy}")
    for old, new in zip_longest(begun.inputs, manifest.inputs):
        if old != new:
            name = (new or old).name
            raise ValueError(f"{output} was begun with another input ({name} differs): {remedy}")


class _Progress:
    """Reports rows, rows per second and the time left."""

    def __init__(self, shards: Sequence[Shard], on_event: EventHandler, *, done: int) -> None:
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
