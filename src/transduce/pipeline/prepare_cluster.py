"""Preparation by workers on several machines: pairs are cleaned in shards, then encoded in shards.

In between, the driver merges the shards' counts and hashes in order, draws the held-out pairs and
trains the tokenizer, as for files (`survey`). So the result has the same bytes. Finished shards and
the tokenizer lie in a folder of the run until it is prepared.
"""

import io
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Shaped

from transduce.cluster.engines import ClusterConfig, ProcessShard, ShardWorker
from transduce.cluster.formats import resolve, write_atomically
from transduce.cluster.resume import Manifest, check_manifest, finish_shards
from transduce.config import Recipe
from transduce.corpus_check.fingerprint import CorpusProfile, even_stride, profile_pairs
from transduce.data.corpus import CleaningCounts, NumberedPair, Pair, PairRange, clean, split_pairs
from transduce.data.pair_tokenizer import read_tokenizer
from transduce.data.store import EncodedPairs, PackedRows, PairEncoder, Store
from transduce.data.tokenizer import Tokenizer
from transduce.io.machine import VERSION
from transduce.pipeline.survey import corpus_sha256
from transduce.pipeline.training_pairs import CorpusFiles, FirstReading, TrainingPairs, corpus_files
from transduce.train.events import EventHandler, LogMessage

SHARDS_FOLDER = ".prepared.shards"
"""Folder of a run with what is finished, until the corpus is prepared."""

_SECTIONS = ("languages", "data", "tokenizer", "augment")
_Arrays = Mapping[str, Shaped[np.ndarray, " _"]]


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusShard:
    """Consecutive pairs of one direction."""

    number: int
    files: CorpusFiles
    before: int
    """The line before the direction's first."""
    span: PairRange

    @property
    def output(self) -> str:
        """Name of the output file, in each of the two folders of shards."""
        return f"{self.number:08}.npz"

    @property
    def rows(self) -> int:
        """Number of lines."""
        return self.span.pairs

    @property
    def lines(self) -> range:
        """The line numbers."""
        first = self.before + self.span.first + 1
        return range(first, first + self.rows)


class ShardedCorpus(TrainingPairs):
    """The training pairs of a recipe, cleaned and encoded by workers."""

    def __init__(
        self, recipe: Recipe, out: Path, *, config: ClusterConfig, on_event: EventHandler
    ) -> None:
        """Clean the shards that are missing.

        Args:
            out: the run's folder, which all workers see.
            config: where to run.

        Raises:
            ValueError: if the corpus cannot be used, or `out` was begun with other options.
        """
        super().__init__(recipe)
        self._config, self._on_event = config, on_event
        self._folder = resolve(str(out / SHARDS_FOLDER))
        settings = {
            f"{section}.{name}": str(value)
            for section in _SECTIONS
            for name, value in asdict(getattr(recipe, section)).items()
        }
        settings |= {"shard-lines": str(config.shard_rows), "version of transduce": VERSION}
        settings |= corpus_sha256(recipe)
        manifest = Manifest(settings=settings)
        check_manifest(self._folder / "cleaned", str(out), manifest, option="--out")
        self._starts, self._shards = _split(recipe, config.shard_rows)
        self._finish("cleaned", "cleaning", partial(_load_cleaner, recipe))

    def scan(self, progress: Callable[[int], None]) -> tuple[FirstReading, CorpusProfile]:
        """Merge the counts and hashes of all shards, in order."""
        reading = FirstReading(starts=self._starts)
        for shard in self._shards:
            cleaned = self._load("cleaned", shard)
            for name in ("lines", "sources", "pairs"):
                getattr(reading, name).frombytes(cleaned[name].tobytes())
            reading.counts.add(CleaningCounts(**json.loads(cleaned["counts"].tobytes())))
            progress(shard.lines[-1])
        reading.counts.check()
        sample = frozenset(reading.lines[:: even_stride(len(reading.lines))])
        return reading, profile_pairs([pair for _, pair in self.read(sample.__contains__)])

    def read(self, only: Callable[[int], bool]) -> Iterator[NumberedPair]:
        """Read pairs again."""
        for shard in self._shards:
            chosen = {line for line in shard.lines if only(line)}  # dropped ones, too: it may draw
            if chosen:
                yield from _unpack_text(self._load("cleaned", shard), chosen)

    def keep_tokenizer(
        self, train: Callable[[], Tokenizer], characters: Sequence[set[str]]
    ) -> Tokenizer:
        """Train the tokenizer, unless an interrupted call has; `train` collects the characters."""
        file, letters = self._folder / "tokenizer.model", self._folder / "characters.json"
        if file.is_file():
            for side, known in zip(characters, json.loads(letters.read_bytes()), strict=True):
                side.update(known)
            return read_tokenizer(file.read_bytes())
        tokenizer = train()
        write_atomically(letters, json.dumps([sorted(side) for side in characters]).encode())
        write_atomically(file, tokenizer.to_bytes())
        return tokenizer

    def write_store(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        excluded: Collection[int],
        progress: Callable[[int], None],
    ) -> Store:
        """Encode the shards that are missing, and write the store without the excluded lines."""
        lines = np.fromiter(excluded, dtype=np.int64, count=len(excluded))
        write_atomically(self._folder / "excluded.npz", _pack(lines=np.sort(lines)))
        max_pieces = self._recipe.data.max_pieces
        self._finish("encoded", "encoding", partial(_load_encoder, self._folder, max_pieces))
        chunks = (_unpack_encoded(self._load("encoded", shard)) for shard in self._shards)
        encoder = PairEncoder(tokenizer, max_pieces=max_pieces)
        return Store.write_encoded(folder, chunks, encoder=encoder, progress=progress)

    def _finish(self, name: str, doing: str, load: Callable[[], ProcessShard]) -> None:
        self._on_event(LogMessage(f"{doing} by workers, --cluster {self._config.engine}"))
        worker = ShardWorker(load=load, output=str(self._folder / name))
        finish_shards(worker, self._shards, self._config, self._on_event)

    def _load(self, name: str, shard: CorpusShard) -> _Arrays:
        return _load(self._folder / name / shard.output)


def _split(recipe: Recipe, size: int) -> tuple[list[int], list[CorpusShard]]:
    """Read all files once; return the line before each direction's first, and the shards."""
    parts, shards = corpus_files(recipe), list[CorpusShard]()
    parts = [part._replace(files=tuple(map(Path.absolute, part.files))) for part in parts]
    ranges = [
        split_pairs(part.files, size=size, languages=part.codes) if part.files else []
        for part in parts
    ]
    sizes = (sum(entry.pairs for entry in split) for split in ranges)
    starts = list(accumulate(sizes, initial=0))[:-1]
    for part, before, split in zip(parts, starts, ranges, strict=True):
        for entry in split:
            number = len(shards)
            shards.append(CorpusShard(number=number, files=part, before=before, span=entry))
    return starts, shards


def _load_cleaner(recipe: Recipe) -> ProcessShard:
    data = recipe.data

    def process(shard: CorpusShard) -> bytes:
        reading, texts = FirstReading(), list[str]()
        read = shard.files.read(data.not_utf8, shard.span)
        numbered = (NumberedPair(shard.before + line, pair) for line, pair in read)
        cleaned = clean(numbered, max_ratio=data.max_ratio, counts=reading.counts, check=False)
        for line, pair in cleaned:
            pair = shard.files.tagged(pair)
            reading.note(NumberedPair(line, pair), recipe)
            texts.append("\t".join(pair))  # a cleaned text has no tab and no line feed
        return _pack(
            lines=np.asarray(reading.lines),
            sources=np.asarray(reading.sources),
            pairs=np.asarray(reading.pairs),
            counts=_bytes(json.dumps(asdict(reading.counts)).encode()),
            text=_bytes("\n".join(texts).encode()),
        )

    return process


def _load_encoder(folder: Any, max_pieces: int) -> ProcessShard:
    tokenizer = read_tokenizer((folder / "tokenizer.model").read_bytes())
    encoder = PairEncoder(tokenizer, max_pieces=max_pieces)
    excluded = _load(folder / "excluded.npz")["lines"]

    def process(shard: CorpusShard) -> bytes:
        begin, end = np.searchsorted(excluded, [shard.lines.start, shard.lines.stop])
        chosen = set(shard.lines).difference(excluded[begin:end].tolist())
        cleaned = _load(folder / "cleaned" / shard.output)
        return _pack_encoded(encoder.encode([*_unpack_text(cleaned, chosen)]))

    return process


def _unpack_text(cleaned: _Arrays, chosen: Collection[int]) -> Iterator[NumberedPair]:
    texts = cleaned["text"].tobytes().decode().split("\n")
    for line, text in zip(cleaned["lines"].tolist(), texts, strict=False):
        if line in chosen:
            yield NumberedPair(line, Pair(*text.split("\t")))


def _pack_encoded(encoded: EncodedPairs) -> bytes:
    columns = {
        f"{name}{number}": array
        for number, column in enumerate(encoded.columns)
        for name, array in (("values", _bytes(column.values)), ("lengths", column.lengths))
    }
    over_long = np.array(encoded.over_long, dtype=np.int64)
    facts = {"read": np.array([encoded.read]), "lines": _bytes(encoded.lines)}
    return _pack(**facts, over_long=over_long, **columns)


def _unpack_encoded(arrays: _Arrays) -> EncodedPairs:
    columns = (
        PackedRows(arrays[f"values{number}"].tobytes(), arrays[f"lengths{number}"])
        for number in range(4)
    )
    over_long = tuple(arrays["over_long"].tolist())
    return EncodedPairs(
        int(arrays["read"][0]), tuple(columns), arrays["lines"].tobytes(), over_long
    )


def _pack(**arrays: Shaped[np.ndarray, " _"]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **cast("Any", arrays))
    return stream.getvalue()


def _bytes(data: bytes) -> Shaped[np.ndarray, " _"]:
    return np.frombuffer(data, dtype=np.uint8)


def _load(file: Any) -> _Arrays:
    """Read the arrays of a file, when they are looked up."""
    return np.load(io.BytesIO(file.read_bytes()), allow_pickle=False)
