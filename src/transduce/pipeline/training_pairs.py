"""The training pairs of a recipe: read and cleaned each time, or cleaned once by other means.

The pairs of several directions follow one another, with tags and consecutive line numbers.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple

from transduce.config import Recipe
from transduce.corpus_check.fingerprint import CorpusProfile, EvenSample, fold, profile_pairs
from transduce.data.config import AdditionalCorpus, CorpusConfig, DirectionConfig
from transduce.data.corpus import CleaningCounts, NumberedPair, Pair, PairRange, clean, read_pairs
from transduce.data.pair_files import LanguageCodes
from transduce.data.store import Store
from transduce.data.tokenizer import SYNTHETIC_TAGS, Tokenizer, target_tag, without_tag


class CorpusFiles(NamedTuple):
    """A direction as the recipe names it."""

    codes: LanguageCodes
    config: CorpusConfig | DirectionConfig | AdditionalCorpus
    files: tuple[Path, ...]
    """Of its training pairs; none of a zero-shot direction."""
    tag: str
    """Put before each source; the vocabulary may spell it otherwise."""

    def read(
        self, not_utf8: Literal["refuse", "drop"], part: PairRange | None = None
    ) -> Iterator[NumberedPair]:
        """Read its training pairs, or a part of them, uncleaned and without tags."""
        return read_pairs(self.files, not_utf8=not_utf8, languages=self.codes, part=part)

    def tagged(self, pair: Pair) -> Pair:
        """Return a pair with the tag before its source."""
        return pair._replace(source=f"{self.tag} {pair.source}") if self.tag else pair


def corpus_files(recipe: Recipe) -> list[CorpusFiles]:
    """Return the directions of a recipe, if any, and its corpora; zero-shot ones have no files."""
    data, codes = recipe.data, recipe.languages.codes
    several = [
        (part.pair, part, target_tag(part.target))
        for part in (*data.directions, *data.also)
        if data.directions
    ]
    return [
        CorpusFiles(pair, config, data.paths(config.train), tag)
        for pair, config, tag in several or [(codes, config, "") for config in (data, *data.also)]
    ]


def vocabulary_tags(recipe: Recipe) -> list[str]:
    """Return the tags that the vocabulary of a recipe's corpus reserves."""
    languages = dict.fromkeys(direction.target for direction in recipe.data.directions)
    return [*map(target_tag, languages), *(SYNTHETIC_TAGS if recipe.data.also else ())]


@dataclass(kw_only=True)
class FirstReading:
    """What the first reading of the training pairs notes, besides which nothing is kept."""

    counts: CleaningCounts = field(default_factory=CleaningCounts)
    starts: list[int] = field(default_factory=list[int])
    """The line before the first of each direction."""
    lines: "array[int]" = field(default_factory=lambda: array("I"))
    """Line number of each pair."""
    sources: "array[int]" = field(default_factory=lambda: array("q"))
    """Hashes of what keeps pairs on one side of the held-out set; empty if none is drawn."""
    pairs: "array[int]" = field(default_factory=lambda: array("q"))
    """Hashes of the pairs; empty if duplicates are kept."""

    def note(self, numbered: NumberedPair, recipe: Recipe) -> None:
        """Note a pair, with the hashes that the recipe needs."""
        data, (line, pair) = recipe.data, numbered
        self.lines.append(line)
        if data.directions and not data.validated:  # a text may be on either side
            self.sources.append(min(_digest(fold(without_tag(side))) for side in pair))
        elif not data.validated:
            self.sources.append(_digest(fold(pair.source)))
        if data.duplicates == "drop":
            self.pairs.append(_digest("\t".join(pair)))


def _digest(text: str) -> int:
    """A hash that is the same in all processes."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


class TrainingPairs:
    """The training pairs of a recipe, read and cleaned each time."""

    def __init__(self, recipe: Recipe) -> None:
        """Read nothing yet."""
        self._recipe = recipe

    def scan(self, progress: Callable[[int], None]) -> tuple[FirstReading, CorpusProfile]:
        """Read all pairs for the first time; `progress` is called with each line number."""
        reading, spread = FirstReading(), EvenSample()
        for numbered in spread.sample(self._cleaned(reading.counts, reading.starts)):
            reading.note(numbered, self._recipe)
            progress(numbered.line)
        return reading, profile_pairs(spread.pairs)

    def read(self, only: Callable[[int], bool]) -> Iterator[NumberedPair]:
        """Read pairs again. `only` is called with each line number in order, dropped or not."""
        return self._cleaned(CleaningCounts(), [], only)

    def keep_tokenizer(
        self, train: Callable[[], Tokenizer], characters: Sequence[set[str]]
    ) -> Tokenizer:
        """Train the tokenizer, unless an interrupted call has; `train` collects the characters."""
        return train()

    def write_store(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        excluded: Collection[int],
        progress: Callable[[int], None],
    ) -> Store:
        """Encode the pairs and write a store, without the excluded lines."""
        max_pieces = self._recipe.data.max_pieces
        pairs = self.read(lambda line: line not in excluded)
        return Store.write(
            folder, pairs, tokenizer=tokenizer, max_pieces=max_pieces, progress=progress
        )

    def _cleaned(
        self, counts: CleaningCounts, starts: list[int], only: Callable[[int], bool] | None = None
    ) -> Iterator[NumberedPair]:
        """The cleaned pairs; `starts` receives the line before each direction's first."""
        data, parts = self._recipe.data, corpus_files(self._recipe)

        def numbered() -> Iterator[NumberedPair]:
            last = 0
            for part in parts:
                starts.append(last)
                read = part.read(data.not_utf8) if part.files else ()
                for line, pair in read:
                    last = starts[-1] + line
                    yield NumberedPair(last, pair)

        first = only is None
        pairs = numbered() if only is None else (pair for pair in numbered() if only(pair.line))
        for line, pair in clean(pairs, max_ratio=data.max_ratio, counts=counts, check=first):
            yield NumberedPair(line, parts[bisect_left(starts, line) - 1].tagged(pair))
