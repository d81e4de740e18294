"""CTranslate2's own calls, in ids: what is submitted at one time is computed side by side."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from transduce.inference.engines.ct2_model import load_ctranslate2
from transduce.inference.engines.shortlist import VMAP
from transduce.inference.engines.threads import threads_kept
from transduce.search.config import DecodingConstraints, Request

READ_AT_ONCE = 64
"""Translations of one batch that is read to be scored."""


class Plan(NamedTuple):
    """How CTranslate2 computes."""

    compute_type: str
    """The kind of its numbers, such as "float32" or "int8"."""

    workers: int
    """Batches that are translated at one time."""

    threads: int
    """Threads that share the work of each."""


class Batch(NamedTuple):
    """Some sentences that are searched together."""

    requests: tuple[Request, ...]

    limit: int
    """The most pieces of a translation, EOS among them."""

    exponent: float
    """Of the length by which sums are divided when hypotheses are ranked."""


class Said(NamedTuple):
    """One hypothesis."""

    ids: tuple[int, ...]
    """EOS at the end, if it was reached."""

    total: float
    """Sum of ln p, without that of a prefix."""


class Pair(NamedTuple):
    """A source, and what may be its translation."""

    source: tuple[int, ...]

    target: tuple[int, ...]
    """With EOS at its end or without."""


@runtime_checkable
class _Found(Protocol):
    hypotheses: list[list[str]]
    scores: list[float]


@runtime_checkable
class _Search(Protocol):
    """What is being searched."""

    def result(self) -> _Found: ...


@runtime_checkable
class _Read(Protocol):
    log_probs: list[float]


@runtime_checkable
class _Reading(Protocol):
    """What is being read."""

    def result(self) -> _Read: ...


class Calls:
    """A loaded model. Several threads may call it at one time."""

    def __init__(
        self, folder: Path, plan: Plan, *, pieces: Sequence[str], eos: int, device: str = "cpu"
    ) -> None:
        """Load a model.

        Args:
            folder: as `write_ctranslate2` writes it. If it has a shortlist, searches keep to it;
                what is read is read with the whole vocabulary.
            plan: how to compute.
            pieces: its vocabulary by id.
            eos: the id that ends a sentence.
            device: "cpu", "cuda" or one of several, as "cuda:1".
        """
        self._pieces = list(pieces)
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        self._eos = eos
        self._keeps_to_shortlist = (folder / VMAP).is_file()
        kind, _, index = device.partition(":")
        with threads_kept():
            self._translator = load_ctranslate2().Translator(
                str(folder),
                device=kind,
                device_index=int(index or 0),
                compute_type=plan.compute_type,
                inter_threads=plan.workers,
                intra_threads=plan.threads,
                max_queued_batches=-1,
            )

    def search(
        self, batches: Sequence[Batch], *, beam: int, constraints: DecodingConstraints
    ) -> list[list[list[Said]]]:
        """Return the hypotheses of each sentence of each batch."""
        waiting = [self._searching(batch, beam=beam, constraints=constraints) for batch in batches]
        return [
            [self._said(later.result(), batch.exponent) for later in some]
            for batch, some in zip(batches, waiting, strict=True)
        ]

    def read(self, pairs: Sequence[Pair]) -> list[tuple[float, ...]]:
        """Return ln p of each piece of each target."""
        order = sorted(range(len(pairs)), key=lambda at: -len(pairs[at].source))
        waiting = [
            later
            for first in range(0, len(order), READ_AT_ONCE)
            for later in self._reading([pairs[at] for at in order[first : first + READ_AT_ONCE]])
        ]
        read: list[tuple[float, ...]] = [()] * len(pairs)
        for at, later in zip(order, waiting, strict=True):
            read[at] = tuple(later.result().log_probs[: len(pairs[at].target)])
        return read

    def _searching(
        self, batch: Batch, *, beam: int, constraints: DecodingConstraints
    ) -> list[_Search]:
        prefixes = [self._named(request.prefix) for request in batch.requests]
        return self._translator.translate_batch(
            [self._named(request.source) for request in batch.requests],
            prefixes if any(prefixes) else None,
            asynchronous=True,
            beam_size=beam,
            num_hypotheses=beam,
            length_penalty=batch.exponent,
            max_input_length=0,
            max_decoding_length=batch.limit,
            min_decoding_length=constraints.min_length,
            no_repeat_ngram_size=constraints.no_repeat,
            use_vmap=self._keeps_to_shortlist,
            return_scores=True,
            return_end_token=True,
        )

    def _reading(self, pairs: Sequence[Pair]) -> list[_Reading]:
        return self._translator.score_batch(
            [self._named(pair.source) for pair in pairs],
            [self._named(one for one in pair.target if one != self._eos) for pair in pairs],
            asynchronous=True,
            max_input_length=0,
        )

    def _said(self, found: _Found, exponent: float) -> list[Said]:
        return [
            Said(tuple(self._ids[piece] for piece in pieces), score * len(pieces) ** exponent)
            for pieces, score in zip(found.hypotheses, found.scores, strict=True)
        ]

    def _named(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[one] for one in ids]
