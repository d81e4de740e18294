"""A worker: translates shards with a translator that it keeps, and records what it finished."""

import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pydantic

from transduce.cluster.formats import Shard, encode_rows, read_rows, resolve, write_atomically

RECORDS = "_transduce/shards"
"""Folder of the records of finished shards, in the output folder."""

_CHUNK = 4096  # rows per call, as `transduce translate` has them: batches are the same

TranslateTexts = Callable[[list[str], int], list[str]]
"""Translates texts, given the line number of the first."""


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
