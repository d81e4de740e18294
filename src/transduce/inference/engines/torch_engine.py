"""The default engine: the model itself, in torch, on any device; or an ensemble of models.

An ensemble of models with one vocabulary averages their probabilities.
"""

import itertools
from bisect import bisect_left
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.data.batch import Batch, collate, pad_source
from transduce.inference.engines.forking import can_fork
from transduce.inference.engines.interface import IdPair, Ids, NextPiece, score_in_batches
from transduce.inference.engines.parallel import WorkerPool, run_in_threads, single_thread
from transduce.model.fused_decoder import FusedDecoder
from transduce.model.transformer import Transformer
from transduce.search.candidates import masked_log_softmax, mean_log_probs
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.constraints import ConstraintMask
from transduce.search.fast_paths import fast_search
from transduce.search.hypothesis import Hypothesis
from transduce.search.sampling import TokenSampler, sample
from transduce.search.steps import Ensemble, SearchTask

_MIN_SENTENCES_PER_THREAD = 16  # fewer are faster in one batch

_MIN_WORK_FOR_THREADS = 1 << 27
"""Multiplications (pieces x weights) above which one batch is computed by several threads; in
smaller ones threads mostly wait for each other."""


class _Job(NamedTuple):
    """A batch and its search settings."""

    requests: Sequence[Request]
    config: SearchConfig
    constraints: DecodingConstraints


class TorchEngine:
    """Searches, scores and ranks next pieces with torch."""

    def __init__(
        self,
        model: Transformer | Sequence[Transformer],
        *,
        pad: int,
        eos: int,
        device: torch.device | str,
    ) -> None:
        """Take a model or an ensemble.

        Args:
            model: one or more, on `device` already.
            pad: id of PAD, the last of the vocabulary.
            eos: id of EOS.
            device: where to compute.

        Raises:
            ValueError: if the vocabularies of an ensemble differ in size.
        """
        self._models = [model] if isinstance(model, Transformer) else list(model)
        assert self._models, "an engine has at least one model"
        sizes = [member.config.vocab_size for member in self._models]
        if len(set(sizes)) > 1:
            raise ValueError(
                f"the models of an ensemble need one vocabulary; these have "
                f"{', '.join(map(str, sizes))} pieces"
            )
        self._size = sum(member.size for member in self._models)
        self._pad, self._eos = pad, eos
        self._device = device
        self._workers: WorkerPool[_Job, list[list[Hypothesis]]] | None = None
        self.longest = min(member.config.longest for member in self._models)
        """Maximum pieces of a side, EOS included: positions that all members have."""

    name = "torch"

    @property
    def preferred_batches(self) -> int:
        """Batches searched in parallel: one per core on a CPU, else one.

        The many small operations of a step gain little from a second core; a second batch does.
        """
        return torch.get_num_threads() if torch.device(self._device).type == "cpu" else 1

    def unsupported_reason(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> str:
        """Return an empty string: everything is supported."""
        return ""

    @torch.inference_mode()
    def search(
        self,
        requests: Sequence[Request],
        config: SearchConfig,
        constraints: DecodingConstraints = UNCONSTRAINED,
        *,
        token_scores: bool = True,
    ) -> list[list[Hypothesis]]:
        """Search the translations of one batch; see `Engine.search`.

        Token scores cost nothing here and are always returned. Training mode is restored.
        """
        jobs = [
            _Job(part, config, constraints)
            for part in _split_evenly(requests, self.preferred_batches)
        ]
        small = len(jobs) == 1 and self._is_small(requests, config.beam)
        with self._evaluating(), single_thread() if small else nullcontext():
            return list(itertools.chain.from_iterable(self._run_parallel(jobs)))

    @torch.inference_mode()
    def score(self, pairs: Sequence[IdPair]) -> list[tuple[float, ...]]:
        """Return the log-probability of each piece of each target and of its EOS."""
        vocab_size = self._models[0].config.vocab_size
        with self._evaluating():
            return score_in_batches(
                pairs, self._score_batch, longest=self.longest, vocab_size=vocab_size
            )

    def _score_batch(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        batch = collate(sources, targets, pad=self._pad, eos=self._eos).to(self._device)
        return self._log_probs(batch).gather(2, batch.target_out[:, :, None])[:, :, 0].tolist()

    @torch.inference_mode()
    def next_pieces(self, request: Request, k: int) -> list[NextPiece]:
        """Return the `k` most probable pieces after the prefix, best first, EOS among them."""
        sides = [request.source], [request.prefix]
        with self._evaluating():
            batch = collate(*sides, pad=self._pad, eos=self._eos).to(self._device)
            best = self._log_probs(batch)[0, -1].topk(min(k, self._pad))
        return list(map(NextPiece, best.indices.tolist(), best.values.tolist()))

    def _run_parallel(self, jobs: Sequence[_Job]) -> list[list[list[Hypothesis]]]:
        """Search batches in parallel: in worker processes if enabled, else in threads."""
        if len(jobs) < 2 or self.preferred_batches < 2 or not can_fork():
            return run_in_threads([partial(self._run_job, job) for job in jobs])
        if self._workers is None or not self._workers.shutdown.alive:
            self._workers = WorkerPool(self._run_job, self.preferred_batches - 1)
        return self._workers(jobs)

    def _run_job(self, job: _Job) -> list[list[Hypothesis]]:
        requests, config, constraints = job
        sources = [request.source for request in requests]
        limits = [
            min(constraints.limit(config.limit(len(source))), self.longest) for source in sources
        ]
        eos, pad, device = self._eos, self._pad, self._device
        constraint_mask = ConstraintMask.of(
            requests, constraints, limits=limits, eos=eos, pad=pad, device=device
        )
        task = SearchTask(
            limits=limits,
            config=config,
            eos=eos,
            pad=pad,
            device=device,
            constraint_mask=constraint_mask,
        )
        search = fast_search
        if constraints.sampling is not None:
            sampler = TokenSampler(constraints.sampling, sources, beam=config.beam, device=device)
            search = partial(sample, sampler=sampler)
        ids, mask = pad_source(sources, pad=pad, eos=eos)
        ids, mask = ids.to(device), None if mask is None else mask.to(device)
        members = [FusedDecoder(model, ids, mask, beams=config.beam) for model in self._models]
        steps = members[0] if len(members) == 1 else Ensemble(members, pad=pad)
        return search(steps, task)

    def _log_probs(self, batch: Batch) -> Float[Tensor, "batch target vocab"]:
        """Return the log-probabilities of all pieces at each target position (teacher forcing)."""
        return mean_log_probs(
            [
                masked_log_softmax(
                    model(batch.source, batch.source_mask, batch.target_in), pad=self._pad
                )
                for model in self._models
            ]
        )

    def _is_small(self, requests: Sequence[Request], beam: int) -> bool:
        """Return whether one thread translates this batch faster than several."""
        pieces = sum(max(len(request.source) + 1, beam) for request in requests)
        return self.preferred_batches > 1 and pieces * self._size < _MIN_WORK_FOR_THREADS

    @contextmanager
    def _evaluating(self) -> Generator[None]:
        """Switch dropout off; restore training mode afterwards."""
        training = [model for model in self._models if model.training]
        try:
            for model in training:
                model.eval()
            yield
        finally:
            for model in training:
                model.train()


def _split_evenly(requests: Sequence[Request], count: int) -> list[Sequence[Request]]:
    """Split a batch into `count` parts of equal work, if each is worth a thread."""
    if count < 2 or len(requests) < count * _MIN_SENTENCES_PER_THREAD:
        return [requests] if requests else []
    work = list(itertools.accumulate(len(request.source) + 1 for request in requests))
    ends = [bisect_left(work, work[-1] * part / count) + 1 for part in range(1, count)]
    bounds = itertools.pairwise([0, *ends, len(requests)])
    return [requests[start:end] for start, end in bounds if start < end]
