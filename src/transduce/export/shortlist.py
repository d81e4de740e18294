"""A shortlist learned: what pieces became, by what a model looked at while it said them.

The model reads training pairs along with their given translations. Each target piece is shared out
among the source pieces that are looked at while it is due (`translate.alignment`); a source piece
allows every piece that makes up enough of what it was given. What is said often is always allowed.
How much is enough: as much as still allows almost all that the model says by itself of the
validation sources. What people wrote there is covered less, and would ask for most of the
vocabulary: rare words in pieces that no source piece foretells.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
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
from transduce.inference.alignment import agreed_look
from transduce.inference.engines.shortlist import Shortlist
from transduce.model.trace import cross_attention_weights

PAIRS = 100_000
"""Training pairs that are read at most, spread over all of them."""

TOGETHER = 16
"""Sentences of the batch whose shortlist shall be short: a middle between one and many."""

GOAL = 0.99
"""The share of the pieces of the model's own translations that shall be allowed."""

_POSITIONS = 4096  # of one forward pass
_ITSELF = 2.0  # a share above all others: names and numbers may stay as they are
_FAINT = 0.03  # a share of a target piece that is too small to count
_MEASURED = 512  # validation sources that the size of a sentence's shortlist is measured on

_IdPair = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """A shortlist, and what it is worth on validation pairs; EOS is not counted."""

    shortlist: Shortlist
    coverage: float
    """The share that it allows of the pieces of the model's own translations."""
    references: float
    """The share that it allows of the pieces of the given translations."""
    sentence: float
    """Pieces that one sentence may say, on average."""
    batch: float
    """Pieces that a batch of `TOGETHER` like sentences may say, on average."""
    pieces: int
    """Of the vocabulary."""

    def __str__(self) -> str:
        """Say it in one line."""
        return (
            f"shortlist: a sentence may say {self.sentence:,.0f} of {self.pieces:,} pieces, a "
            f"batch of {TOGETHER} {self.batch:,.0f}; that allows {self.coverage:.2%} of what the "
            f"model says on the validation text, {self.references:.2%} of what people wrote"
        )


class _Given(NamedTuple):
    """Which source pieces were given which target pieces; a place has one pair of them."""

    sources: Int64[np.ndarray, " places"]
    targets: Int64[np.ndarray, " places"]
    shares: Float64[np.ndarray, " places"]
    """Of all that the source piece was given."""


class _Held(NamedTuple):
    """A validation pair in ids, without EOS."""

    source: Sequence[int]
    target: Sequence[int]
    said: Sequence[int]
    """What the model says in place of the target."""


def learn_shortlist(
    bundle: Bundle, store: Store, validation: Sequence[Pair], said: Sequence[Sequence[int]]
) -> Learned:
    """Learn a shortlist from a model and the pairs that it was trained on.

    Args:
        bundle: the model, on any device.
        store: training pairs, encoded with its tokenizer.
        validation: pairs that it was not trained on.
        said: ids of the model's own translation of each.

    Raises:
        ValueError: if the pairs were encoded with another tokenizer, or there is nothing to cover.
    """
    tokenizer = bundle.tokenizer
    if store.facts.tokenizer != tokenizer.checksum:
        raise ValueError("the pairs were encoded with another tokenizer than the model has")
    sides = zip(
        tokenizer.encode_all([tidy(pair.source) for pair in validation]),
        tokenizer.target.encode_all([tidy(pair.target) for pair in validation]),
        [[one for one in ids if one != EOS] for ids in said],
        strict=True,
    )
    held = [_Held(*each) for each in sides if all(each)]
    if not held:
        raise ValueError("there are no validation pairs to learn a shortlist by")
    step = -(-len(store) // PAIRS)
    places = range(0, len(store), step)
    given = _given(
        bundle, [(store.source(at).tolist(), store.target(at).tolist()) for at in places]
    )
    usual = _most_frequent(store, tokenizer)
    tried = (_of(given, usual, count, held) for count in _counts(len(usual)))
    return min(tried, key=lambda learned: learned.batch)


def _given(bundle: Bundle, pairs: Sequence[_IdPair]) -> _Given:
    """Read the pairs, and share every target piece out among its source's pieces."""
    size = bundle.tokenizer.vocab_size
    found = [looked for batch in _batches(pairs) for looked in _looked(bundle, batch)]
    keys, places = np.unique(np.concatenate([key for key, _ in found]), return_inverse=True)
    shares = np.bincount(places, np.concatenate([share for _, share in found]))
    sources, targets = keys // size, keys % size
    return _Given(sources, targets, shares / np.bincount(sources, shares, size)[sources])


def _looked(
    bundle: Bundle, pairs: Sequence[_IdPair]
) -> Iterator[tuple[Int64[np.ndarray, " places"], Float64[np.ndarray, " places"]]]:
    """For each pair source x vocabulary + target, and the share that it was given."""
    model, pad = bundle.model, bundle.tokenizer.pad
    sources, targets = zip(*pairs, strict=True)
    batch = collate(sources, targets, pad=pad, eos=EOS).to(model.embedding.weight.device)
    looks = cross_attention_weights(model, batch.source, batch.source_mask, batch.target_in).cpu()
    for row, (source, target) in enumerate(pairs):
        look = agreed_look(looks[:, :, row, : len(target) + 1, : len(source) + 1])
        share = look[: len(target), : len(source)].double().numpy()  # EOS is always allowed
        key = np.array(source)[None, :] * bundle.tokenizer.vocab_size + np.array(target)[:, None]
        seen = share >= _FAINT
        yield key[seen], share[seen]


def _batches(pairs: Sequence[_IdPair]) -> Iterator[list[_IdPair]]:
    """Pairs of like length together."""
    batch: list[_IdPair] = []
    for pair in sorted(pairs, key=lambda pair: -max(map(len, pair))):
        if not all(pair):
            continue
        if batch and (len(batch) + 1) * (1 + max(map(len, batch[0]))) > _POSITIONS:
            yield batch
            batch = []
        batch.append(pair)
    if batch:
        yield batch


def _most_frequent(store: Store, tokenizer: Tokenizer) -> list[int]:
    """The target pieces of all training pairs, the most frequent first; those never said last."""
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    for at in range(len(store)):
        counts += np.bincount(store.target(at), minlength=tokenizer.vocab_size)
    order = np.argsort(-counts, kind="stable").tolist()
    return [one for one in order if one not in (EOS, UNK, tokenizer.pad)]


def _counts(most: int) -> list[int]:
    """How many may be allowed always: it is tried."""
    return [32 << doubled for doubled in range(32) if 32 << doubled < most] or [most]


def _of(given: _Given, usual: Sequence[int], count: int, held: Sequence[_Held]) -> Learned:
    """The shortlist that always allows `count` pieces, and after a source piece what it must."""
    always = (EOS, UNK, *usual[:count])
    rare = ~np.isin(given.targets, always)
    table: dict[int, dict[int, float]] = {one: {one: _ITSELF} for one in usual[count:]}
    places = (given.sources[rare].tolist(), given.targets[rare].tolist(), given.shares[rare])
    for source, target, share in zip(*places, strict=True):
        table.setdefault(source, {}).setdefault(target, float(share))
    least = _least(table, frozenset(always), held)
    after = {
        source: tuple(one for one, share in sorted(some.items(), key=_most) if share >= least)
        for source, some in table.items()
    }
    shortlist = Shortlist(always=always, after=after)
    measured = sorted((each.source for each in held[:_MEASURED]), key=len)
    batches = [measured[first : first + TOGETHER] for first in range(0, len(measured), TOGETHER)]
    return Learned(
        shortlist=shortlist,
        coverage=shortlist.coverage((each.source, each.said) for each in held),
        references=shortlist.coverage((each.source, each.target) for each in held),
        sentence=fmean(len(shortlist.allowed(source)) for source in measured),
        batch=fmean(len(shortlist.allowed(chain.from_iterable(batch))) for batch in batches),
        pieces=len(usual) + 3,
    )


def _most(given: tuple[int, float]) -> tuple[float, int]:
    return -given[1], given[0]


def _least(
    table: Mapping[int, Mapping[int, float]], always: frozenset[int], held: Sequence[_Held]
) -> float:
    """The least share that has to be allowed for the goal; all that was seen, if it is beyond."""
    needed: list[float] = []
    for source, _, said in held:
        here = [table[one] for one in set(source) if one in table]
        for one in said:
            share = max((some.get(one, 0.0) for some in here), default=0.0)
            needed.append(_ITSELF if one in always else share)
    return sorted(needed)[len(needed) - math.ceil(GOAL * len(needed))]
