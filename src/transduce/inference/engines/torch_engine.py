"""The engine that is always there: the model itself, in torch, on any device; or several models.

Several models of one vocabulary decide together, by the mean of their probabilities.
"""

import itertools
from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.data.batch import Batch, collate, pad_source
from transduce.inference.engines.threads import one_thread, side_by_side
from transduce.inference.engines.worker_processes import Helpers, may_fork
from transduce.model.fused_decoder import FusedDecoder
from transduce.model.transformer import Transformer
from transduce.search.candidates import masked_log_softmax, mean_log_probs
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.constraints import ConstraintMask
from transduce.search.fast_paths import fast_search
from transduce.search.hypothesis import Ensemble, Hypothesis, Steps
from transduce.search.sampling import TokenSampler, sample

SCORED_AT_ONCE = 1 << 24
"""Most logits of one forward pass when pairs are scored; each takes 4 bytes, a few times over."""

_WORTH_A_THREAD = 16
"""Fewest sentences that a thread gets: fewer are quicker in one batch."""

_WORTH_THREADS = 1 << 27
"""Multiplications of a sentence's reading (pieces x weights) from which one batch is computed by
several threads; in smaller ones they spend their time waiting for each other."""

Pair = tuple[Sequence[int], Sequence[int]]
"""The ids of a source and of a target, both without EOS."""


class NextPiece(NamedTuple):
    """A piece that may come next."""

    id: int
    log_prob: float
    """The model's ln p of it."""


class _Job(NamedTuple):
    """What is searched at one time."""

    requests: Sequence[Request]
    config: SearchConfig
    constraints: DecodingConstraints


class TorchEngine:
    """Translates one batch of encoded sentences at a time."""

    def __init__(
        self,
        model: Transformer | Sequence[Transformer],
        *,
        pad: int,
        eos: int,
        device: torch.device | str,
    ) -> None:
        """Take a model, or several with the same vocabulary, on `device` already.

        Raises:
            ValueError: if their vocabularies differ in size.
        """
        self._models = [model] if isinstance(model, Transformer) else list(model)
        assert self._models, "an engine has at least one model"
        sizes = [one.config.vocab_size for one in self._models]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"models that decide together need one vocabulary; these have "
                f"{', '.join(map(str, sizes))} pieces"
            )
        self._size = sum(one.size for one in self._models)
        self._pad, self._eos = pad, eos
        self._device = device
        self._helpers: Helpers[_Job, list[list[Hypothesis]]] | None = None
        self.longest = min(one.config.longest for one in self._models)
        """Positions that all of them have: the most pieces of a side, EOS among them."""

    name = "torch"

    @property
    def together(self) -> int:
        """Batches that are searched side by side: on a CPU one a core.

        The many small operations of a step gain little from a second core; two steps do.
        """
        return torch.get_num_threads() if torch.device(self._device).type == "cpu" else 1

    def refuses(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> str:
        """Say what of this it cannot do: nothing."""
        return ""

    @torch.inference_mode()
    def search(
        self,
        requests: Sequence[Request],
        config: SearchConfig,
        constraints: DecodingConstraints = UNCONSTRAINED,
        *,
        detail: bool = True,
    ) -> list[list[Hypothesis]]:
        """Search the translations of one batch. A model in training is back in training after it.

        See `Engine.search`; log-probabilities of each piece cost nothing here and are always given.
        """
        batches = list(_shares(range(len(requests)), requests, self.together)) if requests else []
        jobs = [
            _Job([requests[place] for place in places], config, constraints) for places in batches
        ]
        found: list[list[Hypothesis]] = [[] for _ in requests]
        small = len(jobs) == 1 and self._small(requests, config.beam)
        with self._evaluating(), one_thread() if small else nullcontext():
            results = self._side_by_side(jobs)
        for places, result in zip(batches, results, strict=True):
            for place, best in zip(places, result, strict=True):
                found[place] = best
        return found

    @torch.inference_mode()
    def score(self, pairs: Sequence[Pair]) -> list[tuple[float, ...]]:
        """Return for each pair ln p of each piece of its target, and of the EOS behind them.

        Raises:
            ValueError: if a side is longer than the model has positions for.
        """
        lengths = [max(map(len, pair)) + 1 for pair in pairs]
        for length in lengths:
            if length > self.longest:
                raise ValueError(
                    f"a side of {length - 1} pieces is longer than the model's positions, which "
                    f"end at {self.longest} with EOS: split it"
                )
        scores: list[tuple[float, ...]] = [()] * len(pairs)
        with self._evaluating():
            for places in self._batches(pairs):
                sources, targets = zip(*(pairs[place] for place in places), strict=True)
                batch = collate(sources, targets, pad=self._pad, eos=self._eos).to(self._device)
                each = self._log_probs(batch).gather(2, batch.target_out[:, :, None])[:, :, 0]
                for place, target, row in zip(places, targets, each.tolist(), strict=True):
                    scores[place] = tuple(row[: len(target) + 1])
        return scores

    @torch.inference_mode()
    def next_pieces(self, request: Request, k: int) -> list[NextPiece]:
        """Return the `k` likeliest pieces behind the request's prefix, EOS among them, best first.

        The vocabulary may hold fewer than `k`.

        Raises:
            ValueError: if `k` is below 1, or the prefix leaves the model no position.
        """
        if k < 1:
            raise ValueError(f"at least 1 next piece can be asked for, not {k}")
        if len(request.prefix) >= self.longest:
            raise ValueError(
                f"behind a prefix of {len(request.prefix)} pieces there is none: the model's "
                f"positions end at {self.longest}"
            )
        sides = [request.source], [request.prefix]
        with self._evaluating():
            batch = collate(*sides, pad=self._pad, eos=self._eos).to(self._device)
            best = self._log_probs(batch)[0, -1].topk(min(k, self._pad))
        return [
            NextPiece(one, log_prob)
            for one, log_prob in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _side_by_side(self, jobs: Sequence["_Job"]) -> list[list[list[Hypothesis]]]:
        """Search batches at the same time: in processes where that is let, or in threads."""
        if len(jobs) < 2 or self.together < 2 or not may_fork():
            return side_by_side([partial(self._found, job) for job in jobs])
        if self._helpers is None or not self._helpers.let_go.alive:
            self._helpers = Helpers(self._found, self.together - 1)
        return self._helpers(jobs)

    def _found(self, job: "_Job") -> list[list[Hypothesis]]:
        requests, config, constraints = job
        sources = [request.source for request in requests]
        usual = [constraints.limit(config.limit(len(source))) for source in sources]
        limits = [min(limit, self.longest) for limit in usual]
        eos, pad, device = self._eos, self._pad, self._device
        constraint_mask = ConstraintMask.of(
            requests, constraints, limits=limits, eos=eos, pad=pad, device=device
        )
        steps = self._start(sources, beam=config.beam)
        if constraints.sampling is None:
            return fast_search(
                steps,
                limits=limits,
                config=config,
                eos=eos,
                pad=pad,
                device=device,
                constraint_mask=constraint_mask,
            )
        return sample(
            steps,
            sampler=TokenSampler(
                constraints.sampling, sources, limits=limits, beam=config.beam, device=device
            ),
            limits=limits,
            config=config,
            eos=eos,
            pad=pad,
            device=device,
            constraint_mask=constraint_mask,
        )

    def _start(self, sources: Sequence[Sequence[int]], *, beam: int) -> Steps:
        ids, mask = pad_source(sources, pad=self._pad, eos=self._eos)
        ids, mask = ids.to(self._device), None if mask is None else mask.to(self._device)
        members = [FusedDecoder(model, ids, mask, beams=beam) for model in self._models]
        return members[0] if len(members) == 1 else Ensemble(members, pad=self._pad)

    def _log_probs(self, batch: Batch) -> Float[Tensor, "batch target vocab"]:
        """Return ln p of all pieces at each position, the target being given."""
        return mean_log_probs(
            [
                masked_log_softmax(
                    model(batch.source, batch.source_mask, batch.target_in), pad=self._pad
                )
                for model in self._models
            ]
        )

    def _batches(self, pairs: Sequence[Pair]) -> Iterator[list[int]]:
        """Gather the places of pairs of like length, the longest first."""
        lengths = [(len(target), len(source)) for source, target in pairs]
        order = sorted(range(len(pairs)), key=lambda place: lengths[place], reverse=True)
        start = 0
        while start < len(order):
            positions = max(lengths[order[start]]) + 1
            rows = max(1, SCORED_AT_ONCE // (positions * self._models[0].config.vocab_size))
            yield order[start : start + rows]
            start += rows

    def _small(self, requests: Sequence[Request], beam: int) -> bool:
        """Whether one batch of them is read and said sooner by one thread."""
        pieces = sum(max(len(request.source) + 1, beam) for request in requests)
        return self.together > 1 and pieces * self._size < _WORTH_THREADS

    @contextmanager
    def _evaluating(self) -> Generator[None]:
        """Switch dropout off; what was in training is back in training after it."""
        training = [model for model in self._models if model.training]
        try:
            for model in training:
                model.eval()
            yield
        finally:
            for model in training:
                model.train()


def _shares(
    places: Sequence[int], requests: Sequence[Request], count: int
) -> Iterator[Sequence[int]]:
    """Cut a batch in `count` shares of about as much work, if each is worth a thread."""
    lengths = list(itertools.accumulate(len(requests[place].source) + 1 for place in places))
    if count < 2 or len(places) < count * _WORTH_A_THREAD:
        yield places
        return
    cuts = [bisect_left(lengths, lengths[-1] * part / count) + 1 for part in range(1, count)]
    for start, end in itertools.pairwise([0, *cuts, len(places)]):
        if start < end:
            yield places[start:end]
