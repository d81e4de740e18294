"""The sampler: assigns pairs to updates and splits updates into micro-batches that fit the memory.

An epoch is planned at once: all pairs are sorted by length, with some seeded noise, split into
updates of `tokens` target tokens, and the updates are shuffled. Sentences of an update have similar
lengths, so little of a batch is padding (paper, 5.1). Each update is then split into micro-batches
(gradient accumulation), whose rows are distributed over the processes of the run. The plan depends
on lengths, `tokens` and seed only, so memory, restarts and the number of processes do not change
training; plans are recomputed, never stored.

Planning reads only lengths. It needs 20 bytes per pair besides them, of which 4 bytes per pair are
kept; larger temporaries are made in blocks.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Int64, Integer

from transduce.data.config import BatchConfig

_LENGTH_BITS, _TIE_BITS = 20, 23  # of a sort key: two lengths and a random number take 63
_LONGEST = (1 << _LENGTH_BITS) - 1
_NOISE = 16  # lengths are increased by up to 1 / 16 for sorting
_GROUPS = (1, 4)  # orders of an update that are tried for the least padding
_PADDING_SAMPLE = 256  # updates on which padding is measured
_BLOCK = 1 << 18  # pairs per block of sort keys


Pairs: TypeAlias = Int64[np.ndarray, "_"]
"""Indices of some pairs in the store."""

_Row: TypeAlias = Integer[np.ndarray, "_"]
"""The same in the smallest dtype that fits."""


class Mixture(NamedTuple):
    """How often the pairs of each part of a corpus are used in an epoch."""

    parts: Integer[np.ndarray, " pairs"]
    """The number of the part that each pair belongs to."""
    passes: tuple[float, ...]
    """How often each part is gone through in an epoch; of a fraction other pairs each time."""

    def tokens(self, lengths: Integer[np.ndarray, "pairs 2"]) -> int:
        """Target tokens of an epoch, about, EOS counted."""
        parts = (lengths[self.parts == number] for number in range(len(self.passes)))
        return round(sum(map(float.__mul__, self.passes, map(float, map(target_tokens, parts)))))

    def draw(self, rng: np.random.Generator) -> Pairs:
        """Draw the pairs of an epoch."""
        chunks: list[Pairs] = []
        for number, passes in enumerate(self.passes):
            pairs = np.flatnonzero(self.parts == number)
            repeats, rest = divmod(round(passes * len(pairs)), max(1, len(pairs)))
            chunks += [np.tile(pairs, repeats), rng.choice(pairs, rest, replace=False)]
        return np.concatenate(chunks)


def balanced_passes(sizes: Sequence[int], *, temperature: float) -> tuple[float, ...]:
    """Return the passes of parts of so many pairs that are sampled in proportion to size^(1/T).

    >>> balanced_passes([300, 100], temperature=1.0)
    (1.0, 1.0)
    >>> balanced_passes([9, 1], temperature=2.0)[1]
    2.5
    """
    shares = [size ** (1.0 / temperature) for size in sizes]
    scale = sum(sizes) / sum(shares)
    return tuple(scale * share / size for share, size in zip(shares, sizes, strict=True))


def target_tokens(lengths: Integer[np.ndarray, "pairs 2"]) -> int:
    """Return the target tokens of pairs, EOS counted."""
    return int(lengths[:, 1].sum()) + len(lengths)


def updates_per_epoch(tokens: int, config: BatchConfig) -> int:
    """Return the updates that go once through a corpus of so many target tokens."""
    return max(1, round(tokens / config.tokens))


class SamplerState(NamedTuple):
    """Position in training: epoch, and updates of this epoch that are done."""

    epoch: int = 0
    update: int = 0


class UpdatePlan(NamedTuple):
    """The pairs of one update."""

    state_after: SamplerState
    """State to resume from once the update is done."""
    micro_batches: tuple[Pairs, ...]
    """Pairs of each forward pass, over all processes."""

    def share(self, rank: int, *, world: int) -> tuple[Pairs, ...]:
        """Return one rank's rows: every `world`-th of each micro-batch, hence of similar lengths.

        The rank that gets a remaining row rotates from one micro-batch to the next; a micro-batch
        without rows for this rank is left out.
        """
        rows = (
            pairs[(rank + number) % world :: world]
            for number, pairs in enumerate(self.micro_batches)
        )
        return tuple(row for row in rows if len(row))


class Sampler:
    """An endless sequence of updates over the pairs of a store, every pair once per epoch.

    An epoch has its target tokens / `tokens` updates, rounded. With U updates per epoch their
    average size is therefore within 1 / 2U of `tokens`, and each is within its longest target of
    the average. An epoch smaller than `tokens` is one update.
    """

    def __init__(
        self,
        lengths: Integer[np.ndarray, "pairs 2"],
        *,
        config: BatchConfig,
        seed: int,
        world: int = 1,
        mixture: Mixture | None = None,
    ) -> None:
        """Set up the sampler.

        Args:
            lengths: source and target pieces of every pair, EOS not counted.
            config: tokens per update and per micro-batch.
            seed: random seed; seed and epoch determine the plan.
            world: number of processes that share a micro-batch.
            mixture: how often which pairs are used; None is every pair once per epoch.

        Raises:
            ValueError: if there is no pair.
        """
        if not len(lengths):
            raise ValueError("there is no pair to learn from; check data.train")
        self._lengths = lengths
        self._config = config
        self._seed = seed
        self.world = world
        self._mixture = mixture
        self._planned: tuple[int, list[_Row]] | None = None

    def updates(self, state: SamplerState) -> Iterator[UpdatePlan]:
        """Yield updates endlessly, from `state` on.

        Raises:
            ValueError: if `state` is beyond the end of its epoch, as after a change of the corpus.
        """
        epoch, first = state
        if not 0 <= first < self.epoch_updates(epoch):
            raise ValueError(
                f"update {first} of epoch {epoch} is not in this corpus, whose epoch has "
                f"{self.epoch_updates(epoch)} updates; resume with the corpus and batch.tokens of "
                f"the original run"
            )
        while True:
            plan = self._plan(epoch)
            for number, pairs in enumerate(plan[first:], start=first + 1):
                is_last = number == len(plan)
                after = SamplerState(epoch + 1, 0) if is_last else SamplerState(epoch, number)
                yield UpdatePlan(after, tuple(self._split(pairs.astype(np.int64))))
            del plan  # frees its memory before the next is made
            epoch, first = epoch + 1, 0

    def epoch_updates(self, epoch: int) -> int:
        """Updates of one epoch; equal for all epochs unless a single target fills an update."""
        return len(self._plan(epoch))

    @cached_property
    def padding_share(self) -> float:
        """Share of source and target positions that are padding, over 256 updates of epoch 0."""
        real = positions = 0
        for update in self._plan(0)[:_PADDING_SAMPLE]:
            real += int(self._with_eos(update).sum())
            positions += self._positions(self._split(update.astype(np.int64)))
        return 1.0 - real / positions

    def _plan(self, epoch: int) -> list[_Row]:
        """Return the updates of an epoch; the last plan is cached."""
        if self._planned is None or self._planned[0] != epoch:
            self._planned = None  # frees its memory first
            self._planned = (epoch, self._make_plan(epoch))
        return self._planned[1]

    def _make_plan(self, epoch: int) -> list[_Row]:
        rng = np.random.default_rng([self._seed, epoch])
        drawn = None if self._mixture is None else self._mixture.draw(rng)
        order = self._sorted(rng, drawn)
        tokens = target_tokens(self._lengths if drawn is None else self._lengths[drawn])
        updates = updates_per_epoch(tokens, self._config)
        # Rounding by a target's middle keeps each update within its longest target of the average.
        boundaries = tokens / updates * np.arange(1, updates)
        cuts = np.zeros(len(boundaries), dtype=np.int64)
        planned = 0
        for first in range(0, len(order), _BLOCK):
            targets = self._with_eos(order[first : first + _BLOCK])[:, 1]
            ends = planned + targets.cumsum()
            cuts += np.searchsorted(ends - targets / 2, boundaries)
            planned = int(ends[-1])
        plan = [pairs for pairs in np.split(order, cuts) if len(pairs)]
        return [plan[index] for index in rng.permutation(len(plan)).tolist()]

    def _sorted(self, rng: np.random.Generator, drawn: Pairs | None) -> _Row:
        """Sort pairs, all or those drawn, by target and then source length, both with some noise.

        Source lengths rise within one target length and fall within the next, so that neighbours
        stay similar. A single packed key sorts ten million pairs in seconds.
        """
        key = np.empty(len(self._lengths if drawn is None else drawn), dtype=np.int64)
        blocks = [slice(first, first + _BLOCK) for first in range(0, len(key), _BLOCK)]
        for block in blocks:
            lengths = self._with_eos(block if drawn is None else drawn[block])
            noise = rng.random(lengths.shape, dtype=np.float32)
            noisy = (lengths * (1.0 + noise / _NOISE)).astype(np.int64)
            np.minimum(noisy, _LONGEST, out=noisy)
            source, target = noisy[:, 0], noisy[:, 1]
            source = np.where(target % 2 == 0, source, _LONGEST - source)
            key[block] = (target << (_LENGTH_BITS + _TIE_BITS)) | (source << _TIE_BITS)
        # After all noise: this order of random draws defines the plan of a seed.
        for block in blocks:
            key[block] |= rng.integers(1 << _TIE_BITS, size=len(key[block]))
        order = np.argsort(key, kind="stable")  # stable: the same on every machine
        order = order if drawn is None else drawn[order]
        return order.astype(np.uint32 if len(order) < 1 << 32 else np.int64)

    def _with_eos(self, pairs: _Row | slice) -> Int64[np.ndarray, "pairs 2"]:
        """Lengths of some pairs, EOS counted."""
        return self._lengths[pairs].astype(np.int64) + 1

    def _split(self, pairs: Pairs) -> list[Pairs]:
        """Split an update into few micro-batches of similar sizes, with little padding."""
        limit = self._config.positions
        lengths = self._with_eos(pairs)
        rows = [_snaked(pairs, lengths=lengths, groups=count) for count in _GROUPS]
        widths = [self._with_eos(row).max(axis=1) for row in rows]
        splits = (
            np.split(row, _even_cuts(width, limit=limit, world=self.world))
            for row, width in zip(rows, widths, strict=True)
        )
        return min(splits, key=lambda split: (len(split), self._positions(split)))

    def _positions(self, split: list[Pairs]) -> int:
        """Source and target positions of an update, padding counted."""
        return sum(len(pairs) * int(self._with_eos(pairs).max(axis=0).sum()) for pairs in split)


def _snaked(
    pairs: Int64[np.ndarray, " pairs"], *, lengths: Int64[np.ndarray, "pairs 2"], groups: int
) -> Pairs:
    """Order pairs in groups of rising target length; sources alternately rise and fall."""
    by_target = np.lexsort((lengths[:, 0], lengths[:, 1]))
    parts = [
        part[np.argsort(lengths[part, 0], kind="stable")][:: -1 if number % 2 else 1]
        for number, part in enumerate(np.array_split(by_target, groups))
    ]
    return pairs[np.concatenate(parts)]


def _even_cuts(widths: Int64[np.ndarray, " pairs"], *, limit: int, world: int) -> list[int]:
    """Cuts for the tightest limit (within 1 / 64) that gives no more parts than `limit` does."""
    cuts = _cuts(widths, limit=limit, world=world)
    low, high = 0, limit
    while high - low > max(1, limit // 64):
        middle = (low + high) // 2
        tighter = _cuts(widths, limit=middle, world=world)
        if len(tighter) == len(cuts):
            cuts, high = tighter, middle
        else:
            low = middle
    return cuts


def _cuts(widths: Int64[np.ndarray, " pairs"], *, limit: int, world: int) -> list[int]:
    """Indices that keep each rank's rows x width within `limit`, or at one row per rank."""
    cuts: list[int] = []
    start = 0
    while True:
        ahead = widths[start : start + limit * world]
        rows = np.arange(len(ahead)) // world + 1  # of the rank with the most
        sizes = np.maximum.accumulate(ahead) * rows
        start += max(world, int(np.searchsorted(sizes, limit, side="right")))
        if start >= len(widths):
            return cuts
        cuts.append(start)
