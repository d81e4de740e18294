"""The loader: planned updates become batches, one update ahead of the one that is being learned.

Where the recipe asks for it, a sentence is cut into pieces anew each time it is learned from:
BPE-dropout (Provilkov et al. 2020) for BPE, sampling by probability (Kudo 2018) for unigram. What
is drawn depends on the seed, the epoch and the update alone, so a run that is gone on with draws
the same pieces as one that never stopped.
"""

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from transduce.data.batch import Batch, Ids, collate
from transduce.data.sampler import Place, Planned, Sampler
from transduce.data.store import Store
from transduce.text.tokenizer import Tokenizer


class Loaded(NamedTuple):
    """One update, ready to be learned from."""

    place_after: Place
    """Where to go on once it is made."""

    batches: tuple[Batch, ...]
    """Its micro-batches, on the CPU."""


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
    ) -> None:
        """Get ready to read.

        Args:
            store: the encoded pairs.
            sampler: which of them each update learns from.
            tokenizer: the one that encoded them.
            sampling: `BatchConfig.sampling`; 0 takes the stored ids.
            seed: of the pieces drawn.
        """
        self._store = store
        self._sampler = sampler
        self._tokenizer = tokenizer
        self._sampling = sampling
        self._seed = seed

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
        if self._sampling:
            key = np.random.SeedSequence([self._seed, *planned.place_after])
            self._tokenizer.seed(int(key.generate_state(1)[0]))
        return Loaded(planned.place_after, tuple(map(self._batch, planned.micro_batches)))

    def _batch(self, pairs: Sequence[int] | np.ndarray) -> Batch:
        numbers = [int(number) for number in pairs]
        sources: list[Ids] = [self._store.source(number) for number in numbers]
        targets: list[Ids] = [self._store.target(number) for number in numbers]
        if self._sampling:
            texts = [self._store.pair(number) for number in numbers]
            cut = self._tokenizer
            sources = self._drawn(cut, [text.source for text in texts], usual=sources)
            targets = self._drawn(cut.target, [text.target for text in texts], usual=targets)
        return collate(sources, targets, pad=self._tokenizer.pad, eos=self._tokenizer.EOS)

    def _drawn(
        self, tokenizer: Tokenizer, texts: Sequence[str], *, usual: Sequence[Ids]
    ) -> list[Ids]:
        """Each text in pieces drawn at random; one that became over-long keeps its usual pieces."""
        drawn = tokenizer.sample_all(texts, alpha=self._sampling)
        most = self._store.facts.max_pieces
        return [
            fresh if len(fresh) <= most else known
            for fresh, known in zip(drawn, usual, strict=True)
        ]
