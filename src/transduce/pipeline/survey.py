"""Read a corpus once, before anything is written: its pairs by purpose, and its faults."""

import itertools
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, Literal, NamedTuple

import numpy as np
from jaxtyping import Integer

from transduce.config import Recipe, warnings
from transduce.corpus_check.check import probe_vocabulary
from transduce.corpus_check.fingerprint import CorpusProfile, fold
from transduce.corpus_check.inspection import EXCHANGE, DataSplit, inspect_corpus
from transduce.data.config import Languages
from transduce.data.corpus import HEADER, CleaningCounts, NumberedPair, Pair, hold_out, read_pairs
from transduce.data.pair_files import names_languages
from transduce.data.tokenizer import Tokenizer, without_tag
from transduce.io.atomic_folder import sha256
from transduce.pipeline.prepared import PreparedDirection, corpus_passes
from transduce.pipeline.training_pairs import TrainingPairs, corpus_files
from transduce.train.events import EventHandler, LogMessage

CORPUS_SEED: Final = 1
"""Of every draw in preparing: runs of any `train.seed` have the same held-out pairs and vocabulary,
and so can be compared and form an ensemble."""

_SAMPLE_PAIRS = 500_000  # that a vocabulary is trained on; more would hardly change it
_NO_TEXT = re.compile("[\n\ud800-\udfff]")  # what CSV, XML and JSON may have, and a line cannot


class CorpusPart(NamedTuple):
    """A direction as it is checked, without tags: settings, held-out sets, training pairs."""

    recipe: Recipe
    validation: Sequence[Pair]
    test: Sequence[Pair]
    pairs: int
    lines: range
    """Line numbers of the training pairs."""


class LineSet(Collection[int]):
    """Line numbers of a corpus, in a byte for each of its lines."""

    def __init__(self, lines: Integer[np.ndarray, " lines"]) -> None:
        mask = np.zeros(lines.max(initial=0) + 1, dtype=bool)
        mask[lines] = True
        self._mask = mask.tobytes()  # an element of it is read faster than one of an array

    def __contains__(self, line: object) -> bool:
        """Whether a line is in it."""
        return isinstance(line, int) and 0 <= line < len(self._mask) and self._mask[line] == 1

    def __iter__(self) -> Iterator[int]:
        """Iterate over the lines in order."""
        return map(int, np.flatnonzero(np.frombuffer(self._mask, dtype=bool)))

    def __len__(self) -> int:
        """Number of lines."""
        return self._mask.count(1)


class Survey(NamedTuple):
    """Results of reading the corpus once."""

    recipe: Recipe
    corpus: TrainingPairs
    cleaning: CleaningCounts
    held_out: frozenset[int]
    """Lines of the training files that are held out for validation."""
    excluded: LineSet
    """Lines that are not trained on: those, duplicates, and what would leak."""
    validation: tuple[Pair, ...]
    test: tuple[Pair, ...]
    data_sha256: Mapping[str, str]
    usual: CorpusProfile
    """Typical properties of the training pairs."""
    directions: tuple[PreparedDirection, ...]
    also_lines: tuple[int, ...] = ()
    """Line number of the first pair of each corpus of `data.also`."""

    @property
    def training_pairs(self) -> int:
        """Training pairs, before those with too many pieces are dropped."""
        return self.cleaning.kept - len(self.held_out)

    def training(self) -> Iterator[NumberedPair]:
        """Read the training pairs again, cleaned."""
        return self.corpus.read(lambda line: line not in self.excluded)

    def vocabulary_sample(self) -> Iterator[NumberedPair]:
        """Read the pairs that the vocabulary is trained on: all, or a fixed sample of many.

        Of several directions they are drawn as often as training draws them, without tags.
        """
        share = _SAMPLE_PAIRS / max(1, self.training_pairs)
        if self.directions:
            return self._balanced_sample(min(1.0, share))
        if share >= 1.0:
            return map(_bare_pair, self.training())
        # Excluded lines draw too: the sample depends on the lines alone.
        chance, excluded = Random(CORPUS_SEED).random, self.excluded
        sample = self.corpus.read(lambda i: chance() < share and i not in excluded)
        return map(_bare_pair, sample)

    def _balanced_sample(self, share: float) -> Iterator[NumberedPair]:
        firsts, passes = corpus_passes(
            self.recipe.data, directions=self.directions, also_lines=self.also_lines
        )
        chance = Random(CORPUS_SEED).random
        for line, pair in self.training():
            expected = share * passes[bisect_right(firsts, line) - 1]
            for _ in range(int(expected) + (chance() < expected % 1)):
                yield NumberedPair(line, _untagged(pair))

    def parts(self) -> Iterator[CorpusPart]:
        """Yield each direction that is trained."""
        if not self.directions:
            everything = range(1, sys.maxsize)
            yield CorpusPart(
                self.recipe, self.validation, self.test, self.training_pairs, everything
            )
            return
        validation, test = map(_untagged, self.validation), map(_untagged, self.test)
        firsts = [part.first_line for part in self.directions if part.pairs]
        ends = dict(itertools.pairwise([*firsts, *self.also_lines[:1], sys.maxsize]))
        for part in self.directions:
            languages = Languages(source=part.source, target=part.target)
            held = (
                list(itertools.islice(validation, part.validation_pairs)),
                list(itertools.islice(test, part.test_pairs)),
            )
            if part.pairs:
                lines = range(part.first_line, ends[part.first_line])
                recipe = replace(self.recipe, languages=languages)
                yield CorpusPart(recipe, *held, part.pairs, lines)

    def vocabulary_findings(self, tokenizer: Tokenizer) -> Iterator[str]:
        """Describe how the vocabulary segments text that it was not trained on."""
        max_pieces = self.recipe.data.max_pieces
        held: dict[DataSplit, Sequence[Pair]] = {"validation": self.validation, "test": self.test}
        probes = [
            probe_vocabulary(tokenizer, pairs, part=part, max_pieces=max_pieces)
            for part, pairs in held.items()
        ]
        yield from (str(finding) for probe in probes for finding in probe.findings)
        words, pieces = sum(probe.words for probe in probes), sum(probe.pieces for probe in probes)
        yield f"{pieces / max(1, words):.2f} pieces a word in validation and test text"

    def check(
        self, *, fine_tuned: bool, progress: Callable[[int], None], on_event: EventHandler
    ) -> None:
        """Report odd settings and problems of the corpus.

        Args:
            fine_tuned: whether training starts from a model, for which few pairs are enough.
            progress: called with a training line number, now and then.

        Raises:
            ValueError: if the two languages are swapped, or those of a direction.
        """
        for warning in warnings(self.recipe):
            on_event(LogMessage(warning))
        several = bool(self.directions)
        for part in self.parts():
            inspection = inspect_corpus(
                part.recipe,
                lambda part=part: self._bare(part, self.training()),
                validation=part.validation,
                test=part.test,
                pair_count=part.pairs,
                profile=None if several else self.usual,
                read_lines=partial(self._read_lines, part),
                progress=progress,
            )
            looked, report = len(inspection.fingerprints.line), inspection.report
            if looked < part.pairs:
                blocks = f"looked closely at {looked:,} of {part.pairs:,} training pairs, in blocks"
                on_event(LogMessage(f"{blocks}, and at all of them for leaks"))
            size_warning = "" if fine_tuned or several else report.size_warning
            for line in filter(None, (size_warning, report.language_warning)):
                on_event(LogMessage(line))
            name = f"{part.recipe.languages.source}-{part.recipe.languages.target}"
            for finding in report.findings:
                if finding.kind == "language" and finding.advice.endswith(EXCHANGE):
                    raise ValueError(f"the languages of {name} are swapped: {EXCHANGE}")
                on_event(LogMessage(f"{name}: {finding}" if several else str(finding)))

    def _bare(self, part: CorpusPart, pairs: Iterable[NumberedPair]) -> Iterator[NumberedPair]:
        """The pairs of a part, without tags, numbered from 1."""
        if not self.directions:
            yield from map(_bare_pair, pairs)
            return
        for line, pair in pairs:
            if line in part.lines:
                yield NumberedPair(line - part.lines.start + 1, _untagged(pair))

    def _read_lines(self, part: CorpusPart, lines: Collection[int]) -> Iterator[NumberedPair]:
        numbers = frozenset(line + part.lines.start - 1 for line in lines)
        return self._bare(part, self.corpus.read(numbers.__contains__))


def survey_corpus(recipe: Recipe, corpus: TrainingPairs, progress: Callable[[int], None]) -> Survey:
    """Read every file to its end; `progress` is called with the number of each training pair.

    Raises:
        ValueError: if a file cannot be used, or there is nothing to train or validate on.
    """
    data = recipe.data
    reading, usual = corpus.scan(progress)
    cleaning, starts = reading.counts, reading.starts
    rows = np.asarray(reading.lines)
    kept = np.ones(len(rows), dtype=bool)
    if reading.pairs:  # of equal pairs the first stays
        kept[:] = False
        kept[np.unique(np.asarray(reading.pairs), return_index=True)[1]] = True
    cleaning.drop_kept("duplicate", rows[~kept].data)
    held_out: frozenset[int] = frozenset()
    also_lines = tuple(line + 1 for line in starts[len(starts) - len(data.also) :])
    own = rows < (*also_lines, sys.maxsize)[0]
    validation_sizes, validation = _read(recipe, "validation")
    if not validation:
        candidates = kept & own
        held_out = hold_out(
            rows[candidates].data,
            sources=np.asarray(reading.sources)[candidates].data,
            count=data.held_out,
            seed=CORPUS_SEED,
        )
        held_pairs = list(corpus.read(held_out.__contains__))
        validation = tuple(pair for _, pair in held_pairs)
        validation_sizes = _sizes([line for line, _ in held_pairs], starts)
        kept &= ~np.isin(rows, [*held_out])
        # With directions any text may be a source.
        others = LineSet(rows[kept if data.directions else kept & ~own])
        leaks = _lines_with(corpus, validation, among=others) if others else []
        cleaning.drop_kept("held out for validation", leaks)
        kept &= ~np.isin(rows, leaks)
    if not validation:
        raise ValueError(
            "there is nothing to validate on: name files in data.validation, or set data.held_out "
            "above 0"
        )
    test_sizes, test = _read(recipe, "test")
    sizes = _sizes(rows[kept], starts)
    for part, count in zip(reversed(data.also), reversed(sizes), strict=False):
        if not count:
            raise ValueError(f"data.also: no pair of {part.train[0]} is left to train on")
    return Survey(
        recipe=recipe,
        corpus=corpus,
        cleaning=cleaning,
        held_out=held_out,
        excluded=LineSet(rows[~kept]),
        validation=validation,
        test=test,
        data_sha256=corpus_sha256(recipe),
        usual=usual,
        directions=_prepared_directions(
            recipe, starts, pairs=sizes, validation=validation_sizes, test=test_sizes
        ),
        also_lines=also_lines,
    )


def _lines_with(
    corpus: TrainingPairs, held: Sequence[Pair], *, among: Collection[int]
) -> list[int]:
    """Those of some lines that have a side of a held-out pair, on either side."""
    known = {fold(side) for pair in held for side in _untagged(pair)}
    return [
        line
        for line, pair in corpus.read(among.__contains__)
        if not known.isdisjoint(map(fold, _untagged(pair)))
    ]


def _untagged(pair: Pair) -> Pair:
    return pair._replace(source=without_tag(pair.source))


def _bare_pair(numbered: NumberedPair) -> NumberedPair:
    return numbered._replace(pair=_untagged(numbered.pair))


def _sizes(
    lines: Sequence[int] | Integer[np.ndarray, " pairs"], starts: Sequence[int]
) -> list[int]:
    """Count line numbers by direction; `starts` has the line before each direction's first."""
    return np.bincount(np.searchsorted(starts, lines) - 1, minlength=len(starts)).tolist()


def _prepared_directions(
    recipe: Recipe,
    starts: Sequence[int],
    *,
    pairs: Sequence[int],
    validation: Sequence[int],
    test: Sequence[int],
) -> tuple[PreparedDirection, ...]:
    directions: list[PreparedDirection] = []
    for number, part in enumerate(recipe.data.directions):
        if part.train and not pairs[number]:
            raise ValueError(f"data.directions: no pair of {part.pair} is left to train on")
        directions.append(
            PreparedDirection(
                source=part.source,
                target=part.target,
                first_line=starts[number] + 1 if part.train else 0,
                pairs=pairs[number],
                validation_pairs=validation[number],
                test_pairs=test[number],
            )
        )
    return tuple(directions)


def _read(
    recipe: Recipe, name: Literal["validation", "test"]
) -> tuple[list[int], tuple[Pair, ...]]:
    """Read the text of a set with tags; and how many pairs each direction has."""
    sizes, pairs = list[int](), list[Pair]()
    for part in corpus_files(recipe):
        files, before = recipe.data.paths(getattr(part.config, name, ())), len(pairs)
        texts = read_pairs(files, languages=part.codes) if files else ()
        # Of pair files an empty line is no pair, nor is text that lacks a side's language.
        is_pair = all if len(files) == 1 and names_languages(files[0]) else any
        pairs += (
            part.tagged(Pair(*(_NO_TEXT.sub(" ", side) for side in pair)))
            for _, pair in texts
            if is_pair(pair) or (len(files) == 2 and pair is not HEADER)
        )
        sizes.append(len(pairs) - before)
        if files and not sizes[-1]:
            languages = f" in {'-'.join(part.codes)}" if all(part.codes) else ""
            raise ValueError(f"{files[0]}: no pair{languages} for data.{name}")
    return sizes, tuple(pairs)


def corpus_sha256(recipe: Recipe) -> dict[str, str]:
    """Return the SHA-256 of every file of a recipe's corpus, by name; a second one gets " (2)"."""
    names, labelled = recipe.data.files, dict[str, Path]()
    for name, path in zip(names, recipe.data.paths(names), strict=True):
        label, number = _label(name), 1
        while labelled.setdefault(label, path) != path:
            number += 1
            label = f"{_label(name)} ({number})"
    return {label: sha256(path) for label, path in labelled.items()}


def _label(name: str) -> str:
    """A file's name for the record; of an absolute path the end, without any home folder."""
    return "/".join(Path(name).parts[-2:]) if Path(name).is_absolute() else name
