"""Learn a lexical shortlist from a model's cross-attention.

The model is run, teacher-forced, over training pairs, and each target piece is distributed over the
source pieces that it attends to (`inference.alignment`). A source piece allows the target pieces
whose share of its mass reaches a threshold; frequent pieces are always allowed. The threshold is
the highest that still allows almost all pieces of the model's own validation translations. The
references are covered less: their rare words would need most of the vocabulary.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from transduce.bundle.bundle import Bundle
from transduce.data.batch import collate
from transduce.data.corpus import Pair, tidy
from transduce.data.store import Store
from transduce.data.tokenizer import EOS, UNK, Tokenizer
from transduce.inference.alignment import combined_attention
from transduce.inference.engines.ct2_model import Shortlist
from transduce.model.trace import cross_attention_weights

PAIRS = 100_000
"""Maximum number of training pairs, spread evenly over the corpus."""

BATCH_SENTENCES = 16
"""Batch size for which the shortlist is minimised, a compromise between 1 and many."""

MIN_COVERAGE = 0.99
"""Share of the pieces of the model's own translations that must be allowed."""

_MAX_POSITIONS = 4096  # per forward pass
_IDENTITY = 2.0  # above every share: names and numbers may always be copied
_MIN_ATTENTION = 0.03  # smaller attention weights are ignored
_MEASURED = 512  # validation sources on which shortlist sizes are measured

_IdPair = tuple[Sequence[int], Sequence[int]]

_AttentionMass = tuple[Int64[np.ndarray, " entries"], Float64[np.ndarray, " entries"]]
"""Keys source * vocab_size + target of the pieces of a sentence pair, and their attention."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedShortlist:
    """A shortlist and its coverage of the validation pairs, EOS excluded."""

    shortlist: Shortlist
    coverage: float
    """Allowed share of the pieces of the model's own translations."""
    references: float
    """Allowed share of the pieces of the references."""
    sentence: float
    """Mean number of pieces allowed for a sentence."""
    batch: float
    """Mean number allowed for a batch of `BATCH_SENTENCES` sentences of similar length."""
    pieces: int
    """Vocabulary size."""

    def __str__(self) -> str:
        """Format as one line."""
        return (
            f"shortlist: {self.sentence:,.0f} of {self.pieces:,} pieces per sentence, "
            f"{self.batch:,.0f} per batch of {BATCH_SENTENCES}; covers {self.coverage:.2%} of the "
            f"model's validation translations, {self.references:.2%} of the references"
        )


class _Cooccurrences(NamedTuple):
    """Attention mass of each pair of a source and a target piece."""

    sources: Int64[np.ndarray, " entries"]
    targets: Int64[np.ndarray, " entries"]
    shares: Float64[np.ndarray, " entries"]
    """Fraction of the source piece's total mass."""


class _ValidationPair(NamedTuple):
    """A validation pair in ids, without EOS."""

    source: Sequence[int]
    target: Sequence[int]
    translation: Sequence[int]
    """The model's own translation."""


def learn_shortlist(
    bundle: Bundle,
    store: Store,
    validation: Sequence[Pair],
    translations: Sequence[Sequence[int]],
    *,
    on_progress: Callable[[int], None] = lambda pairs: None,
) -> LearnedShortlist:
    """Learn a shortlist from a model and its training pairs.

    Args:
        bundle: the model, on any device.
        store: training pairs, encoded with its tokenizer.
        validation: held-out pairs.
        translations: ids of the model's own translation of each validation source.
        on_progress: called with the number of training pairs that the model has read.

    Raises:
        ValueError: if the pairs were encoded with another tokenizer, or no validation pair is left.
    """
    tokenizer = bundle.tokenizer
    if not tokenizer.shared:
        raise ValueError("a shortlist needs a vocabulary of both sides (tokenizer.shared)")
    if store.metadata.tokenizer != tokenizer.checksum:
        raise ValueError("the training pairs were encoded with another tokenizer than the model's")
    sides = zip(
        tokenizer.encode_all([tidy(pair.source) for pair in validation]),
        tokenizer.target.encode_all([tidy(pair.target) for pair in validation]),
        [[piece for piece in ids if piece != EOS] for ids in translations],
        strict=True,
    )
    pairs = [_ValidationPair(*ids) for ids in sides if all(ids)]
    if not pairs:
        raise ValueError("learning a shortlist needs at least one validation pair")
    step = -(-len(store) // PAIRS)
    training = [
        (store.source(index).tolist(), store.target(index).tolist())
        for index in range(0, len(store), step)
    ]
    counts = _cooccurrences(bundle, training, on_progress)
    frequent = _by_frequency([target for _, target in training], tokenizer)
    sizes = [32 << shift for shift in range(32) if 32 << shift < len(frequent)] or [len(frequent)]
    candidates = (_build(counts, frequent, always, pairs) for always in sizes)
    return min(candidates, key=lambda learned: learned.batch)


def _cooccurrences(
    bundle: Bundle, pairs: Sequence[_IdPair], on_progress: Callable[[int], None]
) -> _Cooccurrences:
    """Run the model over the pairs and sum its attention per pair of pieces."""
    size = bundle.tokenizer.vocab_size
    weights: list[_AttentionMass] = []
    for batch in _batches(pairs):
        weights += _attention(bundle, batch)
        on_progress(len(weights))
    keys, entries = np.unique(np.concatenate([key for key, _ in weights]), return_inverse=True)
    shares = np.bincount(entries, np.concatenate([weight for _, weight in weights]))
    sources, targets = keys // size, keys % size
    return _Cooccurrences(sources, targets, shares / np.bincount(sources, shares, size)[sources])


def _attention(bundle: Bundle, pairs: Sequence[_IdPair]) -> Iterator[_AttentionMass]:
    """Yield the attention of each pair."""
    sources, targets = zip(*pairs, strict=True)
    batch = collate(sources, targets, pad=bundle.tokenizer.pad, eos=EOS)
    mask = None if batch.source_mask is None else batch.source_mask.numpy()
    source, target_in = batch.source.numpy(), batch.target_in.numpy()
    weights = cross_attention_weights(bundle.weights, source, mask, target_in)
    for row, (source, target) in enumerate(pairs):
        attention = combined_attention(weights[:, :, row, : len(target) + 1, : len(source) + 1])
        mass = attention[: len(target), : len(source)].astype(np.float64)  # EOS is always allowed
        key = np.array(source)[None, :] * bundle.tokenizer.vocab_size + np.array(target)[:, None]
        kept = mass >= _MIN_ATTENTION
        yield key[kept], mass[kept]


def _batches(pairs: Sequence[_IdPair]) -> Iterator[list[_IdPair]]:
    """Batch pairs by length."""
    batch: list[_IdPair] = []
    for pair in sorted(pairs, key=lambda pair: -max(map(len, pair))):
        if not all(pair):
            continue
        if batch and (len(batch) + 1) * (1 + max(map(len, batch[0]))) > _MAX_POSITIONS:
            yield batch
            batch = []
        batch.append(pair)
    if batch:
        yield batch


def _by_frequency(targets: Sequence[Sequence[int]], tokenizer: Tokenizer) -> list[int]:
    """All target pieces by frequency in these targets, descending."""
    pieces = np.fromiter(chain.from_iterable(targets), np.int64)
    counts = np.bincount(pieces, minlength=tokenizer.vocab_size)
    order = np.argsort(-counts, kind="stable").tolist()
    return [piece for piece in order if piece not in (EOS, UNK, tokenizer.pad)]


def _build(
    counts: _Cooccurrences, frequent: Sequence[int], count: int, pairs: Sequence[_ValidationPair]
) -> LearnedShortlist:
    """Build the shortlist that always allows the `count` most frequent pieces."""
    always = (EOS, UNK, *frequent[:count])
    rare = ~np.isin(counts.targets, always)
    table: dict[int, dict[int, float]] = {piece: {piece: _IDENTITY} for piece in frequent[count:]}
    columns = (counts.sources[rare].tolist(), counts.targets[rare].tolist(), counts.shares[rare])
    for source, target, share in zip(*columns, strict=True):
        table.setdefault(source, {}).setdefault(target, float(share))
    threshold = _threshold(table, frozenset(always), pairs)
    after = {
        source: tuple(
            piece
            for share, piece in sorted((-share, piece) for piece, share in shares.items())
            if -share >= threshold
        )
        for source, shares in table.items()
    }
    shortlist = Shortlist(always=always, by_source=after)
    measured = sorted((pair.source for pair in pairs[:_MEASURED]), key=len)
    batches = [
        measured[first : first + BATCH_SENTENCES]
        for first in range(0, len(measured), BATCH_SENTENCES)
    ]
    return LearnedShortlist(
        shortlist=shortlist,
        coverage=shortlist.coverage((pair.source, pair.translation) for pair in pairs),
        references=shortlist.coverage((pair.source, pair.target) for pair in pairs),
        sentence=fmean(len(shortlist.allowed(source)) for source in measured),
        batch=fmean(len(shortlist.allowed(chain.from_iterable(batch))) for batch in batches),
        pieces=len(frequent) + 3,
    )


def _threshold(
    table: Mapping[int, Mapping[int, float]],
    always: frozenset[int],
    pairs: Sequence[_ValidationPair],
) -> float:
    """The highest threshold that reaches `MIN_COVERAGE`; 0 if none does."""
    needed: list[float] = []
    for source, _, translation in pairs:
        rows = [table[piece] for piece in set(source) if piece in table]
        for piece in translation:
            share = max((row.get(piece, 0.0) for row in rows), default=0.0)
            needed.append(_IDENTITY if piece in always else share)
    return sorted(needed)[len(needed) - math.ceil(MIN_COVERAGE * len(needed))]
