"""The sampler: which pairs make an update, and how an update is cut to fit the memory.

An epoch is planned at once: all pairs are sorted by length, with some seeded noise, the sorted row
is cut where the target tokens of an update are full, and the updates are shuffled. Sentences of one
update are therefore about as long as each other, and little of a batch is padding (paper, 5.1).
Then each update is cut into micro-batches, whose rows are dealt out to the processes of the run.
The plan depends on the lengths, `tokens` and the seed alone, so neither memory nor a restart nor
the number of processes changes what is learned; a plan is made again, never stored.

Of a corpus nothing but lengths is looked at. Planning takes 20 bytes a pair besides them, and what
stays of it is 4 bytes a pair: what is larger is made and used in blocks.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Int64, Integer

from transduce.data.config import BatchConfig

_LENGTH_BITS, _TIE_BITS = 20, 23  # of a sort key: two lengths and a random number fill 63
_LONGEST = (1 << _LENGTH_BITS) - 1
_NOISE = 16  # for the order a length counts as up to 1 / 16 longer than it is
_GROUPS = (1, 4)  # ways to order an update that are tried for the least padding
_LOOKED_AT = 256  # updates that the padding is measured on
_BLOCK = 1 << 18  # pairs whose keys are made together


Pairs: TypeAlias = Int64[np.ndarray, "_"]
"""Some pairs, by their index in the store; as many as there are."""

_Row: TypeAlias = Integer[np.ndarray, "_"]
"""The same in as few bytes as will do."""


class Place(NamedTuple):
    """A position to go on from: so many updates of this epoch are done."""

    epoch: int = 0
    update: int = 0


class Planned(NamedTuple):
    """One update to be made."""

    place_after: Place
    """Where to go on once it is made."""

    micro_batches: tuple[Pairs, ...]
    """The pairs of each forward pass, those of all processes together."""

    def share(self, rank: int, *, world: int) -> tuple[Pairs, ...]:
        """The rows of one process: every `world`-th of each micro-batch, which are of like length.

        Who gets the row that is over changes from one micro-batch to the next; who gets none in a
        micro-batch has one less.
        """
        rows = (
            pairs[(rank + number) % world :: world]
            for number, pairs in enumerate(self.micro_batches)
        )
        return tuple(row for row in rows if len(row))


class Sampler:
    """An endless row of updates over the pairs of a store; every pair once an epoch.

    The number of updates an epoch is its target tokens / `tokens`, rounded. So with U updates an
    epoch they hold, on average over the epoch, `tokens` within one part in 2 U, and each single one
    is within its longest target of that average. An epoch smaller than `tokens` is one update.
    """

    def __init__(
        self,
        lengths: Integer[np.ndarray, "pairs 2"],
        *,
        config: BatchConfig,
        seed: int,
        world: int = 1,
    ) -> None:
        """Get ready to plan.

        Args:
            lengths: source and target ids of every pair, EOS not counted.
            config: the tokens of an update and of a micro-batch.
            seed: of all choices; with the epoch it gives the plan.
            world: how many processes share the rows of a micro-batch.

        Raises:
            ValueError: if there is no pair.
        """
        if not len(lengths):
            raise ValueError("there is no pair to learn from; check data.train")
        self._lengths = lengths
        self._config = config
        self._seed = seed
        self.world = world
        self._planned: tuple[int, list[_Row]] | None = None

    def updates(self, place: Place) -> Iterator[Planned]:
        """Plan updates without end, from `place` on.

        Raises:
            ValueError: if `place` lies behind its epoch's end, as after a change of the corpus.
        """
        epoch, first = place
        if not 0 <= first < self.epoch_updates(epoch):
            raise ValueError(
                f"update {first} of epoch {epoch} is not in this corpus, whose epoch has "
                f"{self.epoch_updates(epoch)} updates; resume with the corpus and batch.tokens of "
                f"the start"
            )
        while True:
            plan = self._plan(epoch)
            for done, pairs in enumerate(plan[first:], start=first + 1):
                after = Place(epoch, done) if done < len(plan) else Place(epoch + 1, 0)
                yield Planned(after, tuple(self._cut(pairs.astype(np.int64))))
            del plan  # before the next is made
            epoch, first = epoch + 1, 0

    def epoch_updates(self, epoch: int) -> int:
        """Updates of one epoch; they differ between epochs only where a target fills an update."""
        return len(self._plan(epoch))

    @cached_property
    def padding_share(self) -> float:
        """Share of the positions of source and target batches that are padding, in epoch 0.

        Measured on up to 256 of its updates, which are in random order.
        """
        real = positions = 0
        for update in self._plan(0)[:_LOOKED_AT]:
            real += int(self._with_eos(update).sum())
            positions += self._positions(self._cut(update.astype(np.int64)))
        return 1.0 - real / positions

    def _plan(self, epoch: int) -> list[_Row]:
        """The updates of an epoch. The last plan is kept: an epoch is asked for many times."""
        if self._planned is None or self._planned[0] != epoch:
            self._planned = None  # makes room
            self._planned = (epoch, self._planned_anew(epoch))
        return self._planned[1]

    def _planned_anew(self, epoch: int) -> list[_Row]:
        rng = np.random.default_rng([self._seed, epoch])
        order = self._sorted(rng)
        tokens = int(self._lengths[:, 1].sum()) + len(order)
        updates = max(1, round(tokens / self._config.tokens))
        # A target belongs where its middle lies, so no update is off by more than its longest.
        full = tokens / updates * np.arange(1, updates)
        cuts = np.zeros(len(full), dtype=np.int64)
        done = 0
        for first in range(0, len(order), _BLOCK):
            targets = self._with_eos(order[first : first + _BLOCK])[:, 1]
            ends = done + targets.cumsum()
            cuts += np.searchsorted(ends - targets / 2, full)
            done = int(ends[-1])
        filled = [pairs for pairs in np.split(order, cuts) if len(pairs)]
        return [filled[index] for index in rng.permutation(len(filled)).tolist()]

    def _sorted(self, rng: np.random.Generator) -> _Row:
        """All pairs by target length, then source length, both made a little longer at random.

        The source rises within one target length and falls within the next, so that neighbours stay
        alike. One sort of one packed key does it; ten million pairs take some seconds.
        """
        key = np.empty(len(self._lengths), dtype=np.int64)
        blocks = [slice(first, first + _BLOCK) for first in range(0, len(key), _BLOCK)]
        for block in blocks:
            lengths = self._with_eos(block)
            noise = rng.random(lengths.shape, dtype=np.float32)
            near = (lengths * (1.0 + noise / _NOISE)).astype(np.int64)
            np.minimum(near, _LONGEST, out=near)
            source, target = near[:, 0], near[:, 1]
            source = np.where(target % 2 == 0, source, _LONGEST - source)
            key[block] = (target << (_LENGTH_BITS + _TIE_BITS)) | (source << _TIE_BITS)
        for block in blocks:  # after all of the noise: the order in which the plan has always drawn
            key[block] |= rng.integers(1 << _TIE_BITS, size=len(key[block]))
        order = np.argsort(key, kind="stable")  # a stable order is the same on every machine
        return order.astype(np.uint32 if len(order) < 1 << 32 else np.int64)

    def _with_eos(self, pairs: _Row | slice) -> Int64[np.ndarray, "pairs 2"]:
        """The lengths of some pairs."""
        return self._lengths[pairs].astype(np.int64) + 1

    def _cut(self, pairs: Pairs) -> list[Pairs]:
        """Cut an update into few micro-batches of about equal sizes, with little padding."""
        most = self._config.positions
        lengths = self._with_eos(pairs)
        rows = [_snaked(pairs, lengths=lengths, groups=count) for count in _GROUPS]
        widths = [self._with_eos(row).max(axis=1) for row in rows]
        cuts = (
            np.split(row, _even_cuts(wide, most=most, world=self.world))
            for row, wide in zip(rows, widths, strict=True)
        )
        return min(cuts, key=lambda cut: (len(cut), self._positions(cut)))

    def _positions(self, cut: list[Pairs]) -> int:
        """Positions of the source and target batches of an update, padding counted."""
        return sum(len(pairs) * int(self._with_eos(pairs).max(axis=0).sum()) for pairs in cut)


def _snaked(
    pairs: Int64[np.ndarray, " pairs"], *, lengths: Int64[np.ndarray, "pairs 2"], groups: int
) -> Pairs:
    """Pairs in groups of rising target length; sources rise in one group and fall in the next."""
    by_target = np.lexsort((lengths[:, 0], lengths[:, 1]))
    parts = [
        part[np.argsort(lengths[part, 0], kind="stable")][:: -1 if number % 2 else 1]
        for number, part in enumerate(np.array_split(by_target, groups))
    ]
    return pairs[np.concatenate(parts)]


def _even_cuts(widths: Int64[np.ndarray, " pairs"], *, most: int, world: int) -> list[int]:
    """The cuts of the tightest limit (to 1 in 64) that makes no more parts than `most` does."""
    cuts = _cuts(widths, most=most, world=world)
    low, high = 0, most
    while high - low > max(1, most // 64):
        middle = (low + high) // 2
        tighter = _cuts(widths, most=middle, world=world)
        if len(tighter) == len(cuts):
            cuts, high = tighter, middle
        else:
            low = middle
    return cuts


def _cuts(widths: Int64[np.ndarray, " pairs"], *, most: int, world: int) -> list[int]:
    """Where to cut so that a process's rows x the widest stay within `most`; one row always may."""
    cuts: list[int] = []
    start = 0
    while True:
        ahead = widths[start : start + most * world]
        rows = np.arange(len(ahead)) // world + 1  # of the process that has most of them
        sizes = np.maximum.accumulate(ahead) * rows
        start += max(world, int(np.searchsorted(sizes, most, side="right")))
        if start >= len(widths):
            return cuts
        cuts.append(start)
