"""A prepared corpus, as training and evaluation read it: OUT/prepared."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import ConfigDict, Field

from transduce.config import Recipe
from transduce.data.config import CorpusConfig
from transduce.data.corpus import Pair, tidy
from transduce.data.pair_tokenizer import read_tokenizer
from transduce.data.sampler import Mixture, balanced_passes, target_tokens, updates_per_epoch
from transduce.data.store import PREPARED_FOLDER, Count, Store
from transduce.data.tokenizer import Tokenizer
from transduce.io.atomic_folder import check_folder
from transduce.io.records import read_record
from transduce.pipeline.finetune import FOLDER as START


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedDirection:
    """One of several directions in a prepared corpus, whose pairs follow those of the last."""

    source: str
    target: str
    first_line: Count
    """Line number of its first pair."""
    pairs: Count
    """Training pairs; 0 of a zero-shot direction."""
    validation_pairs: Count
    test_pairs: Count

    def __str__(self) -> str:
        """Format as "en-de"."""
        return f"{self.source}-{self.target}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A prepared corpus, as training and evaluation read it."""

    tokenizer: Tokenizer
    store: Store
    """The encoded training pairs."""
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]
    """Empty when the recipe names no test files."""
    data_sha256: Mapping[str, str]
    """SHA-256 of every corpus file, by name."""
    start: Path | None = None
    """The bundle that training starts from, its vocabulary extended; None: random weights."""
    started_from: Mapping[str, str] = field(default_factory=dict[str, str])
    """SHA-256 of its weights before that, by the model's name."""
    directions: tuple[PreparedDirection, ...] = ()
    """In the order of their pairs; empty for a model of one direction."""
    also_lines: tuple[int, ...] = ()
    """Line number of the first pair of each corpus of `data.also`."""

    def mixture(self, data: CorpusConfig) -> Mixture | None:
        """How often the pairs of each direction or corpus are used; None: once an epoch."""
        return corpus_mixture(
            data, self.store, directions=self.directions, also_lines=self.also_lines
        )

    def epoch_tokens(self, recipe: Recipe) -> int:
        """Return the target tokens of an epoch."""
        mixture, lengths = self.mixture(recipe.data), self.store.lengths
        return mixture.tokens(lengths) if mixture else target_tokens(lengths)

    def updates_per_epoch(self, recipe: Recipe) -> int:
        """Return the updates of an epoch."""
        return updates_per_epoch(self.epoch_tokens(recipe), recipe.batch)


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparationRecord:
    """The content of prepared.json."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)
    files: Mapping[str, str]
    """SHA-256 of every file of the corpus, by name."""
    read: Count
    """Training pairs in the files, before cleaning."""
    dropped: Mapping[str, Count]
    """Training pairs lost, by reason."""
    mended: Mapping[str, Count]
    """Training pairs whose text was changed, by what was changed."""
    training_pairs: Count
    validation_pairs: Count
    test_pairs: Count
    target_tokens: Count
    """Of the training pairs, EOS counted."""
    vocab_size: Count
    """Of the tokenizer, PAD included."""
    updates_per_epoch: Count
    padding_share: Annotated[float, Field(ge=0, le=1)]
    started_from: Mapping[str, str] = field(default_factory=dict[str, str])
    """SHA-256 of the weights that training starts from, by the model's name."""
    directions: tuple[PreparedDirection, ...] = ()
    """In the order of their pairs; empty for a model of one direction."""
    also_lines: tuple[Count, ...] = ()
    """Line number of the first pair of each corpus of `data.also`."""


def open_prepared(out: Path) -> Prepared:
    """Open what `prepare` wrote below `out`.

    Raises:
        ValueError: if it is damaged; one line that names the file.
    """
    folder = out / PREPARED_FOLDER
    check_folder(folder, expected="a prepared corpus")
    tokenizer = read_tokenizer((folder / "tokenizer.model").read_bytes())
    facts = read_facts(out)
    return Prepared(
        tokenizer=tokenizer,
        store=Store.open(folder / "train", tokenizer_checksum=tokenizer.checksum, verify=False),
        validation=_read_text(folder, "validation"),
        test=_read_text(folder, "test"),
        data_sha256=facts.files,
        start=folder / START if facts.started_from else None,
        started_from=facts.started_from,
        directions=facts.directions,
        also_lines=facts.also_lines,
    )


def check_positions(recipe: Recipe, prepared: Prepared) -> None:
    """Refuse text too long for learned positions now, not at the first validation."""
    if recipe.model.positions != "learned":
        return
    for name, pairs in (("validation", prepared.validation), ("test", prepared.test)):
        tokenizer = prepared.tokenizer
        sources = tokenizer.encode_all([tidy(pair.source) for pair in pairs])
        targets = tokenizer.target.encode_all([tidy(pair.target) for pair in pairs])
        for number, sides in enumerate(zip(sources, targets, strict=True), 1):
            pieces = max(map(len, sides))
            if pieces + 1 > recipe.model.longest:
                raise ValueError(
                    f"pair {number} of the {name} set has {pieces} pieces and EOS, more than "
                    f"model.max_positions {recipe.model.max_positions}: raise it to {pieces + 1}, "
                    f'or set model.positions to "sinusoid"'
                )


def read_facts(out: Path) -> PreparationRecord:
    """Read and validate `out`/prepared/prepared.json."""
    file = out / PREPARED_FOLDER / "prepared.json"
    return read_record(file, PreparationRecord, remedy="prepare the corpus again")


def corpus_mixture(
    data: CorpusConfig,
    store: Store,
    *,
    directions: Sequence[PreparedDirection],
    also_lines: Sequence[int],
) -> Mixture | None:
    """Return how often the pairs of each direction or corpus are used; None: once an epoch."""
    firsts, passes = corpus_passes(data, directions=directions, also_lines=also_lines)
    if set(passes) == {1.0}:
        return None
    parts = np.searchsorted(firsts, store.lines, side="right") - 1
    return Mixture(parts.astype(np.int32), passes)


def corpus_passes(
    data: CorpusConfig, *, directions: Sequence[PreparedDirection], also_lines: Sequence[int]
) -> tuple[list[int], tuple[float, ...]]:
    """Return the first line of each direction or corpus, and how often an epoch goes through it.

    Args:
        data: has the temperature, which is of the directions alone, and the weights.
        also_lines: first line of each corpus of `data.also`.
    """
    trained = [direction for direction in directions if direction.pairs]
    sizes = [direction.pairs for direction in trained] or [1]
    passes = balanced_passes(sizes, temperature=data.temperature)
    firsts = [direction.first_line for direction in trained] or [1]
    return [*firsts, *also_lines], (*passes, *(part.weight for part in data.also))


def _read_text(folder: Path, name: str) -> tuple[Pair, ...]:
    sides = [
        (folder / f"{name}.{side}").read_bytes().decode().split("\n")[:-1] for side in Pair._fields
    ]
    return tuple(itertools.starmap(Pair, zip(*sides, strict=True)))
