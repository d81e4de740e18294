"""A corpus checked as `transduce check` does it: pairs as they stand, and a vocabulary tried."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from transduce.config import Recipe
from transduce.corpus_check.findings import Report
from transduce.corpus_check.inspect import inspect
from transduce.corpus_check.vocabulary_probe import try_pieces
from transduce.corpus_check.write import Cleaned, check_place, write_cleaned
from transduce.data.corpus import Cleaning, NumberedPair, Pair, clean, read_pairs
from transduce.data.tokenizer import Tokenizer

_LEARNED_FROM = 100_000  # pairs; the vocabulary of more would hardly be another
_TRIED_ON = 5_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What `check` found, and what it wrote."""

    report: Report
    cleaned: Cleaned | None = None
    """None where nothing was to be written."""

    def __str__(self) -> str:
        return "\n".join(str(part) for part in (self.report, self.cleaned) if part)


def check(
    recipe: Recipe, *, write: Path | None = None, progress: Callable[[int], None] = lambda _: None
) -> Checked:
    """Look over the corpus of a recipe, before anything is cleaned.

    Args:
        recipe: names the corpus, its languages and the vocabulary to try.
        write: a new or empty folder for the training pairs without their faults.
        progress: called with the number of a training line, now and then.

    Raises:
        ValueError: if the corpus cannot be read, or `write` is not empty.
    """
    data = recipe.data
    if not data.train:
        raise ValueError(
            "there is no corpus: name two files, --source FILE --target FILE, or data.train"
        )
    if write is not None:
        check_place(write)
    train = partial(read_pairs, data.paths(data.train), not_utf8="drop")
    held = [_read(recipe, names) for names in (data.validation, data.test)]
    found = inspect(recipe, train, validation=held[0], test=held[1], progress=progress)
    report = _with_pieces(recipe, found.report, held=held)
    found = found._replace(report=report)
    cleaned = None
    if write is not None:
        cleaned = write_cleaned(recipe, found, pairs=train, folder=write)
    return Checked(report=report, cleaned=cleaned)


def _with_pieces(recipe: Recipe, report: Report, *, held: Sequence[Sequence[Pair]]) -> Report:
    """The report and what a tokenizer, trained on the spot, shows."""
    stride = -(-report.training_pairs // _LEARNED_FROM)
    pairs = list(itertools.islice(_cleaned(recipe), 0, None, stride))
    tokenizer = Tokenizer.train((text for each in pairs for text in each.pair), recipe.tokenizer)
    some = pairs[:: -(-len(pairs) // _TRIED_ON)]
    most = recipe.data.max_pieces
    tried = [
        try_pieces(
            tokenizer,
            [pair for _, pair in some],
            part="training",
            max_pieces=most,
            lines=[line for line, _ in some],
        ),
        try_pieces(tokenizer, held[0], part="validation", max_pieces=most),
        try_pieces(tokenizer, held[1], part="test", max_pieces=most),
    ]
    return replace(
        report,
        findings=(*report.findings, *(finding for each in tried for finding in each.findings)),
        pieces_per_word=sum(each.pieces for each in tried) / max(1, sum(t.words for t in tried)),
    )


def _cleaned(recipe: Recipe) -> Iterator[NumberedPair]:
    """The training pairs as training would take them."""
    data = recipe.data
    pairs = read_pairs(data.paths(data.train), not_utf8="drop")
    return clean(pairs, max_ratio=data.max_ratio, counts=Cleaning())


def _read(recipe: Recipe, names: Sequence[str]) -> tuple[Pair, ...]:
    return tuple(pair for _, pair in read_pairs(recipe.data.paths(names))) if names else ()
