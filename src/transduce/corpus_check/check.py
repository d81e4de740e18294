"""The corpus check of `transduce check`: inspection and a vocabulary probe."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from transduce.config import Recipe
from transduce.corpus_check.inspection import (
    CorpusReport,
    DataSplit,
    Finding,
    FindingKind,
    PairExample,
    inspect_corpus,
    numbered,
)
from transduce.data.config import Languages
from transduce.data.corpus import (
    HEADER,
    CleaningCounts,
    NumberedPair,
    Pair,
    clean,
    held_out_size,
    read_pairs,
    tidy,
)
from transduce.data.tokenizer import UNK, Tokenizer, without_tag

_TOKENIZER_SAMPLE = 100_000  # pairs; more hardly change the vocabulary
_PROBE_SAMPLE = 5_000  # pairs
_EXAMPLES = 3


class VocabularyProbe(NamedTuple):
    """How well a tokenizer covers some pairs."""

    findings: tuple[Finding, ...]
    words: int
    """Space-separated words of both sides."""
    pieces: int


def check_corpus(
    recipe: Recipe, *, progress: Callable[[int], None] = lambda _: None
) -> CorpusReport:
    """Check the corpus of a recipe, with data.also, before cleaning, and probe the vocabulary.

    `progress` is called with a training line number, now and then.

    Raises:
        ValueError: if the corpus cannot be read.
    """
    data = recipe.data
    if not data.train:
        raise ValueError(
            "there is no corpus: name two files, --source FILE --target FILE, or data.train"
        )
    train = partial(_training_pairs, recipe)
    held = [_read(recipe, names) for names in (data.validation, data.test)]
    inspection = inspect_corpus(recipe, train, validation=held[0], test=held[1], progress=progress)
    report = inspection.report
    if not report.training_pairs:
        names = " and ".join(data.train)
        raise ValueError(f"{names}: no line to read but a header; a corpus needs one pair a line")
    if report.held_out_pairs and data.also:  # of which nothing is held out
        own = sum(1 for _ in _training_pairs(replace(recipe, data=replace(data, also=()))))
        report = replace(report, held_out_pairs=held_out_size(own, data.held_out))
    return _add_vocabulary_probe(recipe, report, pairs=train(), held=held)


def single_directions(recipe: Recipe) -> Iterator[Recipe]:
    """Yield a recipe of each direction that is trained; without directions the recipe itself."""
    data = recipe.data
    if not data.directions:
        yield recipe
    for part in data.trained:
        also = [replace(more, source="", target="") for more in data.also if more.pair == part.pair]
        files = {"train": part.train, "validation": part.validation, "test": part.test}
        yield replace(
            recipe,
            languages=Languages(source=part.source, target=part.target),
            data=replace(data, directions=(), also=tuple(also), **files),
        )


def probe_vocabulary(
    tokenizer: Tokenizer,
    pairs: Sequence[Pair],
    *,
    part: DataSplit,
    max_pieces: int,
    lines: Sequence[int] = (),
) -> VocabularyProbe:
    """Encode and decode pairs that the tokenizer was not trained on.

    Args:
        max_pieces: maximum pieces of a side of a training pair.
        lines: their line numbers, if not 1, 2, and so on.
    """
    marks: dict[FindingKind, list[PairExample]] = {
        "unknown piece": [],
        "round trip": [],
        "over-long": [],
    }
    texts = [tidy(side) for pair in pairs for side in pair]
    sources = tokenizer.encode_all(texts[::2])
    targets = tokenizer.target.encode_all(texts[1::2])
    encoded = [ids for pair_ids in zip(sources, targets, strict=True) for ids in pair_ids]
    for index, pair in enumerate(pairs):
        example = PairExample(lines[index] if lines else index + 1, *pair)
        sides = slice(2 * index, 2 * index + 2)
        pair_ids = encoded[sides]
        if any(UNK in ids for ids in pair_ids):
            marks["unknown piece"].append(example)
        elif [tokenizer.decode(pair_ids[0]), tokenizer.target.decode(pair_ids[1])] != [
            tokenizer.surface(text) for text in texts[sides]
        ]:
            marks["round trip"].append(example)
        if max(map(len, pair_ids)) > max_pieces:
            marks["over-long"].append(example)
    pieces, unknown = sum(map(len, encoded)), sum(ids.count(UNK) for ids in encoded)
    advice = {"unknown piece": f"{unknown:,} of {pieces:,} pieces are unknown"}
    findings = [
        Finding(
            kind=kind,
            part=part,
            count=len(examples),
            of=len(pairs),
            examples=tuple(examples[:_EXAMPLES]),
            advice=advice.get(kind, ""),
        )
        for kind, examples in marks.items()
        if examples
    ]
    return VocabularyProbe(tuple(findings), sum(len(text.split()) for text in texts), pieces)


def _add_vocabulary_probe(
    recipe: Recipe,
    report: CorpusReport,
    *,
    pairs: Iterable[NumberedPair],
    held: Sequence[Sequence[Pair]],
) -> CorpusReport:
    """Add the findings of a tokenizer trained for the check."""
    stride = -(-report.training_pairs // _TOKENIZER_SAMPLE)
    cleaned = clean(pairs, max_ratio=recipe.data.max_ratio, counts=CleaningCounts())
    sampled = list(itertools.islice(cleaned, 0, None, stride))
    texts = (text for _, pair in sampled for text in pair)
    tokenizer = Tokenizer.train(texts, recipe.tokenizer)
    sample = sampled[:: -(-len(sampled) // _PROBE_SAMPLE)]
    parts: dict[DataSplit, Sequence[NumberedPair]] = {
        "training": sample,
        "validation": [*numbered(held[0])],
        "test": [*numbered(held[1])],
    }
    probes = [
        probe_vocabulary(
            tokenizer,
            [pair for _, pair in pairs],
            part=part,
            max_pieces=recipe.data.max_pieces,
            lines=[line for line, _ in pairs],
        )
        for part, pairs in parts.items()
    ]
    words = max(1, sum(probe.words for probe in probes))
    return replace(
        report,
        findings=(*report.findings, *(f for probe in probes for f in probe.findings)),
        pieces_per_word=sum(probe.pieces for probe in probes) / words,
    )


def _read(recipe: Recipe, names: Sequence[str]) -> tuple[Pair, ...]:
    if not names:
        return ()
    pairs = read_pairs(recipe.data.paths(names), languages=recipe.languages.codes)
    return tuple(pair for _, pair in pairs)


def _training_pairs(recipe: Recipe) -> Iterator[NumberedPair]:
    """The pairs of data.train and data.also, one after another, without tags."""
    data, last = recipe.data, 0
    for names in (data.train, *(part.train for part in data.also)):
        files, before = data.paths(names), last
        pairs = read_pairs(files, not_utf8="drop", languages=recipe.languages.codes)
        for line, pair in pairs:
            last = before + line
            if pair is not HEADER:
                yield NumberedPair(last, Pair(without_tag(pair.source), pair.target))
