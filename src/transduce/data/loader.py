"""The loader: turns planned updates into batches, one update ahead of training.

With augmentation some pairs are varied as text and encoded again. With subword regularisation a
sentence is segmented anew each time it is used: BPE-dropout (Provilkov et al. 2020) for BPE,
sampling (Kudo 2018) for unigram. The random state depends on seed, update and pair only, so a
resumed run sees the same pieces as an uninterrupted one, however an update is split into
micro-batches.
"""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import NamedTuple

import numpy as np

from transduce.data.augmentation import draw_variations
from transduce.data.batch import Batch, Ids, collate
from transduce.data.config import AugmentConfig
from transduce.data.corpus import Pair
from transduce.data.sampler import Pairs, Sampler, SamplerState, UpdatePlan
from transduce.data.store import Store
from transduce.data.tokenizer import Tokenizer


class LoadedUpdate(NamedTuple):
    """The batches of one update."""

    state_after: SamplerState
    """State to resume from once the update is done."""
    batches: tuple[Batch, ...]
    """This rank's rows of the micro-batches, on the CPU."""
    lines: Callable[[], list[int]]
    """Returns the corpus line numbers of the update's pairs, over all ranks, counted from 1."""


class Loader:
    """Loads the updates that a sampler plans; a thread prepares the next one."""

    def __init__(
        self,
        store: Store,
        *,
        sampler: Sampler,
        tokenizer: Tokenizer,
        sampling: float = 0.0,
        augment: AugmentConfig | None = None,
        seed: int = 0,
        rank: int = 0,
    ) -> None:
        """Set up the loader.

        Args:
            sampling: `BatchConfig.subword_sampling`; 0 uses the stored ids.
            augment: variations of the text; None varies nothing.
            seed: random seed of subword sampling and augmentation.
        """
        self._store = store
        self._sampler = sampler
        self._sides = (tokenizer, tokenizer.target)
        self._tags = frozenset(tokenizer.all_tags.values())
        self._sampling = sampling
        self._augment = augment or AugmentConfig()
        self._seed = seed
        self._rank = rank

    def updates(self, state: SamplerState) -> Generator[LoadedUpdate, None, None]:
        """Load updates endlessly, from `state` on.

        Raises:
            ValueError: if `state` is not in this corpus.
        """
        plan = self._sampler.updates(state)
        with ThreadPoolExecutor(1, thread_name_prefix="loader") as pool:
            following = pool.submit(lambda: self._load(next(plan)))
            while True:
                loaded = following.result()
                following = pool.submit(lambda: self._load(next(plan)))
                yield loaded

    def _load(self, plan: UpdatePlan) -> LoadedUpdate:
        share = plan.share(self._rank, world=self._sampler.world)
        batches = tuple(self._batch(pairs, plan.state_after) for pairs in share)
        return LoadedUpdate(plan.state_after, batches, lambda: self._lines(plan))

    def _lines(self, plan: UpdatePlan) -> list[int]:
        return sorted(self._store.line(int(pair)) for row in plan.micro_batches for pair in row)

    def _batch(self, pairs: Pairs, state: SamplerState) -> Batch:
        indices = [int(pair) for pair in pairs]
        sources: list[Ids] = [self._store.source(index) for index in indices]
        targets: list[Ids] = [self._store.target(index) for index in indices]
        source, target = self._sides
        self._check(indices, [*sources, *targets], pad=source.pad)
        rngs: list[Random] = []
        if self._augment.active or self._sampling:
            # One generator per pair, for its source first and then its target.
            rngs = [Random(f"{self._seed}/{state.epoch}/{state.update}/{i}") for i in indices]
        if self._augment.active:
            varied = [self._vary(*pair) for pair in zip(sources, targets, rngs, strict=True)]
            sources, targets = map(list, zip(*varied, strict=True))
        if self._sampling:
            sources = list(map(partial(self._resample_subwords, source), sources, rngs))
            targets = list(map(partial(self._resample_subwords, target), targets, rngs))
        return collate(sources, targets, pad=source.pad, eos=source.EOS)

    def _check(self, indices: Sequence[int], sentences: Sequence[Ids], *, pad: int) -> None:
        """Raise on ids outside the embedding; checksums rule them out except in forged stores."""
        ids = np.concatenate(sentences)
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < pad:
            wrong = ids[(ids < 0) | (ids >= pad)][0]
            lines = [self._store.line(index) for index in indices]
            raise ValueError(
                f"the prepared corpus has id {wrong} near line {min(lines)}, but the vocabulary's "
                f"ids end at {pad - 1}: prepare the corpus again"
            )

    def _vary(self, source: Ids, target: Ids, rng: Random) -> tuple[Ids, Ids]:
        """Vary a pair as text; return it as it is where the text does not tell its pieces."""
        variations = draw_variations(self._augment, rng)
        if not variations:
            return source, target
        ids = [list(map(int, side)) for side in (source, target)]
        tag = [id for id in ids[0][:2] if id in self._tags]
        ids[0] = ids[0][len(tag) :]
        pair = Pair(*(side.decode(numbers) for side, numbers in zip(self._sides, ids, strict=True)))
        if self._encode(pair) != ids:
            return source, target
        for variation in variations:
            pair = variation(pair, rng)
        varied = self._encode(pair)
        varied[0] = [*tag, *varied[0]]
        longest = self._store.metadata.max_pieces
        return (varied[0], varied[1]) if max(map(len, varied)) <= longest else (source, target)

    def _encode(self, pair: Pair) -> list[list[int]]:
        return [side.encode(text) for side, text in zip(self._sides, pair, strict=True)]

    def _resample_subwords(self, tokenizer: Tokenizer, ids: Ids, rng: Random) -> Ids:
        """Resample the segmentation; return the stored one if the new exceeds `max_pieces`."""
        stored = [int(number) for number in ids]
        resampled = tokenizer.sample_subwords(stored, alpha=self._sampling, rng=rng)
        return resampled if len(resampled) <= self._store.metadata.max_pieces else ids
