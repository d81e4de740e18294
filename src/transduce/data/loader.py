"""The loader: planned updates become batches, one update ahead of the one that is being learned.

Where the recipe asks for it, a sentence is cut into pieces anew each time it is learned from:
BPE-dropout (Provilkov et al. 2020) for BPE, sampling by probability (Kudo 2018) for unigram. What
is drawn depends on the seed, the update and the pair alone, so a run that is gone on with draws the
same pieces as one that never stopped, however an update is cut into batches.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import NamedTuple

import numpy as np

from transduce.data.batch import Batch, Ids, collate
from transduce.data.sampler import Pairs, Place, Planned, Sampler
from transduce.data.store import Store
from transduce.data.tokenizer import Tokenizer


class Loaded(NamedTuple):
    """One update, ready to be learned from."""

    place_after: Place
    """Where to go on once it is made."""

    batches: tuple[Batch, ...]
    """This process's rows of its micro-batches, on the CPU."""

    lines: Callable[[], list[int]]
    """Says where the corpus has its pairs, those of all processes, counted from 1."""


class Loader:
    """Reads the updates that a sampler plans. A thread prepares the next one meanwhile."""

    def __init__(
        self,
        store: Store,
        *,
        sampler: Sampler,
        tokenizer: Tokenizer,
        sampling: float = 0.0,
        seed: int = 0,
        rank: int = 0,
    ) -> None:
        """Get ready to read.

        Args:
            store: the encoded pairs.
            sampler: which of them each update learns from.
            tokenizer: the one that encoded them.
            sampling: `BatchConfig.sampling`; 0 takes the stored ids.
            seed: of the pieces drawn.
            rank: of the processes that the sampler plans for, the one that reads.
        """
        self._store = store
        self._sampler = sampler
        self._sides = (tokenizer, tokenizer.target)
        self._sampling = sampling
        self._seed = seed
        self._rank = rank

    def updates(self, place: Place) -> Generator[Loaded, None, None]:
        """Load updates without end, from `place` on.

        Raises:
            ValueError: if `place` is not in this corpus.
        """
        plan = self._sampler.updates(place)
        with ThreadPoolExecutor(1, thread_name_prefix="loader") as pool:
            ahead = pool.submit(lambda: self._load(next(plan)))
            while True:
                loaded = ahead.result()
                ahead = pool.submit(lambda: self._load(next(plan)))
                yield loaded

    def _load(self, planned: Planned) -> Loaded:
        share = planned.share(self._rank, world=self._sampler.world)
        batches = tuple(self._batch(pairs, planned.place_after) for pairs in share)
        return Loaded(planned.place_after, batches, lambda: self._lines(planned))

    def _lines(self, planned: Planned) -> list[int]:
        return sorted(self._store.line(int(pair)) for row in planned.micro_batches for pair in row)

    def _batch(self, pairs: Pairs, place: Place) -> Batch:
        numbers = [int(number) for number in pairs]
        sources: list[Ids] = [self._store.source(number) for number in numbers]
        targets: list[Ids] = [self._store.target(number) for number in numbers]
        source, target = self._sides
        self._check(numbers, [*sources, *targets], pad=source.pad)
        if self._sampling:
            draws = [Random(f"{self._seed}/{place.epoch}/{place.update}/{n}") for n in numbers]
            sources = [self._drawn(source, *one) for one in zip(sources, draws, strict=True)]
            targets = [self._drawn(target, *one) for one in zip(targets, draws, strict=True)]
        return collate(sources, targets, pad=source.pad, eos=source.EOS)

    def _check(self, numbers: Sequence[int], sentences: Sequence[Ids], *, pad: int) -> None:
        """Refuse ids that no row of the embedding is for; only a forged store has them."""
        ids = np.concatenate(sentences)
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < pad:
            wrong = ids[(ids < 0) | (ids >= pad)][0]
            lines = [self._store.line(number) for number in numbers]
            raise ValueError(
                f"the prepared corpus has id {wrong} near line {min(lines)}, but the vocabulary's "
                f"ids end at {pad - 1}: prepare the corpus again"
            )

    def _drawn(self, tokenizer: Tokenizer, ids: Ids, chance: Random) -> Ids:
        """Other pieces of a sentence; if they are too many, the usual ones."""
        usual = [int(number) for number in ids]
        drawn = tokenizer.draw(usual, alpha=self._sampling, chance=chance)
        return drawn if len(drawn) <= self._store.facts.max_pieces else ids
